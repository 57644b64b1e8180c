"""The body of a report as sections: breaks, recompiles, compile time, graphs, autograd, CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kinetoscope.render import units, words
from kinetoscope.render.page import Section, Table, counts, more, names, texts, times
from kinetoscope.schema import AutogradPair, Caches, CompilePhase, Report

_ROWS = 12
_PHASES = 8


def _breaks(report: Report) -> Section | None:
    breaks = report.graph_breaks
    if not breaks.sites:
        return None
    sites = breaks.sites[:_ROWS]
    table = Table(
        (
            names("Where", [words.place(site.file, site.line) for site in sites]),
            names("Function", [site.function for site in sites]),
            texts("What", [words.BREAK_KINDS[site.kind] for site in sites]),
            names("Regions", [", ".join(site.regions) or None for site in sites], optional=2),
            texts("Reason", [_reason(site.reason, site.gb_id) for site in sites], optional=1),
            counts("Hits", [site.hits for site in sites]),
            times("Costs a step", [site.cost_ns_per_step for site in sites]),
        ),
        more(len(sites), len(breaks.sites), "sites"),
    )
    said = "graph breaks unknown" if breaks.count is None else units.counted(breaks.count, "graph break")
    if breaks.source == "trace" and breaks.bound == "estimate":
        said += ", an estimate: without a compile log a trace shows nesting, not places or reasons"
    return Section("Graph breaks", (said,), (table,))


def _reason(reason: str | None, gb_id: str | None) -> str | None:
    if reason is None or gb_id is None:
        return reason or gb_id
    return f"{reason} ({gb_id})"


def _recompiles(report: Report) -> Section | None:
    sites = report.recompiles.sites[:_ROWS]
    if not sites:
        return None
    table = Table(
        (
            names("Function", [site.function for site in sites]),
            names("Where", [words.place(site.file, site.line) for site in sites], optional=1),
            names("Compile ids", [", ".join(site.ids) or None for site in sites], optional=2),
            texts("Why", ["; ".join(site.reasons) or None for site in sites]),
            times("Compile time", [site.compile_ns for site in sites]),
        ),
        more(len(sites), len(report.recompiles.sites), "functions"),
    )
    said = units.counted(report.recompiles.count, "recompile")
    return Section("Recompiles", () if report.recompiles.count is None else (said,), (table,))


def _compile_time(report: Report) -> Section | None:
    time = report.compile_time
    if not time.total_ns:
        return None
    source = {"log": "from the compile log", "trace": "from the trace", None: "source unknown"}[time.source]
    lines = [f"{units.duration(time.total_ns)} in all, {source}; phases that nest count once"]
    if time.in_window_ns is not None:
        lines.append(f"{units.duration(time.in_window_ns)} of it in this window")
    caches = _caches(time.caches)
    if caches:
        lines.append(caches)
    tables = []
    frames = time.frames[:_ROWS]
    if frames:
        tables.append(
            Table(
                (
                    names("Compile id", [frame.id for frame in frames]),
                    names("Function", [frame.function for frame in frames]),
                    names("Where", [words.place(frame.file, frame.line) for frame in frames], optional=1),
                    times("Total", [frame.total_ns for frame in frames]),
                ),
                more(len(frames), len(time.frames), "frames"),
            )
        )
    phases = _phases(report)
    if phases:
        tables.append(
            Table(
                (
                    names("Phase", [phase.name for phase in phases[:_PHASES]]),
                    times("Total", [phase.total_ns for phase in phases[:_PHASES]]),
                    times("Self", [phase.self_ns for phase in phases[:_PHASES]]),
                ),
                more(min(len(phases), _PHASES), len(phases), "phases"),
            )
        )
    return Section("Compile time", tuple(lines), tuple(tables))


def _phases(report: Report) -> list[CompilePhase]:
    """Phases of all frames, by name; a phase's own time is what adds up."""
    total: dict[str, tuple[int, int]] = {}
    for frame in report.compile_time.frames:
        for phase in frame.phases:
            before = total.get(phase.name, (0, 0))
            total[phase.name] = (before[0] + phase.total_ns, before[1] + phase.self_ns)
    merged = [CompilePhase(name=name, total_ns=a, self_ns=b) for name, (a, b) in total.items()]
    return sorted(merged, key=lambda phase: -phase.self_ns)


def _caches(caches: Caches) -> str | None:
    said = []
    hit, miss, bypass = ("hit", "hits"), ("miss", "misses"), ("bypass", "bypasses")
    graph = ((hit, caches.fx_hit), (miss, caches.fx_miss), (bypass, caches.fx_bypass))
    autograd = ((hit, caches.aot_hit), (miss, caches.aot_miss))
    for title, entries in (("FX graph cache", graph), ("AOTAutograd cache", autograd)):
        known = [units.counted(value, *what) for what, value in entries if value is not None]
        if known:
            said.append(f"{title}: {', '.join(known)}")
    return "; ".join(said) or None


def _graphs(report: Report) -> Section | None:
    graphs = report.graphs[:_ROWS]
    if not graphs:
        return None
    replayed = {True: "yes", False: "no", None: None}
    # of a log that records such sizes at all, none recorded means none
    static = "none" if any(graph.dynamic for graph in report.graphs) else None
    dynamic = [", ".join(graph.dynamic) or static for graph in graphs]
    table = Table(
        (
            names("Graph", [graph.id for graph in graphs]),
            names("Backend", [graph.backend for graph in graphs]),
            names("Mode", [graph.mode for graph in graphs], optional=2),
            names("Dynamic", dynamic, optional=3),
            texts("CUDA graph", [replayed[graph.cuda_graph] for graph in graphs]),
            counts("Ops", [graph.ops for graph in graphs]),
            counts("Kernels", [graph.kernels for graph in graphs]),
            counts("Guards", [graph.guards for graph in graphs]),
            times("One check", [graph.guard_ns for graph in graphs], optional=1),
        ),
        more(len(graphs), len(report.graphs), "graphs"),
    )
    return Section("Graphs", tables=(table,))


def _autograd(report: Report) -> Section | None:
    autograd = report.autograd
    if not (autograd.pairs or autograd.unpaired_forward or autograd.unpaired_backward):
        return None
    said = units.counted(autograd.pairs, "compiled forward paired", "compiled forwards paired")
    said += " with its backward" if autograd.pairs == 1 else " with their backward"
    alone = [
        f"{units.count(number)} {what} without"
        for number, what in ((autograd.unpaired_forward, "forward"), (autograd.unpaired_backward, "backward"))
        if number
    ]
    by_region: dict[str | None, list[AutogradPair]] = {}
    for pair in autograd.list:
        by_region.setdefault(pair.region, []).append(pair)
    shown = list(by_region.items())[:_ROWS]
    table = Table(
        (
            names("Region", [region if region is not None else "outside of any" for region, _ in shown]),
            counts("Pairs", [len(pairs) for _, pairs in shown]),
            times("Forward", [_sum(pair.forward_ns for pair in pairs) for _, pairs in shown]),
            times("Backward", [_sum(pair.backward_ns for pair in pairs) for _, pairs in shown]),
            times(
                f"Backward on {words.device(report)}",
                [_sum(pair.backward_device_ns for pair in pairs) for _, pairs in shown],
                optional=1,
            ),
        ),
        more(len(shown), len(by_region), "regions"),
    )
    return Section("Autograd", (", ".join([said, *alone]),), (table,) if shown else ())


def _sum(values: Iterable[int | None]) -> int | None:
    """The sum, unknown where a part of it is."""
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _cuda_graphs(report: Report) -> Section | None:
    graphs = report.cuda_graphs
    if not (graphs.used or graphs.replays or graphs.skips or graphs.recordings):
        return None
    said = [units.counted(graphs.replays, "replay")] if graphs.replays is not None else []
    if graphs.recordings is not None:
        said.append(units.counted(graphs.recordings, "recording"))
    tables = []
    regions = graphs.regions[:_ROWS]
    if regions:
        tables.append(
            Table(
                (
                    names("Region", [r.id if r.id is not None else "outside of any" for r in regions]),
                    counts("Replays", [region.replays for region in regions]),
                    times(words.device(report), [region.device_ns for region in regions]),
                ),
                more(len(regions), len(graphs.regions), "regions"),
            )
        )
    skips = graphs.skips[:_ROWS]
    if skips:
        tables.append(
            Table(
                (
                    texts("Skipped because", [skip.reason for skip in skips]),
                    counts("Count", [skip.count for skip in skips]),
                ),
                more(len(skips), len(graphs.skips), "reasons"),
            )
        )
    return Section("CUDA graphs", (", ".join(said),) if said else (), tuple(tables))


SECTIONS: tuple[Callable[[Report], Section | None], ...] = (
    _breaks,
    _recompiles,
    _compile_time,
    _graphs,
    _autograd,
    _cuda_graphs,
)
