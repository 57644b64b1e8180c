// The strips over the rows: the whole trace to brush in, and the ruler with steps, breaks and phases.

import { h } from "../dom.js";
import { duration } from "../format.js";
import { tile } from "../net.js";

/**
 * @typedef {object} Over
 * @property {{ name: string, start_ns: number, end_ns: number }[]} steps
 * @property {{ time_ns: number, row: number, track: number, label: string, why: string | null }[]} breaks
 * @property {{ name: string, id: string | null, start_ns: number, end_ns: number, row: number }[]} phases
 */

/**
 * A canvas that knows its size.
 * @param {HTMLCanvasElement} canvas
 * @param {number} height
 * @param {number} [width]
 */
function prepared(canvas, height, width = canvas.clientWidth) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context?.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement);
  /** @param {string} name */
  const at = (name) => style.getPropertyValue(`--${name}`).trim();
  return { context, width, at };
}

/**
 * @param {import("./view.js").View} view
 * @param {any} trace
 */
export function minimap(view, trace) {
  const height = 44;
  const canvas = h("canvas", {
    role: "slider",
    tabIndex: 0,
    "aria-label": "Shown part of the trace",
    "aria-valuemin": 0,
    "aria-valuemax": 100,
    "aria-valuenow": 0,
  });
  /** @type {import("../net.js").Tile | null} */
  let whole = null;
  /** @type {{ count: number, strip: number[] } | null} */
  let hits = null;
  /** @type {Over | null} */
  let over = null;
  const lanes = pick(trace.rows);

  async function load() {
    const pixels = Math.max(200, canvas.clientWidth);
    const pixel = 2 ** Math.floor(Math.log2((view.high - view.low) / pixels));
    whole = await tile({
      begin: view.low,
      end: view.high,
      pixel: Math.max(pixel, 1e-3),
      lanes: lanes.map((each) => each.lane).sort((one, other) => one - other),
      q: "",
    });
    painted = "";
    draw();
  }

  /** @param {number} time */
  const x = (time) => ((time - view.low) / (view.high - view.low)) * canvas.clientWidth;

  /** What does not move with the view, painted once. */
  const ground = document.createElement("canvas");
  let painted = "";

  function paint() {
    const { context, width, at } = prepared(ground, height, canvas.clientWidth);
    if (!context || !width) return;
    context.fillStyle = at("paper");
    context.fillRect(0, 0, width, height);
    over?.steps.forEach((step, number) => {
      context.fillStyle = at(number % 2 ? "paper" : "raised");
      context.fillRect(x(step.start_ns), 0, Math.max(0.5, x(step.end_ns) - x(step.start_ns)), height);
    });
    if (whole) {
      const share = (whole.pixel / (view.high - view.low)) * width;
      lanes.forEach(({ lane }, number) => {
        const [first, last] = whole?.ranges.get(lane) ?? [0, 0];
        const y = 4 + number * 12;
        for (let piece = first; whole && piece < last; piece++) {
          context.fillStyle = at(`c-${trace.meanings[whole.meaning[piece]].key}`);
          context.globalAlpha = 0.35 + 0.65 * (whole.busy[piece] / 255);
          const from = x(whole.begin) + whole.x0[piece] * share;
          context.fillRect(from, y, Math.max(0.5, (whole.x1[piece] - whole.x0[piece]) * share), 10);
        }
        context.globalAlpha = 1;
      });
    }
    if (hits) {
      const most = Math.max(...hits.strip, 1),
        wide = width / hits.strip.length;
      context.fillStyle = at("c-break");
      hits.strip.forEach((count, bucket) => {
        if (!count) return;
        context.globalAlpha = 0.35 + 0.65 * (count / most);
        context.fillRect(bucket * wide, height - 8, Math.max(1, wide), 8);
      });
      context.globalAlpha = 1;
    }
  }

  function draw() {
    const { context, width, at } = prepared(canvas, height);
    if (!context || !width) return;
    const wanted = `${width} ${window.devicePixelRatio} ${at("paper")}`;
    if (painted !== wanted) {
      painted = wanted;
      paint();
    }
    context.drawImage(ground, 0, 0, width, height);
    const x0 = x(view.begin),
      x1 = Math.max(x0 + 2, x(view.end));
    context.fillStyle = at("ink");
    context.globalAlpha = 0.13;
    context.fillRect(0, 0, Math.max(0, x0), height);
    context.fillRect(x1, 0, Math.max(0, width - x1), height);
    context.globalAlpha = 1;
    context.strokeStyle = at("accent");
    context.lineWidth = 1.5;
    context.strokeRect(x0 + 0.5, 0.75, Math.max(1, x1 - x0 - 1), height - 1.5);
    const middle = (view.begin + view.end) / 2;
    canvas.setAttribute(
      "aria-valuenow",
      String(Math.round(100 * Math.min(1, Math.max(0, (middle - view.low) / (view.high - view.low))))),
    );
    canvas.setAttribute("aria-valuetext", `${duration(view.span)} from ${duration(view.begin)}`);
  }

  /** @param {PointerEvent} event */
  const timeAt = (event) =>
    view.low +
    ((event.clientX - canvas.getBoundingClientRect().left) / canvas.clientWidth) * (view.high - view.low);
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    const began = timeAt(event),
      x0 = x(view.begin),
      x1 = x(view.end),
      at = x(began);
    const narrow = x1 - x0 < 12;
    const hold =
      Math.abs(at - x0) < 5 && !narrow
        ? "begin"
        : Math.abs(at - x1) < 5 && !narrow
          ? "end"
          : at > x0 && at < x1 && x1 - x0 < canvas.clientWidth * 0.9
            ? "pan"
            : "brush";
    let moved = false,
      last = began;
    /** @param {PointerEvent} now */
    const move = (now) => {
      const time = timeAt(now);
      moved ||= Math.abs(x(time) - at) > 3;
      if (!moved) return;
      if (hold === "pan") view.set(view.begin + time - last, view.end + time - last);
      else if (hold === "begin") view.set(Math.min(time, view.end), view.end);
      else if (hold === "end") view.set(view.begin, Math.max(time, view.begin));
      else view.set(Math.min(began, time), Math.max(began, time));
      last = time;
    };
    const up = () => {
      if (!moved) view.set(began - view.span / 2, began + view.span / 2);
      canvas.removeEventListener("pointermove", move);
      canvas.removeEventListener("pointerup", up);
    };
    canvas.addEventListener("pointermove", move);
    canvas.addEventListener("pointerup", up);
  });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -0.25, ArrowRight: 0.25, PageUp: -1, PageDown: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    view.pan(by);
  });
  return {
    element: canvas,
    draw,
    load,
    /** @param {Over} given */
    setOver(given) {
      over = given;
      painted = "";
    },
    /** @param {{ count: number, strip: number[] } | null} given */
    setHits(given) {
      hits = given;
      painted = "";
      draw();
    },
  };
}

/**
 * The lanes that stand for the whole: of the first device stream and of the first CPU threads, as the page orders them.
 * @param {any[]} rows
 */
function pick(rows) {
  /** @param {string} kind @param {number} most */
  const best = (kind, most) =>
    rows
      .filter((row) => row.kind === kind && row.strip !== "other" && row.strip !== "python")
      .slice(0, most)
      .map((row) => ({ lane: row.first }));
  const device = best("device", 1);
  return [...device, ...best("cpu", device.length ? 1 : 2)];
}

/**
 * @param {import("./view.js").View} view
 * @param {{ chosen: (row: number) => void }} does
 */
export function ruler(view, does) {
  const height = 47;
  const canvas = h("canvas", { "aria-hidden": "true" });
  /** @type {Over} */
  let over = { steps: [], breaks: [], phases: [] };
  const shows = { steps: true, breaks: true };
  /** @type {{ begin: number, end: number }[]} */
  let marks = [];

  function draw() {
    const { context, width, at } = prepared(canvas, height);
    if (!context || !width) return;
    context.fillStyle = at("panel");
    context.fillRect(0, 0, width, height);
    context.font = `11px ${at("mono")}`;
    context.textBaseline = "middle";
    const step = nice(view.pixel * 110);
    const from = Math.ceil((view.begin - view.low) / step) * step + view.low;
    const decimals = decimalsOf(step, view);
    for (let time = from; time <= view.end; time += step) {
      const x = view.x(time);
      context.fillStyle = at("strong-line");
      context.fillRect(Math.round(x), 12, 1, 8);
      context.fillStyle = at("quiet");
      const text = decimals(time);
      if (x + 4 + context.measureText(text).width < width) context.fillText(text, x + 4, 9);
    }
    if (shows.steps) {
      context.font = "11px system-ui, sans-serif";
      over.steps.forEach((each, number) => {
        const x0 = Math.max(0, view.x(each.start_ns)),
          x1 = Math.min(width, view.x(each.end_ns));
        if (x1 - x0 < 0.5) return;
        context.fillStyle = at(number % 2 ? "raised" : "line");
        context.fillRect(x0, 21, x1 - x0 - 0.5, 14);
        context.fillStyle = at("ink");
        const text = `${each.name}  ${duration(each.end_ns - each.start_ns)}`;
        if (context.measureText(text).width < x1 - x0 - 12) context.fillText(text, x0 + 6, 28.5);
        else if (context.measureText(each.name).width < x1 - x0 - 12)
          context.fillText(each.name, x0 + 6, 28.5);
      });
    }
    if (shows.breaks) {
      for (const phase of over.phases) {
        const x0 = view.x(phase.start_ns),
          x1 = view.x(phase.end_ns);
        if (x1 < 0 || x0 > width) continue;
        context.fillStyle = at("c-compile");
        context.fillRect(x0, 37, Math.max(1, x1 - x0), 8);
      }
      context.fillStyle = at("c-break");
      for (const each of over.breaks) {
        const x = view.x(each.time_ns);
        if (x < -5 || x > width + 5) continue;
        context.beginPath();
        context.moveTo(x, 36);
        context.lineTo(x + 5, 41);
        context.lineTo(x, 46);
        context.lineTo(x - 5, 41);
        context.fill();
      }
    }
    context.fillStyle = at("accent");
    for (const mark of marks)
      context.fillRect(view.x(mark.begin), 0, Math.max(2, view.x(mark.end) - view.x(mark.begin)), 4);
  }

  /** @param {MouseEvent} event */
  const breakAt = (event) => {
    const x = event.clientX - canvas.getBoundingClientRect().left,
      y = event.clientY - canvas.getBoundingClientRect().top;
    return y < 34 || !shows.breaks
      ? undefined
      : over.breaks.find((each) => Math.abs(view.x(each.time_ns) - x) < 6);
  };
  canvas.addEventListener("mousemove", (event) => {
    const found = breakAt(event);
    canvas.title = found ? `${found.label}${found.why ? `: ${found.why}` : ""}` : "";
    canvas.style.cursor = found ? "pointer" : "col-resize";
  });
  canvas.addEventListener("pointerdown", (event) => {
    const found = breakAt(event);
    if (found) {
      does.chosen(found.row);
      return;
    }
    canvas.setPointerCapture(event.pointerId);
    const began = event.clientX,
      begin = view.begin,
      end = view.end;
    /** @param {PointerEvent} now */
    const move = (now) => {
      const by = ((began - now.clientX) / canvas.clientWidth) * (end - begin);
      view.set(begin + by, end + by);
    };
    const up = () => {
      canvas.removeEventListener("pointermove", move);
      canvas.removeEventListener("pointerup", up);
    };
    canvas.addEventListener("pointermove", move);
    canvas.addEventListener("pointerup", up);
  });
  return {
    element: canvas,
    draw,
    shows,
    /** @param {Over} given */
    setOver(given) {
      over = given;
    },
    /** @param {{ begin: number, end: number }[]} given */
    setMarks(given) {
      marks = given;
    },
  };
}

/** @param {number} least ns */
export function nice(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= least) ?? 10 * power;
}

/**
 * Labels of one ruler: one unit, and as many decimals as tell two ticks apart.
 * @param {number} step
 * @param {import("./view.js").View} view
 */
function decimalsOf(step, view) {
  const largest = Math.max(Math.abs(view.end - view.low), step);
  const [unit, one] =
    largest < 1e3 ? ["ns", 1] : largest < 1e6 ? ["us", 1e3] : largest < 1e9 ? ["ms", 1e6] : ["s", 1e9];
  const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(Number(one) / step) - 1e-9)));
  return (/** @type {number} */ time) =>
    `${((time - view.low) / Number(one)).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${unit}`;
}
