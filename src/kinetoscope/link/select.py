"""A part of a trace as a trace of its own.

What a CPU thread began inside the chosen intervals is kept, with the device work it launched,
whenever that ran: device work belongs to its launch. Device work that no recorded call launched
is kept where it started inside. Times and positions in the file stay those of the whole trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kinetoscope.ingest.nesting import nest_lanes
from kinetoscope.trace import Bool, Int64, Slices, Trace

#: start and end, relative to the trace's origin; the end is not part of it
Interval = tuple[int, int]


def select(trace: Trace, intervals: Sequence[Interval], launch_of_row: npt.NDArray[Any]) -> Trace:
    """The part of ``trace`` inside ``intervals`` (ns from the trace's origin, not overlapping, in order).

    ``launch_of_row`` gives for each slice the row of the call that launched it, or -1.
    """
    c = trace.columns
    inside = _inside(c.start_ns, intervals)
    launched = np.asarray(launch_of_row) >= 0
    keep = np.where(launched, inside[np.maximum(launch_of_row, 0)], inside)
    columns = _renested(_rows(c, keep))
    flows = _rows(trace.flow_columns, _inside(trace.flow_columns.time_ns, intervals))
    instants = _rows(trace.instants, _inside(trace.instants.time_ns, intervals))
    counters = _rows(trace.counters, _inside(trace.counters.time_ns, intervals))
    bounds = np.searchsorted(columns.track, np.arange(len(trace.track_list) + 1))
    return replace(
        trace,
        info=replace(
            trace.info,
            events=len(columns) + len(flows) + len(instants) + len(counters),
            complete_events=len(columns),
        ),
        columns=columns,
        flow_columns=flows,
        instants=instants,
        counters=counters,
        track_list=tuple(
            replace(track, first=int(bounds[number]), last=int(bounds[number + 1]))
            for number, track in enumerate(trace.track_list)
        ),
    )


def _inside(time_ns: Int64, intervals: Sequence[Interval]) -> Bool:
    starts = np.array([start for start, _ in intervals], np.int64)
    ends = np.array([end for _, end in intervals], np.int64)
    at = np.searchsorted(starts, time_ns, side="right") - 1
    inside: Bool = (at >= 0) & (time_ns < ends[np.maximum(at, 0)])
    return inside


_Table = TypeVar("_Table", bound=Any)


def _rows(table: _Table, keep: Bool) -> _Table:
    columns = {field.name: _frozen(getattr(table, field.name)[keep]) for field in fields(table)}
    return type(table)(**columns)  # type: ignore[no-any-return]


def _renested(columns: Slices) -> Slices:
    """Parents may be gone: depth and parent anew."""
    depth, parent = nest_lanes(columns.track, columns.category, columns.start_ns, columns.dur_ns)
    return replace(columns, depth=_frozen(depth), parent=_frozen(parent))


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array
