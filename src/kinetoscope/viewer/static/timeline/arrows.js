// Arrows of the selection, and all of them on demand.

import { get, ranges } from "../net.js";

/**
 * @typedef {object} Arrow
 * @property {number} kind 0 launch, 1 backward
 * @property {number} source row
 * @property {number} target row
 * @property {number} sourceLane
 * @property {number} targetLane
 * @property {number} start of the source
 * @property {number} from where it is drawn from
 * @property {number} to
 * @property {boolean} strong belongs to the selection
 */

/**
 * @param {any} data arrows as the server lists them
 * @param {boolean} strong
 * @returns {Arrow[]}
 */
export function arrows(data, strong) {
  return data.kind.map((/** @type {number} */ kind, /** @type {number} */ at) => ({
    kind,
    strong,
    source: data.source[at],
    target: data.target[at],
    sourceLane: data.source_lane[at],
    targetLane: data.target_lane[at],
    // a launch is drawn from the middle of its call, so that it can be told which one it is
    from: kind === 0 ? (data.source_start_ns[at] + data.source_end_ns[at]) / 2 : data.source_start_ns[at],
    start: data.source_start_ns[at],
    to: data.target_start_ns[at],
  }));
}

/** All arrows of what is in view, asked for anew when it changes. */
export class AllArrows {
  /**
   * @param {import("./view.js").View} view
   * @param {import("./rows.js").Rows} rows
   * @param {() => void} arrived
   */
  constructor(view, rows, arrived) {
    this.view = view;
    this.rows = rows;
    this.arrived = arrived;
    this.on = false;
    this.total = 0;
    /** @type {Arrow[]} */
    this.found = [];
    /** @type {AbortController | null} */
    this.flight = null;
  }

  async want() {
    if (!this.on) {
      this.found = [];
      this.arrived();
      return;
    }
    this.flight?.abort();
    const flight = (this.flight = new AbortController());
    const { view } = this;
    const lanes = [...this.rows.rowOfLane.keys()].sort((one, other) => one - other);
    try {
      const data = await get(
        "flows",
        { begin: view.begin, end: view.end, pixel: view.pixel, lanes: ranges(lanes) },
        flight.signal,
      );
      this.found = arrows(data, false);
      this.total = data.total;
      this.arrived();
    } catch {
      // a newer question has been asked, or the analysis is still being made
    }
  }
}
