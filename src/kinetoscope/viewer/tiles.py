"""What a viewport shows of lanes: every slice and every gap of at least a pixel, and nothing smaller.

The answer walks down the pyramid for all lanes at once. A block is drawn as one piece only if its
longest slice and its longest gap are both under a pixel; any other is opened. Small neighbours that
fall into one pixel are then drawn together. So the work depends on the pixels, not on the number
of slices, and nothing that could be seen is lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinetoscope.trace import Bool, Int64
from kinetoscope.viewer.pyramid import FAN_OUT, Pyramid

#: a lane is entered at the level at which it has at most so many blocks a pixel
_BLOCKS_PER_PIXEL = 1


@dataclass(frozen=True, eq=False)
class Pieces:
    """What to draw, ordered by lane and time. A piece stands for the slices ``first`` to ``last`` (included).

    Attributes:
        lane: its lane.
        first: position of its first slice.
        last: position of its last slice.
        longest: position of its longest slice.
        busy_ns: sum of its durations.
    """

    lane: Int64
    first: Int64
    last: Int64
    longest: Int64
    busy_ns: Int64

    def __len__(self) -> int:
        return len(self.first)

    @property
    def count(self) -> Int64:
        """How many slices each stands for."""
        return self.last - self.first + 1


def query(
    pyramid: Pyramid, wanted: npt.NDArray[Any], begin_ns: float, end_ns: float, pixel_ns: float
) -> Pieces:
    """The pieces of the lanes ``wanted`` (ascending) that meet the window."""
    lanes = pyramid.lanes
    wanted = np.asarray(wanted, np.int64)
    low, high = _in_window(pyramid, wanted, begin_ns, end_ns)
    keep = high > low
    wanted, low, high = wanted[keep], low[keep], high[keep]
    if len(wanted) == 0:
        none = np.empty(0, np.int64)
        return Pieces(none, none, none, none, none)
    start_level = _start_levels(high - low, max(1.0, (end_ns - begin_ns) / pixel_ns), len(pyramid.levels))
    base = lanes.offset[wanted]
    limit = lanes.offset[wanted + 1]
    found: list[tuple[Int64, Int64, Int64, Int64, Int64]] = []
    lane, block = np.empty(0, np.int64), np.empty(0, np.int64)  # blocks still to be looked at
    for level in range(int(start_level.max()), -1, -1):
        size = FAN_OUT**level
        first_block, last_block = (low - base) // size, -(-(high - base) // size)
        if len(block):  # children of what was opened above
            lane = np.repeat(lane, FAN_OUT)
            block = (block[:, None] * FAN_OUT + np.arange(FAN_OUT)).ravel()
            inside = (block >= first_block[lane]) & (block < last_block[lane])
            lane, block = lane[inside], block[inside]
        entering = np.flatnonzero(start_level == level)
        if len(entering):
            counts = last_block[entering] - first_block[entering]
            lane = np.append(lane, np.repeat(entering, counts))
            block = np.append(block, _ranges(first_block[entering], counts))
        if level == 0:
            at = base[lane] + block
            found.append((lane, at, at, at, lanes.end_ns[at] - lanes.start_ns[at]))
            break
        stored = pyramid.levels[level - 1]
        where = stored.offset[wanted[lane]] + block
        small = (stored.max_dur_ns[where] < pixel_ns) & (stored.max_gap_ns[where] < pixel_ns)
        if small.any():
            first = base[lane[small]] + block[small] * size
            last = np.minimum(first + size, limit[lane[small]]) - 1
            here = where[small]
            found.append(
                (lane[small], first, last, stored.longest[here].astype(np.int64), stored.sum_ns[here])
            )
        lane, block = lane[~small], block[~small]
        if len(lane) == 0 and not (start_level < level).any():
            break
    joined = [np.concatenate(parts) for parts in zip(*found, strict=True)]
    order = np.argsort(joined[1], kind="stable")  # positions ascend by lane and time
    lane, first, last, longest, busy = (part[order] for part in joined)
    return _merged(pyramid, Pieces(wanted[lane], first, last, longest, busy), pixel_ns)


def _in_window(pyramid: Pyramid, wanted: Int64, begin_ns: float, end_ns: float) -> tuple[Int64, Int64]:
    """Per lane, the positions of the slices that meet the window."""
    lanes = pyramid.lanes
    # whole numbers: for any other, searchsorted would first turn the whole column into doubles
    begin, end = np.int64(math.ceil(begin_ns)), np.int64(math.floor(end_ns))
    low, high = np.empty(len(wanted), np.int64), np.empty(len(wanted), np.int64)
    for number, lane in enumerate(wanted.tolist()):
        first, last = lanes.bounds(lane)
        low[number] = first + np.searchsorted(lanes.end_ns[first:last], begin, side="left")
        high[number] = first + np.searchsorted(lanes.start_ns[first:last], end, side="right")
    return low, high


def _start_levels(counts: Int64, pixels: float, levels: int) -> Int64:
    """Per lane, the finest level with few enough blocks in view."""
    level = np.zeros(len(counts), np.int64)
    for number in range(levels):
        level[counts > _BLOCKS_PER_PIXEL * pixels * FAN_OUT**number] = number + 1
    return level


def _ranges(first: Int64, counts: Int64) -> Int64:
    """``first[0], first[0] + 1, ...`` (counts[0] of them), then those of the next, and so on."""
    total = int(counts.sum())
    before = np.cumsum(counts) - counts
    return np.arange(total) - np.repeat(before, counts) + np.repeat(first, counts)


def _merged(pyramid: Pyramid, pieces: Pieces, pixel_ns: float) -> Pieces:
    """Pieces under a pixel joined where they start in the same one and no visible gap divides them."""
    lanes = pyramid.lanes
    start, end = lanes.start_ns[pieces.first], lanes.end_ns[pieces.last]
    small = (end - start) < pixel_ns
    joins: Bool = small[1:] & small[:-1] & (pieces.lane[1:] == pieces.lane[:-1])
    if not joins.any():
        return pieces
    pixel = np.floor(start / pixel_ns)
    joins &= (pixel[1:] == pixel[:-1]) & ((start[1:] - end[:-1]) < pixel_ns)
    opens = np.append(True, ~joins)
    first = np.flatnonzero(opens)
    if len(first) == len(start):
        return pieces
    last = np.append(first[1:], len(start)) - 1
    dur = lanes.end_ns[pieces.longest] - lanes.start_ns[pieces.longest]
    most = np.maximum.reduceat(dur, first)
    at = np.flatnonzero(dur == np.repeat(most, last - first + 1))
    group = np.searchsorted(first, at, side="right")
    longest = pieces.longest[at[np.append(True, group[1:] != group[:-1])]]
    return Pieces(
        lane=pieces.lane[first],
        first=pieces.first[first],
        last=pieces.last[last],
        longest=longest,
        busy_ns=np.add.reduceat(pieces.busy_ns, first),
    )
