// Handing the trace to another viewer, which is a page elsewhere: only when asked, and saying where it goes.

import { read } from "./address.js";
import { fill, h } from "./dom.js";
import { bytes, counted, duration } from "./format.js";
import { address } from "./net.js";

const ADDRESS = "https://ui.perfetto.dev";
const PATIENCE_MS = 60_000;

/** beyond so many events the other page, which holds them all in the browser, may give up */
const MANY = 2_000_000;

/** @param {any} trace */
export function perfettoDialog(trace) {
  const said = h("p", { class: "quiet", role: "status" });
  const open = h("button", { class: "main", onclick: () => void hand() }, "Open");
  const save = h("a", { class: "button plain", download: "" }, "Save as a file");
  const choices = h("fieldset", null);
  const dialog = h(
    "dialog",
    { "aria-labelledby": "perfetto-title", class: "perfetto" },
    h("h2", { id: "perfetto-title" }, "Open in Perfetto"),
    h(
      "p",
      null,
      "Perfetto is another trace viewer, a page at ui.perfetto.dev. This loads that page in a new tab and hands it the trace inside your browser.",
    ),
    choices,
    h(
      "p",
      null,
      "By its own word that page works in your browser and uploads nothing, but it is not part of kinetoscope. Nothing leaves this machine before you press Open.",
    ),
    trace.summary.complete
      ? null
      : h(
          "p",
          { class: "bad" },
          "Partial: the end of this trace's file is missing. What is handed over says so too, in its header and at its end.",
        ),
    said,
    h("div", { class: "tools" }, open, save, h("button", { onclick: () => dialog.close() }, "Cancel")),
  );

  /** What can be handed over, from where; made anew whenever the dialog opens. */
  function offer() {
    const { page, values } = read();
    const events = trace.summary.events;
    const big = events > MANY ? ` (${counted(events, "event")}: that page may not hold them)` : "";
    /** @type {[string, string][]} */
    const offers = [[`The whole trace, with what was found in it${big}`, "export"]];
    if (page === "timeline" && values.b && values.e) {
      const begin = Math.max(Number(values.b), trace.begin_ns),
        end = Math.min(Number(values.e), trace.end_ns);
      const all = begin <= trace.begin_ns && end >= trace.end_ns;
      if (end > begin && !all)
        offers.unshift([
          `The ${duration(end - begin)} that the timeline shows, with what was found in it`,
          `export?begin=${begin}&end=${end}`,
        ]);
    }
    offers.push(["The file as it is", "file"]);
    fill(
      choices,
      h("legend", null, "What is handed over"),
      offers.map(([label, value], number) =>
        h(
          "label",
          null,
          h("input", { type: "radio", name: "what", value, checked: number === 0, onchange: chosen }),
          ` ${label}`,
        ),
      ),
      h(
        "p",
        { class: "quiet" },
        "What was found: tracks for steps, idle time by cause, graph breaks, compile phases and regions; and in the args of kernels their origin, region, step and source lines.",
      ),
    );
    chosen();
  }

  const what = () => /** @type {HTMLInputElement} */ (choices.querySelector("input:checked")).value;

  function where() {
    const [path, query] = what().split("?", 2);
    return address(path, Object.fromEntries(new URLSearchParams(query ?? "")));
  }

  function chosen() {
    fill(said);
    save.href = where();
    save.download = what() === "file" ? title() : `${title().replace(/\.json(\.gz)?$/, "")}.kinetoscope.json.gz`;
  }

  const title = () => trace.summary.path.split("/").pop() ?? "trace";

  async function hand() {
    open.disabled = true;
    // in the same turn as the click, or the browser takes it for an unwanted window
    const other = window.open(ADDRESS, "_blank");
    try {
      if (!other) throw new Error("the browser did not open the page; allow this page to open windows");
      fill(said, "Reading the trace");
      const response = await fetch(where());
      if (!response.ok) throw new Error((await response.json()).error);
      const buffer = await response.arrayBuffer();
      fill(said, `Handing over ${bytes(buffer.byteLength)}`);
      await answered(other);
      other.postMessage({ perfetto: { buffer, title: title() } }, ADDRESS, [buffer]);
      fill(said, "Handed over.");
      dialog.close();
    } catch (error) {
      fill(said, error instanceof Error ? error.message : String(error));
    }
    open.disabled = false;
  }

  return {
    element: dialog,
    show() {
      offer();
      dialog.showModal();
    },
  };
}

/**
 * Ask the other page until it answers that it listens.
 * @param {Window} other
 * @returns {Promise<void>}
 */
function answered(other) {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    const timer = setInterval(() => {
      if (other.closed || performance.now() - began > PATIENCE_MS) {
        done();
        reject(new Error("the page did not answer; is this machine online?"));
      } else other.postMessage("PING", ADDRESS);
    }, 100);
    /** @param {MessageEvent} event */
    const heard = (event) => {
      if (event.source !== other || event.data !== "PONG") return;
      done();
      resolve();
    };
    const done = () => {
      clearInterval(timer);
      window.removeEventListener("message", heard);
    };
    window.addEventListener("message", heard);
  });
}
