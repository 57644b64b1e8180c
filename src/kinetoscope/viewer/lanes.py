"""Slices arranged in lanes: rows of a timeline in which nothing overlaps.

A lane is one depth of one *strip*; a strip is what nests together on one track (operators and
calls, python functions, device work, and the profiler's own rows stay apart, as in
`kinetoscope.ingest.nesting`). Slices that cross without nesting can share a depth: there, and only
there, they are put into the first lane that is free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinetoscope.trace import Category, Int32, Int64, Trace

#: kinds of strip, in the order in which they stand under a track's name
STRIPS = ("work", "python", "device", "other")

_WORK, _PYTHON, _DEVICE, _OTHER = range(len(STRIPS))


@dataclass(frozen=True)
class Strip:
    """What nests together on one track. Its lanes are ``first`` to ``last`` (excluded), outermost first."""

    track: int
    kind: str
    first: int
    last: int
    slices: int


@dataclass(frozen=True, eq=False)
class Lanes:
    """Slices ordered by lane and then by time.

    Attributes:
        start_ns: start of each slice; ascends inside a lane.
        end_ns: end of each slice; never after the next start in its lane.
        row: row of each slice in the trace (of synthetic lanes: a number of their own).
        offset: lane ``n`` holds the slices ``offset[n]`` to ``offset[n + 1]`` (excluded).
    """

    start_ns: Int64
    end_ns: Int64
    row: Int32
    offset: Int64

    def __len__(self) -> int:
        return len(self.offset) - 1

    def bounds(self, lane: int) -> tuple[int, int]:
        """First slice of a lane, and the one after its last."""
        return int(self.offset[lane]), int(self.offset[lane + 1])

    def at(self, lane: int, time_ns: float, within_ns: float = 0.0) -> int | None:
        """Position of the slice at a time, else of the nearest one not further than ``within_ns``."""
        first, last = self.bounds(lane)
        if first == last:
            return None
        starts, ends = self.start_ns[first:last], self.end_ns[first:last]
        after = int(np.searchsorted(starts, np.int64(math.floor(time_ns)), side="right"))
        near = [n for n in (after - 1, after) if 0 <= n < len(starts)]
        distance, _, best = min(
            (max(float(starts[n]) - time_ns, time_ns - float(ends[n]), 0.0), float(starts[n] - ends[n]), n)
            for n in near
        )
        return first + best if distance <= within_ns else None


def arrange(trace: Trace) -> tuple[Lanes, tuple[Strip, ...]]:
    """The lanes of a trace; slices whose times cannot be measured are in none."""
    c = trace.columns
    rows = np.flatnonzero(c.is_valid & (c.category != Category.TRACE)).astype(np.int32)
    strip_of_row = c.track[rows].astype(np.int64) * len(STRIPS) + strip_kind(c.category[rows])
    depth = c.depth[rows].astype(np.int64)
    depths = int(depth.max(initial=0)) + 1
    key = strip_of_row * depths + depth
    order = _stable_order(key)
    start, end = c.start_ns[rows[order]], c.end_ns[rows[order]]
    ordered = key[order]
    clash = np.flatnonzero((ordered[1:] == ordered[:-1]) & (start[1:] < end[:-1]))
    if len(clash):
        for strip in np.unique(strip_of_row[order[clash]]).tolist():
            mine = np.flatnonzero(strip_of_row == strip)
            depth[mine] = _repacked(c.start_ns[rows[mine]], c.end_ns[rows[mine]], depth[mine])
        depths = int(depth.max()) + 1
        key = strip_of_row * depths + depth
        order = _stable_order(key)
        start, end, ordered = c.start_ns[rows[order]], c.end_ns[rows[order]], key[order]
    lane_keys, offset = _runs(ordered)
    lanes = Lanes(start, end, rows[order], offset)
    return lanes, _strips(lane_keys // depths, offset)


def single_lanes(groups: list[tuple[Int64, Int64]]) -> Lanes:
    """Lanes of intervals that do not overlap, one group a lane, numbered across all groups."""
    counts = [len(start) for start, _ in groups]
    total = sum(counts)
    return Lanes(
        np.concatenate([start for start, _ in groups] or [np.empty(0, np.int64)]).astype(np.int64),
        np.concatenate([end for _, end in groups] or [np.empty(0, np.int64)]).astype(np.int64),
        np.arange(total, dtype=np.int32),
        np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
    )


def strip_kind(category: npt.NDArray[Any]) -> Int64:
    """For each category, index into `STRIPS` of the strip that it belongs to."""
    kind = np.full(len(Category), _WORK, np.int64)
    kind[Category.PYTHON] = _PYTHON
    kind[Category.KERNEL :] = _DEVICE
    kind[[Category.GPU_ANNOTATION, Category.SYNC, Category.OVERHEAD]] = _OTHER
    found: Int64 = kind[category]
    return found


def _stable_order(key: Int64) -> Int64:
    """Order by key, keeping the order of time inside each; keys are few, and short numbers sort fastest."""
    if len(key) and int(key.max()) < 64 * len(key) + 4096:
        present = np.zeros(int(key.max()) + 1, np.bool_)
        present[key] = True
        number = np.cumsum(present) - 1
        if int(number[-1]) < 1 << 16:
            return np.argsort(number.astype(np.uint16)[key], kind="stable")
    return np.argsort(key, kind="stable")


def _runs(ordered: Int64) -> tuple[Int64, Int64]:
    """Distinct values of a sorted array, and where each run starts (and the last one ends)."""
    if len(ordered) == 0:
        return ordered, np.zeros(1, np.int64)
    first = np.append(0, np.flatnonzero(np.diff(ordered)) + 1)
    return ordered[first], np.append(first, len(ordered)).astype(np.int64)


def _strips(strip_of_lane: Int64, offset: Int64) -> tuple[Strip, ...]:
    keys, bounds = _runs(strip_of_lane)
    return tuple(
        Strip(
            track=key // len(STRIPS),
            kind=STRIPS[key % len(STRIPS)],
            first=first,
            last=last,
            slices=int(offset[last] - offset[first]),
        )
        for key, first, last in zip(keys.tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    )


def _repacked(start: Int64, end: Int64, depth: Int64) -> Int64:
    """Depths of one strip (ordered by start, longest first) in which no two slices of a depth overlap.

    Only runs of slices under common outermost ones that hold an overlap are walked.
    """
    packed: Int64 = depth.copy()
    reached = np.maximum.accumulate(end)
    opens = np.append(True, start[1:] >= reached[:-1])
    run = np.cumsum(opens) - 1
    order = np.lexsort((np.arange(len(depth)), depth))
    same = depth[order][1:] == depth[order][:-1]
    bad = order[1:][same & (start[order][1:] < end[order][:-1])]
    firsts = np.append(np.flatnonzero(opens), len(depth))
    for number in np.unique(run[bad]).tolist():
        first, last = int(firsts[number]), int(firsts[number + 1])
        free: list[int] = []  # until when each lane is taken
        for at, (begin, finish) in enumerate(
            zip(start[first:last].tolist(), end[first:last].tolist(), strict=True)
        ):
            # under everything that is still open, so that a child never stands above its parent
            lane = next((n for n in range(len(free)) if all(until <= begin for until in free[n:])), len(free))
            if lane == len(free):
                free.append(finish)
            else:
                free[lane] = finish
            packed[first + at] = lane
    return packed
