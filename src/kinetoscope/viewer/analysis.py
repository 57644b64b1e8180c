"""Everything that is known of a trace beyond its picture: links, report, meanings, arrows, counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kinetoscope.analyses.origins import Work
from kinetoscope.export.part import part
from kinetoscope.findings import Facts
from kinetoscope.findings.log_facts import LogFacts
from kinetoscope.ingest.capture_directory import Capture
from kinetoscope.ingest.compile_log import CompileLog
from kinetoscope.link import Links
from kinetoscope.link.logs import LogLinks
from kinetoscope.link.window import intervals_of
from kinetoscope.reporting import facts_of, report_and_facts
from kinetoscope.schema import Report
from kinetoscope.trace import Bool, Trace, TraceWarning, UInt8
from kinetoscope.viewer import kernel_table, meaning, overlays
from kinetoscope.viewer.counters import Series, find_series
from kinetoscope.viewer.flows import Flows, find_flows
from kinetoscope.viewer.once import once
from kinetoscope.viewer.query_process import QueryProcess
from kinetoscope.viewer.query_tables import columns
from kinetoscope.window import WindowSpec


@dataclass(frozen=True, eq=False)
class Analysis:
    """The analysis of one trace; what is costly is made when it is first asked for."""

    links: Links
    report: Report  # of the window that was asked for
    facts: Facts  # like everything else, of the whole trace
    meaning: UInt8
    join: LogLinks  # with the compile log; with an empty one where there is none that fits
    capture: Capture | None
    in_window: Bool | None = None  # the slices of the window that was asked for; None: of no window

    @classmethod
    def of(
        cls,
        trace: Trace,
        *,
        window: WindowSpec | None = None,
        log: CompileLog | None = None,
        capture: Capture | None = None,
        warnings: Sequence[TraceWarning] = (),
    ) -> Analysis:
        """Analyse a trace; report and tables speak of the ``window``, everything else of the whole.

        Raises:
            UsageError: the window is not in the trace.
        """
        links = Links(trace)
        report, facts = report_and_facts(links, window=window, log=log, capture=capture, warnings=warnings)
        if facts.links is not links:
            facts, _ = facts_of(links, log, capture)
        join = facts.join if isinstance(facts, LogFacts) else LogLinks(links, CompileLog())
        rows = None if window is None else part(links, intervals_of(links, window)).rows
        return cls(links, report, facts, meaning.by_origin(links, facts.work), join, capture, rows)

    @property
    def work(self) -> Work:
        """All pieces of work."""
        return self.facts.work

    def prepare(self) -> None:
        """Make now what a page will ask for soon."""
        for _ in (self.idle, self.flows, self.series, self.kernels):
            pass

    @once
    def flows(self) -> Flows:
        """All arrows."""
        return find_flows(self.links)

    @once
    def idle(self) -> overlays.IdleLanes | None:
        """Idle gaps of the devices."""
        return overlays.idle_lanes(self.links)

    @property
    def idle_if_known(self) -> overlays.IdleLanes | None:
        """The idle time if it was asked for before: a picture does not wait for it."""
        return Analysis.idle.if_made(self)

    @once
    def series(self) -> list[Series]:
        """Counters."""
        return find_series(self.links)

    @once
    def kernels(self) -> dict[str, Any]:
        """The kernel table."""
        return kernel_table.table(self.facts, self.meaning, self.report, self.in_window)

    @once
    def database(self) -> QueryProcess:
        """The trace in SQL."""
        # not bound to this object, which would then never go, nor the process
        trace, launch_of_row = self.links.trace, self.links.launches.launch_of_row
        return QueryProcess(lambda: columns(trace, launch_of_row))
