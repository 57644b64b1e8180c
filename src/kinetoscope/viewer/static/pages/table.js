// Tables: plain ones, and one that sorts by its columns; the caller gives rows as they come.

import { fill, h } from "../dom.js";

/**
 * @template T
 * @typedef {object} Column
 * @property {string} title
 * @property {(row: T) => number | string | null} value what to sort by
 * @property {(row: T) => import("../dom.js").Child | import("../dom.js").Child[]} [show] what stands in the cell
 * @property {boolean} [number] aligned right
 * @property {string} [class]
 * @property {boolean} [unsorted]
 */

/**
 * A column of a plain table: its title, what stands in its cells, and whether those are numbers.
 * @template T
 * @typedef {object} PlainColumn
 * @property {string} title
 * @property {(row: T) => import("../dom.js").Child | import("../dom.js").Child[]} show
 * @property {boolean} [number] aligned right
 * @property {string} [class] of its cells
 */

/**
 * The table element alone, in the order of the rows.
 * @template T
 * @param {PlainColumn<T>[]} columns
 * @param {T[]} rows
 */
export function plainTable(columns, rows) {
  return h(
    "table",
    null,
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        columns.map(({ title, number }) => h("th", { scope: "col", class: number ? "num" : "" }, title)),
      ),
    ),
    h(
      "tbody",
      null,
      rows.map((row) =>
        h(
          "tr",
          null,
          columns.map((column) =>
            h("td", { class: column.number ? "num" : (column.class ?? "") }, column.show(row)),
          ),
        ),
      ),
    ),
  );
}

/**
 * A plain table in a frame that scrolls where it is too wide.
 * @template T
 * @param {string} label
 * @param {PlainColumn<T>[]} columns
 * @param {T[]} rows
 */
export function framedTable(label, columns, rows) {
  return h(
    "div",
    { class: "table", role: "group", "aria-label": label, tabIndex: 0 },
    plainTable(columns, rows),
  );
}

/**
 * @template T
 * @param {object} options
 * @param {string} options.label
 * @param {Column<T>[]} options.columns
 * @param {number} [options.by] column sorted by at first
 * @param {boolean} [options.up]
 * @param {(row: T) => void} [options.chosen] a row was activated
 * @param {number} [options.most] rows shown at once
 */
export function table({ label, columns, by = 0, up = false, chosen, most = 400 }) {
  const head = h("tr", null);
  const body = h("tbody", null);
  const more = h("p", { class: "quiet", hidden: true });
  const element = h(
    "div",
    { class: "table", role: "region", "aria-label": label, tabIndex: 0 },
    h("table", null, h("thead", null, head), body),
    more,
  );
  /** @type {T[]} */
  let rows = [];

  function draw() {
    fill(
      head,
      columns.map((column, number) =>
        h(
          "th",
          {
            scope: "col",
            class: column.number ? "num" : "",
            "aria-sort": number === by ? (up ? "ascending" : "descending") : undefined,
          },
          column.unsorted
            ? column.title
            : h(
                "button",
                {
                  class: "plain",
                  onclick: () => {
                    up = number === by ? !up : !column.number;
                    by = number;
                    draw();
                    /** @type {HTMLElement | undefined} */ (
                      head.children[number]?.querySelector("button") ?? undefined
                    )?.focus();
                  },
                },
                column.title,
                number === by ? (up ? " ↑" : " ↓") : "",
              ),
        ),
      ),
    );
    const value = columns[by].value;
    const sorted = [...rows].sort((left, right) => {
      const one = value(left),
        other = value(right);
      if (one === other) return 0;
      if (one === null) return 1;
      if (other === null) return -1;
      return (one < other ? -1 : 1) * (up ? 1 : -1);
    });
    fill(
      body,
      sorted.slice(0, most).map((row) =>
        h(
          "tr",
          chosen ? { class: "active", ondblclick: () => chosen(row) } : null,
          columns.map((column) =>
            h(
              "td",
              { class: `${column.number ? "num" : ""} ${column.class ?? ""}` },
              column.show ? column.show(row) : column.value(row),
            ),
          ),
        ),
      ),
    );
    more.hidden = rows.length <= most;
    more.textContent = `The first ${most} of ${rows.length} rows; filter to see others.`;
  }
  return {
    element,
    /** @param {T[]} given */
    show(given) {
      rows = given;
      draw();
    },
  };
}
