// What is selected: a slice, an idle gap, or an area.

import { get, ranges } from "../net.js";
import { arrows } from "./arrows.js";
import { LANE } from "./rows.js";

export class Selection {
  /**
   * @param {object} parts
   * @param {import("./view.js").View} parts.view
   * @param {import("./rows.js").Rows} parts.rows
   * @param {ReturnType<typeof import("./panel.js").panel>} parts.details
   * @param {HTMLElement} parts.scroll
   * @param {() => void} parts.redraw
   * @param {() => void} parts.changed
   */
  constructor({ view, rows, details, scroll, redraw, changed }) {
    this.view = view;
    this.rows = rows;
    this.details = details;
    this.scroll = scroll;
    this.redraw = redraw;
    this.changed = changed;
    this.turn = 0;
    /** @type {any} */
    this.data = null;
    /** @type {any} */
    this.gap = null;
    /** @type {{ begin: number, end: number, rows: string[] } | null} */
    this.area = null;
    /** @type {import("./arrows.js").Arrow[]} */
    this.arrows = [];
    this.fitted = "";
  }

  /** @returns {number | null} */
  get row() {
    return this.data ? this.data.row : null;
  }

  /** Where the selected slice or gap is. */
  get box() {
    if (this.data) return { lane: this.data.lane, start: this.data.start_ns, end: this.data.end_ns };
    if (this.gap)
      return { lane: this.gap.lane, start: this.gap.start_ns, end: this.gap.start_ns + this.gap.dur_ns };
    return null;
  }

  /** @returns {{ begin: number, end: number } | null} */
  get interval() {
    const box = this.box;
    if (box) return { begin: box.start, end: box.end };
    return this.area ? { begin: this.area.begin, end: this.area.end } : null;
  }

  clear() {
    this.turn++;
    this.data = this.gap = this.area = null;
    this.arrows = [];
    this.details.empty();
    this.changed();
    this.redraw();
  }

  /**
   * @param {number} row
   * @param {boolean} reveal bring it into view
   * @param {boolean} [close] and zoom to it
   */
  async select(row, reveal, close = false) {
    const mine = ++this.turn;
    const data = await get("slice", { row });
    if (mine !== this.turn) return;
    this.data = data;
    this.gap = this.area = null;
    this.arrows = data.flows ? arrows(data.flows, true) : [];
    this.details.slice(data);
    if (reveal) this.reveal(close);
    this.changed();
    this.redraw();
  }

  /** @param {any} gap */
  selectGap(gap) {
    this.turn++;
    this.data = this.area = null;
    this.gap = gap;
    this.arrows = [];
    this.details.gap(gap);
    this.changed();
    this.redraw();
  }

  gapText() {
    return this.gap ? `${this.gap.lane}-${this.gap.start_ns}` : null;
  }

  /**
   * @param {string} text
   * @returns {Promise<boolean>} whether there is such a gap
   */
  async gapFrom(text) {
    const [, lane, time] = /^(\d+)-(-?\d+)$/.exec(text) ?? [];
    if (lane === undefined) return false;
    const mine = ++this.turn;
    const { gap } = await get("at", { lane, time, within: 0 });
    if (gap && mine === this.turn) this.selectGap(gap);
    return Boolean(gap);
  }

  /** @param {boolean} close */
  reveal(close) {
    const box = this.box,
      { view, rows } = this;
    if (!box) return;
    if (!rows.ofLane.has(box.lane)) {
      const row = rows.all.find((each) => each.lanes.includes(box.lane));
      if (row) {
        rows.hidden.delete(row.id);
        if (!rows.lanesOf(row).includes(box.lane) && !rows.toggled.delete(row.id))
          rows.toggled.add(row.id);
        rows.layout();
        this.scroll.dispatchEvent(new CustomEvent("arranged"));
      }
    }
    const long = box.end - box.start;
    const launch = this.arrows.find((arrow) => arrow.kind === 0 && arrow.target === this.row);
    // with its launch, unless the device is far behind
    const near = launch && box.start - launch.start < Math.max(long * 60, 200_000);
    if (close && near) view.show(Math.min(launch.start, box.start), box.end, 0.8);
    else if (close) view.show(box.start, box.end, long > view.span / 3 ? 0.6 : 0.15);
    else if (box.start < view.begin || box.start > view.end - view.span * 0.05 || long < view.pixel) {
      const span = Math.max(Math.min(view.span, Math.max(long, 20) * 60), long * 1.5);
      view.set((box.start + box.end - span) / 2, (box.start + box.end + span) / 2);
    }
    this.intoView();
  }

  /** Scroll to the row of the selection, if it cannot be seen. */
  intoView() {
    const { box, rows, scroll } = this;
    const at = box && rows.ofLane.get(box.lane);
    if (!at || at.row.pinned) return;
    const y = rows.laneY(box.lane, scroll.scrollTop) ?? 0;
    if (y < rows.pinnedHeight + 4 || y > scroll.clientHeight - 2 * LANE) {
      scroll.scrollTop += y - (rows.pinnedHeight + scroll.clientHeight) / 2;
    }
  }

  /** Zoom to the selection; the second time it fills the view. */
  fit() {
    const interval = this.interval;
    if (!interval) return;
    const name = `${interval.begin}-${interval.end}`;
    const near =
      this.fitted === name &&
      Math.abs((interval.begin + interval.end) / 2 - (this.view.begin + this.view.end) / 2) <
        this.view.span / 50;
    this.view.show(interval.begin, interval.end, near ? 0.96 : 0.3);
    this.fitted = near ? "" : name;
  }

  /**
   * To the row above or below, at the same time; with nothing selected, to the first event in view,
   * which is no idle gap.
   * @param {number} by -1 up, 1 down
   */
  async vertical(by) {
    const { rows, view, box } = this;
    const lanes = rows.shown.flatMap((row) => rows.lanesOf(row));
    const time = box ? (Math.max(box.start, view.begin) + Math.min(box.end, view.end)) / 2 : view.begin;
    const first = lanes.findIndex((lane) => rows.rowOfLane.get(lane)?.kind !== "idle");
    for (let at = box ? lanes.indexOf(box.lane) + by : first; at >= 0 && at < lanes.length; at += by) {
      const found = await get("at", { lane: lanes[at], time, within: view.span });
      if (found.gap) this.selectGap(found.gap);
      else if (found.row !== null) await this.select(found.row, true);
      else continue;
      return;
    }
  }

  /** @param {boolean} forward */
  async neighbour(forward) {
    if (!this.data) {
      await this.vertical(1);
      return;
    }
    const found = await get("neighbour", { row: this.data.row, direction: forward ? "forward" : "back" });
    if (found.row !== null) await this.select(found.row, true);
  }

  /** @param {boolean} forward */
  async follow(forward) {
    const row = this.row;
    const found = this.arrows.find((arrow) => (forward ? arrow.source : arrow.target) === row);
    if (found) await this.select(forward ? found.target : found.source, true);
  }

  /**
   * @param {number} begin
   * @param {number} end
   * @param {import("./rows.js").Row[]} rows
   */
  async selectArea(begin, end, rows) {
    const mine = ++this.turn;
    this.data = this.gap = null;
    this.arrows = [];
    this.area = {
      begin: Math.round(begin),
      end: Math.max(Math.round(end), Math.round(begin) + 1),
      rows: rows.map((row) => row.id),
    };
    this.changed();
    this.redraw();
    const strips = rows
      .map((row) => row.strip)
      .filter((strip) => strip !== null)
      .sort((one, other) => one - other);
    const data = await get("area", { begin: this.area.begin, end: this.area.end, strips: ranges(strips) });
    if (mine === this.turn) this.details.area(data);
  }

  areaText() {
    return this.area ? `${this.area.begin}-${this.area.end}-${this.area.rows.join("~")}` : null;
  }

  /**
   * @param {string} text
   * @returns {Promise<boolean>} whether it has a track that is here
   */
  async areaFrom(text) {
    const [, begin, end, tracks] = /^(-?\d+)-(-?\d+)-(.*)$/.exec(text) ?? [];
    const ids = new Set(tracks?.split("~"));
    const rows = this.rows.all.filter((row) => ids.has(row.id));
    if (!rows.length) return false;
    await this.selectArea(Number(begin), Number(end), rows);
    return true;
  }

  /** @param {number} scroll */
  areaBox(scroll) {
    const { area, rows } = this;
    if (!area) return null;
    const ids = new Set(area.rows);
    const inside = rows.shown.filter((row) => ids.has(row.id));
    if (!inside.length) return null;
    const tops = inside.map((row) => rows.y(row, scroll));
    const bottoms = inside.map((row) => rows.y(row, scroll) + row.height);
    return { begin: area.begin, end: area.end, top: Math.min(...tops), bottom: Math.max(...bottoms) };
  }
}
