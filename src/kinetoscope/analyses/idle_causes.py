"""Why each device was idle: every nanosecond of every gap is given to one cause.

A gap ends with a piece of device work, and the thread that launched that work is the one the device
waited for. What that thread was doing, moment by moment, are the causes; so several can share one
gap, and they sum to it exactly. In order of precedence:

1. After the launching call returned, the device had its work. If the call had returned before the
   gap began, the time is *between queued kernels*; else it is *launch latency*. Where the stream
   had been told to wait, and another stream's work ended just before the gap, it is *other stream's
   dependency*. Nothing that the CPU does could shorten these.
2. Until the call returned, the innermost telling slice of the launching thread decides
   (`idle_causes_names` says which tells what). While that thread has no slice open, another
   launching thread may have: the forward runs on one thread and the backward on another, and
   the one waits for the other. Only if none has, the time is *Python between regions*.
3. The profiler's own buffer work, where it falls into such time, is *profiler overhead*: the program
   would not do it.
4. A thread that waited for the device has lost its lead: what it does next finds the queue empty,
   and the device idles although the program is no slower than before. So a wait is also given
   the idle time after it, as long as the part of the wait that lies outside of gaps, and until the
   next wait. That is what the device would not have idled had the thread not stopped. Compilation, data
   loading and other waits keep their own time: they explain themselves.
5. Gaps that end with work no recorded call launched, gaps of traces without operators, and what is
   left of a gap 50 us after the work was handed over, are *unknown*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np

from kinetoscope.analyses.idle_causes_host import Line, host_states
from kinetoscope.analyses.idle_causes_names import WAITS, Cause, State
from kinetoscope.analyses.origins import has_cpu_rows
from kinetoscope.link import Links
from kinetoscope.link.ancestors import nearest_around
from kinetoscope.link.intervals import merged
from kinetoscope.trace import Bool, Category, Int64, UInt8

#: a wait shorter than this found the device done: the call itself takes as long
_LEAST_WAIT_NS = 10_000
#: a device takes up its work faster than this; what is beyond has a reason that the trace does not show
LONGEST_LATENCY_NS = 50_000
#: of other threads, only so many with most launches are asked what they did
_THREADS = 8

#: causes that are nothing but the program's own pace
ORDINARY = np.isin(
    np.arange(len(Cause)),
    [
        Cause.PYTHON,
        Cause.EAGER,
        Cause.GRAPH,
        Cause.WRAPPER,
        Cause.GUARD,
        Cause.BREAK,
        Cause.LAUNCH,
        Cause.LATENCY,
    ],
)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Parts of gaps, each with one cause, in order of gap and time.

    ``gap`` indexes the gaps; ``row`` is the slice that names the cause, or -1.
    """

    gap: Int64
    start_ns: Int64
    end_ns: Int64
    cause: UInt8
    row: Int64

    def __len__(self) -> int:
        return len(self.gap)

    def where(self, keep: Bool | Int64 | slice) -> Pieces:
        """Some of the pieces."""
        return Pieces(
            self.gap[keep], self.start_ns[keep], self.end_ns[keep], self.cause[keep], self.row[keep]
        )


def pieces_of_gaps(
    links: Links, gap_device: Int64, start_ns: Int64, end_ns: Int64, next_row: Int64
) -> Pieces:
    """The pieces of these gaps (ordered by device, then start; ``next_row`` ends each)."""
    everything = Pieces(
        np.arange(len(start_ns)),
        start_ns,
        end_ns,
        np.full(len(start_ns), Cause.UNKNOWN, np.uint8),
        np.full(len(start_ns), -1, np.int64),
    )
    if not len(start_ns) or not has_cpu_rows(links):
        return everything
    launches, c = links.launches, links.trace.columns
    device = np.searchsorted(launches.device_rows, next_row)
    linked = launches.is_linked[device]
    if not linked.any():
        return everything
    call = launches.call_of[device]
    row = launches.launch_row[device]
    returned = np.where(
        call >= 0,
        (launches.call_start_ns + launches.call_dur_ns)[np.maximum(call, 0)]
        if len(launches.call_rows)
        else 0,
        c.end_ns[np.maximum(row, 0)],
    )
    handed = np.clip(returned, start_ns, end_ns)
    after = _after_launch(links, device, start_ns, end_ns, returned, handed, linked)
    lines = launching_lines(links)
    host = _host(lines, launches.launch_track[device], start_ns, handed, linked)
    parts = [part for part in (everything.where(~linked), after, host) if len(part)]
    return _with_lost_lead(lines, _in_order(_joined(parts), gap_device), gap_device)


def _after_launch(
    links: Links,
    device: Int64,
    start_ns: Int64,
    end_ns: Int64,
    returned: Int64,
    handed: Int64,
    linked: Bool,
) -> Pieces:
    """What lies between the return of the launching call and the start of its work."""
    cause = np.where(returned <= start_ns, Cause.QUEUED, Cause.LATENCY).astype(np.uint8)
    cause[_behind_other_stream(links, device, start_ns)] = Cause.STREAM
    usual = np.minimum(handed + LONGEST_LATENCY_NS, end_ns)
    row = links.launches.launch_row[device]
    found = []
    for begin, stop, why in ((handed, usual, cause), (usual, end_ns, np.full_like(cause, Cause.UNKNOWN))):
        keep = np.flatnonzero(linked & (stop > begin))
        found.append(Pieces(keep, begin[keep], stop[keep], why[keep], row[keep]))
    return _joined(found)


def _behind_other_stream(links: Links, device: Int64, start_ns: Int64) -> Bool:
    """Whether the work that ends a gap had to wait for the stream whose work ended when it began.

    Told by a wait of streams for events (cudaStreamWaitEvent) on the launching thread since it last
    launched anything there; which event it was is not recorded.
    """
    c, launches = links.trace.columns, links.launches
    waits = links.trace.names.where(lambda name: "StreamWaitEvent" in name)
    rows = np.flatnonzero(waits[c.name] & c.is_call)
    behind = np.zeros(len(device), np.bool_)
    if not len(rows):
        return behind
    # the last call of the thread before the launch, of launches and waits alone
    calls = np.union1d(rows, launches.call_rows)
    at = np.searchsorted(calls, launches.launch_row[device]) - 1
    before = calls[np.maximum(at, 0)]
    own = np.maximum(launches.launch_row[device], 0)
    asked = (at >= 0) & waits[c.name[before]] & (c.track[before] == c.track[own])
    for events in links.devices:  # streams of the work that ended last before each gap
        order = np.argsort(events.end_ns, kind="stable")
        ends, streams = events.end_ns[order], c.track[events.rows[order]]
        last = np.searchsorted(ends, start_ns, side="right") - 1
        mine = np.isin(c.track[launches.device_rows[device]], streams) & (last >= 0)
        other = streams[np.maximum(last, 0)] != c.track[launches.device_rows[device]]
        behind |= mine & other & asked
    return behind


def launching_lines(links: Links) -> dict[int, Line]:
    """Lines of the threads that launch, those with most launches first.

    Made once for one `Links` (several analyses ask for them), and forgotten with it.
    """
    found = _LINES.get(links)
    if found is None:
        found = _LINES[links] = _find_lines(links)
    return found


_LINES: WeakKeyDictionary[Links, dict[int, Line]] = WeakKeyDictionary()


def _find_lines(links: Links) -> dict[int, Line]:
    launches = links.launches
    counts = np.bincount(launches.launch_track[launches.is_linked])
    tracks = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
    states = host_states(links)
    own = profiler_work(links)
    return {track: _with_profiler(states.line(track), *own) for track in tracks.tolist()}


def _with_profiler(line: Line, start_ns: Int64, end_ns: Int64, rows: Int64) -> Line:
    """The line with the time in which the profiler handled its buffers marked as that.

    Not where the thread waits, compiles or loads data: that would have taken as long.
    """
    if not len(start_ns):
        return line
    borders = np.stack((start_ns, end_ns), axis=1).ravel()
    where = np.searchsorted(line.at_ns, borders)
    new = where == np.searchsorted(line.at_ns, borders, side="right")
    at = np.insert(line.at_ns, where[new], borders[new])
    index = np.searchsorted(line.at_ns, at, side="right") - 1
    before = index < 0
    index = np.maximum(index, 0)
    if not len(line.at_ns):
        state = np.full(len(at), State.NOTHING, np.uint8)
        cause, row = np.full(len(at), Cause.PYTHON, np.uint8), np.full(len(at), -1, np.int64)
    else:
        state = np.where(before, State.NOTHING, line.state[index]).astype(np.uint8)
        cause = np.where(before, Cause.PYTHON, line.cause[index]).astype(np.uint8)
        row = np.where(before, -1, line.row[index])
    inside = np.searchsorted(start_ns, at, side="right") - 1
    own = (inside >= 0) & (at < end_ns[np.maximum(inside, 0)]) & ORDINARY[cause]
    state[own], cause[own], row[own] = State.LAUNCH, Cause.PROFILER, int(rows[0])
    return Line(line.track, at, state, cause, row)


def _host(lines: dict[int, Line], track: Int64, start_ns: Int64, end_ns: Int64, linked: Bool) -> Pieces:
    """What the launching threads did until the launching call returned."""
    found = []
    for number in np.flatnonzero(np.bincount(track[linked])).tolist():
        mine = np.flatnonzero(linked & (track == number) & (end_ns > start_ns))
        pieces = Pieces(
            mine,
            start_ns[mine],
            end_ns[mine],
            np.full(len(mine), Cause.PYTHON, np.uint8),
            np.full(len(mine), -1, np.int64),
        )
        state = np.full(len(mine), State.NOTHING, np.uint8)
        others = [other for other in list(lines)[:_THREADS] if other != number]
        for other in (number, *others):
            quiet = state == State.NOTHING
            if quiet.all():
                pieces, state = _cut(pieces, lines[other])
            elif quiet.any():
                inner, inner_state = _cut(pieces.where(quiet), lines[other])
                pieces = _joined([pieces.where(~quiet), inner])
                state = np.concatenate((state[~quiet], inner_state))
        found.append(pieces)
    return _joined(found)


def _cut(pieces: Pieces, line: Line) -> tuple[Pieces, UInt8]:
    """The pieces cut where the thread changes its state, each with the cause of that state."""
    if not len(line.at_ns):
        return pieces, np.full(len(pieces), State.NOTHING, np.uint8)
    first = np.searchsorted(line.at_ns, pieces.start_ns, side="right") - 1
    last = np.searchsorted(line.at_ns, pieces.end_ns, side="left") - 1
    count = last - first + 1
    owner = np.repeat(np.arange(len(pieces)), count)
    index = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count) + first[owner]
    inside = index >= 0
    at = np.maximum(index, 0)
    begin = np.where(inside, line.at_ns[at], pieces.start_ns[owner])
    stop = np.append(line.at_ns, np.iinfo(np.int64).max)[index + 1]
    state = np.where(inside, line.state[at], State.NOTHING).astype(np.uint8)
    quiet = state == State.NOTHING
    return (
        Pieces(
            pieces.gap[owner],
            np.maximum(begin, pieces.start_ns[owner]),
            np.minimum(stop, pieces.end_ns[owner]),
            np.where(quiet, pieces.cause[owner], line.cause[at]).astype(np.uint8),
            np.where(quiet, pieces.row[owner], line.row[at]),
        ),
        state,
    )


def profiler_work(links: Links) -> tuple[Int64, Int64, Int64]:
    """When the profiler fetched or wrote its buffers: start and end of each stretch, and the rows."""
    c = links.trace.columns
    wanted = links.trace.names.where(lambda name: name in ("Buffer Flush", "Activity Buffer Request"))
    rows = np.flatnonzero((c.category == Category.OVERHEAD) & wanted[c.name] & c.is_valid)
    return *merged(c.start_ns[rows], c.end_ns[rows]), rows


def _in_order(pieces: Pieces, gap_device: Int64) -> Pieces:
    """The pieces by device, then time: so the pieces of a gap follow each other."""
    if len(gap_device) and gap_device[-1] == gap_device[0]:
        return pieces.where(np.argsort(pieces.start_ns, kind="stable"))
    return pieces.where(np.lexsort((pieces.start_ns, gap_device[pieces.gap])))


def _with_lost_lead(lines: dict[int, Line], pieces: Pieces, gap_device: Int64) -> Pieces:
    """Give idle time after a wait to the wait, as much as it waited outside of gaps."""
    begin, end, cause, row = _waits(lines)
    if not len(begin) or not len(pieces):
        return pieces
    taken = np.zeros(len(pieces), np.int64)
    wait = np.zeros(len(pieces), np.int64)
    device = gap_device[pieces.gap]
    borders = [0, *(np.flatnonzero(np.diff(device)) + 1).tolist(), len(pieces)]
    for first, last in pairwise(borders):
        here = slice(first, last)
        taken[here], wait[here] = _taken_by_waits(pieces.where(here), begin, end)
    given = np.flatnonzero(taken)
    if not len(given):
        return pieces
    cut = Pieces(
        pieces.gap[given],
        pieces.start_ns[given],
        pieces.start_ns[given] + taken[given],
        cause[wait[given]],
        row[wait[given]],
    )
    left = replace(pieces, start_ns=pieces.start_ns + taken)
    return _in_order(_joined([cut, left.where(left.start_ns < left.end_ns)]), gap_device)


def _taken_by_waits(pieces: Pieces, begin: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Of each piece of one device, in order of time, what a wait (ordered by end) takes, and which."""
    length = pieces.end_ns - pieces.start_ns
    lead = end - begin - (_covered(pieces, end) - _covered(pieces, begin))
    ordinary = ORDINARY[pieces.cause]
    spent = np.concatenate(([0], np.cumsum(np.where(ordinary, length, 0))))
    last = np.searchsorted(end, pieces.start_ns, side="right") - 1
    wait = np.maximum(last, 0)
    since = spent[:-1] - spent[np.searchsorted(pieces.start_ns, end, side="left")][wait]
    taken = np.where(ordinary & (last >= 0), np.clip(lead[wait] - since, 0, length), 0)
    return taken, wait


def _covered(pieces: Pieces, time_ns: Int64) -> Int64:
    """Idle time before each time."""
    length = pieces.end_ns - pieces.start_ns
    before = np.concatenate(([0], np.cumsum(length)))
    at = np.searchsorted(pieces.start_ns, time_ns, side="right")
    inside = np.minimum(time_ns - pieces.start_ns[np.maximum(at - 1, 0)], length[np.maximum(at - 1, 0)])
    covered: Int64 = np.where(at > 0, before[np.maximum(at - 1, 0)] + inside, 0)
    return covered


def _waits(lines: dict[int, Line]) -> tuple[Int64, Int64, UInt8, Int64]:
    """Waits of launching threads that are long enough, by end: start, end, cause and row."""
    begin, end, cause, row = [], [], [], []
    for line in lines.values():
        stop = line.at_ns[1:]
        start = line.at_ns[: len(stop)]
        waits = np.flatnonzero(np.isin(line.state[: len(stop)], WAITS) & (stop - start >= _LEAST_WAIT_NS))
        begin.append(start[waits])
        end.append(stop[waits])
        cause.append(line.cause[waits])
        row.append(line.row[waits])
    ends = np.concatenate(end)
    order = np.argsort(ends, kind="stable")
    return (
        np.concatenate(begin)[order],
        ends[order],
        np.concatenate(cause)[order],
        np.concatenate(row)[order],
    )


def describe(links: Links, row: int) -> str | None:
    """The slice in ``row`` in words, with the operator around it where it is a call."""
    if row < 0:
        return None
    c, trace = links.trace.columns, links.trace
    name = _short(trace.name_of(row))
    if not c.is_call[row]:
        return name
    around = int(nearest_around(c.parent, np.array([row]), c.category == Category.CPU_OP)[0])
    return f"{name} in {_short(trace.name_of(around))}" if around >= 0 else name


def _short(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:57]}..."


def _joined(parts: list[Pieces]) -> Pieces:
    if not parts:
        nothing = np.empty(0, np.int64)
        return Pieces(nothing, nothing, nothing, np.empty(0, np.uint8), nothing)
    return Pieces(
        np.concatenate([part.gap for part in parts]),
        np.concatenate([part.start_ns for part in parts]),
        np.concatenate([part.end_ns for part in parts]),
        np.concatenate([part.cause for part in parts]),
        np.concatenate([part.row for part in parts]),
    )
