// Handing the trace to another viewer, which is a page elsewhere: only when asked, and saying where it goes.

import { fill, h } from "./dom.js";
import { bytes } from "./format.js";

const ADDRESS = "https://ui.perfetto.dev";
const PATIENCE_MS = 60_000;

/** @param {any} trace */
export function perfettoDialog(trace) {
  const said = h("p", { class: "quiet", role: "status" });
  const open = h("button", { class: "main", onclick: () => void hand() }, "Open");
  const dialog = h(
    "dialog",
    { "aria-labelledby": "perfetto-title" },
    h("h2", { id: "perfetto-title" }, "Open in Perfetto"),
    h(
      "p",
      null,
      "Perfetto is another trace viewer, a page at ui.perfetto.dev. This loads that page in a new tab and hands it the trace file inside your browser.",
    ),
    h(
      "p",
      null,
      "By its own word that page works in your browser and uploads nothing, but it is not part of kinetoscope. Nothing leaves this machine before you press Open.",
    ),
    said,
    h("div", { class: "tools" }, open, h("button", { onclick: () => dialog.close() }, "Cancel")),
  );

  async function hand() {
    open.disabled = true;
    // in the same turn as the click, or the browser takes it for an unwanted window
    const other = window.open(ADDRESS, "_blank");
    try {
      if (!other) throw new Error("the browser did not open the page; allow this page to open windows");
      fill(said, "Reading the file");
      const response = await fetch("api/file");
      if (!response.ok) throw new Error((await response.json()).error);
      const buffer = await response.arrayBuffer();
      fill(said, `Handing over ${bytes(buffer.byteLength)}`);
      await answered(other);
      const title = trace.summary.path.split("/").pop() ?? "trace";
      other.postMessage({ perfetto: { buffer, title } }, ADDRESS, [buffer]);
      fill(said, "Handed over.");
      dialog.close();
    } catch (error) {
      fill(said, error instanceof Error ? error.message : String(error));
    }
    open.disabled = false;
  }
  return dialog;
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
