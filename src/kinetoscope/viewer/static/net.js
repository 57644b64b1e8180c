// Talking to the server. Addresses are relative, so the token in this page's own address is kept.

/** What the server said instead of an answer. */
export class ServerError extends Error {
  /**
   * @param {string} message
   * @param {number} status
   */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** @type {(gone: boolean) => void} */
let noteGone = () => {};

/** @param {(gone: boolean) => void} listener called when the server stops or comes back */
export function onGone(listener) {
  noteGone = listener;
}

/** @type {number | undefined} */
let shown;

/** @param {number | undefined} number which trace of the input this page shows; every question says so */
export function showing(number) {
  shown = number;
}

/**
 * @param {string} path
 * @param {RequestInit} [options]
 */
async function fetched(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (options?.signal?.aborted) throw error;
    noteGone(true);
    throw new ServerError("the server has stopped", 0);
  }
  noteGone(false);
  if (!response.ok) {
    const text = await response.text();
    let said = text;
    try {
      said = JSON.parse(text).error ?? text;
    } catch {
      // not JSON: the text itself says it
    }
    throw new ServerError(said, response.status);
  }
  return response;
}

/**
 * @param {string} path
 * @param {Record<string, string | number | undefined>} [given]
 */
export function address(path, given = {}) {
  const query = new URLSearchParams();
  if (shown !== undefined) query.set("of", String(shown));
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined) query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `api/${path}?${text}` : `api/${path}`;
}

/**
 * @param {string} path
 * @param {Record<string, string | number | undefined>} [given]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function get(path, given, signal) {
  return (await fetched(address(path, given), { signal })).json();
}

/**
 * @param {string} path
 * @param {object} body
 * @returns {Promise<any>}
 */
export async function post(path, body) {
  const response = await fetched(address(path), { method: "POST", body: JSON.stringify(body) });
  return response.json();
}

/**
 * Pieces of one viewport.
 * @typedef {object} Tile
 * @property {number} begin ns of x = 0
 * @property {number} end ns up to which it was asked for
 * @property {number} pixel ns of one unit of x
 * @property {boolean} analysed
 * @property {[number, number][]} lanes lane and how many pieces, in order
 * @property {Map<number, [number, number]>} ranges first and last (excluded) piece of each lane
 * @property {Float32Array} x0
 * @property {Float32Array} x1
 * @property {Uint32Array} count
 * @property {Uint32Array} row
 * @property {Uint32Array} name
 * @property {Uint8Array} busy
 * @property {Uint8Array} meaning
 * @property {Uint8Array} hit
 * @property {Map<number, string>} names
 * @property {Set<number>} asked lanes that were asked for
 * @property {string} searched
 * @property {boolean} deep whether the search was one of arguments as well
 */

/**
 * @param {{ begin: number, end: number, pixel: number, lanes: number[], q: string, deep?: boolean }} wanted
 * @param {AbortSignal} [signal]
 * @returns {Promise<Tile>}
 */
export async function tile(wanted, signal) {
  const response = await fetched(
    address("tiles", {
      begin: wanted.begin,
      end: wanted.end,
      pixel: wanted.pixel,
      lanes: ranges(wanted.lanes),
      q: wanted.q || undefined,
      deep: wanted.q && wanted.deep ? 1 : undefined,
    }),
    { signal },
  );
  const data = await response.arrayBuffer();
  return decode(data, wanted);
}

/**
 * @param {ArrayBuffer} data
 * @param {{ begin: number, end: number, pixel: number, lanes: number[], q: string, deep?: boolean }} wanted
 * @returns {Tile}
 */
export function decode(data, wanted) {
  const length = new DataView(data).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
  let offset = 4 + length;
  const n = header.pieces;
  /** @param {number} size */
  const take = (size) => {
    const at = offset;
    offset += Math.ceil((n * size) / 4) * 4;
    return at;
  };
  const x0 = new Float32Array(data, take(4), n);
  const x1 = new Float32Array(data, take(4), n);
  const count = new Uint32Array(data, take(4), n);
  const row = new Uint32Array(data, take(4), n);
  const name = new Uint32Array(data, take(4), n);
  const busy = new Uint8Array(data, take(1), n);
  const meaning = new Uint8Array(data, take(1), n);
  const hit = new Uint8Array(data, take(1), n);
  /** @type {Map<number, [number, number]>} */
  const found = new Map();
  let first = 0;
  for (const [lane, pieces] of header.lanes) {
    found.set(lane, [first, first + pieces]);
    first += pieces;
  }
  return {
    begin: header.begin_ns,
    end: wanted.end,
    pixel: header.pixel_ns,
    analysed: header.analysed,
    lanes: header.lanes,
    ranges: found,
    x0,
    x1,
    count,
    row,
    name,
    busy,
    meaning,
    hit,
    names: new Map(Object.entries(header.names).map(([key, text]) => [Number(key), String(text)])),
    asked: new Set(wanted.lanes),
    searched: wanted.q,
    deep: Boolean(wanted.deep),
  };
}

/**
 * Ascending numbers as `0-3,7`.
 * @param {number[]} numbers
 */
export function ranges(numbers) {
  const parts = [];
  for (let at = 0; at < numbers.length;) {
    let last = at;
    while (last + 1 < numbers.length && numbers[last + 1] === numbers[last] + 1) last++;
    parts.push(last > at ? `${numbers[at]}-${numbers[last]}` : `${numbers[at]}`);
    at = last + 1;
  }
  return parts.join(",");
}
