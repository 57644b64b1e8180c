// The frame: waiting for the trace, the bar on top, the pages, and who is shown.

import { read } from "./address.js";
import { append, failure, fill, h, one, tellCut } from "./dom.js";
import { bytes, counted, duration, tail } from "./format.js";
import { get, onGone, post, ServerError, showing } from "./net.js";
import { compilePage } from "./pages/compile.js";
import { kernelsPage } from "./pages/kernels.js";
import { overviewPage } from "./pages/overview.js";
import { queryPage } from "./pages/query.js";
import { perfettoDialog } from "./perfetto.js";
import { timelinePage } from "./timeline/page.js";

/**
 * What every page is given.
 * @typedef {object} App
 * @property {any} trace
 * @property {any} status
 * @property {() => Promise<any>} report
 * @property {() => Promise<any>} overlays
 * @property {() => Promise<any>} analysed
 */

/**
 * A page that is shown.
 * @typedef {object} Page
 * @property {() => void} [leave]
 * @property {(values: Record<string, string>) => void} [moved] the address changed, the page did not
 */

/** @type {Record<string, { title: string, show: (app: App, place: HTMLElement, values: Record<string, string>) => Promise<Page> | Page }>} */
const PAGES = {
  overview: { title: "Overview", show: overviewPage },
  timeline: { title: "Timeline", show: timelinePage },
  compile: { title: "Compile", show: compilePage },
  kernels: { title: "Kernels", show: kernelsPage },
  query: { title: "Query", show: queryPage },
};

/** @type {App | null} */
let app = null;
/** @type {Page | null} */
let shown = null;
let shownName = "";
let turn = 0;

/** Ask until the trace (or its analysis) is there; the server answers when something has changed. */
async function wait(/** @type {(status: any) => boolean} */ done, /** @type {(status: any) => void} */ tell) {
  let seen;
  for (;;) {
    const status = await get("status", { seen });
    tell(status);
    if (status.state === "failed") throw new ServerError(status.error, 400);
    if (done(status)) return status;
    seen = status.state;
  }
}

/** @param {any} status */
function progress(status) {
  const page = one("#page");
  let bar = page.querySelector("progress");
  if (!bar) {
    bar = h("progress", { max: 1, "aria-label": "Reading the trace" });
    fill(
      page,
      h(
        "div",
        { class: "loading" },
        h("h1", null, "Opening the trace"),
        h("p", { class: "mono" }, status.label),
        bar,
        h("p", { class: "quiet", role: "status" }),
      ),
    );
  }
  if (status.total) bar.value = status.done / status.total;
  const said =
    { reading: "Reading", arranging: "Arranging", analysing: "Analysing", ready: "Ready" }[
      /** @type {string} */ (status.state)
    ] ?? status.state;
  const read = status.done
    ? `, ${bytes(status.done)}${status.total ? ` of ${bytes(status.total)}` : ""}`
    : "";
  one(".loading [role=status]", page).textContent = `${said}${status.state === "reading" ? read : ""}`;
}

function top(/** @type {any} */ status) {
  const bar = one("#top");
  fill(bar, h("span", { class: "product" }, "kinetoscope"));
  if (status.inputs.length > 1) {
    const choose = h(
      "select",
      {
        "aria-label": "Trace of this input",
        onchange: async () => {
          await post("choose", { number: Number(choose.value) });
          location.hash = "#/overview";
          location.reload();
        },
      },
      status.inputs.map((/** @type {string} */ label, /** @type {number} */ number) =>
        h("option", { value: String(number), selected: number === status.chosen }, tail(label, 36)),
      ),
    );
    append(bar, [choose]);
  } else {
    append(bar, [h("span", { class: "file", title: status.label }, status.label)]);
  }
}

/** @param {App} now */
async function facts(now) {
  const summary = now.trace.summary;
  const named = summary.devices.find((/** @type {any} */ each) => each.name)?.name;
  // a machine's GPU stands in the file also where nothing ran on it
  const device = summary.device_kind === "cpu" ? "CPU" : (named ?? summary.device_kind ?? "no device");
  const list = h("dl", null);
  /**
   * @param {string} name
   * @param {string} value
   * @param {string} [kind]
   * @param {boolean} [optional]
   */
  const add = (name, value, kind = "", optional = false) =>
    append(list, [
      h("div", { class: optional ? "optional" : "" }, h("dt", null, name), h("dd", { class: kind }, value)),
    ]);
  add("Device", device);
  if (summary.versions.torch) add("torch", summary.versions.torch, "", true);
  if (summary.rank !== null) add("Rank", String(summary.rank), "", true);
  add("Events", counted(summary.events, "event").split(" ")[0], "", true);
  one("#top").append(list);
  const report = await now.report();
  const verdict =
    { yes: "good", partly: "warn", no: "bad", unknown: "quiet" }[
      /** @type {string} */ (report.compiled.verdict)
    ] ?? "";
  const breaks = report.graph_breaks.count;
  const pieces = breaks
    ? `, ${report.graph_breaks.bound === "estimate" ? "about " : ""}${counted(breaks, "graph break")}`
    : "";
  add("Compiled", `${report.compiled.verdict}${pieces}`, pieces ? "warn" : verdict);
  add("Step", report.steps.median_ns === null ? "none found" : duration(report.steps.median_ns));
  const window = report.trace.window;
  if (window) {
    add("Window", `${duration(window.start_ns)} to ${duration(window.end_ns)}`);
    /** @type {HTMLElement} */ (list.lastElementChild).title =
      "Overview, Compile and Kernels speak of this window; Timeline and Query show the whole trace.";
  }
  if (!summary.complete) add("File", "partial: its end is missing", "bad");
}

async function route() {
  if (!app) return;
  const place = read();
  const name = place.page in PAGES ? place.page : "overview";
  if (name === shownName && shown?.moved) {
    shown.moved(place.values);
    return;
  }
  const mine = ++turn;
  shown?.leave?.();
  shown = null;
  shownName = name;
  for (const item of document.querySelectorAll("#rail a")) {
    if (item.getAttribute("data-page") === name) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  }
  document.title = `${PAGES[name].title} · kinetoscope`;
  const page = one("#page");
  page.className = `page-${name}`;
  page.scrollTop = 0;
  const inside = h("div", { class: "inside" });
  fill(page, inside);
  try {
    const made = await PAGES[name].show(app, inside, place.values);
    if (mine === turn) shown = made;
    else made.leave?.();
  } catch (error) {
    if (mine === turn) fill(page, failure(error));
  }
}

async function start() {
  fill(
    one("#rail"),
    Object.entries(PAGES).map(([name, { title }]) => h("a", { href: `#/${name}`, "data-page": name }, title)),
  );
  document.addEventListener("mouseover", tellCut);
  onGone((gone) => {
    let note = document.getElementById("gone");
    if (gone && !note) {
      note = h("div", { id: "gone", role: "alert" }, "The server has stopped: start kinetoscope view again.");
      document.body.append(note);
    } else if (!gone && note) note.remove();
  });
  try {
    let named = false;
    const tell = (/** @type {any} */ status) => {
      if (!named) top(status);
      named = true;
      progress(status);
    };
    const status = await wait((each) => each.state !== "reading" && each.state !== "arranging", tell);
    if (status.inputs.length > 1) showing(status.chosen);
    const trace = await get("trace");
    /** @type {Promise<any> | null} */
    let analysis = null;
    const analysed = () =>
      (analysis ??= wait(
        (each) => each.state === "ready",
        () => {},
      ));
    /** @type {Map<string, Promise<any>>} */
    const kept = new Map();
    /** @param {string} path */
    const once = (path) => {
      const found = kept.get(path) ?? analysed().then(() => get(path));
      kept.set(path, found);
      return found;
    };
    app = { trace, status, report: () => once("report"), overlays: () => once("overlays"), analysed };
    void facts(app).catch(() => {});
    const elsewhere = perfettoDialog(trace);
    document.body.append(elsewhere.element);
    one("#rail").append(
      h("button", { class: "plain elsewhere", onclick: () => elsewhere.show() }, "Open in Perfetto"),
    );
    window.addEventListener("hashchange", () => void route());
    await route();
  } catch (error) {
    fill(one("#page"), failure(error));
  }
}

void start();
