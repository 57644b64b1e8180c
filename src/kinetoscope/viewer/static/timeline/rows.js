// The rows of the timeline: which are there, in which order and how tall.

import { bytes } from "../format.js";

export const LANE = 18;
const HEADER = 22;
const GAP = 5;
const COUNTER = 40;
/** So many lanes of the threads that launch leave room for the device under them, at 1280 by 720. */
const ROOM = 18;
/** A row deeper than this starts folded, to its outermost lanes. */
const DEEP = 14;
const FOLDED_LANES = 6;

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
    /** @type {Set<string>} see `#crowded` */
    this.crowded = new Set();
    /** @type {Map<number, { row: Row, index: number }>} */
    this.ofLane = new Map();
    /** @type {Map<number, Row>} also of lanes that are folded away */
    this.rowOfLane = new Map();
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
    this.crowded = this.#crowded(rows);
    this.layout();
  }

  /**
   * Rows that start folded: the deepest of the threads that launch, until what is under them, the device, is in
   * view on a small screen as well.
   * @param {Row[]} rows
   * @returns {Set<string>}
   */
  #crowded(rows) {
    const strips = new Map(this.trace.rows.map((/** @type {any} */ row) => [row.number, row.strip]));
    const first = rows.findIndex((row) => row.kind === "idle" || strips.get(row.strip) === "device");
    const above = rows.slice(0, Math.max(0, first)).filter((row) => !this.#isStack(row));
    let lanes = above.reduce((sum, row) => sum + Math.min(row.lanes.length, this.#foldedTo(row)), 0);
    /** @type {Set<string>} */
    const found = new Set();
    for (const row of above.sort((one, other) => other.lanes.length - one.lanes.length)) {
      if (lanes <= ROOM || row.lanes.length <= FOLDED_LANES) break;
      lanes -= Math.min(row.lanes.length, this.#foldedTo(row)) - FOLDED_LANES;
      found.add(row.id);
    }
    return found;
  }

  /** @param {Row} row @returns {number} */
  #foldedTo(row) {
    return row.lanes.length > DEEP ? FOLDED_LANES : row.lanes.length;
  }

  /** @param {Row} row */
  pin(row) {
    if (!this.pins.delete(row.id)) this.pins.add(row.id);
  }

  /** @param {Row} row */
  isFolded(row) {
    // deep rows say little at a glance, Python stacks least of all: they start folded
    const folded = this.#isStack(row) || this.#isDeep(row);
    return row.foldable && this.toggled.has(row.id) !== folded;
  }

  /** @param {Row} row */
  #isDeep(row) {
    return row.lanes.length > DEEP || this.crowded.has(row.id);
  }

  /** @param {Row} row */
  #isStack(row) {
    return row.id.endsWith("/python");
  }

  /**
   * The lanes that are shown: all, or when folded the outermost ones.
   * @param {Row} row
   */
  lanesOf(row) {
    if (!this.isFolded(row)) return row.lanes;
    return row.lanes.slice(0, this.#isDeep(row) && !this.#isStack(row) ? FOLDED_LANES : 1);
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
    this.rowOfLane = new Map();
    const pinned = this.#stack(visible, true);
    this.pinnedHeight = pinned ? pinned + GAP : 0;
    this.height = this.#stack(visible, false) + 24;
  }

  /**
   * Put rows under each other, with the name of their process over those that have the same.
   * @param {Row[]} visible
   * @param {boolean} pinned
   * @returns {number} where they end
   */
  #stack(visible, pinned) {
    let top = 0,
      process = "";
    for (const row of visible) {
      if (this.pins.has(row.id) !== pinned) continue;
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
          pinned,
        });
        top += HEADER + 2;
      }
      const lanes = this.lanesOf(row);
      row.top = top;
      row.pinned = pinned;
      row.height = row.kind === "counter" ? COUNTER : Math.max(1, lanes.length) * LANE;
      lanes.forEach((lane, index) => this.ofLane.set(lane, { row, index }));
      for (const lane of row.lanes) this.rowOfLane.set(lane, row);
      this.shown.push(row);
      top += row.height + GAP;
    }
    return top;
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
   * Where an arrow meets a lane: its middle, or the border behind which it is folded or scrolled away.
   * @param {number} lane
   * @param {number} scroll
   * @returns {number | null}
   */
  arrowY(lane, scroll) {
    const row = this.rowOfLane.get(lane);
    if (!row) return null;
    const top = this.laneY(lane, scroll);
    const y = top === null ? this.y(row, scroll) + row.height : top + LANE / 2;
    return row.pinned ? y : Math.max(y, this.pinnedHeight - 2);
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

  /**
   * Arranged as an address says.
   * @param {Record<string, string>} values
   */
  arrange(values) {
    const said = new Rows(this.trace, values);
    this.pins = said.pins;
    this.hidden = said.hidden;
    this.toggled = said.toggled;
    this.order = said.order;
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
