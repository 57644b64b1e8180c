// Every kernel by name.

import { link, note } from "../address.js";
import { fill, h } from "../dom.js";
import { columnUnit, count, counted, duration, inUnit, share } from "../format.js";
import { get } from "../net.js";
import { table } from "./table.js";

/**
 * @param {import("../main.js").App} app
 * @param {HTMLElement} place
 * @param {Record<string, string>} values
 * @returns {Promise<import("../main.js").Page>}
 */
export async function kernelsPage(app, place, values) {
  fill(place, h("p", { class: "waiting", role: "status" }, "Analysing"));
  await app.analysed();
  const data = await get("kernels");
  if (!data.rows.length) {
    fill(
      place,
      h(
        "article",
        { class: "empty" },
        h("h1", null, "No kernels"),
        h("p", null, "This trace holds neither device work nor operators that compute."),
      ),
    );
    return {};
  }
  const unit = columnUnit(Math.max(...data.rows.map((/** @type {any} */ row) => row.total_ns)));
  const each = columnUnit(Math.max(...data.rows.map((/** @type {any} */ row) => row.max_ns)));
  /** @type {import("./table.js").Column<any>} */
  const bandwidth = {
    title: "GB/s",
    number: true,
    value: (row) => row.gb_per_s,
    show: (row) => (row.gb_per_s === null ? "" : Math.round(row.gb_per_s).toLocaleString("en-US")),
  };
  const shown = table({
    label: "Kernels",
    by: 4,
    chosen: (/** @type {any} */ row) => {
      location.hash = link("timeline", { sel: row.row, zoom: 1 });
    },
    columns: [
      {
        title: "Kernel",
        class: "name mono",
        value: (row) => row.short,
        show: (row) => [
          h("span", { class: `swatch m-${data.meanings[row.meaning]}` }),
          h(
            "a",
            { href: link("timeline", { sel: row.row, zoom: 1 }), title: `${row.name}: show its longest run` },
            row.short.trim() || "(no name)",
          ),
          row.source.length ? h("span", { class: "quiet source" }, sources(row.source)) : null,
        ],
      },
      {
        title: "Who wrote it",
        class: "who",
        value: (row) => row.origin,
        show: (row) => (row.replay ? `${row.origin}, replayed` : row.origin),
      },
      { title: "Kind", value: (row) => row.kind },
      { title: "Runs", number: true, value: (row) => row.count, show: (row) => count(row.count) },
      {
        title: `Total, ${unit.unit}`,
        number: true,
        value: (row) => row.total_ns,
        show: (row) => inUnit(row.total_ns, unit),
      },
      { title: "Share", number: true, value: (row) => row.share, show: (row) => share(row.share) },
      {
        title: `Mean, ${each.unit}`,
        number: true,
        value: (row) => row.mean_ns,
        show: (row) => inUnit(row.mean_ns, each),
      },
      {
        title: `Longest, ${each.unit}`,
        number: true,
        value: (row) => row.max_ns,
        show: (row) => inUnit(row.max_ns, each),
      },
      { title: "Spread", unsorted: true, value: () => null, show: (row) => histogram(row) },
      ...(data.rows.some((/** @type {any} */ row) => row.gb_per_s !== null) ? [bandwidth] : []),
      {
        title: "Region",
        class: "mono region",
        value: (row) => row.region,
        show: (row) => [
          row.region,
          row.regions > 1
            ? h("span", { class: "quiet", title: "most of its runs; and other regions" }, ` +${row.regions - 1}`)
            : null,
        ],
      },
      { title: "Operator", class: "mono op", value: (row) => row.op },
    ],
  });
  const origins = [...new Set(data.rows.map((/** @type {any} */ row) => row.origin))].sort();
  const kinds = [...new Set(data.rows.map((/** @type {any} */ row) => row.kind))].sort();
  const text = h("input", {
    type: "search",
    "aria-label": "Filter kernels by name, operator or region",
    placeholder: "Filter by name, operator, region",
    value: values.q ?? "",
    oninput: apply,
  });
  const origin = select("Who wrote it", origins, values.origin);
  const kind = select("Kind", kinds, values.kind);
  const said = h("p", { class: "quiet", role: "status" });

  /**
   * @param {string} label
   * @param {string[]} options
   * @param {string | undefined} chosen
   */
  function select(label, options, chosen) {
    return h(
      "select",
      { "aria-label": label, onchange: apply },
      h("option", { value: "" }, `${label}: all`),
      options.map((option) => h("option", { value: option, selected: option === chosen }, option)),
    );
  }

  function apply() {
    const wanted = text.value.trim().toLowerCase();
    const rows = data.rows.filter(
      (/** @type {any} */ row) =>
        (!origin.value || row.origin === origin.value) &&
        (!kind.value || row.kind === kind.value) &&
        (!wanted || `${row.name}\n${row.op ?? ""}\n${row.region ?? ""}`.toLowerCase().includes(wanted)),
    );
    shown.show(rows);
    const total = rows.reduce((/** @type {number} */ sum, /** @type {any} */ row) => sum + row.total_ns, 0);
    const runs = rows.reduce((/** @type {number} */ sum, /** @type {any} */ row) => sum + row.count, 0);
    said.textContent = `${counted(rows.length, "kernel")} of ${count(data.names)}, ${counted(runs, "run")}, ${duration(total)}${data.in_window ? ", in the window" : ""}`;
    note("kernels", { q: text.value, origin: origin.value, kind: kind.value });
  }

  fill(
    place,
    h(
      "article",
      { class: "full" },
      h(
        "div",
        { class: "tools" },
        h("h1", null, data.on_device ? "Kernels" : "Kernels and operators on the CPU"),
        text,
        origin,
        kind,
        said,
      ),
      shown.element,
    ),
  );
  apply();
  return {};
}

/** @param {{ where: string }[]} lines */
function sources(lines) {
  const places = lines.map((line) => line.where.split("/").pop() ?? line.where);
  return `${places.slice(0, 3).join(", ")}${places.length > 3 ? ` and ${places.length - 3} more` : ""}`;
}

/** @param {any} row */
function histogram(row) {
  const most = Math.max(...row.bins, 1);
  const said = `${duration(row.min_ns)} to ${duration(row.max_ns)}`;
  return h(
    "span",
    { class: "bins", role: "img", "aria-label": `from ${said}`, title: said },
    row.bins.map((/** @type {number} */ bin) =>
      h("span", { style: { height: `${bin ? Math.max(2, Math.round((bin / most) * 16)) : 0}px` } }),
    ),
  );
}
