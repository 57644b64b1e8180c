"""Was it compiled: a verdict with evidence that a reader can check in the timeline."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinetoscope.analyses.breaks import frame_of
from kinetoscope.analyses.operator_names import is_aten_beyond_views
from kinetoscope.analyses.origins import Work, has_cpu_rows
from kinetoscope.analyses.wording import counted, duration, listed, percent
from kinetoscope.link import Links
from kinetoscope.link.intervals import merged, union_ns
from kinetoscope.link.regions import Calls
from kinetoscope.schema import Compiled, Verdict
from kinetoscope.trace import Bool, Category, Int64

#: below this share of device time, compiled code is not what the program runs on
LITTLE = 0.1


@dataclass(frozen=True, eq=False)
class CompiledCode:
    """What the trace shows of compiled code, and of what ran eagerly beside it."""

    links: Links
    work: Work

    @property
    def is_legacy(self) -> bool:
        """Whether the file is of a format that cannot show compiled code."""
        return any(warning.code == "legacy-format" for warning in self.links.trace.warnings)

    @cached_property
    def has_cpu_rows(self) -> bool:
        """Whether the CPU's side was recorded: operators or annotations, not only calls of the runtime."""
        return has_cpu_rows(self.links)

    @cached_property
    def generated(self) -> Bool:
        """Per piece of work: a kernel that Inductor generated, run outside compile phases."""
        return self.work.of("inductor_triton", "inductor_cpp")

    @cached_property
    def ran(self) -> bool:
        """Whether any compiled code ran."""
        regions = self.links.regions
        calls = (regions.calls, regions.graphs, regions.forwards, regions.backwards)
        return any(len(found) for found in calls) or bool(self.generated.any())

    def only_calls(self, ids: Collection[str]) -> bool:
        """Whether regions of these ids are all that speaks for compiled code having run."""
        regions = self.links.regions
        beside = (regions.graphs, regions.forwards, regions.backwards)
        return (
            bool(len(regions.calls))
            and set(regions.calls.labels) <= set(ids)
            and not any(len(found) for found in beside)
            and not self.generated.any()
        )

    @cached_property
    def device_share(self) -> float | None:
        """Share of device time that was launched from compiled graphs."""
        work = self.work
        launches = self.links.launches
        if not work.on_device or not launches.are_device_events_recorded or not launches.is_linked.any():
            return None
        if not self.has_cpu_rows:
            return None
        counts = ~work.is_communication & ~work.in_phase
        total = int(work.dur_ns[counts].sum())
        return int(work.dur_ns[counts & work.in_graph].sum()) / total if total else None

    @cached_property
    def eager_rows(self) -> Int64:
        """Rows of operators that ran inside a region, outside its graph: eager code in a compiled function.

        Empty for files before torch 2.9, which do not show where a graph begins.
        """
        links = self.links
        regions, c = links.regions, links.trace.columns
        if not len(regions.graphs) or not len(regions.calls):
            return np.empty(0, np.int64)
        counts = links.trace.names.where(is_aten_beyond_views)
        rows = np.flatnonzero(_rows_inside(regions.calls))
        # a CompiledFunction outside its graph is AOTAutograd's wrapper, part of compiled code
        for around in (regions.graphs, regions.forwards, regions.backwards, links.compiles.phases):
            rows = rows[~_rows_inside(around)[rows]] if len(around) else rows
        eager: Int64 = rows[counts[c.name[rows]] & (c.category[rows] == Category.CPU_OP) & c.is_valid[rows]]
        return eager

    @cached_property
    def outer_eager_rows(self) -> Int64:
        """Of `eager_rows`, those that were not called by another of them."""
        parent = self.links.trace.columns.parent[self.eager_rows]
        return self.eager_rows[~np.isin(parent, self.eager_rows)]

    @cached_property
    def unanswered_lookups(self) -> Int64:
        """Rows of cache lookups that neither a region nor a compilation followed: the frame ran eagerly.

        That is what a frame leaves that has reached its recompile limit. While things compile for the
        first time, frames of torch's own are looked up and left alone: so it is said only where nothing
        compiled, or where some frame was compiled more than once.
        """
        regions, c = self.links.regions, self.links.trace.columns
        phases = self.links.compiles.phases
        rows = regions.lookups
        again = len({frame_of(label) for label in regions.ids}) < len(regions.ids)
        told = len(regions.calls) > 0 or not self.ran  # older torch has lookups and no regions
        if not len(rows) or not told or (len(phases) and not again):
            return np.empty(0, np.int64)
        answers = np.concatenate((regions.calls.rows, phases.rows[phases.outermost]))
        found = np.zeros(len(rows), np.bool_)
        for track in np.unique(c.track[rows]):
            here = np.flatnonzero(c.track[rows] == track)
            answered_at = np.sort(c.start_ns[answers[c.track[answers] == track]])
            asked = c.start_ns[rows[here]]
            # the last one may have been answered after the profiler stopped
            next_asked = asked[1:]
            found[here[:-1]] = np.searchsorted(answered_at, asked[:-1]) == np.searchsorted(
                answered_at, next_asked
            )
        return rows[found]

    @cached_property
    def cpu_share(self) -> float | None:
        """Share of the steps' time that was spent in compiled regions and compiled backward."""
        steps, regions = self.links.steps, self.links.regions
        if not len(steps) or not self.has_cpu_rows:
            return None
        total = union_ns(steps.start_ns, steps.end_ns)
        outer = regions.calls.outermost
        start, end = merged(
            np.concatenate((regions.calls.start_ns[outer], regions.backwards.start_ns)),
            np.concatenate((regions.calls.end_ns[outer], regions.backwards.end_ns)),
        )
        both = union_ns(np.append(start, steps.start_ns), np.append(end, steps.end_ns))
        inside = int((end - start).sum()) - (both - total)
        return inside / total if total else None


def _rows_inside(calls: Calls) -> Bool:
    """Which slices start inside a call on its track: the rows of a track ascend with their start."""
    trace = calls.trace
    c = trace.columns
    opened = np.zeros(len(c) + 1, np.int32)
    outer = calls.outermost
    for track in np.unique(calls.track[outer]).tolist():
        mine, about = outer[calls.track[outer] == track], trace.track_list[track]
        after = np.searchsorted(c.start_ns[about.first : about.last], calls.end_ns[mine]) + about.first
        np.add.at(opened, calls.rows[mine], 1)
        np.add.at(opened, np.maximum(after, calls.rows[mine] + 1), -1)
    inside: Bool = np.cumsum(opened[:-1]) > 0
    return inside


def verdict(
    code: CompiledCode,
    *,
    skipped: Sequence[str] = (),
    limited: Sequence[str] = (),
    empty: Collection[str] = (),
) -> Compiled:
    """The verdict of one trace.

    Args:
        code: what the trace shows.
        skipped: functions that the compile log says were skipped whole.
        limited: functions that the compile log says reached their recompile limit.
        empty: ids of the regions that the compile log says have no operator in them.
    """
    hollow = code.only_calls(empty)
    answer: Verdict = "no" if hollow and code.has_cpu_rows else _answer(code, bool(skipped or limited))
    evidence = _evidence(code, answer, skipped, limited)
    if hollow:
        evidence.append("The compile log says that no operator is in any of these regions.")
    return Compiled(
        verdict=answer,
        evidence=evidence,
        device_share=code.device_share,
        cpu_share=code.cpu_share,
    )


def _answer(code: CompiledCode, log_tells_eager: bool) -> Verdict:
    if not code.has_cpu_rows or (code.is_legacy and not code.ran):
        return "unknown"
    if not code.ran:
        return "no"
    little = code.device_share is not None and code.device_share < LITTLE
    if log_tells_eager or little or len(code.eager_rows) or len(code.unanswered_lookups):
        return "partly"
    return "yes"


def _evidence(
    code: CompiledCode, answer: Verdict, skipped: Sequence[str], limited: Sequence[str]
) -> list[str]:
    found = [*_seen(code)]
    if answer == "unknown" and code.is_legacy:
        found.insert(0, "This old format of torch.autograd.profiler records no compiled regions.")
    elif answer == "unknown":
        found.insert(0, "The trace has no CPU operators, so it does not show what launched the work.")
    if answer == "no":
        region = "" if len(code.links.regions.calls) else "no compiled region, "
        found.append(f"There is {region}no compiled graph and no kernel that Inductor generated.")
        found.append(_eager(code.work))
    found += _beside(code)
    if skipped:
        found.append(f"The compile log says that {listed(skipped)} ran eagerly: skipped as a whole.")
    if limited:
        found.append(f"The compile log says that {listed(limited)} reached the recompile limit.")
    return found


def _seen(code: CompiledCode) -> list[str]:
    """Sentences about what compiled code left in the trace."""
    regions, work = code.links.regions, code.work
    found = []
    if len(regions.calls):
        ids = [label or "without an id" for label in regions.calls.labels]
        found.append(
            f"{counted(len(regions.calls), 'call')} of {counted(len(ids), 'compiled region')}"
            f" ({listed(ids)}) ran."
        )
    elif len(regions.graphs):
        found.append(f"{counted(len(regions.graphs), 'call')} of compiled graphs ran, outside any region.")
    if len(regions.forwards) or len(regions.backwards):
        found.append(
            f"CompiledFunction ran {counted(len(regions.forwards), 'time')}, its backward"
            f" {counted(len(regions.backwards), 'time')}."
        )
    generated = code.generated
    if generated.any():
        what = "Triton kernel" if work.on_device else "C++ kernel"
        found.append(
            f"{counted(int(generated.sum()), what)} that Inductor generated ran,"
            f" {duration(int(work.dur_ns[generated].sum()))} in all."
        )
    share = code.device_share
    if share is not None and code.ran:
        counts = ~work.is_communication & ~work.in_phase
        total = int(work.dur_ns[counts].sum())
        found.append(
            f"Compiled graphs launched {duration(share * total)} of {duration(total)} of device time"
            f" ({percent(share)}), communication and work of the compiler left out."
        )
    return found


def _eager(work: Work) -> str:
    eager = work.of("eager", "user_triton")
    what = "kernel" if work.on_device else "operator"
    others = int((work.is_kernel & ~eager).sum())
    rest = f"; where {counted(others, 'other')} came from is unknown" if others else ""
    spent = duration(int(work.dur_ns[eager].sum()))
    return f"{counted(int(eager.sum()), what)} ran eagerly, {spent} in all{rest}."


def _beside(code: CompiledCode) -> list[str]:
    """Sentences about what ran eagerly in compiled functions."""
    links = code.links
    found = []
    rows = code.outer_eager_rows
    if len(rows):
        names = [links.trace.name_of(int(row)) for row in rows[np.argsort(-links.trace.columns.dur_ns[rows])]]
        calls = links.regions.calls
        inside = calls.label[calls.at_rows(rows)]
        ids = [calls.labels[label] for label in dict.fromkeys(inside.tolist())]
        found.append(
            f"{counted(len(rows), 'operator')} ran eagerly inside compiled functions, outside their graphs:"
            f" {listed(dict.fromkeys(names))}, in region {listed(ids)}."
        )
    lookups = len(code.unanswered_lookups)
    if lookups:
        found.append(
            f"After {counted(lookups, 'cache lookup')} neither compiled code ran nor a compilation began:"
            " the function ran eagerly, as one does that has reached its recompile limit."
        )
    return found
