"""What findings are made from where there is a compile log: facts of the trace, joined with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from kinetoscope.analyses.breaks import Nesting
from kinetoscope.analyses.joined_breaks import JoinedBreaks
from kinetoscope.analyses.joined_kernels import KernelPlaces, with_sources
from kinetoscope.analyses.log_breaks import log_breaks
from kinetoscope.analyses.log_compile_time import LogCompileTime, log_compile_time
from kinetoscope.analyses.log_recompiles import LogRecompiles, log_recompiles
from kinetoscope.analyses.verdict import verdict
from kinetoscope.findings.facts import Facts
from kinetoscope.link.logs import LogLinks

__all__ = ["GuardCost", "LogFacts"]


@dataclass(frozen=True)
class GuardCost:
    """Guards of a region, as the log tells: how many, and the time of one check of all (None: unknown)."""

    count: int
    latency_ns: int | None


@dataclass(frozen=True, eq=False)
class LogFacts(Facts):
    """Facts of a trace with its compile log."""

    join: LogLinks
    breaks: JoinedBreaks
    places: KernelPlaces

    @classmethod
    def joined(cls, facts: Facts, join: LogLinks) -> LogFacts:
        """``facts`` with what the log adds: exact breaks, the verdict, source lines of kernels."""
        breaks = JoinedBreaks(join, log_breaks(join.log), Nesting(facts.links))
        places = KernelPlaces(join, facts.work)
        return cls(
            links=facts.links,
            work=facts.work,
            code=facts.code,
            compiled=verdict(
                facts.code,
                skipped=_names(breaks, "skipped_frame"),
                limited=_names(breaks, "limit"),
                empty=[label for label, item in join.latest_of_id.items() if item.ops == 0],
            ),
            graph_breaks=breaks.report,
            kernels=None if facts.kernels is None else with_sources(facts.kernels, places),
            join=join,
            breaks=breaks,
            places=places,
            capture=facts.capture,
        )

    @cached_property
    def recompiled(self) -> LogRecompiles:
        """Recompilations and limits."""
        return log_recompiles(self.join.log)

    @cached_property
    def compiling(self) -> LogCompileTime:
        """Compile time."""
        return log_compile_time(self.join.log)

    @cached_property
    def guards(self) -> Mapping[str, GuardCost]:
        """Guards of each compiled region that ran in the trace, by its id."""
        return {
            label: GuardCost(item.guards, item.guard_ns)
            for label, item in self.join.latest_of_id.items()
            if item.guards is not None
        }


def _names(breaks: JoinedBreaks, kind: str) -> list[str]:
    sites = breaks.of(kind)
    return list(dict.fromkeys(each.site.function or "a function without a name" for each in sites))
