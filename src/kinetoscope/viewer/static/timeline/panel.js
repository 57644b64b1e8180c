// The panel at the bottom: one slice, one idle gap, or an area.

import { fill, h } from "../dom.js";
import { count, counted, duration, exact, moment, share } from "../format.js";
import { get } from "../net.js";
import { table } from "../pages/table.js";

/**
 * @param {{ key: string, label: string }[]} meanings
 * @param {{ select: (row: number) => void, show: (begin: number, end: number) => void, search: (text: string) => void, opened: () => void }} does
 */
export function panel(meanings, does) {
  const element = h("section", { class: "details", "aria-label": "Details", tabIndex: -1 });
  const said = h("p", { class: "sr", role: "status" });
  let turn = 0;

  /** @param {string} [why] nothing is selected though something was asked for */
  function empty(why) {
    turn++;
    fill(
      element,
      why ? h("p", { class: "hint warn" }, why) : null,
      h(
        "p",
        { class: "hint" },
        "Click an event for its details. Drag over an area for statistics of what is in it. ",
        h("kbd", null, "?"),
        " lists the keys.",
      ),
      h(
        "ul",
        { class: "colors" },
        meanings.map(({ key, label }) => h("li", null, h("span", { class: `swatch m-${key}` }), label)),
        h("li", null, h("span", { class: "diamond" }), "Graph break"),
      ),
      said,
    );
    said.textContent = why ?? "Nothing is selected";
  }

  /**
   * @param {any} other
   * @param {string} [more]
   */
  const jump = (other, more) => [
    h("button", { class: "link mono", onclick: () => does.select(other.row) }, other.name),
    h("span", { class: "quiet" }, ` ${duration(other.dur_ns)}${more ? `, ${more}` : ""}`),
  ];

  /**
   * @param {[string, import("../dom.js").Child | import("../dom.js").Child[]][]} pairs
   */
  const list = (pairs) =>
    h(
      "dl",
      { class: "pairs" },
      pairs.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
    );

  /** @param {any} data */
  function slice(data) {
    const mine = ++turn;
    does.opened();
    /** @type {[string, any][]} */
    const facts = [
      [
        "Duration",
        h(
          "span",
          { class: "mono", title: exact(data.dur_ns) },
          data.invalid_time ? "invalid in the file" : duration(data.dur_ns),
          data.clipped ? " (cut at the next start on its stream)" : "",
        ),
      ],
      ["Start", h("span", { class: "mono", title: exact(data.start_ns) }, moment(data.start_ns))],
    ];
    if (data.self_ns !== undefined && data.self_ns !== data.dur_ns)
      facts.push(["Of its own", h("span", { class: "mono" }, duration(data.self_ns))]);
    facts.push(["Category", data.category || "none"], ["Track", data.track_label]);
    if (data.origin) facts.push(["Who wrote it", data.origin_label], ["Kind", data.kind]);
    for (const [name, value] of Object.entries(data.ids))
      facts.push([name[0].toUpperCase() + name.slice(1), h("span", { class: "mono" }, String(value))]);
    /** @type {[string, any][]} */
    const around = [];
    if (data.launch)
      around.push([
        "Launched by",
        jump(
          data.launch,
          `${duration(data.queue_ns)} before${data.graph_replay ? ", a CUDA-graph replay" : ""}`,
        ),
      ]);
    if (data.unlinked)
      around.push([
        "Launched by",
        data.unlinked === "before" ? "a call before the recording began" : "not recorded",
      ]);
    if (data.operator) around.push(["Operator", jump(data.operator)]);
    if (data.region)
      around.push([
        "Region",
        [
          h(
            "button",
            { class: "link mono", onclick: () => does.select(data.region.row) },
            data.region.id || "(no id)",
          ),
          data.region.function ? ` ${data.region.function}` : "",
          data.region.where ? h("span", { class: "quiet mono" }, ` ${data.region.where}`) : null,
        ],
      ]);
    if (data.step)
      around.push([
        "Step",
        h(
          "button",
          {
            class: "link",
            onclick: () => does.show(data.step.start_ns, data.step.start_ns + data.step.dur_ns),
          },
          `${data.step.name}, ${duration(data.step.dur_ns)}`,
        ),
      ]);
    if (data.forward) around.push(["Forward", jump(data.forward)]);
    if (data.backward) around.push(["Backward", jump(data.backward)]);
    for (const [key, title] of [
      ["launched", "Launched"],
      ["launched_inside", "Launched inside"],
    ]) {
      const launched = data[key];
      if (!launched) continue;
      around.push([
        title,
        [
          h("span", null, `${counted(launched.count, "device event")}, ${duration(launched.total_ns)}`),
          h(
            "ul",
            { class: "plain-list" },
            launched.first.slice(0, 8).map((/** @type {any} */ each) => h("li", null, jump(each))),
            launched.count > 8 ? h("li", { class: "quiet" }, `and ${count(launched.count - 8)} more`) : null,
          ),
        ],
      ]);
    }
    if (data.parents.length)
      around.push([
        "Inside",
        h(
          "ol",
          { class: "plain-list" },
          data.parents.map((/** @type {any} */ each) => h("li", null, jump(each))),
        ),
      ]);
    const origin = data.is_kernel
      ? h("div", { class: "origin" }, h("p", { class: "quiet" }, "Looking for its code"))
      : null;
    const args = h("div", { class: "args" }, h("p", { class: "quiet" }, "Reading the arguments"));
    fill(
      element,
      h(
        "header",
        null,
        data.meaning !== undefined
          ? h("span", {
              class: `swatch m-${meanings[data.meaning].key}`,
              title: meanings[data.meaning].label,
            })
          : null,
        h("h2", { class: "mono" }, data.name),
        h(
          "button",
          { class: "plain", title: "Search for this name", onclick: () => does.search(`name:${data.name}`) },
          "Find all",
        ),
      ),
      h(
        "div",
        { class: "columns" },
        h("div", null, list(facts)),
        h(
          "div",
          null,
          around.length
            ? list(around)
            : h(
                "p",
                { class: "quiet" },
                data.meaning === undefined ? "Links are still being made." : "Nothing is linked to it.",
              ),
          origin,
        ),
        h("div", null, h("h3", null, "Arguments"), args),
      ),
      said,
    );
    element.scrollTop = 0;
    fill(said, `${data.name}, ${duration(data.dur_ns)}, at ${duration(data.start_ns)} on ${data.track_label}`);
    if (origin) {
      get("kernel", { row: data.row }).then(
        (found) => {
          if (mine === turn) fill(origin, kernel(found, list));
        },
        (error) => {
          if (mine === turn) fill(origin, h("p", { class: "bad" }, error.message));
        },
      );
    }
    get("args", { row: data.row }).then(
      (found) => {
        if (mine !== turn) return;
        const pairs = Object.entries(found.args);
        fill(
          args,
          pairs.length
            ? list(pairs.map(([name, value]) => [name, argument(value)]))
            : h("p", { class: "quiet" }, "None in the file."),
        );
      },
      (error) => {
        if (mine === turn) fill(args, h("p", { class: "bad" }, error.message));
      },
    );
  }

  /** @param {any} value */
  function argument(value) {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return h("span", { class: "mono" }, text.length > 4000 ? `${text.slice(0, 4000)}…` : text);
  }

  /** @param {any} data */
  function gap(data) {
    turn++;
    does.opened();
    fill(
      element,
      h(
        "header",
        null,
        h("span", { class: "swatch m-idle" }),
        h("h2", null, `Device ${data.device} idle: ${data.cause}`),
      ),
      h(
        "div",
        { class: "columns" },
        list([
          ["Duration", h("span", { class: "mono", title: exact(data.dur_ns) }, duration(data.dur_ns))],
          ["Start", h("span", { class: "mono", title: exact(data.start_ns) }, moment(data.start_ns))],
          ["Meaning", data.did],
          ["What helps", data.helps || "unknown"],
          ["Because of", data.because ? jump(data.because) : "nothing that was recorded"],
          ["Ends with", jump(data.next)],
        ]),
      ),
      said,
    );
    fill(said, `Device ${data.device} idle for ${duration(data.dur_ns)}: ${data.cause}`);
  }

  /** @param {any} data */
  function area(data) {
    turn++;
    does.opened();
    const span = data.end_ns - data.begin_ns;
    const shown = table({
      label: "What is in the area",
      by: 2,
      columns: [
        {
          title: "Name",
          class: "name mono",
          value: (row) => row.name,
          show: (row) => [
            h("span", { class: `swatch m-${meanings[row.meaning].key}` }),
            h("button", { class: "link", onclick: () => does.select(row.row) }, row.name),
          ],
        },
        { title: "Count", number: true, value: (row) => row.count, show: (row) => count(row.count) },
        { title: "Total", number: true, value: (row) => row.total_ns, show: (row) => duration(row.total_ns) },
        {
          title: "Of its own",
          number: true,
          value: (row) => row.self_ns,
          show: (row) => duration(row.self_ns),
        },
        { title: "Mean", number: true, value: (row) => row.mean_ns, show: (row) => duration(row.mean_ns) },
        { title: "Longest", number: true, value: (row) => row.max_ns, show: (row) => duration(row.max_ns) },
        {
          title: "Share",
          number: true,
          value: (row) => row.total_ns,
          show: (row) => share(row.total_ns / span),
        },
      ],
    });
    const busy =
      data.busy_ns === null ? "" : `, device busy ${duration(data.busy_ns)} (${share(data.busy_ns / span)})`;
    fill(
      element,
      h(
        "header",
        null,
        h(
          "h2",
          null,
          `${duration(span)} from ${duration(data.begin_ns)}: ${counted(data.count, "event")}${busy}`,
        ),
        h("button", { class: "plain", onclick: () => does.show(data.begin_ns, data.end_ns) }, "Zoom to it"),
      ),
      shown.element,
      said,
    );
    shown.show(data.names);
    fill(said, `Area of ${duration(span)} with ${counted(data.count, "event")}${busy}`);
  }

  empty();
  return { element, empty, slice, gap, area };
}

/**
 * Source lines, generated code and the next commands of a kernel.
 * @param {any} data
 * @param {(pairs: [string, any][]) => HTMLElement} list
 */
function kernel(data, list) {
  const { place } = data;
  /** @type {[string, any][]} */
  const pairs = [];
  if (place?.source.length) {
    const lines = place.source.map((/** @type {any} */ line) =>
      h(
        "div",
        { class: "mono", title: `${line.file}:${line.line}${line.function ? ` in ${line.function}` : ""}` },
        `${line.file.split("/").pop()}:${line.line}`,
        line.code ? h("span", { class: "quiet" }, `  ${line.code.trim()}`) : null,
      ),
    );
    pairs.push([
      "Source",
      [
        ...lines.slice(0, 5),
        lines.length > 5
          ? h("details", null, h("summary", null, `${lines.length - 5} more lines`), lines.slice(5))
          : null,
        place.source_state === "cached"
          ? h("div", { class: "warn" }, "from a cached graph, perhaps of older source")
          : null,
      ],
    ]);
  }
  if (place?.code)
    pairs.push([
      "Code",
      h(
        "details",
        null,
        h(
          "summary",
          null,
          place.file_path
            ? `generated in ${place.file_path.split("/").pop()}${place.code_line ? `:${place.code_line}` : ""}`
            : "generated",
        ),
        h("pre", { class: "mono", tabIndex: 0 }, place.code),
      ),
    ]);
  for (const { tool, command, note } of data.commands)
    pairs.push([
      tool,
      [h("code", { class: "command", title: note }, command), h("span", { class: "quiet" }, note)],
    ]);
  return pairs.length
    ? list(pairs)
    : h("p", { class: "quiet" }, "No source line or code is known without a compile log.");
}
