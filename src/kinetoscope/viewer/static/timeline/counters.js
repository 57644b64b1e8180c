// Counters: lowest and highest value of each pixel, asked for once things have been quiet.

import { get } from "../net.js";

/**
 * @typedef {object} Sampled
 * @property {number} begin
 * @property {number} end
 * @property {(number | null)[]} low
 * @property {(number | null)[]} high
 * @property {number} min
 * @property {number} max
 */

export class Counters {
  /**
   * @param {import("./view.js").View} view
   * @param {import("./rows.js").Rows} rows
   * @param {() => void} arrived
   */
  constructor(view, rows, arrived) {
    this.view = view;
    this.rows = rows;
    this.arrived = arrived;
    /** @type {Map<number, Sampled>} */
    this.found = new Map();
    /** @type {any[]} */
    this.list = [];
  }

  async want() {
    const { begin, end } = this.view;
    const pixels = Math.max(1, Math.round(this.view.width));
    const wanted = this.rows.shown.filter((row) => row.kind === "counter");
    await Promise.all(
      wanted.map(async (row) => {
        const id = row.counter ?? -1;
        const known = this.found.get(id);
        if (known?.begin === begin && known.end === end && known.high.length === pixels) return;
        try {
          const data = await get("counter", { id, begin, end, pixels });
          const about = this.list[id];
          this.found.set(id, { begin, end, low: data.low, high: data.high, min: about.min, max: about.max });
          this.arrived();
        } catch {
          // the next move asks again
        }
      }),
    );
  }
}
