"""Compiled regions, and what runs inside them.

A region call is one slice ``Torch-Compiled Region: ID`` on one thread. Everything is placed by
the time at which it *starts* on its thread (device work: by its launch), never by when the device
ran it. The backward runs on another thread and so in no region: the CompiledFxGraph call or the
CompiledFunctionBackward around a launch tells it is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinetoscope.ingest.nesting import nest
from kinetoscope.link.intervals import Cover
from kinetoscope.link.launches import Launches
from kinetoscope.link.names import Mark, graph_key, marked, region_id
from kinetoscope.trace import Category, Int64, Trace, UInt32


@dataclass(frozen=True, eq=False)
class Calls:
    """Slices of one kind (region calls, graph calls, ...), in row order.

    Attributes:
        trace: what they were found in.
        rows: their rows, ascending: by track, then by start.
        parent: index of the call of the same kind around each, or -1.
        label: index into ``labels``.
        labels: distinct texts that tell them apart (region id, cache key), in order of appearance.
    """

    trace: Trace
    rows: Int64
    parent: Int64
    label: Int64
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def start_ns(self) -> Int64:
        """Start of each call."""
        return self.trace.columns.start_ns[self.rows]

    @cached_property
    def dur_ns(self) -> Int64:
        """Duration of each call."""
        return self.trace.columns.dur_ns[self.rows]

    @cached_property
    def end_ns(self) -> Int64:
        """End of each call."""
        return self.start_ns + self.dur_ns

    @cached_property
    def track(self) -> Int64:
        """Track of each call."""
        return self.trace.columns.track[self.rows].astype(np.int64)

    @cached_property
    def self_ns(self) -> Int64:
        """Duration less that of the calls of this kind directly inside."""
        own: Int64 = self.dur_ns.copy()
        nested = self.parent >= 0
        np.subtract.at(own, self.parent[nested], self.dur_ns[nested])
        return own

    @cached_property
    def outermost(self) -> Int64:
        """Indices of the calls that are in no other."""
        return np.flatnonzero(self.parent < 0)

    @cached_property
    def cover(self) -> Cover:
        """Which call is innermost on a track at a time."""
        return Cover.of(self.track, self.start_ns, self.end_ns)

    def at_rows(self, rows: Int64) -> Int64:
        """Index of the innermost call around the start of each slice, or -1; a call gives itself."""
        c = self.trace.columns
        return self.cover.innermost(c.track[rows].astype(np.int64), c.start_ns[rows])

    @cached_property
    def of_rows(self) -> Int64:
        """Index of the innermost call around the start of every slice of the trace; -1 for device work."""
        c = self.trace.columns
        found = np.full(len(c), -1, np.int64)
        for track in np.unique(self.track):  # other tracks have none
            about = self.trace.track_list[track]
            rows = slice(about.first, about.last)
            start = c.start_ns[rows]
            inside = self.cover.innermost(np.broadcast_to(track, len(start)), start)
            found[rows] = np.where(c.is_device[rows], -1, inside)
        return found


@dataclass(frozen=True, eq=False)
class Regions:
    """Everything of compiled code on the CPU threads, and where device work was launched from.

    ``[d]`` marks columns of one entry a device event, as in `Launches`.

    Attributes:
        trace: what they were found in.
        launches: its launches.
        calls: region calls; ``labels`` are compile ids, ``""`` for a bare name.
        graphs: CompiledFxGraph calls (torch 2.9 and later); ``labels`` are cache keys.
        forwards: CompiledFunction.
        backwards: CompiledFunctionBackward.
        lookups: rows of cache lookups (guard checks before a frame).
        pregraphs: rows of the bytecode before a graph.
        prologues: rows of the prologue of AOTAutograd's wrapper.
    """

    trace: Trace
    launches: Launches
    calls: Calls
    graphs: Calls
    forwards: Calls
    backwards: Calls
    lookups: Int64
    pregraphs: Int64
    prologues: Int64

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Distinct region ids, in order of appearance in the file."""
        return self.calls.labels

    @cached_property
    def call_of_device(self) -> Int64:
        """[d] index of the region call that was innermost on the launching thread, or -1."""
        return self._at_launch(self.calls)

    @cached_property
    def graph_of_device(self) -> Int64:
        """[d] index of the CompiledFxGraph call around the launch, or -1."""
        return self._at_launch(self.graphs)

    @cached_property
    def backward_of_device(self) -> Int64:
        """[d] index of the CompiledFunctionBackward around the launch, or -1."""
        return self._at_launch(self.backwards)

    @cached_property
    def region_call_of_row(self) -> Int64:
        """Index of the innermost region call for every slice, by its own start on its own track; -1 outside.

        A region's own row gives itself (the one around it is ``calls.parent``). Slices that are no
        CPU work give -1: device work belongs to `call_of_device`.
        """
        return self.calls.of_rows

    @cached_property
    def graph_call_of_row(self) -> Int64:
        """Index of the innermost CompiledFxGraph call for every slice, as `region_call_of_row`."""
        return self.graphs.of_rows

    @cached_property
    def device_ns(self) -> Int64:
        """Per region call: sum over the device events launched while it was innermost."""
        total = np.zeros(len(self.calls), np.int64)
        inside = self.call_of_device >= 0
        np.add.at(total, self.call_of_device[inside], self.launches.device_dur_ns[inside])
        return total

    @cached_property
    def forwards_per_call(self) -> Int64:
        """Per region call: CompiledFunctions directly inside."""
        inside = self.calls.at_rows(self.forwards.rows)
        counted: Int64 = np.bincount(inside[inside >= 0], minlength=len(self.calls))
        return counted

    def _at_launch(self, calls: Calls) -> Int64:
        launches = self.launches
        if len(calls) == 0:
            return np.full(len(launches.device_rows), -1, np.int64)
        found = calls.cover.innermost(launches.launch_track, launches.launch_start_ns)
        return np.where(launches.is_linked, found, -1)


def find_regions(trace: Trace, marks: UInt32, launches: Launches) -> Regions:
    """Find the compiled regions of ``trace`` and place its launches in them."""
    c = trace.columns
    on_cpu = (c.category < Category.KERNEL) & (c.category != Category.GPU_ANNOTATION) & c.is_valid
    ours = marked(
        marks,
        c.name,
        Mark.REGION | Mark.GRAPH | Mark.FORWARD | Mark.BACKWARD | Mark.LOOKUP | Mark.PREGRAPH | Mark.PROLOGUE,
    )
    candidates = np.flatnonzero(ours & on_cpu)
    bits = marks[c.name[candidates]]

    def of(bit: int) -> Int64:
        found: Int64 = candidates[(bits & np.uint32(bit)) != 0]
        return found

    return Regions(
        trace=trace,
        launches=launches,
        calls=find_calls(trace, of(Mark.REGION), region_id),
        graphs=find_calls(trace, of(Mark.GRAPH), graph_key),
        forwards=find_calls(trace, of(Mark.FORWARD), str),
        backwards=find_calls(trace, of(Mark.BACKWARD), str),
        lookups=of(Mark.LOOKUP),
        pregraphs=of(Mark.PREGRAPH),
        prologues=of(Mark.PROLOGUE),
    )


def find_calls(trace: Trace, rows: Int64, label_of: Callable[[str], str]) -> Calls:
    """`Calls` of these slices (rows ascending), nested among themselves; ``label_of`` a name."""
    c = trace.columns
    track = c.track[rows].astype(np.int64)
    _, parent = nest(track, c.start_ns[rows], c.end_ns[rows])
    names, which = np.unique(c.name[rows], return_inverse=True)
    numbers: dict[str, int] = {}
    # names are numbered in file order, so labels come out in the order of their appearance
    labels = (label_of(trace.names[int(name)]) for name in names)
    by_name = np.array([numbers.setdefault(label, len(numbers)) for label in labels], np.int64)
    return Calls(
        trace=trace,
        rows=rows,
        parent=parent.astype(np.int64),
        label=by_name[which],
        labels=tuple(numbers),
    )
