// Keys of the timeline. A held key goes on smoothly; one press is one step.

const STEP = { zoom: 1.3, pan: 0.15, fast: 3 };
const HELD_AFTER_MS = 160;

/**
 * What keys do, beyond zooming and panning.
 * @typedef {object} Actions
 * @property {() => void} fit
 * @property {() => void} all
 * @property {(forward: boolean) => void} neighbour
 * @property {(by: number) => void} vertical
 * @property {() => boolean} selected whether arrow keys go from event to event rather than scroll
 * @property {(forward: boolean) => void} follow
 * @property {() => void} search
 * @property {(forward: boolean) => void} hit
 * @property {() => void} mark
 * @property {() => void} clear
 * @property {() => void} help
 * @property {() => void} flows
 * @property {() => void} pin
 */

/**
 * @param {import("./view.js").View} view
 * @param {Actions} actions
 * @param {() => number | null} pointer time under the pointer, which zooming keeps in place
 */
export function keys(view, actions, pointer) {
  /** @type {Map<string, number>} */
  const held = new Map();
  let running = 0,
    last = 0;

  /** @param {string} key */
  function isMove(key) {
    return "wasd".includes(key) || key === "ArrowLeft" || key === "ArrowRight";
  }

  /**
   * @param {string} key
   * @param {number} amount 1 is one press
   * @param {boolean} fast
   */
  function move(key, amount, fast) {
    const by = amount * (fast ? STEP.fast : 1);
    const around = pointer() ?? undefined;
    if (key === "w") view.zoom(STEP.zoom ** -by, around);
    else if (key === "s") view.zoom(STEP.zoom ** by, around);
    else view.pan((key === "a" || key === "ArrowLeft" ? -1 : 1) * STEP.pan * by);
  }

  /** @param {number} now */
  function run(now) {
    const passed = Math.min(50, now - last);
    last = now;
    for (const [key, since] of held) {
      if (now - since > HELD_AFTER_MS) move(key.toLowerCase(), passed / 90, fast);
    }
    running = held.size ? requestAnimationFrame(run) : 0;
  }
  let fast = false;

  /** @param {KeyboardEvent} event */
  function down(event) {
    const target = event.target;
    const typing =
      target instanceof HTMLInputElement ||
      target instanceof HTMLTextAreaElement ||
      target instanceof HTMLSelectElement;
    if (
      document.querySelector("dialog[open], .track-menu") ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      typing
    )
      return;
    fast = event.shiftKey;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (isMove(key) && !(target instanceof HTMLCanvasElement && key.startsWith("Arrow"))) {
      event.preventDefault();
      if (event.repeat || held.has(key)) return;
      move(key, 1, fast);
      held.set(key, performance.now());
      if (!running) {
        last = performance.now();
        running = requestAnimationFrame(run);
      }
      return;
    }
    const vertical = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (
      vertical &&
      actions.selected() &&
      !(target instanceof HTMLElement && target.closest("[role=separator], [role=menu]"))
    ) {
      event.preventDefault();
      actions.vertical(vertical);
      return;
    }
    const onControl = target instanceof HTMLButtonElement || target instanceof HTMLAnchorElement;
    const does = /** @type {Record<string, () => void>} */ ({
      f: actions.fit,
      0: actions.all,
      ".": () => actions.neighbour(true),
      ",": () => actions.neighbour(false),
      "]": () => actions.follow(true),
      "[": () => actions.follow(false),
      "/": actions.search,
      m: actions.mark,
      "?": actions.help,
      l: actions.flows,
      p: actions.pin,
      Escape: actions.clear,
      ...(onControl ? {} : { Enter: () => actions.hit(!event.shiftKey) }),
    })[key];
    if (!does) return;
    event.preventDefault();
    does();
  }

  /** @param {KeyboardEvent} event */
  function up(event) {
    held.delete(event.key.length === 1 ? event.key.toLowerCase() : event.key);
    fast = event.shiftKey;
  }
  const stop = () => held.clear();
  document.addEventListener("keydown", down);
  document.addEventListener("keyup", up);
  window.addEventListener("blur", stop);
  return {
    leave() {
      stop();
      document.removeEventListener("keydown", down);
      document.removeEventListener("keyup", up);
      window.removeEventListener("blur", stop);
    },
  };
}
