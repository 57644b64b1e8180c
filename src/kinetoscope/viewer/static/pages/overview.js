// The overview: for someone who has never read a trace.

import { link } from "../address.js";
import { append, failure, fill, h } from "../dom.js";
import { count, counted, duration, share } from "../format.js";
import { get } from "../net.js";

const FIRST = 5;

/**
 * @param {import("../main.js").App} app
 * @param {HTMLElement} place
 * @returns {Promise<import("../main.js").Page>}
 */
export async function overviewPage(app, place) {
  fill(
    place,
    h(
      "div",
      { class: "waiting" },
      h("p", { role: "status" }, `Analysing ${counted(app.trace.summary.events, "event")}`),
      h("p", null, h("a", { href: link("timeline") }, "The timeline is ready")),
    ),
  );
  const [report, story] = await Promise.all([app.report(), app.analysed().then(() => get("overview"))]);
  const bars = h("div", { class: "bars", "aria-busy": "true" });
  const others = h("section", { class: "cpu", "aria-labelledby": "cpu", hidden: true });
  fill(
    place,
    h(
      "article",
      { class: "overview" },
      h("h1", null, kept(story.sentence)),
      warnings(report),
      h(
        "section",
        { class: "where", "aria-labelledby": "time" },
        h("h2", { id: "time" }, story.of_steps ? "Where a step's time goes " : "Where the time goes ", h("span", { class: "quiet" }, story.of)),
        bars,
      ),
      findings(report),
      others,
      compiled(report),
    ),
  );
  // The sentence does not wait for them; everything else on the page is there.
  get("bars").then(
    (found) => {
      const shown = found.bars.map((/** @type {any} */ each) => bar(each, app.trace.meanings));
      // what to do about it comes before what the threads did, which few need
      const first = found.bars[0]?.kind === "device" ? 1 : shown.length;
      fill(
        bars,
        shown.length ? shown.slice(0, first) : h("p", { class: "quiet" }, "Nothing with a duration was recorded."),
      );
      if (shown.length > first) {
        fill(others, h("h2", { id: "cpu" }, "What the CPU does meanwhile"), shown.slice(first));
        others.hidden = false;
      }
      bars.removeAttribute("aria-busy");
    },
    (error) => fill(bars, failure(error)),
  );
  return {};
}

/**
 * Numbers stay with their units where a line breaks.
 * @param {string} text
 */
const kept = (text) => text.replace(/(\d) (ns|us|ms|s|%)(?!\w)/g, "$1\u00a0$2");

/** @param {string} text */
const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** @param {any} report */
function warnings(report) {
  const all = report.trace.warnings ?? [];
  // told first, with its reason
  const cut = all.find((/** @type {any} */ each) => each.code === "truncated");
  const said = all.filter((/** @type {any} */ each) => each !== cut);
  if (report.trace.complete && !said.length) return null;
  return h(
    "aside",
    { class: "note", "aria-label": "About this trace" },
    report.trace.complete
      ? null
      : h(
          "p",
          { class: "bad" },
          cut?.message ?? "PARTIAL: the end of the file is missing; the report covers what came before",
        ),
    said.map((/** @type {any} */ each) =>
      h("p", null, each.count > 1 ? `${each.message} (${count(each.count)} times)` : each.message),
    ),
  );
}

/**
 * @param {any} data
 * @param {{ key: string, label: string }[]} meanings
 */
function bar(data, meanings) {
  const parts = data.parts.filter((/** @type {any} */ part) => part.ns > 0);
  const strip = h(
    "div",
    {
      class: "stack",
      role: "img",
      "aria-label": `${data.title}: ${parts.map((/** @type {any} */ part) => `${part.label} ${share(part.share)}`).join(", ")}`,
    },
    parts.map((/** @type {any} */ part) =>
      h("div", {
        class: `m-${meanings[part.meaning].key}`,
        style: { flexGrow: String(part.share), flexBasis: "0" },
        title: `${part.label}: ${duration(part.ns)}, ${share(part.share)}${part.about ? `. ${capital(part.about)}` : ""}`,
      }),
    ),
  );
  return h(
    "div",
    { class: "bar" },
    h("h3", null, data.title, " ", h("span", { class: "num" }, duration(data.total_ns))),
    strip,
    h(
      "ul",
      { class: "legend" },
      parts.map((/** @type {any} */ part) =>
        h(
          "li",
          part.about ? { title: capital(part.about) } : null,
          h("span", { class: `swatch m-${meanings[part.meaning].key}` }),
          h("span", { class: "what" }, part.label),
          h("span", { class: "num" }, duration(part.ns)),
          h("span", { class: "num quiet" }, share(part.share)),
        ),
      ),
    ),
  );
}

/** @param {any} report */
function compiled(report) {
  const verdict = report.compiled.verdict;
  const title = {
    yes: "It was compiled",
    partly: "It was compiled in part",
    no: "Nothing was compiled",
    unknown: "Whether it was compiled cannot be told",
  }[/** @type {string} */ (verdict)];
  const kind = { yes: "good", partly: "warn", no: "bad", unknown: "quiet" }[/** @type {string} */ (verdict)];
  const breaks = report.graph_breaks.count;
  /** @type {[string, string][]} */
  const numbers = [];
  if (report.compiled.device_share !== null)
    numbers.push(["of device time in compiled code", share(report.compiled.device_share)]);
  if (report.compiled.cpu_share !== null)
    numbers.push(["of the steps' CPU time in compiled code", share(report.compiled.cpu_share)]);
  numbers.push([
    breaks === 1 ? "graph break" : "graph breaks",
    breaks === null
      ? "unknown"
      : `${count(breaks)}${report.graph_breaks.bound === "estimate" && breaks ? " (estimate)" : ""}`,
  ]);
  if (report.recompiles.count !== null)
    numbers.push([
      report.recompiles.count === 1 ? "recompilation" : "recompilations",
      count(report.recompiles.count),
    ]);
  if (report.kernels)
    numbers.push([report.kernels.count === 1 ? "kernel" : "kernels", count(report.kernels.count)]);
  if (report.cuda_graphs.used) numbers.push(["CUDA-graph replays", count(report.cuda_graphs.replays)]);
  return h(
    "section",
    { class: "was", "aria-labelledby": "compiled" },
    h("h2", { id: "compiled", class: kind }, title),
    h(
      "dl",
      { class: "figures" },
      numbers.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", { class: "num" }, value))),
    ),
    report.compiled.evidence.length
      ? h(
          "ul",
          { class: "evidence" },
          report.compiled.evidence.map((/** @type {string} */ line) => h("li", null, line)),
        )
      : null,
  );
}

/** @param {any} report */
function findings(report) {
  const all = report.findings;
  const list = h("ol", { class: "findings" });
  const section = h(
    "section",
    { class: "what", "aria-labelledby": "findings" },
    h(
      "h2",
      { id: "findings" },
      "What to look at ",
      h("span", { class: "quiet" }, all.length ? "what saves most first" : ""),
    ),
    list,
  );
  if (!all.length) {
    fill(
      section,
      h("h2", { id: "findings" }, "What to look at"),
      h("p", { class: "quiet" }, "Nothing stands out in this trace."),
    );
    return section;
  }
  append(list, all.slice(0, FIRST).map(card));
  if (all.length > FIRST) {
    const more = h(
      "button",
      {
        onclick: () => {
          append(list, all.slice(FIRST).map(card));
          more.remove();
          /** @type {HTMLElement | null} */ (list.children[FIRST]?.querySelector("button"))?.focus();
        },
      },
      `Show ${counted(all.length - FIRST, "more")}`.replace("mores", "more"),
    );
    section.append(more);
  }
  return section;
}

/** @param {any} finding */
function card(finding) {
  const saving = finding.saving_ns_per_step;
  const fix = finding.fix ? h("p", { class: "fix", hidden: true }, finding.fix) : null;
  const evidence = finding.evidence[0];
  const place = evidence
    ? link("timeline", {
        track: evidence.track,
        at: evidence.start_ns,
        dur: evidence.dur_ns,
        name: evidence.name,
      })
    : null;
  return h(
    "li",
    { class: `card ${finding.severity}` },
    h(
      "div",
      { class: "head" },
      h("span", { class: "severity" }, finding.severity),
      h("h3", null, finding.title),
      h("span", { class: "code mono" }, finding.code),
    ),
    finding.cost_ns_per_step === null && !saving
      ? null
      : h(
          "dl",
          { class: "figures" },
          h(
            "div",
            null,
            h("dt", null, "costs a step"),
            h(
              "dd",
              { class: "num" },
              finding.cost_ns_per_step === null ? "unknown" : duration(finding.cost_ns_per_step),
              finding.share !== null ? h("span", { class: "quiet" }, ` ${share(finding.share)}`) : null,
            ),
          ),
          h(
            "div",
            null,
            h("dt", null, "a fix saves"),
            h(
              "dd",
              { class: "num" },
              saving ? duration(saving.best) : "not known",
              saving
                ? h("span", { class: "quiet" }, ` (${duration(saving.low)} to ${duration(saving.high)})`)
                : null,
            ),
          ),
        ),
    h("p", null, finding.detail),
    h(
      "div",
      { class: "actions" },
      place
        ? h("a", { class: "button", href: place }, "Show me")
        : h("span", { class: "quiet" }, "no single event to show"),
      fix
        ? h(
            "button",
            {
              "aria-expanded": "false",
              onclick: (/** @type {Event} */ event) => {
                fix.hidden = !fix.hidden;
                /** @type {HTMLElement} */ (event.currentTarget).setAttribute(
                  "aria-expanded",
                  String(!fix.hidden),
                );
              },
            },
            "How to fix",
          )
        : null,
      finding.evidence.length > 1
        ? h(
            "span",
            { class: "more" },
            finding.evidence.slice(1).map((/** @type {any} */ each, /** @type {number} */ number) =>
              h(
                "a",
                {
                  href: link("timeline", {
                    track: each.track,
                    at: each.start_ns,
                    dur: each.dur_ns,
                    name: each.name,
                  }),
                  title: `${each.name}, ${duration(each.dur_ns)}`,
                },
                `event ${number + 2}`,
              ),
            ),
          )
        : null,
    ),
    fix,
  );
}
