// Compile phases as they followed each other: one row a nesting depth, time from left to right.

import { link } from "../address.js";
import { fill, framed, h, visible } from "../dom.js";
import { counted, duration } from "../format.js";

const ROW = 18;

/** @param {{ total: number, phases: any[] }} data */
export function waterfall(data) {
  const phases = data.phases;
  const begin = Math.min(...phases.map((phase) => phase.start_ns));
  // phases without any length still have a place
  const end = Math.max(begin + 1, ...phases.map((phase) => phase.start_ns + phase.dur_ns));
  const depth = Math.max(...phases.map((phase) => phase.depth)) + 1;
  const canvas = h("canvas", { "aria-hidden": "true" });
  const said = h(
    "p",
    { class: "quiet mono", role: "status" },
    `${counted(phases.length, "phase")}${data.total > phases.length ? ` (the longest of ${data.total})` : ""}, ${duration(end - begin)}; point at one for its name, click to see it in the timeline`,
  );
  const longest = [...phases].sort((one, other) => other.self_ns - one.self_ns).slice(0, 12);
  const element = h(
    "div",
    { class: "waterfall" },
    h("div", { class: "canvas" }, canvas),
    said,
    h(
      "details",
      null,
      h("summary", null, "Phases with most time of their own"),
      h(
        "ol",
        null,
        longest.map((phase) =>
          h(
            "li",
            null,
            h("a", { class: "mono", href: link("timeline", { sel: phase.row, zoom: 1 }) }, phase.name),
            ` ${duration(phase.self_ns)} of ${duration(phase.dur_ns)}`,
            phase.id ? h("span", { class: "quiet" }, ` compile ${phase.id}`) : null,
          ),
        ),
      ),
    ),
  );

  function draw() {
    const width = element.clientWidth,
      height = depth * ROW + 2,
      ratio = window.devicePixelRatio || 1;
    if (!width) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    if (!context) return;
    const style = getComputedStyle(document.documentElement);
    context.scale(ratio, ratio);
    context.font = `11px ${style.getPropertyValue("--mono")}`;
    const letter = context.measureText("m").width;
    for (const phase of phases) {
      const x = ((phase.start_ns - begin) / (end - begin)) * width;
      const w = Math.max(1, (phase.dur_ns / (end - begin)) * width - 0.5);
      context.fillStyle = style.getPropertyValue("--c-compile");
      context.globalAlpha = phase.depth % 2 ? 0.7 : 1;
      context.fillRect(x, phase.depth * ROW, w, ROW - 1);
      context.globalAlpha = 1;
      const letters = Math.floor((w - 6) / letter);
      if (letters > 3) {
        context.fillStyle = "#0b0e11";
        const name = visible(phase.name);
        const text =
          phase.id && letters > name.length + phase.id.length + 1 ? `${name} ${phase.id}` : name;
        context.fillText(
          text.length > letters ? `${text.slice(0, letters - 1)}…` : text,
          x + 3,
          phase.depth * ROW + 13,
        );
      }
    }
  }

  /** @param {MouseEvent} event */
  function at(event) {
    const box = canvas.getBoundingClientRect();
    const time = begin + ((event.clientX - box.left) / box.width) * (end - begin);
    const row = Math.floor((event.clientY - box.top) / ROW);
    const slack = ((end - begin) / box.width) * 2;
    return phases.find(
      (phase) =>
        phase.depth === row &&
        time >= phase.start_ns - slack &&
        time <= phase.start_ns + phase.dur_ns + slack,
    );
  }
  canvas.addEventListener("mousemove", (event) => {
    const phase = at(event);
    canvas.style.cursor = phase ? "pointer" : "default";
    if (phase)
      fill(
        said,
        `${phase.name}: ${duration(phase.dur_ns)}, ${duration(phase.self_ns)} of its own${phase.id ? `, compile ${phase.id}` : ""}`,
      );
  });
  canvas.addEventListener("click", (event) => {
    const phase = at(event);
    if (phase) location.hash = link("timeline", { sel: phase.row, zoom: 1 });
  });
  const again = framed(draw);
  window.addEventListener("resize", again);
  return { element, draw, leave: () => window.removeEventListener("resize", again) };
}
