"""What findings are made from: the results of the analyses, and the steps their costs are spread over."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kinetoscope.analyses.breaks import Boundaries, Nesting, boundaries, graph_breaks
from kinetoscope.analyses.kernels import kernels
from kinetoscope.analyses.origins import Work, find_work
from kinetoscope.analyses.steps import steps, usual_steps
from kinetoscope.analyses.verdict import CompiledCode, verdict
from kinetoscope.analyses.wording import duration, percent
from kinetoscope.ingest.capture_directory import Capture
from kinetoscope.link import Links
from kinetoscope.link.intervals import union_ns
from kinetoscope.schema import Compiled, Evidence, Finding, FindingCode, GraphBreaks, Kernels, Severity
from kinetoscope.trace import Bool, Int64, Trace

#: events shown for a finding
_EVENTS = 5
# A cost of this share of a step is worth doing something about today, or soon.
_HIGH, _MEDIUM, _LOW = 0.10, 0.03, 0.001
#: a mean step beyond this many usual ones is worth a word
_UNEVEN = 2.0


@dataclass(frozen=True, eq=False)
class Facts:
    """The analyses that findings rest on; `Facts.of` makes them from a trace alone."""

    links: Links
    work: Work
    code: CompiledCode
    compiled: Compiled
    graph_breaks: GraphBreaks
    kernels: Kernels | None
    capture: Capture | None = field(default=None, kw_only=True)
    """What was recorded beside the trace; None where it is not in a capture."""

    @classmethod
    def of(cls, links: Links, capture: Capture | None = None) -> Facts:
        """The facts of a trace without a compile log."""
        work = find_work(links)
        code = CompiledCode(links, work)
        return cls(
            links=links,
            work=work,
            code=code,
            compiled=verdict(code),
            graph_breaks=graph_breaks(links, len(links.steps) or None),
            kernels=kernels(links, work),
            capture=capture,
        )

    @property
    def trace(self) -> Trace:
        """The trace they are of."""
        return self.links.trace

    @property
    def steps(self) -> int | None:
        """How many steps there are; None where none were found."""
        return len(self.links.steps) or None

    @cached_property
    def step_ns(self) -> int | None:
        """Median length of a step, as the report states it."""
        return steps(self.links).median_ns

    @cached_property
    def mean_step_ns(self) -> int | None:
        """Mean length of a step: what a total spread over the steps is a share of."""
        return steps(self.links).mean_ns

    @cached_property
    def nesting(self) -> Nesting:
        """How regions stand to each other."""
        return Nesting(self.links)

    @cached_property
    def boundaries(self) -> Boundaries:
        """Outermost regions side by side."""
        calls = self.links.regions.calls
        return boundaries(self.links, self.links.steps.at(calls.start_ns) if len(self.links.steps) else None)

    @cached_property
    def in_steps(self) -> Bool:
        """Per piece of work: launched in a step (everything, where there are no steps).

        What a program does once before its steps is not a cost of a step.
        """
        work, steps = self.work, self.links.steps
        if not len(steps):
            return np.ones(len(work.rows), np.bool_)
        start = self.trace.columns.start_ns[np.maximum(work.launched_from, 0)]
        return (work.launched_from >= 0) & (steps.at(start) >= 0)

    def per_step(self, total_ns: float) -> int | None:
        """A total of the window, spread over its steps."""
        return round(total_ns / self.steps) if self.steps else None

    def share(self, total_ns: float) -> float | None:
        """A total of the window as a share of its steps; at most 1."""
        if not self.steps or not self.mean_step_ns:
            return None
        return min(1.0, total_ns / self.steps / self.mean_step_ns)

    @cached_property
    def compiling_ns(self) -> int:
        """How much of the steps PyTorch spent compiling."""
        return self._compiling_within(self.links.steps.start_ns, self.links.steps.end_ns)

    def _compiling_within(self, start_ns: Int64, end_ns: Int64) -> int:
        compiles = self.links.compiles
        phases, entries = compiles.phases, compiles.entries
        both = union_ns(
            np.append(phases.start_ns[entries], start_ns), np.append(phases.end_ns[entries], end_ns)
        )
        return compiles.total_ns + union_ns(start_ns, end_ns) - both

    @cached_property
    def _steady_step_ns(self) -> float:
        """Mean length of a step without what it compiled; 0 if that is unknown."""
        found = self.links.steps
        usual = usual_steps(found)
        if self.mean_step_ns is None or not len(usual):
            return 0
        compiling = self._compiling_within(found.start_ns[usual], found.end_ns[usual])
        return max(0.0, self.mean_step_ns - compiling / len(usual))

    def _weight(self, total_ns: float | None) -> float | None:
        """Share that tells the severity: of the steps without compiling, else of all that was recorded.

        What costs every step must not look small beside seconds of compiling that come once.
        """
        if total_ns is None:
            return None
        share = self.share(total_ns)
        span = self.trace.span_ns
        if share is None or self.steps is None:
            return total_ns / span if span else None
        return min(1.0, total_ns / self.steps / self._steady_step_ns) if self._steady_step_ns else share

    def a_step(self, total_ns: float) -> str:
        """``1.20 ms a step (4.0 %)``, or the total where there are no steps.

        Where steps differ so much that the usual one tells little of their mean, it says that this is one.
        """
        share = self.share(total_ns)
        if self.steps is None or share is None:
            return f"{duration(total_ns)} in all"
        uneven = (self.mean_step_ns or 0) > _UNEVEN * (self.step_ns or 0)
        step = f"a step on average, of {duration(self.mean_step_ns or 0)}" if uneven else "a step"
        return f"{duration(total_ns / self.steps)} {step} ({percent(share)})"

    def events(self, rows: npt.NDArray[np.signedinteger], limit: int = _EVENTS) -> list[Evidence]:
        """The longest of these slices, as events to look at."""
        c = self.trace.columns
        if len(rows) > limit:  # only those that can be among the longest are put in order
            least = np.partition(c.dur_ns[rows], -limit)[-limit]
            rows = rows[c.dur_ns[rows] >= least]
        longest = rows[np.argsort(-c.dur_ns[rows], kind="stable")][:limit]
        return [self._event(int(row)) for row in longest]

    def _event(self, row: int) -> Evidence:
        c = self.trace.columns
        track = self.trace.track_list[int(c.track[row])]
        return Evidence(
            track=f"{track.pid}/{track.tid}",
            start_ns=int(c.start_ns[row]),
            dur_ns=int(c.dur_ns[row]),
            name=self.trace.name_of(row),
        )

    def finding(
        self,
        code: FindingCode,
        title: str,
        detail: str,
        fix: str | None,
        *,
        total_ns: float | None = None,
        severity: Severity | None = None,
        rows: Int64 | None = None,
    ) -> Finding:
        """A finding that costs ``total_ns`` over the whole window.

        Without a ``severity`` its share of a step tells; without a cost it is medium. What is known to
        cost nothing informs, whatever else is said: there is nothing to fix now.
        """
        share = None if total_ns is None else self.share(total_ns)
        if total_ns == 0:
            severity = "info"
        return Finding(
            code=code,
            title=title,
            severity=severity or severity_of(self._weight(total_ns)),
            detail=detail,
            fix=fix,
            doc=f"docs/findings.md#{code}",
            share=share,
            cost_ns_per_step=None if total_ns is None else self.per_step(total_ns),
            evidence=[] if rows is None else self.events(rows),
        )


def severity_of(share: float | None) -> Severity:
    """How much a cost of this share of a step matters."""
    if share is None:
        return "medium"
    if share >= _MEDIUM:
        return "high" if share >= _HIGH else "medium"
    return "low" if share >= _LOW else "info"
