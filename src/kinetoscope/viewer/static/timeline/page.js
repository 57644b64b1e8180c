// The timeline page: puts its parts together and keeps the address.

import { note } from "../address.js";
import { fill, framed, h, settled } from "../dom.js";
import { duration } from "../format.js";
import { get, ServerError } from "../net.js";
import { AllArrows } from "./arrows.js";
import { Counters } from "./counters.js";
import { renderer } from "./draw.js";
import { help } from "./help.js";
import { keys } from "./keys.js";
import { names } from "./names.js";
import { panel } from "./panel.js";
import { pointer } from "./pointer.js";
import { Rows } from "./rows.js";
import { remembered } from "./remembered.js";
import { search } from "./search.js";
import { Selection } from "./selection.js";
import { splitters } from "./splitters.js";
import { minimap, ruler } from "./strips.js";
import { Tiles } from "./tiles.js";
import { toolbar } from "./toolbar.js";
import { View } from "./view.js";

/**
 * @param {import("../main.js").App} app
 * @param {HTMLElement} place
 * @param {Record<string, string>} values
 * @returns {Promise<import("../main.js").Page>}
 */
export async function timelinePage(app, place, values) {
  const { trace } = app;
  let left = false;
  const canvas = h("canvas", { "aria-hidden": "true" });
  const content = h("div", { class: "content" });
  const scroll = h(
    "div",
    {
      class: "scroll",
      tabIndex: 0,
      role: "application",
      "aria-label": "Timeline. w and s zoom, a and d pan, . and , go from event to event, ? lists all keys.",
    },
    content,
  );
  const body = h("div", { class: "body" }, canvas, scroll);
  const redraw = framed(draw);
  const view = new View(trace.begin_ns, trace.end_ns, moved);
  const arrangement = remembered(app.status.label);
  // an address that says what is shown says it all; any other leaves the rows as they were last
  const rows = new Rows(trace, values.b ? values : { ...arrangement.recall(), ...values });
  const tiles = new Tiles(view, wantedLanes, redraw, fail);
  const paint = renderer(canvas, trace.meanings);
  const map = minimap(view, trace);
  const rule = ruler(view, { chosen: (row) => void selection.select(row, true) });
  const all = new AllArrows(view, rows, redraw);
  const counters = new Counters(view, rows, redraw);
  const nameColumn = names(rows, chosen);
  const details = panel(trace.meanings, {
    select: (row) => void selection.select(row, true),
    show: (begin, end) => view.show(begin, end, 0.9),
    search: (text) => void finder.set(text),
    opened: () => element.classList.remove("closed"),
  });
  const selection = new Selection({ view, rows, details, scroll, redraw, changed: () => keep() });
  const finder = search(view, {
    changed: (text, deep) => {
      tiles.searched = text;
      tiles.deep = deep;
      tiles.refresh();
      keep();
    },
    found: (hits) => map.setHits(hits),
    select: (row) => selection.select(row, true),
    selected: () => selection.row,
    analysed: () => app.analysed(),
    done: () => scroll.focus(),
  });
  const settle = settled(() => {
    keep();
    void counters.want();
    if (all.on) void all.want();
  }, 120);

  const revealed = settled(() => {
    if (!left) selection.intoView();
  }, 400);
  let height = 0;

  const helpDialog = help(trace.meanings);
  const tools = toolbar({
    view,
    rows,
    all,
    shows: rule.shows,
    finder: finder.element,
    arranged: chosen,
    laid: arranged,
    switched: () => keep(),
    redraw,
    help: () => helpDialog.showModal(),
  });
  const element = h(
    "div",
    { class: "timeline closed" },
    h("h1", { class: "sr" }, "Timeline"),
    tools.element,
    h("div", { class: "strip map" }, h("div", null, "Whole trace"), map.element),
    h("div", { class: "strip" }, h("div", null, tools.filter), rule.element),
    body,
  );
  content.append(nameColumn.pinned, nameColumn.loose);
  if (!trace.rows.length)
    content.append(h("p", { class: "nothing" }, "No event of this trace has a time that can be drawn."));
  const splits = splitters(element, body, () => resized());
  element.append(splits.bottom, details.element, helpDialog);
  fill(place, element);

  /** @type {any} */
  let overlays = { steps: [], breaks: [], phases: [], idle: [], counters: [] };
  /** @type {{ begin: number, end: number }[]} */
  let marks = readMarks(values.marks);

  function wantedLanes() {
    const found = [];
    const top = -body.clientHeight,
      bottom = body.clientHeight * 2;
    const few = rows.ofLane.size <= 160;
    for (const [lane, { row, index }] of rows.ofLane) {
      const y = rows.y(row, scroll.scrollTop) + index * 18;
      if (few || row.pinned || (y > top && y < bottom)) found.push(lane);
    }
    return found.sort((one, other) => one - other);
  }

  function moved() {
    if (left) return;
    redraw();
    settle();
  }

  /** Rows were added, removed or moved. */
  function arranged() {
    content.style.height = `${rows.pinnedHeight + rows.height}px`;
    nameColumn.draw();
    tools.count();
    tiles.want();
    settle();
    redraw();
  }

  /** A person arranged them. */
  function chosen() {
    arranged();
    arrangement.keep(rows.values());
    keep();
  }

  function resized() {
    const wide = Math.max(50, scroll.clientWidth - nameColumn.loose.offsetWidth),
      tall = body.clientHeight;
    canvas.style.width = `${wide}px`;
    canvas.style.height = `${tall}px`;
    for (const strip of [map.element, rule.element]) strip.style.width = `${wide}px`;
    view.width = wide;
    // not at once: a double click would meet another row the second time
    if (tall < height) revealed();
    height = tall;
    paint.resize(wide, tall);
    redraw();
    settle();
  }

  function draw() {
    if (left) return;
    tiles.want();
    tools.span.textContent = duration(view.span);
    paint.draw({
      view,
      rows,
      prepared: tiles.prepared,
      scroll: scroll.scrollTop,
      steps: rule.shows.steps
        ? overlays.steps.map((/** @type {any} */ step) => ({ begin: step.start_ns, end: step.end_ns }))
        : [],
      breaks: rule.shows.breaks
        ? overlays.breaks.map((/** @type {any} */ each) => ({ time: each.time_ns, lane: each.lane }))
        : [],
      marks,
      selected: selection.box,
      hovered: mouse.hovered,
      area: selection.areaBox(scroll.scrollTop),
      arrows: [...all.found, ...selection.arrows],
      counters: counters.found,
    });
    rule.setMarks(marks);
    rule.draw();
    map.draw();
    element.dataset.begin = String(view.begin);
    element.dataset.end = String(view.end);
    element.dataset.settled = String(tiles.isSettled);
  }

  /** @param {unknown} error */
  function fail(error) {
    tools.span.textContent = error instanceof Error ? error.message : String(error);
    setTimeout(() => {
      if (!left) tiles.want();
    }, 1000);
  }

  function keep() {
    if (left) return;
    note("timeline", {
      b: Math.round(view.begin),
      e: Math.round(view.end),
      sel: selection.row,
      gap: selection.gapText(),
      area: selection.areaText(),
      q: finder.text,
      marks: marks.map((mark) => `${mark.begin}-${mark.end}`).join("~"),
      flip: tools.text(),
      ...rows.values(),
    });
  }

  function mark() {
    const interval = selection.interval;
    if (!interval) return;
    const same = marks.findIndex((each) => each.begin === interval.begin && each.end === interval.end);
    if (same >= 0) marks.splice(same, 1);
    else marks.push(interval);
    keep();
    redraw();
  }

  const mouse = pointer({
    scroll,
    view,
    rows,
    tiles,
    selection,
    names: () => nameColumn.loose.offsetWidth,
    redraw,
  });
  const board = keys(
    view,
    {
      fit: () => selection.fit(),
      all: () => view.all(),
      neighbour: (forward) => void selection.neighbour(forward),
      vertical: (by) => void selection.vertical(by),
      selected: () => selection.box !== null,
      follow: (forward) => void selection.follow(forward),
      search: () => finder.focus(),
      hit: (forward) => void finder.step(forward),
      mark,
      clear: () => {
        if (nameColumn.close()) return;
        selection.clear();
      },
      help: () => helpDialog.showModal(),
      flows: () => tools.flows.click(),
      pin: () => {
        const row = rows.rowOfLane.get(selection.box?.lane ?? -1);
        if (!row) return;
        rows.pin(row);
        rows.layout();
        chosen();
      },
    },
    () => mouse.time,
  );

  // for tests, and for a person with the browser's console
  const handle = {
    ready: false,
    view,
    rows,
    tiles,
    selection,
    scroll,
    marks: () => marks,
    arrows: () => [...all.found, ...selection.arrows],
  };
  Object.assign(globalThis, { kinetoscope: handle });
  scroll.addEventListener("scroll", redraw);
  scroll.addEventListener("arranged", arranged);
  const watch = new ResizeObserver(() => resized());
  watch.observe(body);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const restyle = () => {
    paint.restyle();
    redraw();
  };
  dark.addEventListener("change", restyle);
  nameColumn.draw();
  resized(); // before anything is asked for: the width tells how fine
  arranged();
  void map.load().catch(fail);
  tools.arrange(values.flip);
  await apply(values);

  app.overlays().then((found) => {
    if (left) return;
    overlays = found;
    rows.addOverlays(found);
    handle.ready = true;
    tools.ready();
    counters.list = found.counters;
    rule.setOver(found);
    map.setOver(found);
    tiles.refresh();
    arranged();
    void counters.want();
    void map.load().catch(fail);
    if (selection.row !== null) void selection.select(selection.row, false);
    else if (!values.b) void windowed();
  }, fail);

  async function windowed() {
    const {
      trace: { window },
    } = await app.report();
    if (window && !left) view.show(window.start_ns, window.end_ns, 0.95);
  }

  /**
   * An address may come from another trace, or cut short: what it names that is not here is told, and the
   * rest of it is shown.
   * @param {Record<string, string>} given
   */
  async function apply(given) {
    const [begin, end] = [Number(given.b), Number(given.e)];
    if (given.b && given.e && Number.isFinite(begin) && Number.isFinite(end)) view.set(begin, end);
    if (given.q !== undefined) await finder.set(given.q);
    const found = await choose(given).catch((error) => {
      if (error instanceof ServerError && error.status === 400) return false; // the server knows no such thing
      throw error;
    });
    if (!found) {
      selection.clear();
      details.empty("What this link selects is not in this trace.");
    }
    if (given.hit) await finder.step(true);
  }

  /**
   * @param {Record<string, string>} given
   * @returns {Promise<boolean>} whether what it selects is here
   */
  async function choose(given) {
    if (given.track) {
      const found = await get("locate", { track: given.track, start: given.at, name: given.name });
      if (found.row !== null) await selection.select(found.row, true, true);
      else view.show(Number(given.at), Number(given.at) + Number(given.dur), 0.5);
    } else if (given.sel) {
      await selection.select(Number(given.sel), Boolean(given.zoom), Boolean(given.zoom));
    } else if (given.gap || given.area) {
      await app.analysed();
      return given.gap ? selection.gapFrom(given.gap) : selection.areaFrom(given.area);
    }
    return true;
  }

  return {
    moved: (given) => {
      if (given.b) {
        rows.arrange(given);
        tools.arrange(given.flip);
      }
      marks = given.marks === undefined ? marks : readMarks(given.marks);
      arranged();
      void apply(given).catch(fail);
    },
    leave: () => {
      left = true;
      watch.disconnect();
      dark.removeEventListener("change", restyle);
      board.leave();
      mouse.leave();
      nameColumn.leave();
      tiles.flight?.abort.abort();
    },
  };
}

/** @param {string | undefined} text */
function readMarks(text) {
  return (text ?? "")
    .split("~")
    .map((each) => /^(-?\d+)-(-?\d+)$/.exec(each)) // what was on before the first step begins below 0
    .filter((found) => found !== null)
    .map((found) => ({ begin: Number(found[1]), end: Number(found[2]) }));
}
