"""Sets of time intervals: unions, gaps, and which interval is innermost at a time.

All intervals are half-open, ``start <= t < end``, in nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.ingest.nesting import nest
from kinetoscope.trace import Bool, Int64


def by_start(start_ns: Int64, end_ns: Int64) -> tuple[Int64, Int64]:
    """The intervals ordered by start (not copied where they are already)."""
    if len(start_ns) > 1 and (start_ns[1:] < start_ns[:-1]).any():
        order = np.argsort(start_ns, kind="stable")
        return start_ns[order], end_ns[order]
    return start_ns, end_ns


def union_ns(start_ns: Int64, end_ns: Int64) -> int:
    """Length of the union."""
    if len(start_ns) == 0:
        return 0
    start, end = by_start(start_ns, end_ns)
    reached = np.maximum.accumulate(end)
    holes = start[1:] - reached[:-1]
    return int(reached[-1] - start[0] - holes[holes > 0].sum())


def gaps_between(start_ns: Int64, end_ns: Int64) -> tuple[Int64, Int64, Int64]:
    """Start and end of each hole in the union, in time order, and which interval ends it (by start).

    An interval without length still divides a hole in two.
    """
    start, end = by_start(start_ns, end_ns)
    if len(start) == 0:
        return start, end, np.empty(0, np.int64)
    reached = np.maximum.accumulate(end)
    after = np.flatnonzero(start[1:] > reached[:-1]) + 1
    return reached[after - 1], start[after], after


def merged(start_ns: Int64, end_ns: Int64) -> tuple[Int64, Int64]:
    """The union as disjoint intervals in time order; those without length vanish, touching ones join."""
    keep = end_ns > start_ns
    start, end = by_start(start_ns[keep], end_ns[keep])
    if len(start) == 0:
        return start, end
    reached = np.maximum.accumulate(end)
    opens = np.flatnonzero(start[1:] > reached[:-1]) + 1
    return start[np.append(0, opens)], reached[np.append(opens - 1, len(start) - 1)]


def union_by_group(group: Int64, start_ns: Int64, end_ns: Int64, groups: int) -> Int64:
    """Length of the union of each group's intervals; groups are numbered 0 to ``groups - 1``."""
    total = np.zeros(groups, np.int64)
    if len(start_ns) == 0:
        return total
    # Shifting each group past the one before it makes one running maximum serve them all.
    low, width = int(start_ns.min()), int(end_ns.max()) - int(start_ns.min()) + 1
    if width * (groups + 1) >= 2**62:
        for number in np.unique(group):
            mine = group == number
            total[number] = union_ns(start_ns[mine], end_ns[mine])
        return total
    shift = group * width - low
    start, end = by_start(start_ns + shift, end_ns + shift)
    group = start // width
    before = np.maximum.accumulate(end)[:-1]
    start[1:] = np.maximum(start[1:], before)
    np.add.at(total, group, np.maximum(end - start, 0))
    return total


@dataclass(frozen=True, eq=False)
class Cover:
    """Which of a set of intervals is innermost at a time, lane by lane.

    Innermost is the one that started last (of those, the shortest; of equals, the first given).
    Intervals may nest or cross. ``key`` are the times at which the answer changes, one run a lane;
    ``owner`` the answer from then on, -1 where no interval is open. ``times`` is empty except where
    times are so far apart (a broken clock) that only their ranks fit into a key.
    """

    key: Int64
    owner: Int64
    low_ns: int
    width: int
    times: Int64

    @classmethod
    def of(cls, lane: Int64, start_ns: Int64, end_ns: Int64) -> Cover:
        """Of intervals in any order; those without length cover nothing."""
        order = np.lexsort((-end_ns, start_ns, lane))
        lane, start, end = lane[order], start_ns[order], end_ns[order]
        keep = end > start
        keep[1:] &= (lane[1:] != lane[:-1]) | (start[1:] != start[:-1]) | (end[1:] != end[:-1])
        order, lane, start, end = order[keep], lane[keep], start[keep], end[keep]
        times = np.empty(0, np.int64)
        if len(order) == 0:
            return cls(times, times, 0, 1, times)
        low = int(start.min())
        width = int(end.max()) - low + 2
        if width * (int(lane.max()) + 1) >= 2**62:
            times = np.unique(np.concatenate((start, end)))
            start, end = np.searchsorted(times, start), np.searchsorted(times, end)
            low, width = 0, len(times) + 1
        changes = np.unique(np.concatenate((lane * width + (start - low), lane * width + (end - low))))
        # A probe without length nests under the interval that is innermost then.
        probe_lane, probe_at = np.divmod(changes, width)
        probe_at += low
        lanes = np.concatenate((lane, probe_lane))
        starts = np.concatenate((start, probe_at))
        ends = np.concatenate((end, probe_at))
        ordered = np.lexsort((-ends, starts, lanes))
        _, parent = nest(lanes[ordered], starts[ordered], ends[ordered])
        is_probe = ordered >= len(lane)
        above = parent[is_probe]
        owner = np.where(above >= 0, order[np.minimum(ordered[np.maximum(above, 0)], len(order) - 1)], -1)
        return cls(changes, owner, low, width, times)

    def innermost(self, lane: Int64, time_ns: Int64) -> Int64:
        """Number of the innermost interval on ``lane`` at each time, or -1."""
        if len(self.key) == 0:
            return np.full(len(time_ns), -1, np.int64)
        if len(self.times):
            time_ns = np.searchsorted(self.times, time_ns, side="right") - 1
        inside = np.clip(time_ns - self.low_ns, -1, self.width - 1)
        # a time before the first interval of a lane falls to the last change of the lane before, which is -1
        at = np.searchsorted(self.key, lane.astype(np.int64) * self.width + inside, side="right") - 1
        return np.where(at >= 0, self.owner[np.maximum(at, 0)], -1)

    def covers(self, lane: Int64, time_ns: Int64) -> Bool:
        """Whether any interval on ``lane`` is open at each time."""
        return self.innermost(lane, time_ns) >= 0
