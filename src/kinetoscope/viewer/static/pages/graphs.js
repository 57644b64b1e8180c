// The compiled graphs and the caches, as the compile log tells them.

import { h } from "../dom.js";
import { count, duration } from "../format.js";
import { framedTable } from "./table.js";

/** @param {number | null} value */
const counts = (value) => (value === null ? "" : count(value));

/** @type {import("./table.js").PlainColumn<any>[]} */
const COLUMNS = [
  { title: "Id", class: "mono", show: (graph) => graph.id },
  { title: "Backend", show: (graph) => graph.backend },
  { title: "Mode", show: (graph) => graph.mode },
  { title: "Dynamic", class: "mono", show: (graph) => graph.dynamic.join(", ") },
  { title: "Nodes", number: true, show: (graph) => counts(graph.ops) },
  { title: "Kernels", number: true, show: (graph) => counts(graph.kernels) },
  { title: "Guards", number: true, show: (graph) => counts(graph.guards) },
  {
    title: "Guard check",
    number: true,
    show: (graph) => (graph.guard_ns === null ? "" : duration(graph.guard_ns)),
  },
];

/** @param {any} data */
export function graphs(data) {
  if (!data.graphs.length) return null;
  return h(
    "section",
    { "aria-labelledby": "graphs" },
    h("h2", { id: "graphs" }, "Graphs"),
    framedTable("Graphs", COLUMNS, data.graphs),
  );
}

/** @param {any} data */
export function caches(data) {
  const known = Object.entries(data.caches).filter(([, value]) => value !== null);
  const names = /** @type {Record<string, string>} */ ({
    fx_hit: "FX graph cache hits",
    fx_miss: "FX graph cache misses",
    fx_bypass: "FX graph cache bypassed",
    aot_hit: "AOTAutograd cache hits",
    aot_miss: "AOTAutograd cache misses",
  });
  return [
    known.length
      ? h(
          "section",
          { "aria-labelledby": "caches" },
          h("h2", { id: "caches" }, "Caches"),
          h(
            "dl",
            { class: "figures" },
            known.map(([name, value]) =>
              h(
                "div",
                null,
                h("dt", null, names[name] ?? name),
                h("dd", { class: "num" }, count(Number(value))),
              ),
            ),
          ),
        )
      : null,
    data.compile_times_table
      ? h(
          "section",
          { "aria-labelledby": "times" },
          h("h2", { id: "times" }, "compile_times(), which profiling does not distort"),
          h("pre", { class: "mono", tabIndex: 0 }, data.compile_times_table),
        )
      : null,
  ];
}
