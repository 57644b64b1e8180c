"""Graph breaks of a log, with how often each was passed in the trace, and what it cost there.

The log tells where and why; the trace tells how often and how long. A nested region call is charged to one
site alone: the break that it continues, else (a callee that was not inlined) the first break met inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinetoscope.analyses.breaks import Nesting, frame_of
from kinetoscope.analyses.log_breaks import LogBreaks, LogBreakSite
from kinetoscope.ingest.compile_log import Compilation
from kinetoscope.link.logs import LogLinks
from kinetoscope.schema import BreakSite, GraphBreaks
from kinetoscope.trace import Int64

__all__ = ["JoinedBreaks", "JoinedSite"]


@dataclass(frozen=True, eq=False)
class JoinedSite:
    """One site of the log and what the trace shows of it.

    ``calls`` are indices of the region calls charged to it, ``lost_ns`` the CPU time lost around them (as
    `kinetoscope.analyses.breaks.Nesting` measures it). Both ``hits`` and ``lost_ns`` are None where the trace
    cannot tell.
    """

    site: LogBreakSite
    hits: int | None
    calls: Int64
    lost_ns: int | None


@dataclass(frozen=True, eq=False)
class JoinedBreaks:
    """The sites of a log, joined with a trace."""

    join: LogLinks
    found: LogBreaks
    nesting: Nesting

    @cached_property
    def sites(self) -> tuple[JoinedSite, ...]:
        """All sites, most costly first; of equal cost in the order in which they were first met."""
        charged = self._charged()
        lost = self.nesting.lost_ns
        continuations = self.nesting.continuations
        joined = []
        for number, site in enumerate(self.found.sites):
            mine = np.flatnonzero(charged == number)
            hits = self._hits(site)
            joined.append(
                JoinedSite(
                    site=site,
                    hits=hits,
                    calls=continuations[mine],
                    lost_ns=int(lost[mine].sum()) if len(mine) or hits == 0 else None,
                )
            )
        return tuple(sorted(joined, key=lambda each: -(each.lost_ns or 0)))

    @cached_property
    def report(self) -> GraphBreaks:
        """The sites as the report has them."""
        steps = len(self.join.links.steps) or None
        return GraphBreaks(
            count=self.found.count,
            bound="exact",
            source="log",
            sites=[_reported(each, steps) for each in self.sites],
        )

    def of(self, *kinds: str) -> tuple[JoinedSite, ...]:
        """The sites of these kinds, most costly first."""
        return tuple(each for each in self.sites if each.site.kind in kinds)

    def continued_by(self, item: Compilation, parents: Iterable[str]) -> str | None:
        """Id of the compilation whose break ``item`` continues, preferably of one that ran around it."""
        if item.resumes_function is None:
            return None
        ids = {
            compile_id
            for site in self.found.sites
            if item.id in (*site.continuation_ids, *site.outer_continuation_ids)
            for compile_id in site.region_ids
            if compile_id != item.id
        }
        number = self.join.number_of[id(item)]
        left = [
            other.id
            for other in self.join.log.compilations[:number]
            if other.id in ids
            and (other.source, other.generation) == (item.source, item.generation)
            and other.code_file == item.code_file
            and item.resumes_function in (other.code_name, other.resumes_function)
        ]
        around = [parent for parent in parents if parent in left]
        return around[0] if around else left[-1] if left else None

    def _charged(self) -> Int64:
        """Per continuation of the nesting: index of the site that it is charged to, or -1."""
        calls = self.join.links.regions.calls
        continues: dict[str, int] = {}
        meets: dict[str, int] = {}
        for number, site in enumerate(self.found.sites):
            for compile_id in (*site.continuation_ids, *site.outer_continuation_ids):
                continues.setdefault(compile_id, number)
            for compile_id in site.region_ids:
                meets.setdefault(compile_id, number)
        owner = np.array(
            [continues.get(label, meets.get(label, -1)) for label in calls.labels] + [-1], np.int64
        )
        return owner[calls.label[self.nesting.continuations]]

    def _hits(self, site: LogBreakSite) -> int | None:
        """How often the break was passed: calls of what is compiled up to it, which passes it in every call,
        or of its continuation, whichever are more.

        Either can leave fewer regions than passes: a side with nothing to compile leaves none, the sides of
        an ``if`` are continuations of their own, and one that reached its recompile limit runs eagerly.
        Callers' continuations count where there is neither. One pass calls one region of each frame that was
        left, so frames are not added up.
        """
        if site.kind in ("skipped_frame", "limit") or not len(self.join.links.regions.calls):
            return None
        after = {*site.continuation_ids, *site.outer_continuation_ids}
        before = [compile_id for compile_id in site.region_ids if compile_id not in after]
        place = (site.cause_file, site.cause_line)

        def meets(item: Compilation) -> bool:
            return any((record.file, record.line) == place for record in item.breaks)

        def resumes(item: Compilation) -> bool:
            return item.resumes_line is not None

        known = [self._most_calls(site.continuation_ids, resumes), self._most_calls(before, meets)]
        if known == [None, None]:
            return self._most_calls(site.outer_continuation_ids, resumes)
        return max(calls for calls in known if calls is not None)

    def _most_calls(self, ids: Iterable[str], counts: Callable[[Compilation], bool]) -> int | None:
        """Calls of the most called frame among these compilations; None where none leaves regions."""
        by_frame: dict[str, int] = {}
        for compile_id in filter(self._leaves_regions, ids):
            frame = frame_of(compile_id)
            by_frame[frame] = by_frame.get(frame, 0) + self._calls_of(compile_id, counts)
        return max(by_frame.values(), default=None)

    def _leaves_regions(self, compile_id: str) -> bool:
        """Whether a compilation of this id made code that runs as a region."""
        return any(
            item.ops is not None or item.guards is not None for item in self.join.log.with_id(compile_id)
        )

    def _calls_of(self, compile_id: str, counts: Callable[[Compilation], bool]) -> int:
        """Calls of a compile id that ran a compilation which counts: ids start again after a reset."""
        calls = self.join.links.regions.calls
        if compile_id not in calls.labels:
            return 0
        ran = self.join.of_region_call[calls.label == calls.labels.index(compile_id)]
        items = self.join.log.compilations
        return sum(1 for n in ran.tolist() if n >= 0 and counts(items[n]))


def _reported(each: JoinedSite, steps: int | None) -> BreakSite:
    site = each.site
    return BreakSite(
        file=site.file,
        line=site.line,
        ordinal=site.ordinal,
        function=site.function,
        reason=site.reason,
        gb_id=site.gb_id,
        hits=each.hits,
        regions=list(site.region_ids),
        kind=site.kind,
        cost_ns_per_step=round(each.lost_ns / steps) if steps and each.lost_ns is not None else None,
    )
