"""What a wait costs after it has ended: the lead that the thread had on the device.

A thread that waited for the device has lost its lead: what it does next finds the queue empty, and
the device idles although the program is no slower than before. So idle time after a wait is given
to it, as long as the part of the wait in which the device still worked, and until the next wait.
That is what the device would not have idled had the thread not stopped.

Waits with no launch between them are one stop of the thread (a copy, and then a wait for its
stream): what the device worked in all of them is the lead that was lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kinetoscope.analyses.idle_causes_host import Line
from kinetoscope.analyses.idle_causes_names import ORDINARY, WAITS, State
from kinetoscope.analyses.idle_pieces import Pieces, inserted, ranges
from kinetoscope.trace import Int32, Int64, UInt8

#: a wait shorter than this found the device done: the call itself takes as long
_LEAST_WAIT_NS = 10_000


@dataclass(frozen=True, eq=False)
class Waits:
    """Waits that are long enough, by their ends. Columns of one entry a wait.

    Attributes:
        begin_ns: when it began; where another thread was waiting already, when that one's wait ended.
        end_ns: when it ended.
        cause: what it is called, a `Cause`.
        row: the slice that waits.
        stop: number of the stop that it is part of, ascending: no launch lies between waits of one stop.
    """

    begin_ns: Int64
    end_ns: Int64
    cause: UInt8
    row: Int32
    stop: Int64

    def __len__(self) -> int:
        return len(self.end_ns)


def find_waits(lines: dict[int, Line], call_start_ns: Int64) -> Waits:
    """Waits of launching threads; ``call_start_ns`` are the starts of all launch calls."""
    begins, ends, causes, rows = [], [], [], []
    is_wait = np.isin(np.arange(len(State)), WAITS)
    for line in lines.values():
        until = line.at_ns[1:]
        since = line.at_ns[: len(until)]
        waits = np.flatnonzero(is_wait[line.state[: len(until)]])
        waits = waits[until[waits] - since[waits] >= _LEAST_WAIT_NS]
        begins.append(since[waits])
        ends.append(until[waits])
        causes.append(line.cause[waits])
        rows.append(line.row[waits])
    begin, end = np.concatenate(begins), np.concatenate(ends)
    order = np.argsort(end, kind="stable")
    stop = np.zeros(len(end), np.int64)
    if len(end):
        calls = np.sort(call_start_ns, kind="stable")  # fast, as each thread's are in order already
        before = np.searchsorted(calls, end[order][:-1])
        stop[1:] = np.cumsum(np.searchsorted(calls, begin[order][1:]) > before)
    begin = _once(begin, end)
    return Waits(begin[order], end[order], np.concatenate(causes)[order], np.concatenate(rows)[order], stop)


def _once(begin: Int64, end: Int64) -> Int64:
    """The starts of stretches, each moved behind those that began before it: the time in which two threads
    wait is lost once."""
    order = np.argsort(begin, kind="stable")
    reached = np.empty(len(end), np.int64)  # by those before
    reached[order[:1]] = begin[order[:1]]
    reached[order[1:]] = np.maximum.accumulate(end[order])[:-1]
    found: Int64 = np.minimum(np.maximum(begin, reached), end)
    return found


def with_lost_lead(pieces: Pieces, waits: Waits, gap_device: Int64, start_ns: Int64, end_ns: Int64) -> Pieces:
    """The pieces with idle time after waits given to them. The gaps are ordered by device, then start."""
    if not len(waits) or not len(pieces):
        return pieces
    borders = [0, *(np.flatnonzero(np.diff(gap_device)) + 1).tolist(), len(gap_device)]
    given, taken, taker = [], [], []
    places = np.searchsorted(pieces.gap, borders).tolist()
    for gaps, (first, last) in zip(pairwise(borders), pairwise(places), strict=True):
        here = slice(*gaps)
        idle = _idle_between(start_ns[here], end_ns[here], waits.begin_ns, waits.end_ns)
        lead = np.maximum(waits.end_ns - waits.begin_ns - idle, 0)
        at, time, wait = _taken(pieces.where(slice(first, last)), waits, lead)
        given.append(at + first)
        taken.append(time)
        taker.append(wait)
    at, time, wait = np.concatenate(given), np.concatenate(taken), np.concatenate(taker)
    if not len(at):
        return pieces
    until = pieces.start_ns[at] + time
    part = until < pieces.end_ns[at]  # the rest of these stays as it was, behind what is given away
    where = at[part] + 1
    found = Pieces(
        inserted(pieces.gap, where, pieces.gap[at[part]]),
        inserted(pieces.start_ns, where, until[part]),
        inserted(pieces.end_ns, where, pieces.end_ns[at[part]]),
        inserted(pieces.cause, where, pieces.cause[at[part]]),
        inserted(pieces.row, where, pieces.row[at[part]]),
    )
    moved = at + np.cumsum(part) - part
    found.end_ns[moved] = until
    found.cause[moved], found.row[moved] = waits.cause[wait], waits.row[wait]
    return found


def _taken(pieces: Pieces, waits: Waits, lead: Int64) -> tuple[Int64, Int64, Int64]:
    """What waits take of the pieces of one device: from which pieces, how much of their beginning, and
    which wait is named for it. ``lead`` is how much each may take."""
    length = np.where(ORDINARY[pieces.cause], pieces.end_ns - pieces.start_ns, 0)
    spent = np.concatenate(([0], np.cumsum(length)))  # what is ordinary before each piece
    first = np.searchsorted(pieces.start_ns, waits.end_ns, side="left")
    opens = np.flatnonzero(np.append(True, np.diff(waits.stop) > 0))
    size = np.diff(np.append(opens, len(waits)))
    limit = np.repeat(spent[np.append(first[opens[1:]], len(pieces))], size)
    # A wait takes what is ordinary after its end, and after what the waits before it in its stop take.
    # That is a running maximum; twice the lead of all stops before keeps stops apart.
    before = np.cumsum(lead) - lead
    apart = 2 * np.repeat(before[opens], size) - before
    begin = np.maximum.accumulate(spent[first] + apart) - apart
    begin = np.minimum(begin, limit)
    end = np.minimum(begin + lead, limit)
    at_first = np.searchsorted(spent, begin, side="right") - 1
    count = np.where(end > begin, np.searchsorted(spent, end, side="left") - at_first, 0)
    at = ranges(at_first, count)
    wait = np.repeat(np.arange(len(waits)), count)
    time = np.minimum(spent[at] + length[at], end[wait]) - np.maximum(spent[at], begin[wait])
    at, time = at[time > 0], time[time > 0]
    if not len(at):
        return at, time, at
    once = np.flatnonzero(np.append(True, np.diff(at) > 0))  # waits of one stop can share a piece
    latest = np.searchsorted(first, at[once], side="right") - 1
    return at[once], np.add.reduceat(time, once), _longest_so_far(lead, waits.stop)[latest]


def _longest_so_far(lead: Int64, stop: Int64) -> Int64:
    """For each wait that of its stop, up to itself, which lost most lead; of equals the first."""
    order = np.lexsort((-np.arange(len(lead)), lead))
    rank = np.empty(len(lead), np.int64)
    rank[order] = np.arange(len(lead))
    found: Int64 = order[np.maximum.accumulate(stop * len(lead) + rank) % len(lead)]
    return found


def _idle_between(start_ns: Int64, end_ns: Int64, begin: Int64, end: Int64) -> Int64:
    """How much of each stretch of time lies in gaps (of one device, in order of time)."""
    before = np.concatenate(([0], np.cumsum(end_ns - start_ns)))

    def until(time_ns: Int64) -> Int64:
        at = np.searchsorted(start_ns, time_ns, side="right")
        last = np.maximum(at - 1, 0)
        inside = np.minimum(time_ns, end_ns[last]) - start_ns[last]
        return np.where(at > 0, before[last] + inside, 0)

    found: Int64 = until(end) - until(begin)
    return found
