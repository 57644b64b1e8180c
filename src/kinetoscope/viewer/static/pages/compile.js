// Compilation: what took how long, which frames there are, where they break and why they were compiled again.

import { link } from "../address.js";
import { fill, h } from "../dom.js";
import { count, counted, duration } from "../format.js";
import { get } from "../net.js";
import { caches, graphs } from "./graphs.js";
import { framedTable } from "./table.js";
import { waterfall } from "./waterfall.js";

/**
 * @param {import("../main.js").App} app
 * @param {HTMLElement} place
 * @returns {Promise<import("../main.js").Page>}
 */
export async function compilePage(app, place) {
  fill(place, h("p", { class: "waiting", role: "status" }, "Analysing"));
  await app.analysed();
  const data = await get("compile");
  const falls = data.waterfall.phases.length ? waterfall(data.waterfall) : null;
  fill(
    place,
    h(
      "article",
      { class: "full compile" },
      h("h1", null, headline(data)),
      h(
        "section",
        { "aria-labelledby": "phases" },
        h("h2", { id: "phases" }, "Phases over time"),
        falls
          ? falls.element
          : h(
              "p",
              { class: "quiet" },
              "No compile phase was recorded in this trace. To see why compiling takes long, profile the first call.",
            ),
      ),
      frames(data),
      regions(data),
      breaks(data),
      recompiles(data),
      graphs(data),
      caches(data),
    ),
  );
  falls?.draw();
  return { leave: falls?.leave };
}

/** @param {any} data */
function headline(data) {
  if (data.total_ns === null) return "This trace does not tell how long compiling took";
  const inside = data.in_window_ns ?? data.total_ns;
  if (!inside)
    return data.total_ns
      ? `Nothing was compiled while recording; ${duration(data.total_ns)} before it`
      : "Nothing was compiled while recording";
  return `Compiling took ${duration(inside)} of the ${duration(data.span_ns)} recorded`;
}

/** @param {any} each */
const place = (each) => (each.file ? `${each.file}${each.line ? `:${each.line}` : ""}` : "");

/** @type {import("./table.js").PlainColumn<any>[]} */
const FRAMES = [
  { title: "Id", class: "mono", show: (frame) => frame.id ?? "unknown" },
  { title: "Function", class: "mono", show: (frame) => frame.function },
  { title: "Where", class: "mono", show: place },
  { title: "Time", number: true, show: (frame) => duration(frame.total_ns) },
  {
    title: "Most of it in",
    class: "mono quiet wrap",
    show: (frame) =>
      frame.phases
        .slice(0, 3)
        .map((/** @type {any} */ phase) => `${phase.name} ${duration(phase.self_ns)}`)
        .join(", "),
  },
];

/** @type {import("./table.js").PlainColumn<any>[]} */
const REGIONS = [
  {
    title: "Region",
    class: "mono",
    show: (node) => [
      h("span", { class: "indent", style: { width: `${Math.min(node.level, 12) * 16}px` } }),
      node.level ? "└ " : "",
      h(
        "a",
        {
          href: link("timeline", { sel: node.row, zoom: 1 }),
          title: "Show its first call",
        },
        node.region.id.trim() || "(no id)",
      ),
    ],
  },
  { title: "Function", class: "mono", show: (node) => node.region.function },
  { title: "Where", class: "mono", show: (node) => place(node.region) },
  { title: "Calls", number: true, show: (node) => count(node.region.calls) },
  { title: "Total", number: true, show: (node) => duration(node.region.total_ns) },
  { title: "Self", number: true, show: (node) => duration(node.region.self_ns) },
  { title: "Device", number: true, show: (node) => duration(node.region.device_ns) },
];

/** @param {any} data */
function frames(data) {
  if (!data.frames.length) return null;
  return h(
    "section",
    { "aria-labelledby": "frames" },
    h("h2", { id: "frames" }, "Frames by compile time"),
    framedTable("Frames by compile time", FRAMES, data.frames.slice(0, 200)),
  );
}

/** @param {any} data */
function regions(data) {
  const title = h("h2", { id: "regions" }, "Compiled regions");
  if (!data.tree.length)
    return h(
      "section",
      { "aria-labelledby": "regions" },
      title,
      h("p", { class: "quiet" }, "No compiled region ran in this trace."),
    );
  return h(
    "section",
    { "aria-labelledby": "regions" },
    title,
    h(
      "p",
      { class: "quiet" },
      "A region inside another goes on after a graph break. CPU time of all calls; device: the work launched while the region was innermost.",
    ),
    framedTable("Compiled regions", REGIONS, data.tree),
  );
}

/**
 * Places that are listed with the breaks and are not counted as one.
 * @param {any[]} sites
 */
function others(sites) {
  const number = sites.filter((site) => site.kind !== "break").length;
  return number ? `, and ${counted(number, "other place")} where code is left` : "";
}

/** @param {any} data */
function breaks(data) {
  const found = data.breaks;
  const kinds = /** @type {Record<string, string>} */ ({
    break: "Graph break",
    skipped_frame: "Frame skipped",
    limit: "Recompile limit",
    framework: "In torch's own code",
  });
  const title = h(
    "h2",
    { id: "breaks" },
    found.count === null
      ? "Graph breaks: this trace does not tell"
      : `${counted(found.count, "graph break")}${found.bound === "estimate" && found.count ? ", an estimate from the trace alone" : ""}${others(found.sites)}`,
  );
  if (!found.sites.length) return h("section", { "aria-labelledby": "breaks" }, title);
  return h(
    "section",
    { "aria-labelledby": "breaks" },
    title,
    h(
      "ul",
      { class: "sites" },
      found.sites.map((/** @type {any} */ site) =>
        h(
          "li",
          null,
          h(
            "h3",
            null,
            h("span", { class: "diamond", "aria-hidden": "true" }),
            `${kinds[site.kind] ?? site.kind} `,
            h("span", { class: "mono" }, place(site) || `between ${site.regions.join(" and ")}`),
            site.function ? ` in ${site.function}` : "",
          ),
          h(
            "p",
            null,
            site.reason ??
              "The reason stands in the compile log only: kinetoscope run records it, and view --compile-log joins it.",
            site.gb_id ? h("span", { class: "quiet" }, ` (${site.gb_id})`) : null,
          ),
          h(
            "p",
            { class: "quiet" },
            [
              site.hits !== null ? `passed ${counted(site.hits, "time")}` : null,
              site.cost_ns_per_step !== null ? `${duration(site.cost_ns_per_step)} of CPU time a step` : null,
            ]
              .filter(Boolean)
              .join(", "),
          ),
          record(data.records[place(site)]),
        ),
      ),
    ),
  );
}

/**
 * The way to a break in the program's source, and what PyTorch hints at.
 * @param {any} told
 */
function record(told) {
  if (!told) return null;
  const lines = told.stack.filter((/** @type {any} */ frame) => frame.code);
  return [
    lines.length
      ? h(
          "ol",
          { class: "excerpt mono" },
          lines.map((/** @type {any} */ frame) =>
            h(
              "li",
              null,
              h("span", { class: "quiet" }, `${frame.where} in ${frame.function}`),
              h("code", null, frame.code.trim()),
            ),
          ),
        )
      : null,
    told.hints.length
      ? h(
          "details",
          null,
          h("summary", null, "PyTorch's hints"),
          told.explanation ? h("p", null, told.explanation) : null,
          h(
            "ul",
            null,
            told.hints.map((/** @type {string} */ hint) => h("li", null, hint)),
          ),
        )
      : null,
  ];
}

/** @param {any} data */
function recompiles(data) {
  const found = data.recompiles;
  const title = h(
    "h2",
    { id: "recompiles" },
    found.count === null ? "Recompilations: this trace does not tell" : counted(found.count, "recompilation"),
  );
  return h(
    "section",
    { "aria-labelledby": "recompiles" },
    title,
    found.sites.length
      ? h(
          "ul",
          { class: "sites" },
          found.sites.map((/** @type {any} */ site) =>
            h(
              "li",
              null,
              h("h3", { class: "mono" }, `${site.function ?? "a function"} ${place(site)}`),
              h(
                "p",
                { class: "quiet" },
                `${site.ids.join(", ")}${site.compile_ns !== null ? `, ${duration(site.compile_ns)}` : ""}`,
              ),
              h(
                "ul",
                { class: "mono" },
                site.reasons.map((/** @type {string} */ reason) => h("li", null, reason)),
              ),
            ),
          ),
        )
      : null,
  );
}
