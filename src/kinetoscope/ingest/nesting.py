"""Depth and parent of every slice on its track.

Slices come ordered by (track, start, longest first). In well-nested data the depth of a slice is
the number of earlier slices that have not ended, and its parent is the last slice one level up;
both are computed for whole columns at once. Where slices cross (start inside another and outlive
it), that is wrong for everything under the same outermost slices: those runs, and only those, are
walked with a stack, in which a crossing slice becomes a child of the innermost slice still open
at its start.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from kinetoscope.trace import Bool, Category, Int32, Int64, UInt8, UInt16


def nest_lanes(
    track: npt.NDArray[Any], category: npt.NDArray[Any], start_ns: Int64, dur_ns: Int64
) -> tuple[UInt16, Int32]:
    """Depth and parent (row or -1) of slices in the order of `kinetoscope.trace.Slices`."""
    lane = track.astype(np.uint32) * np.uint32(_GROUPS) + _group(category)
    if len(lane) < 2 or not (lane[1:] < lane[:-1]).any():
        return nest(lane, start_ns, start_ns + dur_ns)
    # some track holds several groups: nest each apart
    order = np.argsort(lane, kind="stable")
    nested_depth, nested_parent = nest(lane[order], start_ns[order], (start_ns + dur_ns)[order])
    depth = np.empty_like(nested_depth)
    parent = np.empty_like(nested_parent)
    depth[order] = nested_depth
    parent[order] = np.where(nested_parent >= 0, order[np.maximum(nested_parent, 0)], -1)
    return depth, parent


_GROUPS = 4
#: rows that are nested at once, about: what stands under one outermost slice is never divided
_AT_ONCE = 1 << 14


def _group(category: npt.NDArray[Any]) -> UInt8:
    """What nests among itself on one track: calls and operators, python functions, device work, the rest."""
    group = np.zeros(len(Category), np.uint8)
    group[Category.PYTHON] = 1
    group[Category.KERNEL :] = 2
    group[[Category.GPU_ANNOTATION, Category.SYNC, Category.TRACE, Category.OVERHEAD]] = 3
    found: UInt8 = group[category]
    return found


def nest(lane: npt.NDArray[np.integer], start_ns: Int64, end_ns: Int64) -> tuple[UInt16, Int32]:
    """Depth and parent (row or -1) of slices ordered by (lane, start, longest first).

    A slice that ends where another starts is not around it; one of no length is around nothing.
    """
    count = len(start_ns)
    depth = np.zeros(count, np.int32)
    parent = np.full(count, -1, np.int32)
    if count == 0:
        return depth.astype(np.uint16), parent
    lanes = [0, *(np.flatnonzero(lane[1:] != lane[:-1]) + 1).tolist(), count]
    for low, high in pairwise(lanes):
        runs = low + np.flatnonzero(_starts_run(start_ns[low:high], end_ns[low:high]))
        if len(runs) == high - low:
            continue  # nothing is inside anything
        for first, last in pairwise([*_some(runs).tolist(), high]):
            _nest_lane(start_ns[first:last], end_ns[first:last], first, depth[first:last], parent[first:last])
    return np.minimum(depth, np.iinfo(np.uint16).max).astype(np.uint16), parent


def _some(runs: Int64) -> Int64:
    """The first of these rows, and others with about `_AT_ONCE` rows or more from one to the next."""
    block = runs // _AT_ONCE
    chosen: Int64 = runs[np.append(True, block[1:] != block[:-1])]
    return chosen


def _nest_lane(start_ns: Int64, end_ns: Int64, offset: int, depth: Int32, parent: Int32) -> None:
    """Fill ``depth`` and ``parent`` of one lane, in place."""
    count = len(start_ns)
    rows = np.arange(count)
    holds = end_ns > start_ns  # those without length hold nothing and close nothing
    held_before: Int64 = np.cumsum(holds) - holds
    ended = np.searchsorted(np.sort(end_ns[holds]), start_ns, side="right")
    level = (held_before - ended).astype(np.int32)
    if (level < 0).any():  # cannot happen in ordered input
        raise ValueError("slices are not ordered by start")
    depth[:] = level
    inner = level > 0
    if not inner.any():
        return
    above = _last_above(level, holds)
    parent[:] = np.where(above >= 0, above + offset, -1)
    # a parent that ends before its child does crosses it
    bad = inner & ((above < 0) | (end_ns[np.maximum(above, 0)] < end_ns))
    if not bad.any():
        return
    outermost = np.flatnonzero(_starts_run(start_ns, end_ns))
    run = np.searchsorted(outermost, rows[bad], side="right") - 1
    for number in np.unique(run):
        first = int(outermost[number])
        last = int(outermost[number + 1]) if number + 1 < len(outermost) else count
        _walk(start_ns[first:last], end_ns[first:last], offset + first, depth[first:last], parent[first:last])


def _last_above(level: Int32 | UInt16, holds: Bool) -> Int64:
    """For each row the last earlier row with length one level up, or -1."""
    above = np.full(len(level), -1, np.int64)
    deepest = int(level.max())
    if deepest < 2**16:  # so short numbers are sorted in linear time
        level = level.astype(np.uint16)
    order = np.argsort(level[holds], kind="stable")
    holding = np.flatnonzero(holds)[order]
    levels = level[holding]
    bounds = np.searchsorted(levels, np.arange(deepest + 2))
    own = np.argsort(level, kind="stable")
    own_bounds = np.searchsorted(level[own], np.arange(deepest + 2))
    for depth in range(1, deepest + 1):
        candidates = holding[bounds[depth - 1] : bounds[depth]]
        members = own[own_bounds[depth] : own_bounds[depth + 1]]
        if len(candidates) == 0 or len(members) == 0:
            continue
        at = np.searchsorted(candidates, members) - 1
        above[members] = np.where(at >= 0, candidates[np.maximum(at, 0)], -1)
    return above


def _starts_run(start_ns: Int64, end_ns: Int64) -> Bool:
    """Rows at which nothing earlier is still open."""
    open_until = np.maximum.accumulate(end_ns)
    starts = np.ones(len(start_ns), np.bool_)
    starts[1:] = start_ns[1:] >= open_until[:-1]
    return starts


def _walk(start_ns: Int64, end_ns: Int64, offset: int, depth: Int32, parent: Int32) -> None:
    stack: list[int] = []
    starts, ends = start_ns.tolist(), end_ns.tolist()
    for row, start in enumerate(starts):
        # a crossing slice may outlive those under it: look for closed ones anywhere in the stack
        while stack and ends[stack[-1]] <= start:
            stack.pop()
        if any(ends[held] <= start for held in stack):
            stack = [held for held in stack if ends[held] > start]
        depth[row] = len(stack)
        parent[row] = stack[-1] + offset if stack else -1
        if ends[row] > start:
            stack.append(row)
