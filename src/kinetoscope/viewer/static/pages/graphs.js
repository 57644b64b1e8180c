// The compiled graphs and the caches, as the compile log tells them.

import { h } from "../dom.js";
import { count, duration } from "../format.js";

/** @param {any} data */
export function graphs(data) {
  if (!data.graphs.length) return null;
  return h(
    "section",
    { "aria-labelledby": "graphs" },
    h("h2", { id: "graphs" }, "Graphs"),
    h(
      "div",
      { class: "table", role: "group", "aria-label": "Graphs", tabIndex: 0 },
      h(
        "table",
        null,
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            ["Id", "Backend", "Mode", "Dynamic"].map((each) => h("th", { scope: "col" }, each)),
            ["Nodes", "Kernels", "Guards", "Guard check"].map((each) =>
              h("th", { scope: "col", class: "num" }, each),
            ),
          ),
        ),
        h(
          "tbody",
          null,
          data.graphs.map((/** @type {any} */ graph) =>
            h(
              "tr",
              null,
              h("td", { class: "mono" }, graph.id),
              h("td", null, graph.backend ?? ""),
              h("td", null, graph.mode ?? ""),
              h("td", { class: "mono" }, graph.dynamic.join(", ")),
              [graph.ops, graph.kernels, graph.guards].map((value) =>
                h("td", { class: "num" }, value === null ? "" : count(value)),
              ),
              h("td", { class: "num" }, graph.guard_ns === null ? "" : duration(graph.guard_ns)),
            ),
          ),
        ),
      ),
    ),
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
