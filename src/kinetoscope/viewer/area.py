"""Statistics of an area: what ran in a stretch of time on some tracks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from kinetoscope.link.intervals import union_ns
from kinetoscope.trace import Category, Int64, Trace, UInt8
from kinetoscope.viewer.lanes import STRIPS, strip_kind
from kinetoscope.viewer.meaning import MEANINGS

_NAMES = 500


def statistics(
    trace: Trace, meaning: UInt8, strips: Collection[tuple[int, str]], begin_ns: int, end_ns: int
) -> dict[str, Any]:
    """Count and time of every name among the slices of these strips (track and kind) that meet the area.

    Times are cut at its borders. ``self_ns`` leaves nested slices out. ``busy_ns`` is the time in which any
    device event of these tracks ran.
    """
    c = trace.columns
    found = []
    for number in sorted({track for track, _ in strips}):
        kinds = [STRIPS.index(kind) for track, kind in strips if track == number]
        track = trace.track_list[number]
        last = track.first + int(np.searchsorted(c.start_ns[track.first : track.last], end_ns, side="left"))
        rows = np.arange(track.first, last)
        inside = (c.end_ns[rows] > begin_ns) | (c.start_ns[rows] >= begin_ns)
        category = c.category[rows]
        inside &= c.is_valid[rows] & (category != Category.TRACE) & np.isin(strip_kind(category), kinds)
        found.append(rows[inside])
    rows = np.concatenate(found) if found else np.empty(0, np.int64)
    start = np.maximum(c.start_ns[rows], begin_ns)
    end = np.minimum(c.end_ns[rows], end_ns)
    dur = end - start
    own = _self_time(c.parent[rows].astype(np.int64), rows, dur)
    names, first, which = np.unique(c.name[rows], return_index=True, return_inverse=True)
    count = np.bincount(which, minlength=len(names))
    total, self_ns = (np.bincount(which, weights=part, minlength=len(names)) for part in (dur, own))
    longest = np.zeros(len(names), np.int64)
    np.maximum.at(longest, which, dur)
    order = np.lexsort((-count, -total))[:_NAMES]
    on_device = c.is_device[rows]
    by_meaning = np.bincount(meaning[rows], weights=own, minlength=len(MEANINGS))
    return {
        "begin_ns": begin_ns,
        "end_ns": end_ns,
        "count": len(rows),
        "distinct": len(names),
        "device_events": int(on_device.sum()),
        "busy_ns": union_ns(start[on_device], end[on_device]) if on_device.any() else None,
        "by_meaning": [
            {"meaning": number, "self_ns": int(ns)} for number, ns in enumerate(by_meaning.tolist()) if ns > 0
        ],
        "names": [
            {
                "name": trace.names[int(names[at])],
                "meaning": int(meaning[rows[first[at]]]),
                "row": int(rows[first[at]]),
                "count": int(count[at]),
                "total_ns": int(total[at]),
                "self_ns": int(self_ns[at]),
                "mean_ns": int(total[at] / count[at]),
                "max_ns": int(longest[at]),
            }
            for at in order.tolist()
        ],
    }


def _self_time(parent: Int64, rows: Int64, dur: Int64) -> Int64:
    """Durations less those of the slices directly inside; ``rows`` ascend."""
    own: Int64 = dur.copy()
    at = np.searchsorted(rows, parent)
    known = (parent >= 0) & (at < len(rows))
    known[known] = rows[at[known]] == parent[known]
    np.subtract.at(own, at[known], dur[known])
    return np.maximum(own, 0)
