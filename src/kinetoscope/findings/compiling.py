"""Findings about what was compiled, what was not, and what was compiled while the profiler looked."""

from __future__ import annotations

import numpy as np

from kinetoscope.analyses.wording import counted, duration, listed, percent
from kinetoscope.findings.facts import Facts, severity_of
from kinetoscope.schema import BreakSite, Finding
from kinetoscope.trace import Category, Int64


def not_compiled(facts: Facts) -> list[Finding]:
    """Nothing compiled ran."""
    if facts.compiled.verdict != "no":
        return []
    lookups = len(facts.code.unanswered_lookups)
    asked = (
        f" Dynamo looked {counted(lookups, 'time')} for compiled code and found none: a compiled function"
        " that has reached its recompile limit looks like this."
        if lookups
        else " If the program calls torch.compile, the functions were skipped: such a function leaves no"
        " trace."
    )
    return [
        facts.finding(
            "not-compiled",
            "Nothing compiled ran",
            " ".join(facts.compiled.evidence[:2]) + asked,
            "Call torch.compile on the model, or find out why it was given up: `kinetoscope run` records the"
            " compile log beside the trace, and TORCH_LOGS=graph_breaks,recompiles prints the reasons.",
            severity="high",
            rows=_costly(facts, facts.work.of("eager")),
        )
    ]


def graph_break(facts: Facts) -> list[Finding]:
    """Compiled functions that are left in the middle; breaks of one function are one finding."""
    breaks = facts.graph_breaks
    groups: dict[tuple[str | None, str | None], list[BreakSite]] = {}
    for site in breaks.sites:
        if site.kind == "break":
            groups.setdefault((site.file, site.function), []).append(site)
    return [_break(facts, sites) for sites in groups.values()]


def _break(facts: Facts, sites: list[BreakSite]) -> Finding:
    calls = facts.links.regions.calls
    ids = {label for site in sites for label in site.regions}
    inner = facts.nesting.continuations
    mine = (
        inner[[calls.labels[label] in ids for label in calls.label[inner].tolist()]] if len(inner) else inner
    )
    lost = facts.nesting.lost_ns[np.isin(inner, mine)]
    total = int(lost.sum()) if len(mine) else None
    places = listed([f"{site.file}:{site.line}" for site in sites if site.file is not None], 6)
    hits = [site.hits for site in sites if site.hits is not None]
    passed = f", passed {counted(sum(hits), 'time')}" if len(hits) == len(sites) else ""
    cost = (
        f" From the end of compiled code to its next start the CPU spent {facts.a_step(total)}."
        if total is not None
        else ""
    )
    if facts.graph_breaks.source == "log":
        where = sites[0].function or sites[0].file or "a compiled function"
        title = f"{counted(len(sites), 'graph break')} in {where}"
        reasons = listed(dict.fromkeys(site.reason for site in sites if site.reason is not None), 3)
        detail = f"At {places}{passed}: {reasons}.{cost}"
    else:
        title = f"{counted(len(sites), 'graph break')} (estimate)"
        detail = (
            f"Compiled regions run inside others ({_pairs(sites)}){passed}: each is the other side of a"
            " break."
            f" The trace does not tell where in the source.{cost}"
        )
    fix = (
        "Remove what cannot be compiled from the function, or move it to its start or end. Where is told"
        " by the compile"
        " log: `kinetoscope run`, or TORCH_LOGS=graph_breaks; fullgraph=True turns a break into an error."
    )
    return facts.finding("graph-break", title, detail, fix, total_ns=total, rows=calls.rows[mine])


def _pairs(sites: list[BreakSite]) -> str:
    texts = [
        f"{site.regions[-1] or 'no id'} in {site.regions[0] or 'no id'}" for site in sites if site.regions
    ]
    return listed(texts)


def possible_break(facts: Facts) -> list[Finding]:
    """Outermost regions side by side: two functions, or the two sides of a frame that was given up."""
    found = facts.boundaries
    if not len(found) or facts.graph_breaks.source != "trace":
        return []
    calls = facts.links.regions.calls
    between = np.maximum(calls.start_ns[found.after] - calls.end_ns[found.before], 0)
    total = int(between.sum())
    often = (
        f"{counted(round(len(found) / facts.steps), 'boundary', 'boundaries')} a step"
        if facts.steps and len(found) >= facts.steps
        else counted(len(found), "boundary", "boundaries")
    )
    ids = dict.fromkeys(
        f"{calls.labels[calls.label[a]]} then {calls.labels[calls.label[b]]}"
        for a, b in zip(found.before.tolist(), found.after.tolist(), strict=True)
    )
    return [
        facts.finding(
            "possible-break",
            f"{often} between compiled regions: maybe breaks",
            f"Regions follow each other on one thread ({listed(ids, 3)}), with {facts.a_step(total)} of"
            " CPU time between."
            " They may be functions compiled one by one, which is fine, or pieces of a function that could"
            " not be"
            " compiled as a whole.",
            "Record a compile log with the trace (`kinetoscope run`): it tells which.",
            total_ns=total,
            severity="info",
            rows=calls.rows[found.after],
        )
    ]


def compile_in_window(facts: Facts) -> list[Finding]:
    """PyTorch compiled while the profiler recorded."""
    compiles = facts.links.compiles
    total = compiles.total_ns
    if not total:
        return []
    phases, entries = compiles.phases, compiles.entries
    order = entries[np.argsort(-phases.dur_ns[entries], kind="stable")]
    names: dict[str, list[int]] = {}  # in the order of the longest of each
    for entry in order.tolist():
        names.setdefault(phases.labels[phases.label[entry]], []).append(int(phases.dur_ns[entry]))
    took = [
        f"{name} {duration(sum(times))}" + (f" ({counted(len(times), 'time')})" if len(times) > 1 else "")
        for name, times in names.items()
    ]
    again = None if facts.capture is None else facts.capture.warmup_past_compiling
    later = "" if again is None else f" kinetoscope run --warmup {again} begins after these compilations."
    span = facts.trace.span_ns
    share = min(1.0, total / span) if span else None
    of_window = f" ({percent(share)} of the {duration(span)} recorded)" if share is not None else ""
    return [
        facts.finding(
            "compile-in-window",
            f"Compilation took {duration(total)} of this window",
            f"The phases of {counted(len(entries), 'compilation')} cover {duration(total)}{of_window}:"
            f" {listed(took, 3)}. A device that waits meanwhile waits for the compiler, not for launches.",
            "This is a cold capture, which is to hold it: compile-time says where it went."
            if facts.capture is not None and facts.capture.is_cold
            else "Warm up before the profiler starts: call the function for every shape that comes, until"
            " nothing compiles."
            f" If it still compiles in later steps, look for recompiles.{later}",
            # of the steps only what lies in them is a cost: a program may compile before the first
            total_ns=facts.compiling_ns or None,
            severity=severity_of(share),
            rows=phases.rows[order],
        )
    ]


def _costly(facts: Facts, pieces: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Int64:
    """CPU rows of the operators that launched these pieces of work, or their own rows."""
    work = facts.work
    launched_by = work.operator_row[pieces]
    rows = np.unique(launched_by[launched_by >= 0])
    c = facts.trace.columns
    return rows[c.category[rows] == Category.CPU_OP] if len(rows) else work.rows[pieces]


ALL = (not_compiled, graph_break, possible_break, compile_in_window)
