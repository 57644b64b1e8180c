// The mouse on the rows: hover, click, drag an area, shift-drag to pan, wheel to scroll and zoom.

import { h } from "../dom.js";
import { count, duration } from "../format.js";
import { get } from "../net.js";
import { pieceAt } from "./tiles.js";

const SLACK = 3;

/**
 * @param {object} parts
 * @param {HTMLElement} parts.scroll
 * @param {import("./view.js").View} parts.view
 * @param {import("./rows.js").Rows} parts.rows
 * @param {import("./tiles.js").Tiles} parts.tiles
 * @param {import("./selection.js").Selection} parts.selection
 * @param {() => number} parts.names width of the names
 * @param {() => void} parts.redraw
 */
export function pointer({ scroll, view, rows, tiles, selection, names, redraw }) {
  const tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  document.body.append(tip);
  const state = {
    /** @type {number | null} */
    time: null,
    /** @type {{ lane: number, start: number, end: number } | null} */
    hovered: null,
  };
  /** @type {{ x: number, y: number, moved: boolean, pan: boolean, begin: number, end: number } | null} */
  let drag = null;
  /** @type {Map<number, string>} */
  const known = new Map();
  let turn = 0;

  /** @param {MouseEvent} event */
  function place(event) {
    const box = scroll.getBoundingClientRect();
    return { x: event.clientX - box.left - names(), y: event.clientY - box.top };
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  function under(x, y) {
    const at = rows.at(y, scroll.scrollTop);
    const tile = tiles.current;
    if (!at || at.lane === null || !tile) return null;
    const piece = pieceAt(tile, at.lane, view.time(x), view.pixel * SLACK);
    return piece < 0 ? null : { lane: at.lane, piece, tile };
  }

  /** @param {PointerEvent} event */
  function hover(event) {
    const { x, y } = place(event);
    state.time = x >= 0 ? view.time(x) : null;
    const found = x >= 0 ? under(x, y) : null;
    const before = state.hovered;
    if (!found) {
      state.hovered = null;
      tip.hidden = true;
      scroll.style.cursor = "";
    } else {
      const { tile, piece, lane } = found;
      const start = tile.begin + tile.x0[piece] * tile.pixel,
        end = tile.begin + tile.x1[piece] * tile.pixel;
      state.hovered = { lane, start, end };
      scroll.style.cursor = "pointer";
      tell(tile, piece, end - start, event);
    }
    if (before?.start !== state.hovered?.start || before?.lane !== state.hovered?.lane) redraw();
  }

  /**
   * @param {import("../net.js").Tile} tile
   * @param {number} piece
   * @param {number} dur
   * @param {PointerEvent} event
   */
  function tell(tile, piece, dur, event) {
    const name = tile.name[piece],
      many = tile.count[piece];
    const text = tile.names.get(name) ?? known.get(name);
    const said = many > 1 ? `${count(many)} events in ${duration(dur)}, the longest: ` : `${duration(dur)}  `;
    tip.textContent = `${said}${text ?? "…"}`;
    tip.hidden = false;
    tip.style.left = `${Math.min(event.clientX + 12, window.innerWidth - 580)}px`;
    tip.style.top = `${Math.min(event.clientY + 16, window.innerHeight - 32)}px`;
    if (text !== undefined) return;
    const mine = ++turn;
    setTimeout(async () => {
      if (mine !== turn) return;
      const found = await get("names", { ids: name }).catch(() => null);
      if (!found) return;
      for (const [id, label] of Object.entries(found.names)) known.set(Number(id), String(label));
      if (mine === turn && !tip.hidden) tip.textContent = `${said}${known.get(name) ?? ""}`;
    }, 60);
  }

  /** @param {PointerEvent} event */
  function down(event) {
    const { x, y } = place(event);
    // the scroll bar and the names are not ours
    if (
      event.button !== 0 ||
      x < 0 ||
      x > view.width ||
      (event.target instanceof Element && event.target.closest("button"))
    )
      return;
    drag = { x, y, moved: false, pan: event.shiftKey, begin: view.begin, end: view.end };
    scroll.setPointerCapture(event.pointerId);
    scroll.focus({ preventScroll: true });
    event.preventDefault();
  }

  /** @param {PointerEvent} event */
  function move(event) {
    if (!drag) {
      hover(event);
      return;
    }
    const { x, y } = place(event);
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < 4) return;
    drag.moved = true;
    tip.hidden = true;
    if (drag.pan) {
      const by = ((drag.x - x) / view.width) * (drag.end - drag.begin);
      view.set(drag.begin + by, drag.end + by);
      scroll.style.cursor = "grabbing";
      return;
    }
    const inside = covered(y);
    selection.area = {
      begin: Math.round(view.time(Math.min(drag.x, x))),
      end: Math.round(view.time(Math.max(drag.x, x))),
      rows: inside.map((row) => row.id),
    };
    redraw();
  }

  /** @param {number} y */
  function covered(y) {
    const from = drag?.y ?? y;
    return rows
      .between(Math.min(from, y), Math.max(from, y) + 1, scroll.scrollTop)
      .filter((row) => row.kind === "lanes");
  }

  /** @param {PointerEvent} event */
  async function up(event) {
    const was = drag;
    if (!was) return;
    const { x, y } = place(event);
    const inside = covered(y);
    drag = null;
    scroll.style.cursor = "";
    if (was.moved) {
      if (was.pan) return;
      const begin = view.time(Math.min(was.x, x)),
        end = view.time(Math.max(was.x, x));
      if (inside.length) await selection.selectArea(begin, end, inside);
      else selection.clear();
      return;
    }
    clicked = click(x, y);
    await clicked;
  }

  /** @type {Promise<void>} */
  let clicked = Promise.resolve();
  let clicks = 0;

  /**
   * @param {number} x
   * @param {number} y
   */
  async function click(x, y) {
    const mine = ++clicks;
    const at = rows.at(y, scroll.scrollTop);
    if (!at || at.lane === null) {
      selection.clear();
      return;
    }
    const found = await get("at", { lane: at.lane, time: view.time(x), within: view.pixel * SLACK });
    if (mine !== clicks) return; // a double click: the second one counts
    if (found.gap) selection.selectGap(found.gap);
    else if (found.row !== null) await selection.select(found.row, false);
    else selection.clear();
  }

  /** @param {MouseEvent} event */
  async function twice(event) {
    const { x } = place(event);
    if (x < 0) return;
    await clicked;
    const interval = selection.interval;
    if (interval) view.show(interval.begin, interval.end, 0.8);
  }

  /** @param {WheelEvent} event */
  function wheel(event) {
    const { x } = place(event);
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      view.zoom(Math.exp(Math.min(60, Math.max(-60, event.deltaY)) / 120), view.time(Math.max(0, x)));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      const by = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.deltaY;
      view.pan(by / view.width);
    }
  }

  const out = () => {
    state.time = null;
    state.hovered = null;
    tip.hidden = true;
    redraw();
  };
  const released = (/** @type {PointerEvent} */ event) => void up(event).catch(() => {});
  scroll.addEventListener("pointerdown", down);
  scroll.addEventListener("pointermove", move);
  scroll.addEventListener("pointerup", released);
  scroll.addEventListener("pointerleave", out);
  scroll.addEventListener("dblclick", (event) => void twice(event).catch(() => {}));
  scroll.addEventListener("wheel", wheel, { passive: false });
  return Object.assign(state, { leave: () => tip.remove() });
}
