// The canvas: rows, pieces with their labels, and what lies over them.

import { theme } from "../colors.js";
import { LANE } from "./rows.js";

const LEVELS = [0.45, 0.65, 0.85, 1];

/**
 * What is drawn.
 * @typedef {object} Scene
 * @property {import("./view.js").View} view
 * @property {import("./rows.js").Rows} rows
 * @property {import("./tiles.js").Prepared | null} prepared
 * @property {number} scroll
 * @property {{ begin: number, end: number }[]} steps
 * @property {{ begin: number, end: number }[]} marks
 * @property {{ time: number, lane: number | null }[]} breaks
 * @property {{ lane: number, start: number, end: number } | null} selected
 * @property {{ lane: number, start: number, end: number } | null} hovered
 * @property {{ begin: number, end: number, top: number, bottom: number } | null} area
 * @property {import("./arrows.js").Arrow[]} arrows
 * @property {Map<number, import("./counters.js").Sampled>} counters
 */

/**
 * A renderer draws scenes; this one with the 2D canvas.
 * @typedef {object} Renderer
 * @property {(width: number, height: number) => void} resize
 * @property {(scene: Scene) => void} draw
 * @property {() => void} restyle
 */

/**
 * @param {HTMLCanvasElement} canvas
 * @param {{ key: string }[]} meanings
 * @returns {Renderer}
 */
export function renderer(canvas, meanings) {
  const found = canvas.getContext("2d", { alpha: false });
  if (!found) throw new Error("this browser has no 2D canvas");
  const context = found;
  let ratio = 1,
    width = 0,
    height = 0,
    letter = 6.6;
  let colors = theme(meanings, context, 1);
  const idle = meanings.findIndex(({ key }) => key === "idle");

  function restyle() {
    colors = theme(meanings, context, ratio);
  }

  /**
   * @param {number} wide
   * @param {number} tall
   */
  function resize(wide, tall) {
    const now = window.devicePixelRatio || 1;
    if (now !== ratio) {
      ratio = now;
      restyle();
    }
    width = wide;
    height = tall;
    const w = Math.round(wide * ratio),
      h = Math.round(tall * ratio);
    if (canvas.width !== w) canvas.width = w;
    if (canvas.height !== h) canvas.height = h;
  }

  /** @param {Scene} scene */
  function draw(scene) {
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.textBaseline = "middle";
    context.font = `11px ${colors.at("mono")}`;
    letter = context.measureText("mmmmmmmmmm").width / 10;
    context.fillStyle = colors.at("paper");
    context.fillRect(0, 0, width, height);
    const pinned = Math.min(scene.rows.pinnedHeight, height);
    part(scene, pinned, height, false);
    if (pinned) {
      context.fillStyle = colors.at("paper");
      context.fillRect(0, 0, width, pinned);
      part(scene, 0, pinned, true);
      context.fillStyle = colors.at("strong-line");
      context.fillRect(0, pinned - 2, width, 1);
    }
    arrows(scene);
    over(scene);
  }

  /**
   * @param {Scene} scene
   * @param {number} top
   * @param {number} bottom
   * @param {boolean} pinned
   */
  function part(scene, top, bottom, pinned) {
    context.save();
    context.beginPath();
    context.rect(0, top, width, bottom - top);
    context.clip();
    ground(scene, top, bottom, pinned);
    if (scene.prepared) {
      pieces(scene, scene.prepared, top, bottom, pinned);
      labels(scene, scene.prepared, top, bottom, pinned);
    }
    lines(scene, top, bottom, pinned);
    context.restore();
  }

  /**
   * @param {Scene} scene
   * @param {number} top
   * @param {number} bottom
   * @param {boolean} pinned
   */
  function ground(scene, top, bottom, pinned) {
    const { view } = scene;
    context.fillStyle = colors.at("panel");
    scene.steps.forEach((step, number) => {
      if (number % 2) return;
      const x0 = Math.max(0, view.x(step.begin)),
        x1 = Math.min(width, view.x(step.end));
      if (x1 > x0) context.fillRect(x0, top, x1 - x0, bottom - top);
    });
    for (const row of scene.rows.shown) {
      if (row.pinned !== pinned) continue;
      const y = scene.rows.y(row, scene.scroll);
      if (y > bottom || y + row.height < top) continue;
      if (row.kind === "process") {
        context.fillStyle = colors.at("raised");
        context.fillRect(0, y, width, row.height);
      } else {
        context.fillStyle = colors.at("line");
        context.fillRect(0, y + row.height + 2, width, 1);
        if (row.kind === "counter") counter(scene, row, y);
      }
    }
  }

  /**
   * @param {Scene} scene
   * @param {import("./rows.js").Row} row
   * @param {number} y
   */
  function counter(scene, row, y) {
    const data = scene.counters.get(row.counter ?? -1);
    if (!data) return;
    const tall = row.height - 4,
      { view } = scene;
    const least = Math.min(0, data.min),
      range = data.max - least || 1;
    context.fillStyle = colors.at("c-library");
    context.globalAlpha = 0.55;
    const pixel = (data.end - data.begin) / data.high.length;
    const w = pixel / view.pixel;
    // one shape: where pale columns overlapped, or did not quite meet, the value would seem to change
    context.beginPath();
    for (let at = 0; at < data.high.length; at++) {
      const high = data.high[at];
      if (high === null) continue;
      const x = view.x(data.begin + at * pixel);
      if (x + w < 0 || x > width) continue;
      const part = ((high - least) / range) * tall;
      context.rect(x, y + 2 + tall - part, w + 0.5, part);
    }
    context.fill();
    context.globalAlpha = 1;
  }

  /**
   * @param {Scene} scene
   * @param {import("./tiles.js").Prepared} prepared
   * @param {number} top
   * @param {number} bottom
   * @param {boolean} pinned
   * @returns {Map<number, number>} top of each lane that is in this part
   */
  function places(scene, prepared, top, bottom, pinned) {
    const found = new Map();
    for (const lane of prepared.tile.ranges.keys()) {
      const at = scene.rows.ofLane.get(lane);
      if (!at || at.row.pinned !== pinned) continue;
      const y = scene.rows.y(at.row, scene.scroll) + at.index * LANE;
      if (y < bottom && y + LANE > top) found.set(lane, y);
    }
    return found;
  }

  /**
   * @param {Scene} scene
   * @param {import("./tiles.js").Prepared} prepared
   * @param {number} top
   * @param {number} bottom
   * @param {boolean} pinned
   */
  function pieces(scene, prepared, top, bottom, pinned) {
    const { tile, order, key, lane } = prepared;
    const tops = places(scene, prepared, top, bottom, pinned);
    if (!tops.size) return;
    const most = Math.max(...tops.keys());
    const y = new Float32Array(most + 1).fill(-1e6);
    for (const [number, at] of tops) y[number] = at;
    const scale = tile.pixel / scene.view.pixel,
      shift = (tile.begin - scene.view.begin) / scene.view.pixel;
    const least = 1 / ratio;
    let last = -1,
      lastLane = -1,
      lastPixel = -1e9;
    for (let place = 0; place < order.length; place++) {
      const at = order[place];
      const number = lane[at];
      if (number > most || y[number] === -1e6) continue;
      const x1 = tile.x1[at] * scale + shift;
      const x0 = tile.x0[at] * scale + shift;
      if (x1 < -2 || x0 > width) continue;
      const changed = key[place] !== last;
      if (changed) {
        last = key[place];
        const meaning = (last >> 2) & 63;
        // hatching shows only where there is room for it
        context.fillStyle =
          meaning === idle && colors.idle && (last & 3) === 3 ? colors.idle : colors.fill[meaning];
        context.globalAlpha = LEVELS[last & 3] * (last & 256 ? 1 : 0.22);
      }
      let from = x0 < -2 ? -2 : x0;
      let wide = (x1 > width + 2 ? width + 2 : x1) - from;
      if (wide > 3) {
        wide -= 0.75;
      } else if (wide < least) {
        // whole device pixels, and each of them only once: many pieces can fall into one
        from = Math.floor(from * ratio) / ratio;
        wide = least;
        if (from === lastPixel && number === lastLane && !changed) continue;
        lastPixel = from;
        lastLane = number;
      }
      context.fillRect(from, y[number] + 1, wide, LANE - 2);
    }
    context.globalAlpha = 1;
  }

  /**
   * @param {Scene} scene
   * @param {import("./tiles.js").Prepared} prepared
   * @param {number} top
   * @param {number} bottom
   * @param {boolean} pinned
   */
  function labels(scene, prepared, top, bottom, pinned) {
    const { tile } = prepared;
    const scale = tile.pixel / scene.view.pixel,
      shift = (tile.begin - scene.view.begin) / scene.view.pixel;
    for (const [lane, y] of places(scene, prepared, top, bottom, pinned)) {
      const [first, last] = tile.ranges.get(lane) ?? [0, 0];
      for (let at = first; at < last; at++) {
        if (tile.count[at] !== 1) continue;
        const x1 = Math.min(width, tile.x1[at] * scale + shift);
        const x0 = Math.max(0, tile.x0[at] * scale + shift);
        const letters = Math.floor((x1 - x0 - 6) / letter);
        if (letters < 3) continue;
        const text = tile.names.get(tile.name[at]);
        if (!text) continue;
        const meaning = tile.meaning[at];
        context.fillStyle = meaning === idle ? colors.at("ink") : colors.ink[meaning];
        if (tile.searched && !tile.hit[at]) {
          context.fillStyle = colors.at("quiet");
        } else if (meaning === idle) {
          const wide = Math.min(letters, text.length) * letter + 6;
          const ink = context.fillStyle;
          context.fillStyle = colors.at("c-idle");
          context.fillRect(x0 + 1, y + 2, Math.min(wide, x1 - x0 - 2), LANE - 4);
          context.fillStyle = ink;
        }
        context.fillText(
          text.length > letters ? `${text.slice(0, letters - 1)}…` : text,
          x0 + 3,
          y + LANE / 2 + 0.5,
        );
      }
    }
  }

  /**
   * Boundaries of steps, and breaks, over the rows.
   * @param {Scene} scene
   * @param {number} top
   * @param {number} bottom
   * @param {boolean} pinned
   */
  function lines(scene, top, bottom, pinned) {
    const { view } = scene;
    context.fillStyle = colors.at("strong-line");
    context.globalAlpha = 0.6;
    for (const step of scene.steps) {
      const x = view.x(step.begin);
      if (x >= 0 && x <= width) context.fillRect(Math.round(x), top, 1, bottom - top);
    }
    context.globalAlpha = 1;
    context.fillStyle = colors.at("c-break");
    for (const { time, lane } of scene.breaks) {
      const x = view.x(time);
      if (lane === null || x < -6 || x > width + 6) continue;
      const at = scene.rows.ofLane.get(lane);
      const y = scene.rows.laneY(lane, scene.scroll);
      if (y === null || at?.row.pinned !== pinned) continue;
      context.beginPath();
      context.moveTo(x, y - 1);
      context.lineTo(x + 5, y + 4);
      context.lineTo(x, y + 9);
      context.lineTo(x - 5, y + 4);
      context.fill();
      context.fillRect(x - 0.75, y, 1.5, LANE - 1);
    }
  }

  /** @param {Scene} scene */
  function arrows(scene) {
    if (!scene.arrows.length) return;
    const { view, rows, scroll } = scene;
    context.lineWidth = 1.25;
    for (const strong of [false, true]) {
      context.strokeStyle = context.fillStyle = strong ? colors.at("ink") : colors.at("quiet");
      context.globalAlpha = strong ? 0.95 : Math.max(0.12, Math.min(0.5, 120 / scene.arrows.length));
      context.beginPath();
      /** @type {[number, number, number][]} */
      const heads = [];
      for (const arrow of scene.arrows) {
        if (arrow.strong !== strong) continue;
        const y0 = rows.arrowY(arrow.sourceLane, scroll),
          y1 = rows.arrowY(arrow.targetLane, scroll);
        if (y0 === null || y1 === null) continue;
        const x0 = view.x(arrow.from),
          x1 = view.x(arrow.to);
        if (Math.max(x0, x1) < -50 || Math.min(x0, x1) > width + 50) continue;
        const bend = Math.min(80, Math.max(18, Math.abs(x1 - x0) / 2));
        context.moveTo(x0, y0);
        context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
        heads.push([x1, y1, 1]);
      }
      context.stroke();
      for (const [x, y] of heads) {
        context.beginPath();
        context.moveTo(x + 1, y);
        context.lineTo(x - 6, y - 3.5);
        context.lineTo(x - 6, y + 3.5);
        context.fill();
      }
    }
    context.globalAlpha = 1;
  }

  /** @param {Scene} scene */
  function over(scene) {
    const { view, rows, scroll } = scene;
    for (const mark of scene.marks) {
      const x0 = view.x(mark.begin),
        x1 = view.x(mark.end);
      context.fillStyle = colors.at("accent");
      context.globalAlpha = 0.1;
      context.fillRect(x0, 0, Math.max(1, x1 - x0), height);
      context.globalAlpha = 1;
      context.fillRect(Math.round(x0), 0, 1, height);
      context.fillRect(Math.round(x1), 0, 1, height);
    }
    const area = scene.area;
    if (area) {
      const x0 = view.x(area.begin),
        x1 = view.x(area.end);
      context.fillStyle = colors.at("accent");
      context.globalAlpha = 0.14;
      context.fillRect(x0, area.top, x1 - x0, area.bottom - area.top);
      context.globalAlpha = 1;
      context.strokeStyle = colors.at("accent");
      context.lineWidth = 1;
      context.strokeRect(x0, area.top + 0.5, x1 - x0, area.bottom - area.top - 1);
    }
    for (const [box, color, wide] of /** @type {[Scene["selected"], string, number][]} */ ([
      [scene.hovered, "quiet", 1],
      [scene.selected, "ink", 2],
    ])) {
      if (!box) continue;
      const y = rows.laneY(box.lane, scroll);
      // a row that is scrolled away is under the pinned ones
      if (y === null || (!rows.ofLane.get(box.lane)?.row.pinned && y < rows.pinnedHeight - LANE / 2)) continue;
      const x0 = Math.max(-3, view.x(box.start)),
        x1 = Math.min(width + 3, view.x(box.end));
      if (x1 < -2 || x0 > width + 2) continue;
      context.strokeStyle = colors.at(color);
      context.lineWidth = wide;
      context.strokeRect(x0 - 0.5, y + 0.5, Math.max(2, x1 - x0) + 1, LANE - 1);
    }
  }
  return { resize, draw, restyle };
}
