// The rows of the timeline: which are there, in which order and how tall.

import { bytes } from "../format.js";

export const LANE = 18;
const HEADER = 22;
const GAP = 5;
const COUNTER = 40;

/**
 * @typedef {object} Row
 * @property {string} id
 * @property {"process" | "lanes" | "idle" | "counter"} kind
 * @property {string} label
 * @property {string} process
 * @property {number[]} lanes
 * @property {number | null} strip number of the strip
 * @property {number | null} counter
 * @property {string} unit
 * @property {number} slices
 * @property {string} most highest value of a counter, in words
 * @property {boolean} foldable
 * @property {number} top in the scrolled content (pinned: from the top of the view)
 * @property {number} height
 * @property {boolean} pinned
 */

export class Rows {
  /**
   * @param {any} trace
   * @param {Record<string, string>} values from the address
   */
  constructor(trace, values) {
    this.trace = trace;
    /** @param {string | undefined} text */
    const list = (text) => (text ? text.split("~") : []);
    this.pins = new Set(list(values.pins));
    this.hidden = new Set(list(values.hidden));
    this.toggled = new Set(list(values.fold));
    this.order = list(values.order);
    this.filter = "";
    this.withIdle = true;
    this.withCounters = true;
    /** @type {Row[]} every row, in the order of the page */
    this.all = [];
    /** @type {Row[]} rows that are shown */
    this.shown = [];
    this.height = 0;
    this.pinnedHeight = 0;
    /** @type {Map<number, { row: Row, index: number }>} */
    this.ofLane = new Map();
    this.addOverlays(null);
  }

  /** @param {any} overlays idle lanes and counters, once they are known */
  addOverlays(overlays) {
    /** @type {Row[]} */
    const rows = [];
    const blank = { counter: null, unit: "", most: "", top: 0, height: 0, pinned: false, foldable: false };
    const idleOf = new Map();
    for (const idle of overlays?.idle ?? []) {
      const first = this.trace.rows.find(
        (/** @type {any} */ row) => row.kind === "device" && idle.tracks.includes(row.track),
      );
      if (first && idle.gaps) idleOf.set(first.process, [...(idleOf.get(first.process) ?? []), idle]);
    }
    if (!overlays) {
      // their place is kept, so that nothing moves when they come
      for (const row of this.trace.rows)
        if (row.strip === "device") idleOf.set(row.process, [{ lane: null, gaps: 0 }]);
    }
    const done = new Set();
    for (const row of this.trace.rows) {
      for (const idle of done.has(row.process) ? [] : (idleOf.get(row.process) ?? [])) {
        const number = (idleOf.get(row.process) ?? []).indexOf(idle);
        rows.push({
          ...blank,
          id: `idle/${row.process}/${number}`,
          kind: "idle",
          label: "idle, by cause",
          process: row.process,
          lanes: idle.lane === null ? [] : [idle.lane],
          strip: null,
          slices: idle.gaps,
        });
      }
      done.add(row.process);
      const lanes = Array.from({ length: row.last - row.first }, (_, number) => row.first + number);
      rows.push({
        ...blank,
        id: row.id,
        kind: "lanes",
        label: row.name,
        process: row.process,
        lanes,
        strip: row.number,
        slices: row.slices,
        foldable: lanes.length > 1,
      });
    }
    for (const counter of overlays?.counters ?? []) {
      rows.push({
        ...blank,
        id: `counter/${counter.name}`,
        kind: "counter",
        label: counter.name,
        process: "Counters",
        lanes: [],
        strip: null,
        counter: counter.id,
        unit: counter.unit,
        most: `up to ${counter.unit === "B" ? bytes(counter.max) : counter.max.toLocaleString("en-US")}`,
        slices: counter.samples,
      });
    }
    this.all = rows;
    this.layout();
  }

  /** @param {Row} row */
  isFolded(row) {
    // a Python stack is deep and says little at a glance: it starts folded
    const folded = row.id.endsWith("/python");
    return row.foldable && this.toggled.has(row.id) !== folded;
  }

  /** Recompute what is shown and where. */
  layout() {
    const wanted = this.filter.toLowerCase();
    const visible = this.all.filter(
      (row) =>
        !this.hidden.has(row.id) &&
        (row.kind !== "idle" || this.withIdle) &&
        (row.kind !== "counter" || this.withCounters) &&
        (!wanted || `${row.process} ${row.label}`.toLowerCase().includes(wanted)),
    );
    const place = new Map(this.order.map((id, number) => [id, number]));
    if (this.order.length) {
      const natural = new Map(this.all.map((row, number) => [row.id, number]));
      /** @param {Row} row */
      const key = (row) => place.get(row.id) ?? natural.get(row.id) ?? 0;
      visible.sort((one, other) => key(one) - key(other));
    }
    this.shown = [];
    this.ofLane = new Map();
    let top = 0;
    for (const row of visible.filter((each) => this.pins.has(each.id))) top = this.#add(row, top, true);
    this.pinnedHeight = top ? top + GAP : 0;
    top = 0;
    let process = "";
    for (const row of visible.filter((each) => !this.pins.has(each.id))) {
      if (row.process !== process) {
        process = row.process;
        this.shown.push({
          ...row,
          id: `process/${process}/${this.shown.length}`,
          kind: "process",
          label: process,
          lanes: [],
          strip: null,
          counter: null,
          foldable: false,
          top,
          height: HEADER,
          pinned: false,
        });
        top += HEADER + 2;
      }
      top = this.#add(row, top, false);
    }
    this.height = top + 24;
  }

  /**
   * @param {Row} row
   * @param {number} top
   * @param {boolean} pinned
   */
  #add(row, top, pinned) {
    const lanes = this.isFolded(row) ? 1 : row.lanes.length;
    row.top = top;
    row.pinned = pinned;
    row.height = row.kind === "counter" ? COUNTER : Math.max(1, lanes) * LANE;
    row.lanes.slice(0, lanes).forEach((lane, index) => this.ofLane.set(lane, { row, index }));
    this.shown.push(row);
    return top + row.height + GAP;
  }

  /**
   * Where a row stands on the canvas.
   * @param {Row} row
   * @param {number} scroll
   */
  y(row, scroll) {
    return row.pinned ? row.top : this.pinnedHeight + row.top - scroll;
  }

  /**
   * @param {number} lane
   * @param {number} scroll
   * @returns {number | null} top of the lane on the canvas
   */
  laneY(lane, scroll) {
    const found = this.ofLane.get(lane);
    return found ? this.y(found.row, scroll) + found.index * LANE : null;
  }

  /**
   * @param {number} y on the canvas
   * @param {number} scroll
   * @returns {{ row: Row, lane: number | null } | null}
   */
  at(y, scroll) {
    for (const row of this.shown) {
      if (!row.pinned && y < this.pinnedHeight) continue;
      const top = this.y(row, scroll);
      if (y < top || y >= top + row.height) continue;
      const lane = row.lanes[Math.floor((y - top) / LANE)];
      return { row, lane: lane ?? null };
    }
    return null;
  }

  /**
   * Rows that meet a stretch of the canvas.
   * @param {number} top
   * @param {number} bottom
   * @param {number} scroll
   */
  between(top, bottom, scroll) {
    return this.shown.filter((row) => {
      const y = this.y(row, scroll);
      return y < bottom && y + row.height > top;
    });
  }

  /**
   * @param {Row} row
   * @param {number} by -1 up, 1 down
   */
  move(row, by) {
    const ids = this.shown
      .filter((each) => each.kind !== "process" && each.pinned === row.pinned)
      .map((each) => each.id);
    const at = ids.indexOf(row.id),
      to = at + by;
    if (to < 0 || to >= ids.length) return;
    [ids[at], ids[to]] = [ids[to], ids[at]];
    const rest = this.all.map((each) => each.id).filter((id) => !ids.includes(id));
    this.order = [...ids, ...rest];
    this.layout();
  }

  /** What the address keeps. */
  values() {
    return {
      pins: [...this.pins].join("~"),
      hidden: [...this.hidden].join("~"),
      fold: [...this.toggled].join("~"),
      order: this.order.join("~"),
    };
  }
}
