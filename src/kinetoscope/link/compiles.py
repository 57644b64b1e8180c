"""Compile phases: where PyTorch was compiling rather than running.

A phase is a slice ``X (dynamo_timed)``; phases nest. A phase that is in no other on its thread is
an *entry point*: one compilation of a frame, of a backward, one autotuning. Where the trace has
markers ``X_data: ..., compile_id=0/0`` (torch 2.11), the marker just before an entry point, or the
first one inside it, tells the compile id. Markers are no phases: their own time counts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinetoscope.link.intervals import union_ns
from kinetoscope.link.launches import Launches
from kinetoscope.link.names import Mark, marked, marker_of, phase_name
from kinetoscope.link.regions import Calls, find_calls
from kinetoscope.trace import Bool, Category, Int64, Trace, UInt32


@dataclass(frozen=True, eq=False)
class Compiles:
    """The compile phases of a trace.

    Attributes:
        trace: what they were found in.
        launches: its launches.
        phases: the phases, with their nesting among themselves; ``labels`` are their names.
        compile_id: per phase, index into ``ids`` of its entry point's id, -1 where unknown.
        ids: distinct compile ids.
    """

    trace: Trace
    launches: Launches
    phases: Calls
    compile_id: Int64
    ids: tuple[str, ...]

    @cached_property
    def entries(self) -> Int64:
        """Indices of the entry points."""
        return self.phases.outermost

    @cached_property
    def total_ns(self) -> int:
        """Union of all phases on all threads."""
        entries = self.entries
        return union_ns(self.phases.start_ns[entries], self.phases.end_ns[entries])

    @cached_property
    def covers_row(self) -> Bool:
        """Which slices of CPU threads start inside a compile phase (a phase itself included)."""
        inside: Bool = self.phases.of_rows >= 0
        return inside

    @cached_property
    def covers_call(self) -> Bool:
        """Per launch call: whether it was made inside a compile phase."""
        if len(self.phases) == 0:
            return np.zeros(len(self.launches.call_rows), np.bool_)
        return self.phases.at_rows(self.launches.call_rows) >= 0


def find_compiles(trace: Trace, marks: UInt32, launches: Launches) -> Compiles:
    """Find the compile phases of ``trace``."""
    c = trace.columns
    on_cpu = (c.category < Category.KERNEL) & (c.category != Category.GPU_ANNOTATION) & c.is_valid
    rows = np.flatnonzero(marked(marks, c.name, Mark.PHASE | Mark.PHASE_DATA) & on_cpu)
    bits = marks[c.name[rows]]
    phases = find_calls(trace, rows[(bits & np.uint32(Mark.PHASE)) != 0], phase_name)
    compile_id, ids = _ids_of_phases(trace, phases, rows[(bits & np.uint32(Mark.PHASE_DATA)) != 0])
    return Compiles(trace=trace, launches=launches, phases=phases, compile_id=compile_id, ids=ids)


def _ids_of_phases(trace: Trace, phases: Calls, markers: Int64) -> tuple[Int64, tuple[str, ...]]:
    """Compile id of every phase, by the markers before and inside its entry point."""
    numbers: dict[str, int] = {}
    rows: list[int] = []
    values: list[int] = []
    for row in markers.tolist():  # markers are few: some hundreds a compilation
        compile_id = marker_of(trace.name_of(row))[1]
        if compile_id is not None:
            rows.append(row)
            values.append(numbers.setdefault(compile_id, len(numbers)))
    found = np.full(len(phases), -1, np.int64)
    entries = phases.outermost
    if not rows or not len(entries):
        return found, tuple(numbers)
    # Rows of a track ascend with time, and no other track's rows lie between.
    at, value = np.array(rows, np.int64), np.array(values, np.int64)
    entry_rows = phases.rows[entries]
    before = np.searchsorted(at, entry_rows) - 1
    after = np.minimum(before + 1, len(at) - 1)
    columns = trace.columns
    previous_end = np.append(np.iinfo(np.int64).min, phases.end_ns[entries][:-1])
    same_track = np.append(False, phases.track[entries][1:] == phases.track[entries][:-1])
    previous_end = np.where(same_track, previous_end, np.iinfo(np.int64).min)
    marker_before, marker_after = at[np.maximum(before, 0)], at[after]
    track = phases.track[entries]
    is_before = (
        (before >= 0)
        & (columns.track[marker_before] == track)
        & (columns.start_ns[marker_before] >= previous_end)
    )
    is_inside = (
        (columns.track[marker_after] == track)
        & (columns.start_ns[marker_after] >= phases.start_ns[entries])
        & (columns.start_ns[marker_after] < phases.end_ns[entries])
    )
    of_entry = np.where(is_before, value[np.maximum(before, 0)], np.where(is_inside, value[after], -1))
    found[entries] = of_entry
    for index in range(len(phases)):  # parents come first
        if phases.parent[index] >= 0:
            found[index] = found[phases.parent[index]]
    return found, tuple(numbers)
