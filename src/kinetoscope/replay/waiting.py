"""Where the host waited for the device, and for what.

The trace does not say which stream or event a call waited for. What it waited for is told by when
it returned: work that was launched before and ended after the call had returned cannot have been
it. A call that waited for nothing keeps the time that it took.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.analyses.idle_causes import launching_lines
from kinetoscope.analyses.idle_causes_names import Cause, State
from kinetoscope.link import Links
from kinetoscope.link.ancestors import nearest_around
from kinetoscope.link.names import Mark, marked
from kinetoscope.replay.model import Waits
from kinetoscope.trace import Bool, Category, Int64, UInt8

#: what a wait takes that finds its work done, where it was never seen to
_OWN_NS = 3_000
#: clocks of host and device differ by so much
_SKEW_NS = 3_000
#: work that another stream's work was waiting for is followed by it this soon
_DEPENDENT_NS = 20_000
#: what a call that waits can be part of; anything else that it is in does not wait by itself
_WAITING = (Cause.SYNC, Cause.COPY, Cause.ALLOC, Cause.COLLECTIVE, Cause.DATA, Cause.COMPILE)


@dataclass(frozen=True, eq=False)
class Work:
    """What launch calls launched, one entry a call.

    Attributes:
        start_ns: start of its first event.
        end_ns: end of its last one.
        stream: number of the stream of its first event, from 0; 0 where it has no valid event.
        launched_ns: when the call began.
        tracks: the track of each stream.
    """

    start_ns: Int64
    end_ns: Int64
    stream: Int64
    launched_ns: Int64
    tracks: Int64


@dataclass(frozen=True, eq=False)
class Waiting:
    """Waits of a window, and event calls; ``blocks_in_call`` marks launch calls that wait for their copy.

    ``track`` is the thread of each wait.
    """

    waits: Waits
    begin_ns: Int64
    end_ns: Int64
    track: Int64
    record_ns: Int64
    stream_ns: Int64
    blocks_in_call: Bool


def find_waits(links: Links, low: int, high: int, called: Int64, work: Work) -> Waiting:
    """Waits that begin from ``low`` to ``high``; ``called`` are the launch calls that become blocks.

    A thread that launches nothing holds nobody up by waiting, as long as one that does is at work meanwhile.
    """
    trace, launches = links.trace, links.launches
    c = trace.columns
    rows = np.flatnonzero(c.is_call & c.is_valid & (c.start_ns >= low) & (c.end_ns <= high))
    name = trace.names
    record = name.where(lambda text: text.startswith(("cudaEventRecord", "hipEventRecord", "cuEventRecord")))
    stream = name.where(lambda text: "StreamWaitEvent" in text)
    syncs = marked(links.marks, c.name[rows], Mark.SYNC)
    frees = name.where(lambda text: text in ("cudaFree", "hipFree", "cudaFreeHost"))
    syncs |= frees[c.name[rows]]
    found = rows[syncs]
    found = found[nearest_around(c.parent, found, np.isin(np.arange(len(c)), found)) < 0]
    found = found[_holds_up(links, found)]
    event_wait = name.where(lambda text: "EventSynchronize" in text)
    stream_wait = name.where(lambda text: "StreamSynchronize" in text)
    done_by = _Ends.of(work)
    made: list[tuple[int, int, int, int, int, int]] = []  # begin, end, scope, own, return, row
    records = np.sort(c.start_ns[rows[record[c.name[rows]]]])
    for row in found.tolist():
        begin, end = int(c.start_ns[row]), int(c.end_ns[row])
        until = begin
        if event_wait[c.name[row]]:
            at = int(np.searchsorted(records, begin)) - 1
            until = int(records[at]) if at >= 0 else begin
        scope, done = done_by.waited_for(until, end, only_one=bool(stream_wait[c.name[row]]))
        if done is None:
            continue  # it waited for nothing that is known: host time
        waited = done > begin
        own = min(_OWN_NS, end - begin) if waited else end - begin
        made.append((begin, end, scope, own, max(0, end - done) if waited else _OWN_NS, row))
    blocking = _blocking_copies(links, called, work, low, high)
    for block in np.flatnonzero(blocking).tolist():
        call = int(called[block])
        begin = int(launches.call_start_ns[call])
        end = begin + int(launches.call_dur_ns[call])
        own = max(0, int(work.start_ns[block]) - begin)
        back = max(0, end - int(work.end_ns[block]))
        made.append((begin, end, -2 - block, own, back, int(launches.call_rows[call])))
    made.sort(key=lambda one: (one[1], one[0]))
    begin_ns, end_ns, scopes, own_ns, return_ns, at_rows = (
        np.array([one[field] for one in made], np.int64) for field in range(6)
    )
    return Waiting(
        Waits(scopes, own_ns, return_ns, _causes(links, at_rows), at_rows),
        begin_ns,
        end_ns,
        c.track[at_rows].astype(np.int64),
        records,
        _believable(np.sort(c.start_ns[rows[stream[c.name[rows]]]]), records, work),
        blocking,
    )


def _holds_up(links: Links, rows: Int64) -> Bool:
    """Whether the thread of each waiting call launches, or none that does is at work while it waits."""
    c = links.trace.columns
    lines = launching_lines(links)
    found: Bool = np.isin(c.track[rows], list(lines))
    for at in np.flatnonzero(~found).tolist():
        begin, end = int(c.start_ns[rows[at]]), int(c.end_ns[rows[at]])
        found[at] = not any(
            (line.state[_entries(line.at_ns, begin, end)] != State.NOTHING).any() for line in lines.values()
        )
    return found


def _entries(at_ns: Int64, begin: int, end: int) -> slice:
    """Entries of a line that hold from ``begin`` to ``end``."""
    first = int(np.searchsorted(at_ns, begin, side="right")) - 1
    return slice(max(first, 0), max(first + 1, int(np.searchsorted(at_ns, end))))


def _believable(wait_ns: Int64, record_ns: Int64, work: Work) -> Int64:
    """Of the times at which a stream was told to wait, those that the next launch can have meant.

    What is launched next waits for what was launched last before the event that was recorded last. Where it
    began before that had ended, or is on the same stream, the wait was for something else.
    """
    if not len(wait_ns) or not len(record_ns) or not len(work.start_ns):
        return wait_ns[:0]
    order = np.argsort(work.launched_ns, kind="stable")
    at = work.launched_ns[order]
    following = np.searchsorted(at, wait_ns)
    recorded = np.searchsorted(record_ns, wait_ns, side="right") - 1
    noted = np.searchsorted(at, record_ns[np.maximum(recorded, 0)]) - 1
    known = (following < len(at)) & (recorded >= 0) & (noted >= 0)
    behind = order[np.minimum(following, len(at) - 1)]
    before = order[np.maximum(noted, 0)]
    known &= work.stream[behind] != work.stream[before]
    known &= work.start_ns[behind] >= work.end_ns[before] - _SKEW_NS
    return wait_ns[known]


def other_streams(stream: Int64, begin_ns: Int64, length_ns: Int64, ready_ns: Int64) -> tuple[Int64, Int64]:
    """Which blocks (in order of launch) waited for a block of another stream, and from its end how long.

    Many traces do not record that a stream was told to wait. A block that started as soon as work of another
    stream had ended, though it was launched and its own stream free long before, waited for that work.
    """
    count = len(stream)
    behind, since = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    end = begin_ns + length_ns
    order = np.argsort(end, kind="stable")
    ends = end[order]
    free: dict[int, int] = {}
    for block, (its, begin, done) in enumerate(
        zip(stream.tolist(), begin_ns.tolist(), end.tolist(), strict=True)
    ):
        ready = max(int(ready_ns[block]), free.get(its, 0))
        free[its] = max(free.get(its, 0), done)
        if begin - ready <= _DEPENDENT_NS:
            continue
        at = int(np.searchsorted(ends, begin, side="right")) - 1
        while at >= 0 and begin - int(ends[at]) <= _DEPENDENT_NS:
            other = int(order[at])
            if other < block and int(stream[other]) != its and int(ends[at]) > ready:
                behind[block], since[block] = other, begin - int(ends[at])
                break
            at -= 1
    return behind, since


def find_work(links: Links, called: Int64) -> Work:
    """What these launch calls launched."""
    launches, c = links.launches, links.trace.columns
    number = np.full(len(launches.call_rows), -1, np.int64)
    number[called] = np.arange(len(called))
    mine = np.flatnonzero((launches.call_of >= 0) & c.is_valid[launches.device_rows])
    mine = mine[number[launches.call_of[mine]] >= 0]
    block, rows = number[launches.call_of[mine]], launches.device_rows[mine]
    order = np.lexsort((c.start_ns[rows], block))
    block, rows = block[order], rows[order]
    end = np.full(len(called), -(2**62), np.int64)
    np.maximum.at(end, block, c.end_ns[rows])
    first = np.append(True, block[1:] != block[:-1])[: len(block)]
    block, rows = block[first], rows[first]
    start = np.full(len(called), 2**62, np.int64)
    start[block] = c.start_ns[rows]
    stream = np.zeros(len(called), np.int64)
    tracks, stream[block] = np.unique(c.track[rows], return_inverse=True)
    return Work(start, end, stream, launches.call_start_ns[called], tracks.astype(np.int64))


@dataclass(frozen=True)
class _Ends:
    """When the work of each stream had ended: of what was launched until each launch, the last end."""

    launched: tuple[Int64, ...]
    ended: tuple[Int64, ...]

    @classmethod
    def of(cls, work: Work) -> _Ends:
        times, last = [], []
        for stream in range(int(work.stream.max()) + 1 if len(work.stream) else 0):
            mine = np.flatnonzero(work.stream == stream)
            mine = mine[np.argsort(work.launched_ns[mine], kind="stable")]
            times.append(work.launched_ns[mine])
            last.append(np.maximum.accumulate(work.end_ns[mine]) if len(mine) else work.end_ns[mine])
        return cls(tuple(times), tuple(last))

    def waited_for(self, until: int, returned: int, *, only_one: bool) -> tuple[int, int | None]:
        """What a call that returned then can have waited for: scope and end of the work.

        Only of what was launched ``until`` then.
        """
        last: list[tuple[int, int]] = []
        for stream, (launched, ended) in enumerate(zip(self.launched, self.ended, strict=True)):
            at = int(np.searchsorted(launched, until)) - 1
            if at >= 0:
                last.append((int(ended[at]), stream))
        if not last:
            return -1, None
        limit = returned + _SKEW_NS
        if not only_one and max(last)[0] <= limit:
            return -1, max(last)[0]
        possible = [one for one in last if one[0] <= limit]
        if not possible:
            return -1, None
        # of the streams that were done, the one that ended last is the one it can have waited for
        done, stream = max(possible)
        return stream, done


def _blocking_copies(links: Links, called: Int64, work: Work, low: int, high: int) -> Bool:
    """Which launch calls returned only after their copy between host and device had ended."""
    launches, c, names = links.launches, links.trace.columns, links.trace.names
    crosses = names.where(lambda text: "HtoD" in text or "DtoH" in text)
    pinned = names.where(lambda text: "Pinned" in text and "Pageable" not in text)
    number = np.full(len(launches.call_rows), -1, np.int64)
    number[called] = np.arange(len(called))
    rows = launches.device_rows
    copies = (c.category[rows] == Category.MEMCPY) & crosses[c.name[rows]] & ~pinned[c.name[rows]]
    block = number[launches.call_of[np.flatnonzero(copies & (launches.call_of >= 0))]]
    found = np.zeros(len(called), np.bool_)
    found[block[block >= 0]] = True
    returned = (launches.call_start_ns + launches.call_dur_ns)[called]
    return found & (returned >= work.end_ns) & (returned <= high) & (launches.call_start_ns[called] >= low)


def _causes(links: Links, rows: Int64) -> UInt8:
    """What each waiting call is called, as `kinetoscope.analyses.idle_causes` does."""
    cause = causes_at(links, rows)
    return np.where(np.isin(cause, _WAITING), cause, np.uint8(Cause.SYNC))


def causes_at(links: Links, rows: Int64) -> UInt8:
    """The cause of a launching thread's time at the start of these slices; unknown for other threads."""
    c = links.trace.columns
    cause = np.full(len(rows), Cause.UNKNOWN, np.uint8)
    for track, line in launching_lines(links).items():
        mine = np.flatnonzero(c.track[rows] == track)
        if not len(mine) or not len(line.at_ns):
            continue
        at = np.searchsorted(line.at_ns, c.start_ns[rows[mine]], side="right") - 1
        cause[mine] = np.where(at >= 0, line.cause[np.maximum(at, 0)], np.uint8(Cause.PYTHON))
    return cause
