"""Waits for collectives that the trace does not show where they are made.

Gloo carries a collective out on a thread of its own, where an annotation tells how long it took; the
thread that asked for it waits in Python with no slice open. A wait ends when what it waits for
does. So a launching thread waited for such a collective if none of them did anything in its last
part, up to its end; where one of them was at work then, the collective ran beside the program.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kinetoscope.analyses.idle_causes_host import HostStates, Line
from kinetoscope.analyses.idle_causes_names import Cause, Kind, State
from kinetoscope.analyses.idle_pieces import ranges, with_borders
from kinetoscope.link.intervals import merged
from kinetoscope.trace import Int64


def with_collectives(states: HostStates, lines: dict[int, Line]) -> dict[int, Line]:
    """The lines of the launching threads, the first of them with the collectives of other threads for which
    they waited."""
    if not lines:
        return lines
    start, end, rows = _collectives(states, lines)
    for line in lines.values():
        start = np.maximum(start, _quiet_since(line, end))
    order = np.flatnonzero(start < end)
    order = order[np.argsort(start[order], kind="stable")]
    if not len(order):
        return lines
    start, end, rows = start[order], end[order], rows[order]
    begin, stop = merged(start, end)
    first = next(iter(lines))
    line = with_borders(lines[first], np.stack((begin, stop), axis=1).ravel())
    state, cause, row = line.state.copy(), line.cause.copy(), line.row.copy()
    at = np.searchsorted(line.at_ns, begin)
    count = np.searchsorted(line.at_ns, stop) - at
    own = ranges(at, count)
    state[own], cause[own] = State.COLLECTIVE, Cause.COLLECTIVE
    row[own] = np.repeat(rows[np.searchsorted(start, begin)], count)
    return {**lines, first: replace(line, state=state, cause=cause, row=row)}


def _collectives(states: HostStates, lines: dict[int, Line]) -> tuple[Int64, Int64, Int64]:
    """Collectives on threads that launch nothing: start, end and row of each."""
    c = states.links.trace.columns
    rows = np.flatnonzero(states.kind == Kind.COLLECTIVE)
    rows = rows[c.is_valid[rows] & ~np.isin(c.track[rows], list(lines))]
    return c.start_ns[rows], c.end_ns[rows], rows


def _quiet_since(line: Line, time_ns: Int64) -> Int64:
    """Since when the thread had done nothing just before each time; the time itself where it did."""
    at = np.searchsorted(line.at_ns, time_ns) - 1
    if not len(line.at_ns):
        return np.full(len(time_ns), np.iinfo(np.int64).min)
    entry = np.maximum(at, 0)
    since = np.where(line.state[entry] == State.NOTHING, line.at_ns[entry], time_ns)
    return np.where(at >= 0, since, np.iinfo(np.int64).min)
