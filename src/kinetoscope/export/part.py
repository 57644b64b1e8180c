"""Which events of a file belong to a part of its trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from kinetoscope.link import Links
from kinetoscope.link.select import Interval, select
from kinetoscope.trace import Bool, Trace

_NS = 1000


class _Head(msgspec.Struct):
    ph: str = ""
    ts: float | str | None = None


_HEAD = msgspec.json.Decoder(_Head)


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
        is_whole: whether it is all of the trace.
    """

    trace: Trace
    begin_ns: int
    end_ns: int
    rows: Bool
    events: Bool
    known: Bool
    is_whole: bool

    def holds(self, text: bytes) -> bool:
        """Whether an entry that is not in the columns belongs to it: by its time; names always do."""
        if self.is_whole:
            return True
        try:
            head = _HEAD.decode(text)
            if head.ph == "M" or head.ts is None:
                return True
            time_ns = float(head.ts) * _NS - self.trace.origin_ns
        except (msgspec.MsgspecError, ValueError, UnicodeDecodeError):
            return False
        return self.begin_ns <= time_ns < self.end_ns


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
    return Part(trace, begin, end, rows, events, known, True)


def part(links: Links, intervals: Sequence[Interval]) -> Part:
    """What began inside of ``intervals`` on the CPU, with the device work it launched.

    The intervals are in ns from the trace's origin, in order, and do not overlap.
    """
    trace = links.trace
    all_of_it = whole(trace)
    chosen = select(trace, intervals, links.launches.launch_of_row)
    events = np.zeros(trace.info.events, np.bool_)
    for table in (chosen.columns, chosen.flow_columns, chosen.instants):
        events[table.event] = True
    events &= all_of_it.events
    return Part(
        trace,
        intervals[0][0],
        intervals[-1][1],
        events[trace.columns.event],
        events,
        all_of_it.known,
        False,
    )


def _known(trace: Trace, count: int) -> Bool:
    known = np.zeros(count, np.bool_)
    for table in (trace.columns, trace.flow_columns, trace.instants):
        known[table.event] = True
    return known


#: category of everything that an export adds
CATEGORY = "kinetoscope"
