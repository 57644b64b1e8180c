// Search: hits are counted, shown as a heat strip over the whole trace, and stepped through.

import { h, settled } from "../dom.js";
import { count, duration } from "../format.js";
import { get } from "../net.js";

const FIELD = /^\s*(origin|kind|op|region|category)\s*:(?!:)/i;

/**
 * @param {import("./view.js").View} view
 * @param {object} does
 * @param {(text: string) => void} does.changed
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
    placeholder: "Search names  /",
    "aria-label": "Search events by name",
    title: "In names; or origin:eager, kind:gemm, op:aten::mm, region:0/0, category:kernel",
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
  let text = "",
    hits = 0,
    turn = 0;
  /** @type {Promise<void>} */
  let looking = Promise.resolve();

  function look() {
    looking = ask();
    return looking;
  }

  async function ask() {
    const wanted = input.value.trim();
    if (wanted === text) return;
    text = wanted;
    const mine = ++turn;
    if (!text) {
      hits = 0;
      said.textContent = "";
      back.disabled = next.disabled = true;
      does.changed("");
      does.found(null);
      return;
    }
    said.textContent = "…";
    try {
      if (FIELD.test(text)) await does.analysed();
      if (mine !== turn) return;
      const found = await get("search", { q: text, begin: view.low, end: view.high, buckets: 800 });
      if (mine !== turn) return;
      hits = found.count;
      said.textContent = hits ? `${count(hits)}, ${duration(found.total_ns)}` : "no hit";
      said.title = found.names.map((/** @type {any} */ each) => `${each.count} × ${each.name}`).join("\n");
      back.disabled = next.disabled = !hits;
      does.changed(text);
      does.found(hits ? found : null);
    } catch (error) {
      if (mine === turn) said.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  /** @param {boolean} forward */
  async function step(forward) {
    await look();
    await looking;
    if (!hits) return;
    const row = does.selected();
    const found = await get("search-step", {
      q: text,
      time: view.begin,
      row: row ?? undefined,
      direction: forward ? "forward" : "back",
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
