// Two borders that can be dragged (or moved with arrow keys): names and details.

import { h } from "../dom.js";

/**
 * @param {HTMLElement} element
 * @param {HTMLElement} body
 * @param {() => void} changed
 */
export function splitters(element, body, changed) {
  /**
   * @param {string} name of the style property
   * @param {number} start
   * @param {[number, number]} limits
   * @param {string} label
   * @param {boolean} vertical
   */
  function make(name, start, limits, label, vertical) {
    let size = start;
    const bar = h("div", {
      class: vertical ? "splitter" : "split",
      role: "separator",
      tabIndex: 0,
      "aria-label": label,
      "aria-orientation": vertical ? "horizontal" : "vertical",
      "aria-valuemin": limits[0],
      "aria-valuemax": limits[1],
      "aria-valuenow": start,
    });
    /** @param {number} wanted */
    const set = (wanted) => {
      size = Math.round(
        Math.min(
          Math.max(wanted, limits[0]),
          vertical ? Math.min(limits[1], element.clientHeight - 260) : limits[1],
        ),
      );
      if (vertical) element.classList.remove("closed");
      element.style.setProperty(name, `${size}px`);
      bar.setAttribute("aria-valuenow", String(size));
      changed();
    };
    /** What it is now: until it was moved, the style or what it holds decides. */
    const now = () => {
      const part = element.querySelector(vertical ? ".details" : ".names:not(.pinned)");
      if (!(part instanceof HTMLElement)) return size;
      return vertical ? part.clientHeight : part.offsetWidth;
    };
    bar.addEventListener("focus", () => bar.setAttribute("aria-valuenow", String(now())));
    bar.addEventListener("pointerdown", (event) => {
      bar.setPointerCapture(event.pointerId);
      const from = vertical ? event.clientY : event.clientX,
        before = now();
      /** @param {PointerEvent} at */
      const move = (at) => set(before + (vertical ? from - at.clientY : at.clientX - from));
      const up = () => {
        bar.removeEventListener("pointermove", move);
        bar.removeEventListener("pointerup", up);
      };
      bar.addEventListener("pointermove", move);
      bar.addEventListener("pointerup", up);
      event.preventDefault();
    });
    bar.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -16, ArrowRight: 16, ArrowUp: 16, ArrowDown: -16 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      set(now() + by);
    });
    return bar;
  }
  body.append(make("--names", 220, [80, 560], "Width of the track names", false));
  return { bottom: make("--details", 240, [60, 900], "Height of the details", true) };
}
