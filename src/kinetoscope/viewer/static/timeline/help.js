// The keys and the colours, in one place.

import { h } from "../dom.js";

/** @type {[string, string[][], string][]} */
const KEYS = [
  ["Zoom in, out", [["w"], ["s"]], "Ctrl and wheel zooms at the pointer"],
  ["Pan left, right", [["a"], ["d"]], "Shift makes these four faster; Shift and drag pans too"],
  ["Statistics of an area", [], "drag over it"],
  ["Zoom to the selection", [["f"]], "again: until it fills the view; or double click"],
  ["Show everything", [["0"]], ""],
  ["Next, previous event of the row", [["."], [","]], ""],
  ["Row above, below", [["↑"], ["↓"]], "at the same time; without a selection they scroll"],
  ["Follow the arrow forward, back", [["]"], ["["]], "or click it in the details"],
  ["All arrows", [["l"]], "those of the selection are always shown"],
  ["Search", [["/"]], "in names, source lines and arguments; stream=7 asks for one argument; or name:mm, args:mm, origin:eager, kind:gemm, op:aten::mm, region:0/0, category:kernel, source:model.py"],
  ["Next, previous hit", [["Enter"], ["Shift", "Enter"]], ""],
  ["Mark the selection", [["m"]], "again: take the mark away"],
  ["Pin or unpin the selection's track", [["p"]], "pinned, it stays in view; or the menu ⋮ beside its name"],
  ["Deselect", [["Esc"]], ""],
  ["This help", [["?"]], ""],
];

/** @param {{ key: string, label: string }[]} meanings */
export function help(meanings) {
  const dialog = h(
    "dialog",
    { "aria-labelledby": "help-title", class: "help" },
    // has the focus, or the page would begin at its only button, which is at the end
    h("h2", { id: "help-title", tabIndex: -1, autofocus: true }, "Keys"),
    h(
      "table",
      { class: "keys" },
      h(
        "tbody",
        null,
        KEYS.map(([what, keys, more]) =>
          h(
            "tr",
            null,
            h("th", { scope: "row" }, what),
            h(
              "td",
              null,
              keys.flatMap((combined, at) => [
                at ? "  " : "",
                ...combined.flatMap((key, part) => [part ? "+" : "", h("kbd", null, key)]),
              ]),
            ),
            h("td", { class: "quiet" }, more),
          ),
        ),
      ),
    ),
    h("h2", null, "Colours"),
    h(
      "ul",
      { class: "colors" },
      meanings.map(({ key, label }) => h("li", null, h("span", { class: `swatch m-${key}` }), label)),
      h("li", null, h("span", { class: "diamond" }), "Graph break"),
    ),
    h(
      "p",
      { class: "quiet" },
      "A pale stretch stands for many events narrower than a pixel; the paler, the more gaps between them. Whatever is at least a pixel wide, event or gap, is drawn by itself.",
    ),
    h("form", { method: "dialog" }, h("button", { class: "main" }, "Close")),
  );
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  return dialog;
}
