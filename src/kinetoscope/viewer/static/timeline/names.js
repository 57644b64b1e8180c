// The names at the left, with a menu for each track.

import { fill, h } from "../dom.js";
import { counted } from "../format.js";

/**
 * @param {import("./rows.js").Rows} rows
 * @param {() => void} changed rows were pinned, hidden, moved or folded
 */
export function names(rows, changed) {
  const pinned = h("div", { class: "names pinned" });
  const loose = h("div", { class: "names" });
  /** @type {HTMLElement | null} */
  let menu = null;
  /** @type {Element | null} */
  let opener = null;

  /** @param {import("./rows.js").Row} row */
  function item(row) {
    const style = {
      top: `${row.pinned ? row.top : rows.pinnedHeight + row.top}px`,
      height: `${row.height}px`,
    };
    if (row.kind === "process") return h("div", { class: "process", style, title: row.label }, row.label);
    const fold = row.foldable
      ? h(
          "button",
          {
            class: "fold",
            "aria-expanded": String(!rows.isFolded(row)),
            "aria-label": `${rows.isFolded(row) ? "Unfold" : "Fold"} ${row.label}`,
            onclick: () => toggle(row),
          },
          rows.isFolded(row) ? "▸" : "▾",
        )
      : h("span", { class: "fold" });
    const open = h(
      "button",
      {
        class: "menu",
        "aria-haspopup": "menu",
        "aria-label": `Track menu: ${row.label}`,
        onclick: (/** @type {Event} */ event) => show(row, /** @type {HTMLElement} */ (event.currentTarget)),
      },
      "⋮",
    );
    return h(
      "div",
      {
        class: `track ${row.kind}`,
        style,
        "data-row": row.id,
        title: about(row),
      },
      fold,
      h(
        "span",
        { class: "label" },
        row.label,
        row.most ? h("span", { class: "most" }, row.most) : null,
      ),
      open,
    );
  }

  /** @param {import("./rows.js").Row} row */
  function about(row) {
    const unit = row.kind === "counter" ? "sample" : row.kind === "idle" ? "gap" : "slice";
    const shown = rows.lanesOf(row).length;
    return [
      `${row.label}: ${counted(row.slices, unit)}`,
      shown < row.lanes.length ? `; folded, ${shown} of ${row.lanes.length} levels are shown` : "",
      row.pinned ? "; pinned, it stays in view" : "",
    ].join("");
  }

  /** @param {import("./rows.js").Row} row */
  function toggle(row) {
    if (!rows.toggled.delete(row.id)) rows.toggled.add(row.id);
    rows.layout();
    changed();
    /** @type {HTMLElement | null} */ (
      document.querySelector(`[data-row="${CSS.escape(row.id)}"] .fold`)
    )?.focus();
  }

  function close() {
    if (!menu) return false;
    menu.remove();
    menu = null;
    /** @type {HTMLElement | null} */ (opener)?.focus();
    return true;
  }

  /**
   * @param {import("./rows.js").Row} row
   * @param {HTMLElement} button
   */
  function show(row, button) {
    close();
    opener = button;
    /**
     * @param {string} label
     * @param {() => void} does
     */
    const entry = (label, does) =>
      h(
        "button",
        {
          role: "menuitem",
          onclick: () => {
            does();
            rows.layout();
            changed();
            close();
          },
        },
        label,
      );
    const box = button.getBoundingClientRect();
    menu = h(
      "div",
      {
        class: "track-menu",
        role: "menu",
        "aria-label": row.label,
        style: { left: `${box.left}px`, top: `${Math.min(box.bottom, window.innerHeight - 190)}px` },
      },
      entry(rows.pins.has(row.id) ? "Unpin" : "Pin to the top", () => rows.pin(row)),
      entry("Move up", () => rows.move(row, -1)),
      entry("Move down", () => rows.move(row, 1)),
      row.foldable
        ? entry(rows.isFolded(row) ? "Unfold" : "Fold", () => {
            if (!rows.toggled.delete(row.id)) rows.toggled.add(row.id);
          })
        : null,
      entry("Hide", () => rows.hidden.add(row.id)),
    );
    document.body.append(menu);
    const entries = [...menu.querySelectorAll("button")];
    entries[0]?.focus();
    menu.addEventListener("keydown", (event) => {
      const at = entries.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        entries[(at + (event.key === "ArrowDown" ? 1 : -1) + entries.length) % entries.length].focus();
      } else if (event.key === "Escape" || event.key === "Tab") {
        event.preventDefault();
        event.stopPropagation();
        close();
      }
    });
  }

  document.addEventListener("pointerdown", outside);
  /** @param {Event} event */
  function outside(event) {
    if (menu && event.target instanceof Node && !menu.contains(event.target)) close();
  }

  return {
    pinned,
    loose,
    close,
    draw() {
      pinned.style.height = `${rows.pinnedHeight}px`;
      pinned.hidden = !rows.pinnedHeight;
      fill(pinned, rows.shown.filter((row) => row.pinned).map(item));
      fill(loose, rows.shown.filter((row) => !row.pinned).map(item));
    },
    leave() {
      close();
      document.removeEventListener("pointerdown", outside);
    },
  };
}
