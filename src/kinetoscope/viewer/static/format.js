// Numbers as people read them: three figures, and a unit on every one.

/** @param {number} value */
function threeFigures(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.01) return value.toFixed(3);
  if (size < 9.995) return value.toFixed(2);
  if (size < 99.95) return value.toFixed(1);
  return Math.round(value).toLocaleString("en-US");
}

/**
 * A time: ns under 1 us, us under 1 ms, ms under 1 s, else s.
 * @param {number | null | undefined} ns
 */
export function duration(ns) {
  if (ns === null || ns === undefined) return "unknown";
  const size = Math.abs(ns);
  if (size < 999.5) return `${threeFigures(ns)} ns`;
  if (size < 999.5e3) return `${threeFigures(ns / 1e3)} us`;
  if (size < 999.5e6) return `${threeFigures(ns / 1e6)} ms`;
  return `${threeFigures(ns / 1e9)} s`;
}

/**
 * A time with every digit, for the one place where it is looked up.
 * @param {number} ns
 */
export function exact(ns) {
  return `${Math.round(ns).toLocaleString("en-US")} ns`;
}

/**
 * A point in time, to the nanosecond: three figures of it would not tell neighbours apart.
 * @param {number} ns
 */
export function moment(ns) {
  const size = Math.abs(ns);
  if (size < 999.5) return `${Math.round(ns)} ns`;
  const [unit, digits] = /** @type {[string, number]} */ (
    size < 999.5e3 ? ["us", 3] : size < 999.5e6 ? ["ms", 6] : ["s", 9]
  );
  return `${(ns / 10 ** digits).toFixed(digits)} ${unit}`;
}

/**
 * One unit for a column, chosen by its largest value.
 * @param {number} largest
 * @returns {{ unit: string, one: number, decimals: number }}
 */
export function columnUnit(largest) {
  if (largest < 1e6) return { unit: "us", one: 1e3, decimals: largest < 1e5 ? 2 : 1 };
  if (largest < 1e9) return { unit: "ms", one: 1e6, decimals: 3 };
  return { unit: "s", one: 1e9, decimals: 3 };
}

/**
 * @param {number} ns
 * @param {{ one: number, decimals: number }} column
 */
export function inUnit(ns, column) {
  const value = ns / column.one;
  const smallest = 10 ** -column.decimals;
  if (ns > 0 && value < smallest / 2) return `<${smallest.toFixed(column.decimals)}`;
  return value.toLocaleString("en-US", {
    minimumFractionDigits: column.decimals,
    maximumFractionDigits: column.decimals,
  });
}

/** @param {number | null | undefined} value */
export function share(value) {
  if (value === null || value === undefined) return "unknown";
  const percent = value * 100;
  if (percent > 0 && percent < 0.05) return "<0.1 %";
  if (percent >= 99.95 && percent < 100) return ">99.9 %";
  if (percent === 0) return "0 %";
  return percent < 10 || (percent >= 99.5 && percent < 100)
    ? `${percent.toFixed(1)} %`
    : `${Math.round(percent)} %`;
}

/** @param {number | null | undefined} value */
export function count(value) {
  return value === null || value === undefined ? "unknown" : value.toLocaleString("en-US");
}

/**
 * @param {number} value
 * @param {string} one
 * @param {string} [many]
 */
export function counted(value, one, many) {
  return `${count(value)} ${value === 1 ? one : (many ?? `${one}s`)}`;
}

/** @param {number} value */
export function bytes(value) {
  for (const [unit, one] of /** @type {[string, number][]} */ ([
    ["GiB", 2 ** 30],
    ["MiB", 2 ** 20],
    ["KiB", 2 ** 10],
  ])) {
    if (Math.abs(value) >= one) return `${threeFigures(value / one)} ${unit}`;
  }
  return `${Math.round(value)} B`;
}

/**
 * The end of a path is what tells.
 * @param {string} path
 * @param {number} most
 */
export function tail(path, most) {
  return path.length <= most ? path : `…${path.slice(path.length - most + 1)}`;
}
