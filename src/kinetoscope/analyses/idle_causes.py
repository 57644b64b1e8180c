"""Why each device was idle: every nanosecond of every gap is given to one cause.

A gap ends with a piece of device work, and the thread that launched that work is the one the device
waited for. What that thread was doing, moment by moment, are the causes; so several can share one
gap, and they sum to it exactly. In order of precedence:

1. After the launching call returned, the device had its work. If the call had returned before the
   gap began, the time is *between queued kernels*; else the launch is not over before the device has
   begun, and the time is *launch call* as the call itself is. Where the stream had been told to wait,
   and another stream's work ended just before the gap, it is *other stream's dependency*.
2. Until the call returned, the innermost telling slice of the launching thread decides
   (`idle_causes_names` says which tells what). While that thread has no slice open, another
   launching thread may have: the forward runs on one thread and the backward on another, and
   the one waits for the other. Or a thread that launches nothing carries out a collective, for which
   they wait (`idle_collectives`). Only if none has, the time is *Python between regions*.
3. The profiler's own buffer work, where it falls into such time, is *profiler overhead*: the program
   would not do it.
4. A thread that waited for the device has lost its lead: what it does next finds the queue empty,
   and the device idles although the program is no slower than before. So a wait is also given
   idle time after it (`idle_lost_lead`).
5. Gaps that end with work no recorded call launched, gaps of traces without operators, and what is
   left of a gap 50 us after the work was handed over, are *unknown*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kinetoscope.analyses.idle_causes_host import Line, host_states
from kinetoscope.analyses.idle_causes_names import ORDINARY, Cause, State
from kinetoscope.analyses.idle_collectives import with_collectives
from kinetoscope.analyses.idle_lost_lead import find_waits, with_lost_lead
from kinetoscope.analyses.idle_pieces import (
    Pieces,
    cut,
    joined,
    neighbours_joined,
    one_after_another,
    ranges,
    refined,
    unknown_pieces,
    with_borders,
)
from kinetoscope.analyses.origins import has_cpu_rows
from kinetoscope.link import Links
from kinetoscope.link.ancestors import nearest_around
from kinetoscope.link.intervals import merged
from kinetoscope.link.names import Mark, marked
from kinetoscope.trace import Bool, Category, Int32, Int64

#: a device takes up its work faster than this; what is beyond has a reason that the trace does not show
LONGEST_LATENCY_NS = 50_000
#: gaps that are divided at once: their pieces stay in the cache
_AT_ONCE = 1 << 14
#: of other threads, only so many with most launches are asked what they did
_THREADS = 8


@dataclass(frozen=True, eq=False)
class _Ends:
    """How gaps end. Columns of one entry a gap.

    Attributes:
        start_ns: start of the gap.
        end_ns: its end.
        returned_ns: when the call had returned that launched the work which ends it.
        track: thread of that call, -1 where it is not known.
        row: that call, or -1.
        is_behind: whether the work waited for another stream.
    """

    start_ns: Int64
    end_ns: Int64
    returned_ns: Int64
    track: Int64
    row: Int32
    is_behind: Bool

    def where(self, keep: slice) -> _Ends:
        return _Ends(
            self.start_ns[keep],
            self.end_ns[keep],
            self.returned_ns[keep],
            self.track[keep],
            self.row[keep],
            self.is_behind[keep],
        )


def pieces_of_gaps(
    links: Links, gap_device: Int64, start_ns: Int64, end_ns: Int64, next_row: Int64
) -> Pieces:
    """The pieces of these gaps (ordered by device, then start; ``next_row`` ends each)."""
    launches, c = links.launches, links.trace.columns
    device = launches.numbers_of(next_row)
    if not has_cpu_rows(links) or not launches.is_linked[device].any():
        return unknown_pieces(np.arange(len(start_ns)), start_ns, end_ns)
    call, row = launches.call_of[device], launches.launch_row[device]
    returned = c.end_ns[np.maximum(row, 0)]
    if len(launches.call_rows):
        ends = launches.call_start_ns + launches.call_dur_ns
        returned = np.where(call >= 0, ends[np.maximum(call, 0)], returned)
    behind = _behind_other_stream(links, device, start_ns)
    gaps = _Ends(start_ns, end_ns, returned, launches.launch_track[device], row.astype(np.int32), behind)
    lines = launching_lines(links)
    parts = []
    for first in range(0, len(start_ns), _AT_ONCE):
        found = _pieces(lines, gaps.where(slice(first, first + _AT_ONCE)))
        found.gap[:] += first
        parts.append(found)
    found = joined(parts)
    waits = find_waits(lines, launches.call_start_ns)
    return neighbours_joined(with_lost_lead(found, waits, gap_device, start_ns, end_ns))


def _pieces(lines: dict[int, Line], gaps: _Ends) -> Pieces:
    """The pieces of some gaps, before waits are given what they cost."""
    linked = gaps.row >= 0
    handed = np.minimum(np.maximum(gaps.returned_ns, gaps.start_ns), gaps.end_ns)
    usual = np.minimum(handed + LONGEST_LATENCY_NS, gaps.end_ns)
    cause = np.where(gaps.returned_ns <= gaps.start_ns, np.uint8(Cause.QUEUED), np.uint8(Cause.LAUNCH))
    cause[gaps.is_behind] = Cause.STREAM
    soon = np.flatnonzero(linked & (usual > handed))
    late = np.flatnonzero(linked & (gaps.end_ns > usual))
    unlinked = np.flatnonzero(~linked)
    parts = (
        _host(lines, gaps.track, gaps.start_ns, handed),
        Pieces(soon, handed[soon], usual[soon], cause[soon], gaps.row[soon]),
        replace(unknown_pieces(late, usual[late], gaps.end_ns[late]), row=gaps.row[late]),
        unknown_pieces(unlinked, gaps.start_ns[unlinked], gaps.end_ns[unlinked]),
    )
    return one_after_another(parts, len(gaps.start_ns))


def _behind_other_stream(links: Links, device: Int32, start_ns: Int64) -> Bool:
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
    """Lines of the threads that launch, those with most launches first."""
    return links.once(_find_lines)


def _find_lines(links: Links) -> dict[int, Line]:
    launches = links.launches
    counts = np.bincount(launches.launch_track[launches.is_linked])
    tracks = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
    states = host_states(links)
    lines = with_collectives(states, {track: states.line(track) for track in tracks.tolist()})
    own = profiler_work(links)
    return {track: _with_profiler(line, *own) for track, line in lines.items()}


def _with_profiler(line: Line, start_ns: Int64, end_ns: Int64, rows: Int64) -> Line:
    """The line with the time in which the profiler handled its buffers marked as that.

    Not where the thread waits, compiles or loads data: that would have taken as long.
    """
    if not len(start_ns):
        return line
    line = with_borders(line, np.stack((start_ns, end_ns), axis=1).ravel())
    state, cause, row = line.state.copy(), line.cause.copy(), line.row.copy()
    begin, stop = np.searchsorted(line.at_ns, start_ns), np.searchsorted(line.at_ns, end_ns)
    own = ranges(begin, stop - begin)
    own = own[ORDINARY[cause[own]]]
    state[own], cause[own], row[own] = State.LAUNCH, Cause.PROFILER, int(rows[0])
    return replace(line, state=state, cause=cause, row=row)


def _host(lines: dict[int, Line], track: Int64, start_ns: Int64, end_ns: Int64) -> Pieces:
    """What the launching threads did until the launching call returned, in order of the gaps."""
    owner = np.flatnonzero((track >= 0) & (end_ns > start_ns))
    track = track[owner]
    host = Pieces(
        owner,
        start_ns[owner],
        end_ns[owner],
        np.full(len(owner), Cause.PYTHON, np.uint8),
        np.full(len(owner), -1, np.int32),
    )
    quiet = np.arange(len(owner))  # pieces of which no thread asked so far has told anything
    launching = np.flatnonzero(np.bincount(track)).tolist()
    asked = {number: (number, *_others(lines, number)) for number in launching}
    for turn in range(max(map(len, asked.values()), default=0)):
        whose = track[quiet]
        cuts = []
        for number, threads in asked.items():
            mine = quiet[whose == number]
            if turn < len(threads) and len(mine):
                cuts.append(cut(host, mine, lines[threads[turn]]))
        host, track, quiet = refined(host, track, cuts)
    return host


def _others(lines: dict[int, Line], number: int) -> list[int]:
    return [other for other in list(lines)[:_THREADS] if other != number]


def profiler_work(links: Links) -> tuple[Int64, Int64, Int64]:
    """When the profiler worked for itself: start and end of each stretch, and the rows.

    It fetches and writes buffers. Between two of its step marks (``ProfilerStep#N`` and the next) it is in
    ``profiler.step()``, which the program does not call when nobody looks.
    """
    c = links.trace.columns
    wanted = links.trace.names.where(lambda name: name in ("Buffer Flush", "Activity Buffer Request"))
    rows = np.flatnonzero(c.category == Category.OVERHEAD)
    rows = rows[wanted[c.name[rows]] & c.is_valid[rows]]
    marks = np.flatnonzero(marked(links.marks, c.name, Mark.STEP) & c.is_cpu & c.is_valid)
    before, after = marks[:-1], marks[1:]  # ordered by thread and time
    next_to = (c.track[before] == c.track[after]) & (c.end_ns[before] < c.start_ns[after])
    before, after = before[next_to], after[next_to]
    start = np.concatenate((c.start_ns[rows], c.end_ns[before]))
    end = np.concatenate((c.end_ns[rows], c.start_ns[after]))
    return *merged(start, end), np.concatenate((rows, before))


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
