"""From inputs to a `Report`: read, link, join with the compile log, analyse, find.

The module is called ``reporting`` because ``kinetoscope.report`` is the function that users call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from msgspec.structs import replace

from kinetoscope import analyses
from kinetoscope.analyses import joined_compiles, joined_regions
from kinetoscope.findings import Facts, find
from kinetoscope.findings.log_facts import LogFacts
from kinetoscope.ingest import load_source
from kinetoscope.ingest.capture_directory import Capture, Input, LogShelf, find_inputs
from kinetoscope.ingest.compile_log import CompileLog
from kinetoscope.link import Links, link
from kinetoscope.link.logs import LogLinks
from kinetoscope.link.window import windowed
from kinetoscope.schema import DeviceInfo, Idle, Report, TraceSummary, Versions, WarningNote, Window
from kinetoscope.trace import Trace, TraceWarning
from kinetoscope.window import WindowSpec

#: called with bytes read so far and bytes in all (None: unknown)
Progress = Callable[[int, "int | None"], None]


def analyse(
    paths: Sequence[str],
    *,
    compile_log: str | None = None,
    window: WindowSpec | None = None,
    progress: Progress | None = None,
    use_store: bool = True,
) -> Report:
    """The report of one or more inputs; several traces are ranks of one job, reported side by side.

    ``compile_log`` is a TORCH_TRACE log or a directory of them; that of a capture directory is found.

    Raises:
        InputError: an input cannot be read.
        UsageError: the window is not in the trace.
    """
    shelf = LogShelf()
    reports = [
        _report_of_input(item, shelf, window, progress, use_store=use_store)
        for item in find_inputs(paths, compile_log)
    ]
    if len(reports) == 1:
        return reports[0]
    # by rank; those that do not know theirs after those that do, in the order given
    reports.sort(key=lambda report: (report.trace.rank is None, report.trace.rank or 0))
    reports = _doubting_ranks(reports)
    return replace(reports[0], ranks=reports)


def _doubting_ranks(reports: list[Report]) -> list[Report]:
    """The reports, with a warning in those that may not be ranks of one job."""
    times = Counter(report.trace.rank for report in reports)

    def doubting(report: Report) -> Report:
        rank = report.trace.rank
        if times[rank] < 2:
            return report
        if rank is None:
            message = "several of the inputs do not say their rank: they may not be ranks of one job"
            note = WarningNote(code="rank-unknown", message=message, count=times[rank])
        else:
            message = f"several of the inputs say that they are rank {rank}: they are not ranks of one run"
            note = WarningNote(code="rank-twice", message=message, count=times[rank])
        return replace(report, trace=replace(report.trace, warnings=[*report.trace.warnings, note]))

    return [doubting(report) for report in reports]


def _report_of_input(
    item: Input, shelf: LogShelf, window: WindowSpec | None, progress: Progress | None, *, use_store: bool
) -> Report:
    trace = load_source(item.source, progress=progress, use_store=use_store)
    log, warnings = shelf.log_for(item, trace)
    return report_of(trace, window=window, log=log, capture=item.capture, warnings=warnings)


def report_of(
    trace: Trace,
    *,
    window: WindowSpec | None = None,
    log: CompileLog | None = None,
    capture: Capture | None = None,
    warnings: Sequence[TraceWarning] = (),
) -> Report:
    """The report of one trace, with the compile log of its process where there is one.

    ``warnings`` are about the log. A log that cannot be this trace's is left out, and that is one of them.

    Raises:
        UsageError: the window is not in the trace.
    """
    return report_and_facts(link(trace), window=window, log=log, capture=capture, warnings=warnings)[0]


def report_and_facts(
    links: Links,
    *,
    window: WindowSpec | None = None,
    log: CompileLog | None = None,
    capture: Capture | None = None,
    warnings: Sequence[TraceWarning] = (),
) -> tuple[Report, Facts]:
    """`report_of` a trace that is linked, and the facts behind it, so that nothing is found twice.

    Without a window the facts are of these very ``links``, else of the part's own.

    Raises:
        UsageError: the window is not in the trace.
    """
    chosen: Window | None = None
    if window is not None:
        links, chosen = windowed(links, window)
    # What both sides need is linked first. Then NumPy, which lets go of the interpreter, explains the
    # idle time on one core while the rest is found on another: a third of a large report's time.
    for _ in (links.devices, links.regions, links.compiles, links.steps, links.pairs):
        pass
    with ThreadPoolExecutor(1, thread_name_prefix="kinetoscope-idle") as beside:
        idle = beside.submit(analyses.idle, links)
        facts, warnings = facts_of(links, log, capture, warnings)
        return _report(facts, chosen, warnings, idle), facts


def facts_of(
    links: Links,
    log: CompileLog | None,
    capture: Capture | None = None,
    warnings: Sequence[TraceWarning] = (),
) -> tuple[Facts, tuple[TraceWarning, ...]]:
    """The facts of a trace, joined with its log, and what should be said about the log."""
    facts = Facts.of(links, capture)
    if log is None:
        return facts, tuple(warnings)
    join = LogLinks(links, log)
    if join.mismatch is not None:
        message = f"the compile log was left out: {join.mismatch}"
        return facts, (*warnings, TraceWarning("compile-log-mismatch", message))
    return LogFacts.joined(facts, join), tuple(warnings)


def _report(
    facts: Facts, window: Window | None, warnings: Sequence[TraceWarning], idle: Future[Idle | None]
) -> Report:
    links = facts.links
    named = analyses.user_annotations(links) if window is None else None
    told = () if facts.capture is None else facts.capture.warnings
    warnings = [*warnings, *([named] if named is not None else [])]
    warnings += [TraceWarning("capture", f"the capture: {message}") for message in told]
    report = Report(
        trace=summary(links.trace, window, warnings),
        steps=analyses.steps(links),
        compiled=facts.compiled,
        regions=analyses.regions(links),
        graphs=[],
        graph_breaks=facts.graph_breaks,
        recompiles=analyses.recompiles(links),
        compile_time=analyses.compile_time(links),
        autograd=analyses.autograd(links),
        device_time=analyses.device_time(links),
        launches=analyses.launches(links),
        kernels=facts.kernels,
        memory=analyses.memory(links),
        cuda_graphs=analyses.cuda_graphs(links),
        findings=find(facts),
        idle=idle.result(),
    )
    report = _joined(report, facts) if isinstance(facts, LogFacts) else report
    return report if facts.capture is None else _captured(report, facts, facts.capture)


def _joined(report: Report, facts: LogFacts) -> Report:
    """The report with the parts that the log knows better."""
    join = facts.join
    return replace(
        report,
        trace=_with_torch(report.trace, join.log.torch_version),
        regions=joined_regions.regions(report.regions, facts.breaks),
        graphs=joined_compiles.graphs(join),
        recompiles=joined_compiles.recompiles(facts.recompiled),
        compile_time=joined_compiles.compile_time(join, facts.compiling),
        cuda_graphs=joined_regions.cuda_graphs(report.cuda_graphs, join.log, None),
    )


def _captured(report: Report, facts: Facts, capture: Capture) -> Report:
    """The report with what the capture recorded beside trace and log."""
    log = facts.join.log if isinstance(facts, LogFacts) else None
    return replace(
        report,
        trace=_with_torch(report.trace, capture.torch_version),
        steps=replace(
            report.steps,
            unprofiled_mean_ns=capture.mean_step_ns("before"),
            unprofiled_ns=None if capture.unprofiled is None else capture.unprofiled.step_ns,
        ),
        compile_time=replace(report.compile_time, compile_times_table=capture.compile_times),
        cuda_graphs=joined_regions.cuda_graphs(report.cuda_graphs, log, capture.cudagraph_skips),
    )


def _with_torch(trace: TraceSummary, version: str | None) -> TraceSummary:
    """With the version of torch, where the trace itself does not say it."""
    known = trace.versions.torch or version
    return replace(trace, versions=replace(trace.versions, torch=known))


def summary(
    trace: Trace, window: Window | None = None, warnings: Sequence[TraceWarning] = ()
) -> TraceSummary:
    """What was read; ``warnings`` come on top of those of the trace."""
    info = trace.info
    return TraceSummary(
        path=info.path,
        events=info.events,
        complete_events=info.complete_events,
        span_ns=trace.span_ns,
        device_kind=info.device_kind,
        devices=[DeviceInfo(index=device.index, name=device.name) for device in info.devices],
        versions=Versions(
            torch=info.versions.get("torch"),
            cuda_runtime=info.versions.get("cuda_runtime"),
            cuda_driver=info.versions.get("cuda_driver"),
            cupti=info.versions.get("cupti"),
        ),
        rank=info.rank,
        world_size=info.world_size,
        complete=info.complete,
        window=window,
        warnings=[
            WarningNote(code=warning.code, message=warning.message, count=warning.count)
            for warning in (*info.warnings, *warnings)
        ],
    )
