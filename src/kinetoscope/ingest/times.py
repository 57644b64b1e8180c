"""Times that cannot be: kept and counted, never measured."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kinetoscope.ingest.events import Table
from kinetoscope.trace import Category, Flag, Int64, TraceWarning

#: a device event that runs further than this past the next start on its stream is corrupt
_IMPOSSIBLE_NS = 1_000_000
#: 18 years
_DECADES_NS = 1 << 59


def check_times(slices: Table, category: npt.NDArray[np.uint8], warnings: list[TraceWarning]) -> None:
    """Flag, in place, the slices of a file (times absolute) whose times are invalid; add to ``warnings``."""
    invalid = (slices["dur_ns"] < 0) | (
        (category >= Category.KERNEL) & (slices["time_ns"] == 0) & (slices["dur_ns"] == 0)
    )
    absurd = _absurd(slices["time_ns"], slices["dur_ns"], invalid)
    if absurd is not None:
        message = "events decades away from the others, or decades long, are counted but not measured"
        warnings.append(TraceWarning("absurd-times", message, int(absurd.sum())))
        # their place is not known: where the others begin
        others = slices["time_ns"][~(absurd | invalid)]
        begin = others.min() if len(others) else 0
        slices["time_ns"] = np.where(absurd, begin, slices["time_ns"])
    if invalid.any():
        message = (
            "events with a negative duration, or device events with time 0, are counted but not measured"
        )
        warnings.append(TraceWarning("invalid-times", message, int(invalid.sum())))
    wrong = invalid if absurd is None else invalid | absurd
    if wrong.any():
        slices["flags"] |= np.where(wrong, np.uint8(Flag.INVALID_TIME), np.uint8(0))
        slices["dur_ns"] = np.where(wrong, 0, slices["dur_ns"])


def _absurd(time_ns: Int64, dur_ns: Int64, invalid: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_] | None:
    """Events that no clock can have timed beside the others; None where there is none, as nearly always.

    Sums and differences of what is left stay far inside int64.
    """
    absurd = ~invalid & (dur_ns > _DECADES_NS)
    usable = ~(invalid | absurd)
    if usable.any():
        times = time_ns[usable]
        if int(times.max()) - int(times.min()) > _DECADES_NS:
            middle = np.partition(times, (len(times) - 1) // 2)[(len(times) - 1) // 2]
            # the distance wraps as the times do
            absurd |= usable & (np.abs(time_ns - middle) > _DECADES_NS)
    return absurd if absurd.any() else None


def clip_impossible(columns: Table, category: npt.NDArray[np.uint8]) -> int:
    """Cut device events that run far past the next start on their stream; returns how many."""
    rows = np.flatnonzero((category >= Category.KERNEL) & ((columns["flags"] & Flag.INVALID_TIME) == 0))
    if len(rows) < 2:
        return 0
    # A track is a stream only where kernels say so; without a stream nothing is serial.
    stream = columns["stream"][rows]
    start, end = columns["time_ns"][rows], columns["time_ns"][rows] + columns["dur_ns"][rows]
    next_start = np.append(start[1:], 0)
    same = np.append(
        (columns["track"][rows][1:] == columns["track"][rows][:-1]) & (stream[1:] == stream[:-1]), False
    )
    bad = same & (end > next_start + _IMPOSSIBLE_NS)
    if not bad.any():
        return 0
    chosen = rows[bad]
    columns["dur_ns"][chosen] = next_start[bad] - start[bad]
    columns["flags"][chosen] |= np.uint8(Flag.CLIPPED)
    return int(bad.sum())
