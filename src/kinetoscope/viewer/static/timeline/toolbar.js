// The buttons over the rows: what is laid over the timeline, and which tracks are shown.

import { h } from "../dom.js";

/**
 * @param {object} parts
 * @param {import("./view.js").View} parts.view
 * @param {import("./rows.js").Rows} parts.rows
 * @param {import("./arrows.js").AllArrows} parts.all
 * @param {{ steps: boolean, breaks: boolean }} parts.shows what is drawn over the rows and in the ruler
 * @param {HTMLElement} parts.finder the search
 * @param {() => void} parts.arranged a person has arranged the rows
 * @param {() => void} parts.laid there are others, or at another place
 * @param {() => void} parts.switched a person has switched an overlay
 * @param {() => void} parts.redraw
 * @param {() => void} parts.help
 */
export function toolbar({ view, rows, all, shows, finder, arranged, laid, switched, redraw, help }) {
  const waiting = h("span", { class: "quiet", role: "status" }, "Analysing");
  const span = h("span", { class: "span", "aria-label": "Shown time" });

  /** @type {Map<string, { usual: boolean, isOn: () => boolean, flip: () => void }>} */
  const toggles = new Map();

  /**
   * @param {string} name in the address
   * @param {string} label
   * @param {boolean} usual
   * @param {string} title
   * @param {(on: boolean) => void} does
   */
  function toggle(name, label, usual, title, does) {
    const click = () => {
      flip();
      switched();
    };
    const button = h("button", { "aria-pressed": String(usual), title, onclick: click }, label);
    const isOn = () => button.getAttribute("aria-pressed") === "true";
    function flip() {
      const now = !isOn();
      button.setAttribute("aria-pressed", String(now));
      does(now);
      redraw();
    }
    toggles.set(name, { usual, isOn, flip });
    return button;
  }

  function rearrange() {
    rows.layout();
    arranged();
  }

  const arrows = "Arrows from every launch to its device work, and from forward to backward (l)";
  const flows = toggle("arrows", "All arrows", false, arrows, (on) => {
    all.on = on;
    void all.want();
  });
  const overlays = [
    toggle("steps", "Steps", true, "Steps in the ruler and behind the rows", (on) => {
      shows.steps = on;
    }),
    toggle("breaks", "Breaks, phases", true, "Graph breaks and compile phases", (on) => {
      shows.breaks = on;
    }),
    toggle("idle", "Idle", true, "Idle time of the devices by cause", (on) => {
      rows.withIdle = on;
      rows.layout();
      laid();
    }),
    toggle("counters", "Counters", true, "Memory, queue depth and the file's own counters", (on) => {
      rows.withCounters = on;
      rows.layout();
      laid();
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
    /** What is not as usual, for the address. */
    text: () =>
      [...toggles]
        .filter(([, each]) => each.isOn() !== each.usual)
        .map(([name]) => name)
        .join("~"),
    /** @param {string | undefined} text switch them as an address says */
    arrange(text) {
      const unusual = new Set(text?.split("~"));
      for (const [name, each] of toggles) {
        if (each.isOn() !== (each.usual !== unusual.has(name))) each.flip();
      }
    },
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
