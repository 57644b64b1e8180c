"""Which call launched a piece of device work, and from where.

A device event and its launching call carry the same correlation. One call can launch many
events (a CUDA graph: all its kernels), and one launch can leave two rows (the runtime call and
the driver call that it makes): rows of one correlation are one call. Flow arrows say the same
less completely (graphs get one arrow, some files have none), so they are not asked.

Where two rows share a correlation, the row that comes last in the file is the launching row.
Correlation 0 links like any other; as a call of its own, each row with it counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kinetoscope.link.ancestors import nearest_around
from kinetoscope.link.names import Mark, marked
from kinetoscope.trace import NONE, Bool, Category, Int64, Trace, UInt32


@dataclass(frozen=True, eq=False)
class Launches:
    """Device events with their launches. ``[d]`` marks columns of one entry a device event,
    ``[c]`` of one entry a launch call; an index or row of -1 means "none".

    Attributes:
        trace: what they were found in.
        device_rows: [d] rows of kernels, memcpys and memsets, ascending (times may be invalid).
        launch_row: [d] row of the runtime or driver call with its correlation.
        before_window: [d] unlinked, and its correlation is below every recorded one.
        call_of: [d] index of its launch call; -1 also where the linked call is not one that launches.
        call_rows: [c] launching row of each launch call, ascending.
        call_start_ns: [c] start of the call (of its outermost row).
        call_dur_ns: [c] duration of the call (of its outermost row).
        is_graph_call: [c] whether it launches a graph.
        graph_rows: rows of graph launches, whatever their category.
    """

    trace: Trace
    device_rows: Int64
    launch_row: Int64
    before_window: Bool
    call_of: Int64
    call_rows: Int64
    call_start_ns: Int64
    call_dur_ns: Int64
    is_graph_call: Bool
    graph_rows: Int64

    @cached_property
    def is_linked(self) -> Bool:
        """[d] whether its launching call was recorded."""
        return self.launch_row >= 0

    @cached_property
    def _number_of_row(self) -> npt.NDArray[np.int32]:
        """Index of each device row, counted from the first one; other rows between them have none."""
        first, last = self.device_rows[[0, -1]].tolist()
        numbers = np.full(last - first + 1, -1, np.int32)
        numbers[self.device_rows - first] = np.arange(len(self.device_rows), dtype=np.int32)
        return numbers

    def numbers_of(self, rows: Int64) -> npt.NDArray[np.int32]:
        """Index into the columns ``[d]`` of device events given by their rows."""
        return self._number_of_row[rows - self.device_rows[0]] if len(rows) else np.empty(0, np.int32)

    @cached_property
    def in_graph_replay(self) -> Bool:
        """[d] whether a graph launch launched it (told by the name of the launching row)."""
        is_graph = np.zeros(len(self.trace.columns), np.bool_)
        is_graph[self.graph_rows] = True
        return self.is_linked & is_graph[np.maximum(self.launch_row, 0)]

    @cached_property
    def launch_of_row(self) -> npt.NDArray[np.int32]:
        """Row of the launching call for every slice of the trace; -1 for all but linked device events."""
        found = np.full(len(self.trace.columns), -1, np.int32)
        found[self.device_rows] = self.launch_row
        return found

    @cached_property
    def scope_row(self) -> Int64:
        """[d] row of the innermost CPU slice around the launch that is no call itself.

        An operator or an annotation. Where the file has no calls at all, the operator with the
        same external id stands in.
        """
        c = self.trace.columns
        return self._around(c.is_cpu & ~c.is_call & (c.category != Category.PYTHON))

    @cached_property
    def operator_row(self) -> Int64:
        """[d] row of the innermost ``cpu_op`` around the launch; as `scope_row`, annotations left out."""
        return self._around(self.trace.columns.category == Category.CPU_OP)

    def _around(self, wanted: Bool) -> Int64:
        c = self.trace.columns
        # Many events share a launch (graphs), and a launch needs to be walked only once.
        launches, back = np.unique(self.launch_row, return_inverse=True)
        found = nearest_around(c.parent, launches, wanted)[back]
        if c.is_call.any():
            return found
        return np.where(found >= 0, found, self._by_external_id())

    def _by_external_id(self) -> Int64:
        c = self.trace.columns
        ops = np.flatnonzero((c.category == Category.CPU_OP) & (c.external_id != NONE) & (c.external_id != 0))
        return _last_row_with(c.external_id, ops, c.event, c.external_id[self.device_rows])

    @cached_property
    def launch_start_ns(self) -> Int64:
        """[d] start of the launching row; meaningless where unlinked."""
        return self.trace.columns.start_ns[np.maximum(self.launch_row, 0)]

    @cached_property
    def launch_track(self) -> Int64:
        """[d] track of the launching row, -1 where unlinked."""
        track = self.trace.columns.track[np.maximum(self.launch_row, 0)].astype(np.int64)
        return np.where(self.is_linked, track, -1)

    @cached_property
    def device_dur_ns(self) -> Int64:
        """[d] duration of the device event."""
        return self.trace.columns.dur_ns[self.device_rows]

    @cached_property
    def events_per_graph_launch(self) -> Int64:
        """Device events of each graph launch that has any, ascending."""
        replayed = self.launch_row[self.in_graph_replay]
        return np.sort(np.unique(replayed, return_counts=True)[1])

    @cached_property
    def events_per_call(self) -> Int64:
        """[c] device events of each launch call."""
        return np.bincount(self.call_of[self.call_of >= 0], minlength=len(self.call_rows))

    @cached_property
    def are_device_events_recorded(self) -> bool:
        """False where under a tenth of the launch calls have a device event: the records were lost."""
        calls = len(self.call_rows)
        return calls == 0 or 10 * int((self.events_per_call > 0).sum()) >= calls


def find_launches(trace: Trace, marks: UInt32) -> Launches:
    """Link every device event of ``trace`` to its launching call.

    ``marks`` are those of `kinetoscope.link.names.mark_names`.
    """
    c = trace.columns
    device_rows = np.flatnonzero(c.is_device)
    correlation = c.correlation[device_rows]
    calls = np.flatnonzero(c.is_call & (c.correlation != NONE))
    launch_row = _last_row_with(c.correlation, calls, c.event, correlation)

    recorded = c.correlation[calls]
    recorded = recorded[recorded != 0]
    smallest = int(recorded.min()) if len(recorded) else NONE
    before = (launch_row < 0) & (correlation != NONE) & (correlation < smallest)

    rows = np.flatnonzero(c.is_call & marked(marks, c.name, Mark.LAUNCH))
    leader = _leaders(c.correlation, rows, c.event)
    also = np.flatnonzero(leader != rows)  # the other row of a call: a runtime row holds its driver row
    call_rows, number = rows, np.arange(len(rows))
    if len(also):
        call_rows = np.unique(leader)
        number = np.searchsorted(call_rows, leader)
    start, end = c.start_ns[call_rows], c.end_ns[call_rows]
    np.minimum.at(start, number[also], c.start_ns[rows[also]])
    np.maximum.at(end, number[also], c.end_ns[rows[also]])

    call_number = np.full(len(c) + 1, -1, np.int32)  # the last entry answers for row -1
    call_number[rows] = number
    call_of = call_number[launch_row].astype(np.int64)
    # a launch row that is no launch by its name may still share its correlation with one that is
    loose = np.flatnonzero((launch_row >= 0) & (call_of < 0) & (correlation != 0))
    if len(loose):
        other = _last_row_with(c.correlation, rows, c.event, correlation[loose])
        call_of[loose] = call_number[other]
    return Launches(
        trace=trace,
        device_rows=device_rows,
        launch_row=launch_row,
        before_window=before,
        call_of=call_of,
        call_rows=call_rows,
        call_start_ns=start,
        call_dur_ns=end - start,
        is_graph_call=marked(marks, c.name[call_rows], Mark.GRAPH_LAUNCH),
        graph_rows=np.flatnonzero(marked(marks, c.name, Mark.GRAPH_LAUNCH)),
    )


def _leaders(correlation: Int64, rows: Int64, event: UInt32) -> Int64:
    """For each launch row the row that stands for its call: itself, or the last one of its correlation."""
    leader: Int64 = rows.copy()
    own = correlation[rows]
    shared = np.flatnonzero((own != NONE) & (own != 0))
    distinct, first = np.unique(own[shared], return_index=True)
    if len(distinct) < len(shared):
        twice = np.delete(own[shared], first)
        shared = shared[np.isin(own[shared], twice)]
        leader[shared] = _last_row_with(correlation, rows[shared], event, own[shared])
    return leader


def _last_row_with(column: Int64, rows: Int64, event: UInt32, wanted: Int64) -> Int64:
    """For each value of ``wanted``, the one of ``rows`` that has it in ``column``, or -1.

    Of several, the one that comes last in the file. `NONE` is nobody's.
    """
    rows = rows[column[rows] != NONE]
    if len(rows) == 0 or len(wanted) == 0:
        return np.full(len(wanted), -1, np.int64)
    keys = column[rows]
    low, high = int(keys.min()), int(keys.max())
    if high - low < 8 * (len(rows) + len(wanted)) + 1024:  # dense, as correlations are: use a table
        table = np.full(high - low + 1, -1, np.int32)
        table[keys - low] = rows
        twice = table[keys - low] != rows
        if twice.any():
            again = np.isin(keys, np.unique(keys[twice]))
            some = rows[again][np.argsort(event[rows[again]])]
            table[column[some] - low] = some
        inside = (wanted >= low) & (wanted <= high)
        found = table[np.where(inside, wanted - low, 0)].astype(np.int64)
        return np.where(inside, found, -1)
    order = np.lexsort((event[rows], keys))
    keys = keys[order]
    at = np.searchsorted(keys, wanted, side="right") - 1
    hit = (at >= 0) & (keys[np.maximum(at, 0)] == wanted)
    return np.where(hit, rows[order[np.maximum(at, 0)]], -1)
