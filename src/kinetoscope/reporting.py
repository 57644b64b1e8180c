"""From inputs to a `Report`: read, link, analyse, find.

The module is called ``reporting`` because ``kinetoscope.report`` is the function that users call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from kinetoscope import analyses
from kinetoscope.findings import Facts, find
from kinetoscope.ingest import find_sources, load_source
from kinetoscope.link import Links, link
from kinetoscope.link.window import windowed
from kinetoscope.schema import DeviceInfo, Report, TraceSummary, Versions, WarningNote, Window
from kinetoscope.trace import Trace
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

    Raises:
        InputError: an input cannot be read.
        UsageError: the window is not in the trace.
    """
    sources = [source for path in paths for source in find_sources(path)]
    reports = [
        report_of(load_source(source, progress=progress, use_store=use_store), window=window)
        for source in sources
    ]
    if len(reports) == 1:
        return reports[0]
    # by rank; those that do not know theirs after those that do, in the order given
    reports.sort(key=lambda report: (report.trace.rank is None, report.trace.rank or 0))
    return replace(reports[0], ranks=reports)


def report_of(trace: Trace, *, window: WindowSpec | None = None) -> Report:
    """The report of one trace.

    Raises:
        UsageError: the window is not in the trace.
    """
    links = link(trace)
    chosen: Window | None = None
    if window is not None:
        links, chosen = windowed(links, window)
    return _report(links, chosen)


def _report(links: Links, window: Window | None) -> Report:
    facts = Facts.of(links)
    return Report(
        trace=summary(links.trace, window),
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
        idle=analyses.idle(links),
        memory=analyses.memory(links),
        cuda_graphs=analyses.cuda_graphs(links),
        findings=find(facts),
    )


def summary(trace: Trace, window: Window | None = None) -> TraceSummary:
    """What was read."""
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
            for warning in info.warnings
        ],
    )
