"""A pyramid over lanes: for every block of 16, 256, 4096, ... slices, what a coarse picture needs to know.

A block of level ``k`` holds up to 16**k consecutive slices of one lane. It knows its longest slice,
its longest inner gap (between two of its slices; the gap to the next block belongs to the block
above both) and the sum of its durations. Where it starts and ends, and how many slices it holds,
follows from its number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.trace import Int32, Int64
from kinetoscope.viewer.lanes import Lanes

FAN_OUT = 16


@dataclass(frozen=True, eq=False)
class Level:
    """All blocks of one size, lane by lane; the blocks of lane ``n`` start at ``offset[n]``."""

    max_dur_ns: Int64
    max_gap_ns: Int64
    longest: Int32  # position of the longest slice
    sum_ns: Int64
    offset: Int64


@dataclass(frozen=True, eq=False)
class Pyramid:
    """Levels from blocks of 16 upwards, until every lane is one block."""

    lanes: Lanes
    levels: tuple[Level, ...]

    @property
    def nbytes(self) -> int:
        """Memory of the levels, the lanes themselves left out."""
        return sum(
            level.max_dur_ns.nbytes + level.max_gap_ns.nbytes + level.longest.nbytes + level.sum_ns.nbytes
            for level in self.levels
        )


def build(lanes: Lanes) -> Pyramid:
    """The pyramid of these lanes."""
    count = len(lanes.row)
    dur = lanes.end_ns - lanes.start_ns
    # gap from each slice to the next one of its lane
    gap = np.zeros(count, np.int64)
    if count:
        gap[:-1] = lanes.start_ns[1:] - lanes.end_ns[:-1]
        ends = lanes.offset[1:][np.diff(lanes.offset) > 0] - 1
        gap[ends] = 0
    levels: list[Level] = []
    offset, inner_gap, sums, longest = (
        lanes.offset,
        np.zeros(count, np.int64),
        dur,
        np.arange(count, dtype=np.int32),
    )
    while len(offset) > 1 and int(np.diff(offset).max()) > 1:
        level, gap = _above(offset, dur, inner_gap, gap, longest, sums)
        levels.append(level)
        offset, dur, inner_gap = level.offset, level.max_dur_ns, level.max_gap_ns
        longest, sums = level.longest, level.sum_ns
    return Pyramid(lanes, tuple(levels))


def _above(
    offset: Int64, max_dur: Int64, max_gap: Int64, gap_after: Int64, longest: Int32, sums: Int64
) -> tuple[Level, Int64]:
    """The level above blocks (or slices), and the gap after each of its blocks."""
    blocks = -(-np.diff(offset) // FAN_OUT)
    above = np.concatenate(([0], np.cumsum(blocks))).astype(np.int64)
    number = np.arange(above[-1], dtype=np.int64)
    first = (number - np.repeat(above[:-1], blocks)) * FAN_OUT + np.repeat(offset[:-1], blocks)
    last = np.minimum(first + FAN_OUT, np.repeat(offset[1:], blocks)) - 1
    dur = np.maximum.reduceat(max_dur, first)
    # the last child's gap lies between two blocks of the new level
    inside = gap_after.copy()
    inside[last] = 0
    np.maximum(inside, max_gap, out=inside)
    gap = np.maximum.reduceat(inside, first)
    sizes = last - first + 1
    at_most = np.flatnonzero(max_dur == np.repeat(dur, sizes))
    block = np.repeat(number, sizes)[at_most]
    winner = at_most[np.append(True, block[1:] != block[:-1])]
    level = Level(dur, gap, longest[winner], np.add.reduceat(sums, first), above)
    return level, gap_after[last]
