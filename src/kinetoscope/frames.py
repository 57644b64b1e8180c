"""A trace's columns as Polars frames: names as strings, what is not given as null.

Polars is imported here and nowhere else on the way to a report, which does without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from kinetoscope.trace import NONE, Category, Flag

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from kinetoscope.trace import Trace


def slices_frame(trace: Trace) -> pl.DataFrame:
    """One row a complete event, in the order of ``trace.columns``.

    ``start_ns`` counts from ``trace.origin_ns``; ``parent`` is the row of the slice around it;
    ``track`` the row of `tracks_frame`.
    """
    c = trace.columns
    return pl.DataFrame(
        {
            "start_ns": c.start_ns,
            "dur_ns": c.dur_ns,
            "name": _strings(c.name, trace.names),
            "cat": _strings(c.cat, trace.cats),
            "category": _strings(c.category, [member.name.lower() for member in Category]),
            "track": c.track,
            "depth": c.depth,
            "parent": _nullable(c.parent, c.parent < 0),
            "correlation": _given(c.correlation),
            "external_id": _given(c.external_id),
            "sequence": _given(c.sequence),
            "device": _given(c.device),
            "stream": _given(c.stream),
            "event": c.event,
            "invalid_time": (c.flags & Flag.INVALID_TIME) != 0,
            "clipped": (c.flags & Flag.CLIPPED) != 0,
            "collective": (c.flags & Flag.COLLECTIVE) != 0,
        }
    )


def flows_frame(trace: Trace) -> pl.DataFrame:
    """One row an end of a flow arrow, in file order; ``phase`` is s (start), t (step) or f (end)."""
    f = trace.flow_columns
    codes = f.phase
    phase = np.select([codes == ord("s"), codes == ord("t")], [0, 1], 2)
    return pl.DataFrame(
        {
            "id": f.id,
            "time_ns": f.time_ns,
            "phase": _strings(phase, ["s", "t", "f"]),
            "cat": _strings(f.cat, trace.cats),
            "track": f.track,
            "event": f.event,
        }
    )


def tracks_frame(trace: Trace) -> pl.DataFrame:
    """One row a (process, thread) pair; ids as text, since files write both numbers and text."""
    tracks = trace.track_list
    return pl.DataFrame(
        {
            "pid": [str(track.pid) for track in tracks],
            "tid": [str(track.tid) for track in tracks],
            "process_name": [track.process_name for track in tracks],
            "thread_name": [track.thread_name for track in tracks],
            "labels": [track.labels for track in tracks],
            "slices": [track.last - track.first for track in tracks],
        },
        schema={
            "pid": pl.String,
            "tid": pl.String,
            "process_name": pl.String,
            "thread_name": pl.String,
            "labels": pl.String,
            "slices": pl.Int64,
        },
    )


def _strings(numbers: npt.NDArray[Any], strings: Sequence[str]) -> pl.Series:
    return pl.Series(list(strings), dtype=pl.String).gather(pl.Series(numbers, dtype=pl.UInt32))


def _given(column: npt.NDArray[np.int64]) -> pl.Series:
    return _nullable(column, column == NONE)


def _nullable(column: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> pl.Series:
    series = pl.Series(column)
    if not missing.any():
        return series
    return pl.select(pl.when(pl.Series(~missing)).then(series)).to_series()
