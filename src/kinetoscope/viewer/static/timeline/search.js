// Search: hits are counted, shown as a heat strip over the whole trace, and stepped through. Names answer at
// once; arguments are in the file, which is read when the text has stood for a moment.

import { h, settled } from "../dom.js";
import { count, counted, duration, share } from "../format.js";
import { get } from "../net.js";

const FIELD = /^\s*(origin|kind|op|region|category|source)\s*:(?!:)/i;
/** @type {Record<string, string>} */
const PLACES = { names: "names", source: "source lines", args: "arguments" };
const DEEPER_AFTER_MS = 350;
const EXAMPLES =
  "In names, source lines and arguments. Also stream=7 or Input Dims=[128 for one argument; name:mm or args:mm " +
  "for these alone; origin:eager, kind:gemm, op:aten::mm, region:0/0, category:kernel, source:model.py";

/**
 * @param {import("./view.js").View} view
 * @param {object} does
 * @param {(text: string, deep: boolean) => void} does.changed
 * @param {(hits: { count: number, strip: number[] } | null) => void} does.found
 * @param {(row: number) => Promise<void>} does.select
 * @param {() => number | null} does.selected
 * @param {() => Promise<any>} does.analysed fields can be asked for once the trace is analysed
 * @param {() => void} does.done focus goes back to the rows
 */
export function search(view, does) {
  const said = h("span", { class: "hits quiet", role: "status" });
  const input = h("input", {
    type: "search",
    placeholder: "Search names, arguments  /",
    "aria-label": "Search events by name, source line or argument",
    title: EXAMPLES,
    spellcheck: false,
    oninput: settled(() => void look(), 120),
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter") {
        event.preventDefault();
        void step(!event.shiftKey);
      } else if (event.key === "Escape") {
        event.preventDefault();
        event.stopPropagation();
        if (input.value) set("");
        else does.done();
      }
    },
  });
  const back = h(
    "button",
    {
      class: "plain",
      disabled: true,
      "aria-label": "Previous hit",
      title: "Previous hit (Shift+Enter)",
      onclick: () => void step(false),
    },
    "↑",
  );
  const next = h(
    "button",
    {
      class: "plain",
      disabled: true,
      "aria-label": "Next hit",
      title: "Next hit (Enter)",
      onclick: () => void step(true),
    },
    "↓",
  );
  const by = String(Math.random());
  let text = "",
    hits = 0,
    turn = 0,
    deeper = 0,
    isDeep = false;
  /** @type {Promise<void>} */
  let looking = Promise.resolve();
  /** @type {Promise<void>} */
  let digging = Promise.resolve();

  function look() {
    looking = ask();
    return looking;
  }

  async function ask() {
    const wanted = input.value.trim();
    if (wanted === text) return;
    text = wanted;
    isDeep = false;
    clearTimeout(deeper);
    const mine = ++turn;
    if (!text) {
      hits = 0;
      said.textContent = said.title = "";
      back.disabled = next.disabled = true;
      does.changed("", false);
      does.found(null);
      return;
    }
    said.textContent = "…";
    try {
      if (FIELD.test(text)) await does.analysed();
      const found = mine === turn ? await asked(false) : null;
      if (mine !== turn || !found) return;
      show(found, false);
      if (found.has_more) deeper = window.setTimeout(() => void dig(), DEEPER_AFTER_MS);
    } catch (error) {
      if (mine === turn) fail(error);
    }
  }

  /** Look into the arguments as well. */
  function dig() {
    clearTimeout(deeper);
    deeper = 0;
    const mine = turn;
    digging = (async () => {
      try {
        await does.analysed();
        const found = mine === turn ? await asked(true) : null;
        if (mine === turn && found) show(found, true);
      } catch (error) {
        if (mine === turn) fail(error);
      }
    })();
    return digging;
  }

  /** @param {boolean} deep */
  const asked = (deep) =>
    get("search", {
      q: text,
      begin: view.low,
      end: view.high,
      buckets: 800,
      deep: deep ? 1 : undefined,
      by,
    });

  /**
   * @param {any} found
   * @param {boolean} deep
   */
  function show(found, deep) {
    hits = found.count;
    isDeep = deep;
    const isCut = deep && found.events < found.events_of;
    const waits = found.has_more ? ", looking into arguments" : "";
    const cut = isCut ? `, arguments of ${share(found.events / found.events_of)} searched` : "";
    said.textContent = `${hits ? `${counted(hits, "hit")}, ${duration(found.total_ns)}` : "no hit"}${waits}${cut}`;
    said.title = [
      ...Object.entries(found.places)
        .filter(([place]) => place in PLACES)
        .map(([place, number]) => `${count(/** @type {number} */ (number))} in ${PLACES[place]}`),
      isCut
        ? `stopped: the arguments of ${count(found.events)} of ${count(found.events_of)} events were looked at`
        : "",
      "",
      ...found.names.map((/** @type {any} */ each) => `${each.count} × ${each.name}`),
    ].join("\n");
    back.disabled = next.disabled = !hits;
    does.changed(text, deep);
    does.found(hits ? found : null);
  }

  /** @param {unknown} error */
  function fail(error) {
    said.textContent = error instanceof Error ? error.message : String(error);
  }

  /** @param {boolean} forward */
  async function step(forward) {
    await look();
    await looking;
    if (!hits) await (deeper ? dig() : digging);
    if (!hits) return;
    const row = does.selected();
    const found = await get("search-step", {
      q: text,
      time: view.begin,
      row: row ?? undefined,
      direction: forward ? "forward" : "back",
      deep: isDeep ? 1 : undefined,
    });
    if (!found.hit) return;
    said.textContent = `${count(found.hit.index + 1)} of ${count(found.hit.count)}`;
    await does.select(found.hit.row);
  }

  /** @param {string} wanted */
  function set(wanted) {
    input.value = wanted;
    return look();
  }
  return {
    element: h("div", { class: "search", role: "search" }, input, back, next, said),
    input,
    set,
    step,
    focus: () => {
      input.focus();
      input.select();
    },
    get text() {
      return text;
    },
  };
}
