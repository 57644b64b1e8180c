"""Which events of a file belong to a part of its trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinetoscope.export.pairs import arrows_inside, head, inside
from kinetoscope.link import Links
from kinetoscope.link.select import Interval, select
from kinetoscope.trace import Bool, Trace


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a trace, or all of it.

    Attributes:
        trace: the whole trace.
        begin_ns: where it begins, from the trace's origin.
        end_ns: where it ends.
        rows: per slice, whether it belongs to it.
        events: per entry of ``traceEvents``, whether it does; of entries that are not in the trace's columns
            (names of threads, counters) `holds` decides.
        known: per entry, whether it is in the columns.
        intervals: what it is of; empty where it is all of the trace.
    """

    trace: Trace
    begin_ns: int
    end_ns: int
    rows: Bool
    events: Bool
    known: Bool
    intervals: tuple[Interval, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the trace."""
        return not self.intervals

    def holds(self, text: bytes) -> bool:
        """Whether an entry that is not in the columns belongs to it: by its time; names always do."""
        if self.is_whole:
            return True
        about = head(text)
        if about is None:
            return False
        if about.ph == "M" or about.ts is None:
            return True
        time_ns = about.time_ns(self.trace.origin_ns)
        return time_ns is not None and bool(inside(np.array([time_ns], np.int64), self.intervals)[0])


def whole(trace: Trace) -> Part:
    """All of a trace, but for what an earlier export has added."""
    c = trace.columns
    events = np.ones(trace.info.events, np.bool_)
    rows = np.ones(len(c), np.bool_)
    known = _known(trace, events.size)
    for cat, event in ((c.cat, c.event), (trace.instants.cat, trace.instants.event)):
        events[event[trace.cats.where(lambda cat: cat == CATEGORY)[cat]]] = False
    rows[:] = events[c.event]
    begin = int(c.start_ns.min()) if len(c) else 0
    end = int(c.end_ns.max()) + 1 if len(c) else 1
    return Part(trace, begin, end, rows, events, known)


def part(links: Links, intervals: Sequence[Interval]) -> Part:
    """What began inside of ``intervals`` on the CPU, with the device work it launched.

    The intervals are in ns from the trace's origin, in order, and do not overlap.
    """
    trace = links.trace
    all_of_it = whole(trace)
    chosen = select(trace, intervals, links.launches.launch_of_row)
    events = np.zeros(trace.info.events, np.bool_)
    for table in (chosen.columns, chosen.instants):
        events[table.event] = True
    events &= all_of_it.events
    rows = events[trace.columns.event]
    flows = trace.flow_columns
    events[flows.event[arrows_inside(trace, rows, intervals)]] = True
    return Part(
        trace,
        intervals[0][0],
        intervals[-1][1],
        rows,
        events,
        all_of_it.known,
        tuple(intervals),
    )


def _known(trace: Trace, count: int) -> Bool:
    known = np.zeros(count, np.bool_)
    for table in (trace.columns, trace.flow_columns, trace.instants):
        known[table.event] = True
    return known


#: category of everything that an export adds
CATEGORY = "kinetoscope"
