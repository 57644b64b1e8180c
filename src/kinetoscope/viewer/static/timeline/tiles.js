// The pieces that are drawn: one answer of the server at a time, wider than what is shown, so that
// panning has something to show while the next one is on its way.

import { tile } from "../net.js";

const MARGIN = 0.6;

export class Tiles {
  /**
   * @param {import("./view.js").View} view
   * @param {() => number[]} lanes ascending numbers of the lanes that are wanted
   * @param {() => void} arrived
   * @param {(error: unknown) => void} failed
   */
  constructor(view, lanes, arrived, failed) {
    this.view = view;
    this.lanes = lanes;
    this.arrived = arrived;
    this.failed = failed;
    /** @type {import("../net.js").Tile | null} */
    this.current = null;
    /** @type {Prepared | null} */
    this.prepared = null;
    this.searched = "";
    this.deep = false;
    this.stale = false;
    this.waits = 0;
    /** @type {{ abort: AbortController, begin: number, end: number, pixel: number } | null} */
    this.flight = null;
  }

  /** Forget what is there: its meanings or hits have changed. */
  refresh() {
    this.stale = true;
    this.flight?.abort.abort();
    this.flight = null;
    this.want();
  }

  /** Whether everything in view is drawn as finely as it can be seen. */
  get isSettled() {
    return !this.flight && !this.#missing();
  }

  #pixel() {
    return 2 ** Math.floor(Math.log2(this.view.pixel / (window.devicePixelRatio || 1)));
  }

  #missing() {
    const found = this.current,
      view = this.view;
    if (!found || this.stale || found.searched !== this.searched || found.deep !== this.deep) return true;
    const low = Math.max(view.begin, view.low),
      high = Math.min(view.end, view.high);
    return (
      found.pixel !== this.#pixel() ||
      low < found.begin ||
      high > found.end ||
      this.lanes().some((lane) => !found.asked.has(lane))
    );
  }

  /** Ask for what is missing, if anything is. */
  want() {
    if (!this.#missing()) return;
    const view = this.view,
      pixel = this.#pixel();
    if (this.flight) {
      const near =
        this.flight.pixel / pixel < 8 &&
        pixel / this.flight.pixel < 8 &&
        this.flight.begin < view.end &&
        this.flight.end > view.begin;
      if (near) return;
      this.flight.abort.abort();
    }
    const begin = Math.max(view.begin - view.span * MARGIN, view.low - 1),
      end = Math.max(Math.min(view.end + view.span * MARGIN, view.high + 1), begin + 1);
    const flight = { abort: new AbortController(), begin, end, pixel };
    this.flight = flight;
    this.stale = false;
    const wanted = {
      begin: Math.floor(begin),
      end: Math.ceil(end),
      pixel,
      lanes: this.lanes(),
      q: this.searched,
      deep: this.deep,
    };
    tile(wanted, flight.abort.signal).then(
      (found) => {
        if (this.flight !== flight) return;
        this.flight = null;
        this.current = found;
        this.prepared = prepare(found);
        this.waits = 0;
        this.arrived();
        this.want();
      },
      (error) => {
        if (this.flight !== flight) return;
        this.flight = null;
        if (!flight.abort.signal.aborted) this.failed(error);
      },
    );
  }
}

/**
 * Pieces in the order in which they are painted: by colour, so that it changes seldom.
 * @typedef {object} Prepared
 * @property {import("../net.js").Tile} tile
 * @property {Uint32Array} order
 * @property {Uint16Array} key of each piece in that order: dimmed, meaning, how full it is
 * @property {Int32Array} lane of each piece
 */

/**
 * @param {import("../net.js").Tile} tile
 * @returns {Prepared}
 */
export function prepare(tile) {
  const n = tile.x0.length;
  const lane = new Int32Array(n);
  for (const [number, [first, last]] of tile.ranges) lane.fill(number, first, last);
  const keys = new Uint16Array(n);
  const starts = new Uint32Array(514);
  for (let at = 0; at < n; at++) {
    const level = tile.count[at] === 1 ? 3 : Math.min(2, (tile.busy[at] / 86) | 0);
    const key = (tile.searched && !tile.hit[at] ? 0 : 256) | ((tile.meaning[at] & 63) << 2) | level;
    keys[at] = key;
    starts[key + 1]++;
  }
  for (let at = 1; at < starts.length; at++) starts[at] += starts[at - 1];
  const order = new Uint32Array(n),
    key = new Uint16Array(n);
  for (let at = 0; at < n; at++) {
    const place = starts[keys[at]]++;
    order[place] = at;
    key[place] = keys[at];
  }
  return { tile, order, key, lane };
}

/**
 * The piece of a lane at a place.
 * @param {import("../net.js").Tile} tile
 * @param {number} lane
 * @param {number} time
 * @param {number} slack ns
 * @returns {number} its number, or -1
 */
export function pieceAt(tile, lane, time, slack) {
  const range = tile.ranges.get(lane);
  if (!range) return -1;
  const x = (time - tile.begin) / tile.pixel,
    near = slack / tile.pixel;
  let low = range[0],
    high = range[1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tile.x0[middle] <= x) low = middle + 1;
    else high = middle;
  }
  let best = -1,
    distance = near;
  for (const at of [low - 1, low]) {
    if (at < range[0] || at >= range[1]) continue;
    const away = Math.max(tile.x0[at] - x, x - tile.x1[at], 0);
    if (away <= distance && (best < 0 || away < distance)) {
      best = at;
      distance = away;
    }
  }
  return best;
}
