// SQL over the trace.

import { note } from "../address.js";
import { fill, h } from "../dom.js";
import { count, counted } from "../format.js";
import { get, post } from "../net.js";
import { plainTable } from "./table.js";

const EXAMPLES = [
  [
    "Most costly kernels",
    "SELECT name, count(*) AS runs, sum(dur_ns) AS total_ns, avg(dur_ns)::BIGINT AS mean_ns\nFROM slices\nWHERE category = 'kernel'\nGROUP BY name\nORDER BY total_ns DESC\nLIMIT 50",
  ],
  [
    "Longest waits between launch and kernel",
    "SELECT k.name, k.start_ns, k.start_ns - l.start_ns AS queue_ns, l.name AS launched_by\nFROM slices k JOIN slices l ON l.row = k.launch\nORDER BY queue_ns DESC\nLIMIT 50",
  ],
  [
    "Time by category",
    "SELECT category, count(*) AS slices, sum(dur_ns) AS total_ns\nFROM slices\nGROUP BY category\nORDER BY total_ns DESC",
  ],
];

/** Decimals come as texts, so that no digit is lost. */
const NUMBER = /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i;

/**
 * @param {import("../main.js").App} app
 * @param {HTMLElement} place
 * @param {Record<string, string>} values
 * @returns {Promise<import("../main.js").Page>}
 */
export async function queryPage(app, place, values) {
  const editor = h("textarea", {
    class: "mono",
    rows: 8,
    spellcheck: false,
    "aria-label": "SQL",
    value: values.sql ?? EXAMPLES[0][1],
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        void run();
      }
    },
  });
  const runButton = h("button", { class: "main", onclick: () => (running ? stop() : void run()) }, "Run");
  const csvButton = h("button", { disabled: true, onclick: download }, "Download CSV");
  const said = h("p", { class: "quiet", role: "status" });
  const result = h(
    "div",
    { class: "table", role: "region", "aria-label": "Result", tabIndex: 0 },
    h("p", { class: "hint" }, "Rows appear here once a query has run."),
  );
  const tables = h("div", { class: "schema" });
  /** @type {any} */
  let answer = null;
  /** Name of the query that is running: for its server, which may have others of other windows. */
  let running = "";

  async function run() {
    if (running) return;
    const name = `${Date.now()}-${Math.random()}`;
    running = name;
    runButton.textContent = "Stop";
    csvButton.disabled = true;
    said.className = "quiet";
    said.textContent = "Running";
    note("query", { sql: editor.value }); // also of one that fails: it is to be mended, not typed again
    try {
      await app.analysed();
      const began = performance.now();
      answer = await post("query", { sql: editor.value, name });
      said.textContent = `${counted(answer.rows.length, "row")}${answer.more ? " (the first of more)" : ""} in ${Math.round(performance.now() - began)} ms`;
      show();
    } catch (error) {
      answer = null;
      said.className = "bad mono"; // with a mark under the place in the query
      said.textContent = error instanceof Error ? error.message : String(error);
      fill(result);
    }
    csvButton.disabled = !answer;
    running = "";
    runButton.textContent = "Run";
  }

  function stop() {
    // what it ends says so itself
    if (running) post("query-stop", { name: running }).catch(() => {});
  }

  function show() {
    const numeric = answer.types.map((/** @type {string} */ type) =>
      /INT|DOUBLE|FLOAT|DECIMAL|REAL/i.test(type),
    );
    const columns = answer.columns.map((/** @type {string} */ title, /** @type {number} */ at) => ({
      title,
      number: numeric[at],
      class: "mono",
      show: (/** @type {any[]} */ row) => shown(row[at]),
    }));
    fill(
      result,
      plainTable(columns, answer.rows.slice(0, 1000)),
      answer.rows.length > 1000
        ? h(
            "p",
            { class: "quiet" },
            `The first 1,000 of ${count(answer.rows.length)} rows; the CSV holds them all.`,
          )
        : null,
    );
  }

  function download() {
    /** @param {any} cell */
    const written = (cell) => {
      if (cell === null) return "";
      // a text that a spreadsheet would run as a formula is marked as text
      const runs = typeof cell === "string" && /^[=+\-@\t\r]/.test(cell) && !NUMBER.test(cell);
      const text = runs ? `'${cell}` : String(cell);
      return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const lines = [answer.columns, ...answer.rows].map((row) => row.map(written).join(","));
    const blob = new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv" });
    const address = URL.createObjectURL(blob);
    const anchor = h("a", { href: address, download: "kinetoscope-query.csv" });
    document.body.append(anchor);
    anchor.click();
    anchor.remove();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  fill(
    place,
    h(
      "article",
      { class: "full query" },
      h(
        "div",
        { class: "tools" },
        h("h1", null, "Query"),
        h(
          "span",
          { class: "quiet" },
          "One SELECT in DuckDB's SQL. Nothing can be changed, and no file read. The tables hold the whole trace.",
        ),
      ),
      h("div", { class: "editor" }, editor, tables),
      h(
        "div",
        { class: "tools" },
        runButton,
        h("span", { class: "quiet" }, h("kbd", null, "Ctrl"), " ", h("kbd", null, "Enter")),
        csvButton,
        h("span", { class: "quiet" }, "Examples:"),
        EXAMPLES.map(([title, sql]) =>
          h(
            "button",
            {
              class: "link",
              onclick: () => {
                editor.value = sql;
                void run();
              },
            },
            title,
          ),
        ),
        said,
      ),
      result,
    ),
  );
  const schema = await get("tables");
  fill(
    tables,
    schema.tables.map((/** @type {any} */ each) =>
      h(
        "details",
        { open: each.name === "slices" },
        h("summary", { class: "mono" }, each.name),
        h(
          "dl",
          null,
          each.columns.map((/** @type {any} */ column) =>
            h(
              "div",
              null,
              h("dt", { class: "mono" }, column.name),
              h("dd", { class: "quiet" }, column.about),
            ),
          ),
        ),
      ),
    ),
  );
  if (values.sql) void run();
  return { leave: stop };
}

/** @param {any} cell */
function shown(cell) {
  if (cell === null) return h("span", { class: "quiet" }, "null");
  return typeof cell === "number"
    ? cell.toLocaleString("en-US", { maximumFractionDigits: 6 })
    : String(cell);
}
