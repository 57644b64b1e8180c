"""The timeline of one trace: its lanes and pyramid, and where each slice of the trace stands in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinetoscope.trace import NONE, Int32, Int64, Trace
from kinetoscope.viewer.lanes import Lanes, Strip, arrange
from kinetoscope.viewer.pyramid import Pyramid, build


@dataclass(frozen=True, eq=False)
class Timeline:
    """What a picture of the trace is made from.

    Attributes:
        trace: the trace.
        lanes: its slices by lane.
        strips: which lanes belong together.
        pyramid: for coarse pictures.
    """

    trace: Trace
    lanes: Lanes
    strips: tuple[Strip, ...]
    pyramid: Pyramid

    @classmethod
    def of(cls, trace: Trace) -> Timeline:
        """The timeline of a trace."""
        lanes, strips = arrange(trace)
        return cls(trace, lanes, strips, build(lanes))

    @cached_property
    def extent_ns(self) -> tuple[int, int]:
        """First start and last end; an empty trace lasts one microsecond."""
        if len(self.lanes.row) == 0:
            return 0, 1000
        low, high = int(self.lanes.start_ns.min()), int(self.lanes.end_ns.max())
        return low, max(high, low + 1)

    @cached_property
    def position_of_row(self) -> Int32:
        """Position in the lanes of every slice of the trace, -1 for those that are in none."""
        found = np.full(len(self.trace.columns), -1, np.int32)
        found[self.lanes.row] = np.arange(len(self.lanes.row), dtype=np.int32)
        return found

    @cached_property
    def launches_of_track(self) -> tuple[int, ...]:
        """Per track, how many of its calls launched something on a device, by their correlation ids.

        The analysis knows launches better; this is known before it, so that no row moves when it comes.
        """
        c = self.trace.columns
        known = c.correlation != NONE
        calls = np.flatnonzero(c.is_call & known)
        launched = np.isin(c.correlation[calls], c.correlation[c.is_device & known])
        counts = np.bincount(c.track[calls[launched]], minlength=len(self.trace.track_list))
        return tuple(counts.tolist())

    def lanes_of_rows(self, rows: Int64) -> Int64:
        """Lane of each slice, or -1."""
        position = self.position_of_row[rows]
        lane = np.searchsorted(self.lanes.offset, position, side="right") - 1
        return np.where(position >= 0, lane, -1).astype(np.int64)

    def lane_of(self, row: int) -> int:
        """Lane of one slice, or -1."""
        return int(self.lanes_of_rows(np.array([row], np.int64))[0])

    def neighbour(self, row: int, forward: bool) -> int | None:
        """The next (or previous) slice of the same lane."""
        position = int(self.position_of_row[row])
        if position < 0:
            return None
        first, last = self.lanes.bounds(self.lane_of(row))
        other = position + (1 if forward else -1)
        return int(self.lanes.row[other]) if first <= other < last else None
