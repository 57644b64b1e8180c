"""Arrows: from a launch to the device work it started, and from a forward to its backward.

Launches are joined by correlation, so arrows are there for files without flow events, and for
every kernel of a graph launch. Forward and backward are joined by the file's own arrows, and
where those are missing by sequence number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kinetoscope.export.pairs import last_before
from kinetoscope.link import Links
from kinetoscope.trace import NONE, Bool, Category, Int64, Trace
from kinetoscope.viewer.timeline import Timeline

KINDS = ("launch", "backward")
#: arrows in one answer; beyond, one stands for all between two pixels
LIMIT = 2000


@dataclass(frozen=True, eq=False)
class Flows:
    """All arrows of a trace, ordered by source row.

    Attributes:
        source: row an arrow leaves.
        target: row it leads to.
        kind: index into `KINDS`.
    """

    source: Int64
    target: Int64
    kind: Int64

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def _by_target(self) -> Int64:
        return np.argsort(self.target, kind="stable")

    def leaving(self, row: int) -> Int64:
        """Numbers of the arrows that leave a slice."""
        first, last = np.searchsorted(self.source, [row, row + 1])
        return np.arange(first, last)

    def arriving(self, row: int) -> Int64:
        """Numbers of the arrows that lead to a slice."""
        first, last = np.searchsorted(self.target, [row, row + 1], sorter=self._by_target)
        return self._by_target[first:last]


def find_flows(links: Links) -> Flows:
    """Every arrow of the trace."""
    launches = links.launches
    linked = np.flatnonzero(launches.is_linked)
    source, target = launches.launch_row[linked], launches.device_rows[linked]
    forward, backward = _backward_arrows(links)
    source = np.concatenate((source, forward)).astype(np.int64)
    target = np.concatenate((target, backward)).astype(np.int64)
    kind = np.repeat([0, 1], [len(linked), len(forward)])
    order = np.lexsort((target, source))
    return Flows(source[order], target[order], kind[order])


def _backward_arrows(links: Links) -> tuple[Int64, Int64]:
    trace, flows = links.trace, links.trace.flow_columns
    ours = trace.cats.where(lambda cat: cat.lower() in ("fwdbwd", "forward_backward"))[flows.cat]
    at = np.flatnonzero(ours)
    is_start = flows.phase[at] == ord("s")
    is_end = flows.phase[at] == ord("f")
    starts, ends = at[is_start], at[is_end]
    # an id can be used again: each end belongs to the latest start of its id before it in the file
    order = np.lexsort((flows.event[starts], flows.id[starts]))
    starts = starts[order]
    number = last_before(flows.id[starts], flows.event[starts], flows.id[ends], flows.event[ends])
    joined = number >= 0
    source = _slices_at(trace, flows.track[starts[number[joined]]], flows.time_ns[starts[number[joined]]])
    target = _slices_at(trace, flows.track[ends[joined]], flows.time_ns[ends[joined]])
    known = (source >= 0) & (target >= 0)
    source, target = source[known], target[known]
    pairs = links.pairs
    regions = links.regions
    more_source = regions.forwards.rows[pairs.forward]
    more_target = regions.backwards.rows[pairs.backward]
    new = ~np.isin(more_target, target)
    source = np.concatenate((source, more_source[new]))
    target = np.concatenate((target, more_target[new]))
    return source, target


def _slices_at(trace: Trace, tracks: npt.NDArray[Any], time_ns: Int64) -> Int64:
    """The operator that starts exactly then on each track, else the innermost one around that time; or -1."""
    c = trace.columns
    found = np.full(len(time_ns), -1, np.int64)
    for track in np.unique(tracks).tolist():
        here = np.flatnonzero(tracks == track)
        about = trace.track_list[track]
        rows = np.arange(about.first, about.last)
        rows = rows[(c.category[rows] == Category.CPU_OP) & c.is_valid[rows]]
        if len(rows) == 0:
            continue
        starts, times = c.start_ns[rows], time_ns[here]
        last = np.searchsorted(starts, times, side="right") - 1
        first = np.searchsorted(starts, times, side="left")
        answer = rows[np.maximum(last, 0)]
        exact = first <= last
        # of several that start together, the outermost with a sequence number is meant
        for number in np.flatnonzero(exact & (last > first)).tolist():
            some = rows[first[number] : last[number] + 1]
            numbered = some[c.sequence[some] != NONE]
            answer[number] = numbered[0] if len(numbered) else some[0]
        around = answer.astype(np.int64)
        open_ = np.flatnonzero(~exact & (last >= 0))
        while len(open_):
            outside = c.end_ns[around[open_]] <= times[open_]
            open_ = open_[outside]
            around[open_] = c.parent[around[open_]]
            open_ = open_[around[open_] >= 0]
        found[here] = np.where(last >= 0, around, -1)
    return found


def described(timeline: Timeline, flows: Flows, numbers: Int64) -> dict[str, Any]:
    """These arrows as parallel lists: where they start and end, in lanes and time."""
    source, target = flows.source[numbers], flows.target[numbers]
    c = timeline.trace.columns
    return {
        "kind": flows.kind[numbers].tolist(),
        "source": source.tolist(),
        "target": target.tolist(),
        "source_lane": timeline.lanes_of_rows(source).tolist(),
        "target_lane": timeline.lanes_of_rows(target).tolist(),
        "source_start_ns": c.start_ns[source].tolist(),
        "source_end_ns": c.end_ns[source].tolist(),
        "target_start_ns": c.start_ns[target].tolist(),
    }


def of_slice(timeline: Timeline, flows: Flows, row: int) -> dict[str, Any]:
    """The arrows of one slice, at most `LIMIT` of each direction, and how many there are."""
    leaving, arriving = flows.leaving(row), flows.arriving(row)
    chosen = np.concatenate((arriving[:LIMIT], leaving[:LIMIT]))
    return {**described(timeline, flows, chosen), "total": len(leaving) + len(arriving)}


def in_view(
    timeline: Timeline, flows: Flows, begin_ns: float, end_ns: float, pixel_ns: float, shown: Bool
) -> dict[str, Any]:
    """The arrows that cross the window between lanes that are ``shown``."""
    start, lane, end_lane, end = _ends(timeline, flows)
    low, high = np.minimum(start, end), np.maximum(start, end)
    keep = (high >= begin_ns) & (low <= end_ns) & (lane >= 0) & (end_lane >= 0)
    keep &= shown[np.maximum(lane, 0)] & shown[np.maximum(end_lane, 0)]
    numbers = np.flatnonzero(keep)
    total = len(numbers)
    if total > LIMIT:
        # one for every pair of pixels and tracks
        x0 = np.floor((start[numbers] - begin_ns) / pixel_ns).astype(np.int64)
        x1 = np.floor((end[numbers] - begin_ns) / pixel_ns).astype(np.int64)
        keys = np.stack((x0, x1, lane[numbers], end_lane[numbers]))
        _, first = np.unique(keys, axis=1, return_index=True)
        numbers = numbers[np.sort(first)]
        if len(numbers) > LIMIT:
            numbers = numbers[np.linspace(0, len(numbers) - 1, LIMIT).astype(np.int64)]
    return {**described(timeline, flows, numbers), "total": total}


def _ends(timeline: Timeline, flows: Flows) -> tuple[Int64, Int64, Int64, Int64]:
    c = timeline.trace.columns
    return (
        c.start_ns[flows.source],
        timeline.lanes_of_rows(flows.source),
        timeline.lanes_of_rows(flows.target),
        c.start_ns[flows.target],
    )
