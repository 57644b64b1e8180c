// The buttons over the rows: what is laid over the timeline, and which tracks are shown.

import { h } from "../dom.js";

/**
 * @param {object} parts
 * @param {import("./view.js").View} parts.view
 * @param {import("./rows.js").Rows} parts.rows
 * @param {import("./arrows.js").AllArrows} parts.all
 * @param {{ steps: boolean, breaks: boolean }} parts.shows what is drawn over the rows and in the ruler
 * @param {HTMLElement} parts.finder the search
 * @param {() => void} parts.arranged rows have changed
 * @param {() => void} parts.redraw
 * @param {() => void} parts.help
 */
export function toolbar({ view, rows, all, shows, finder, arranged, redraw, help }) {
  const waiting = h("span", { class: "quiet", role: "status" }, "Analysing");
  const span = h("span", { class: "span", "aria-label": "Shown time" });

  /**
   * @param {string} label
   * @param {boolean} on
   * @param {string} title
   * @param {(on: boolean) => void} does
   */
  function toggle(label, on, title, does) {
    const button = h("button", { "aria-pressed": String(on), title, onclick: flip }, label);
    function flip() {
      const now = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(now));
      does(now);
      redraw();
    }
    return button;
  }

  function rearrange() {
    rows.layout();
    arranged();
  }

  const arrows = "Arrows from every launch to its device work, and from forward to backward (l)";
  const flows = toggle("All arrows", false, arrows, (on) => {
    all.on = on;
    void all.want();
  });
  const overlays = [
    toggle("Steps", true, "Steps in the ruler and behind the rows", (on) => {
      shows.steps = on;
    }),
    toggle("Breaks, phases", true, "Graph breaks and compile phases", (on) => {
      shows.breaks = on;
    }),
    toggle("Idle", true, "Idle time of the devices by cause", (on) => {
      rows.withIdle = on;
      rearrange();
    }),
    toggle("Counters", true, "Memory, queue depth and the file's own counters", (on) => {
      rows.withCounters = on;
      rearrange();
    }),
  ];
  const unhide = h("button", { hidden: true, onclick: showHidden });
  function showHidden() {
    rows.hidden.clear();
    rearrange();
  }
  const filter = h("input", {
    type: "search",
    placeholder: "Filter tracks",
    "aria-label": "Filter tracks by name",
    oninput: () => {
      rows.filter = filter.value;
      rearrange();
    },
  });
  const all_ = h("button", { title: "Show everything (0)", onclick: () => view.all() }, "Fit all");
  const keys = h(
    "button",
    { "aria-label": "Keys and colours", title: "Keys and colours (?)", onclick: help },
    "?",
  );
  const right = h("div", { class: "right" }, waiting, span, unhide, all_, flows, overlays, keys);
  return {
    element: h("div", { class: "bar-tools" }, finder, right),
    filter,
    flows,
    span,
    /** The analysis is there. */
    ready() {
      waiting.remove();
    },
    /** How many tracks are hidden may have changed. */
    count() {
      unhide.hidden = !rows.hidden.size;
      unhide.textContent = `Show ${rows.hidden.size} hidden`;
    },
  };
}
