// Colours by meaning, read from the style sheet so that the page and the canvas agree, in both themes.

/**
 * @typedef {object} Theme
 * @property {string[]} fill colour of each meaning
 * @property {string[]} ink readable text on it
 * @property {CanvasPattern | null} idle
 * @property {(name: string) => string} at a named colour of the style sheet
 */

/** @param {string} color as the browser writes it */
function luminance(color) {
  const parts = (color.match(/[\d.]+/g) ?? ["0", "0", "0"]).slice(0, 3).map((part) => {
    const value = Number(part) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
}

/**
 * @param {{ key: string }[]} meanings
 * @param {CanvasRenderingContext2D} context
 * @param {number} ratio device pixels a pixel
 * @returns {Theme}
 */
export function theme(meanings, context, ratio) {
  const style = getComputedStyle(document.documentElement);
  /** @type {Map<string, string>} */
  const known = new Map();
  /** @param {string} name */
  const at = (name) => {
    let color = known.get(name);
    if (color === undefined) {
      color = style.getPropertyValue(`--${name}`).trim();
      known.set(name, color);
    }
    return color;
  };
  const probe = document.createElement("span");
  document.body.append(probe);
  /** @param {string} color */
  const plain = (color) => {
    probe.style.color = color;
    return getComputedStyle(probe).color;
  };
  const fills = meanings.map(({ key }) => plain(at(`c-${key}`) || at("c-other")));
  probe.remove();
  const ink = fills.map((color) => {
    const light = luminance(color);
    return 1.05 / (light + 0.05) > (light + 0.05) / 0.055 ? "#ffffff" : "#0b0e11";
  });
  return { fill: fills, ink, idle: hatch(context, at("c-idle"), at("c-idle-line"), ratio), at };
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {string} ground
 * @param {string} line
 * @param {number} ratio
 */
function hatch(context, ground, line, ratio) {
  const size = Math.max(4, Math.round(5 * ratio));
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const inside = canvas.getContext("2d");
  if (!inside) return null;
  inside.fillStyle = ground;
  inside.fillRect(0, 0, size, size);
  inside.strokeStyle = line;
  inside.lineWidth = ratio;
  for (const shift of [-size, 0, size]) {
    inside.beginPath();
    inside.moveTo(shift - 1, size + 1);
    inside.lineTo(shift + size + 1, -1);
    inside.stroke();
  }
  const pattern = context.createPattern(canvas, "repeat");
  pattern?.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}
