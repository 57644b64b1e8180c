"""Where the host waited for the device, and for what.

The trace does not say which stream or event a call waited for. What it waited for is told by when
it returned: work that was launched before and ended after the call had returned cannot have been
it. A call that waited for nothing keeps the time that it took.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.analyses.idle_causes_names import Cause
from kinetoscope.link import Links
from kinetoscope.link.ancestors import nearest_around
from kinetoscope.link.names import Mark, marked
from kinetoscope.replay.model import Waits
from kinetoscope.trace import Bool, Category, Int64

#: what a wait takes that finds its work done, where it was never seen to
_OWN_NS = 3_000
#: clocks of host and device differ by so much
_SKEW_NS = 3_000
_COPY_OPS = ("aten::copy_", "aten::_to_copy", "aten::_foreach_copy_")


@dataclass(frozen=True, eq=False)
class Waiting:
    """Waits of a window, and event calls; ``blocks_in_call`` marks launch calls that wait for their copy."""

    waits: Waits
    begin_ns: Int64
    end_ns: Int64
    record_ns: Int64
    stream_ns: Int64
    blocks_in_call: Bool


def find_waits(links: Links, low: int, high: int, called: Int64) -> Waiting:
    """Waits that begin from ``low`` to ``high``; ``called`` are the launch calls that become blocks."""
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
    event_wait = name.where(lambda text: "EventSynchronize" in text)
    stream_wait = name.where(lambda text: "StreamSynchronize" in text)
    starts, ends, streams, launched = _work(links, called)
    made: list[tuple[int, int, int, int, int, int]] = []  # begin, end, scope, own, return, row
    records = np.sort(c.start_ns[rows[record[c.name[rows]]]])
    for row in found.tolist():
        begin, end = int(c.start_ns[row]), int(c.end_ns[row])
        until = begin
        if event_wait[c.name[row]]:
            at = int(np.searchsorted(records, begin)) - 1
            until = int(records[at]) if at >= 0 else begin
        scope, done = _scope(ends, streams, launched, until, end, only_one=bool(stream_wait[c.name[row]]))
        if done is None:
            continue  # it waited for nothing that is known: host time
        waited = done > begin
        own = min(_OWN_NS, end - begin) if waited else end - begin
        made.append((begin, end, scope, own, max(0, end - done) if waited else _OWN_NS, row))
    blocking = _blocking_copies(links, called, low, high)
    for block in np.flatnonzero(blocking).tolist():
        call = int(called[block])
        begin = int(launches.call_start_ns[call])
        end = begin + int(launches.call_dur_ns[call])
        own = max(0, int(starts[block]) - begin)
        back = max(0, end - int(ends[block]))
        made.append((begin, end, -2 - block, own, back, int(launches.call_rows[call])))
    made.sort(key=lambda one: (one[1], one[0]))
    begin_ns, end_ns, scopes, own_ns, return_ns, at_rows = (
        np.array([one[field] for one in made], np.int64) for field in range(6)
    )
    return Waiting(
        Waits(scopes, own_ns, return_ns, _causes(links, at_rows, frees), at_rows),
        begin_ns,
        end_ns,
        c.start_ns[rows[record[c.name[rows]]]],
        c.start_ns[rows[stream[c.name[rows]]]],
        blocking,
    )


def _work(links: Links, called: Int64) -> tuple[Int64, Int64, Int64, Int64]:
    """Of each block: start of its first event, end of its last, its stream, when its call began."""
    launches, c = links.launches, links.trace.columns
    number = np.full(len(launches.call_rows), -1, np.int64)
    number[called] = np.arange(len(called))
    mine = np.flatnonzero((launches.call_of >= 0) & c.is_valid[launches.device_rows])
    mine = mine[number[launches.call_of[mine]] >= 0]
    block, rows = number[launches.call_of[mine]], launches.device_rows[mine]
    start = np.full(len(called), 2**62, np.int64)
    end = np.full(len(called), -(2**62), np.int64)
    np.minimum.at(start, block, c.start_ns[rows])
    np.maximum.at(end, block, c.end_ns[rows])
    track = np.zeros(len(called), np.int64)
    track[block] = c.track[rows]
    _, stream = np.unique(track, return_inverse=True)
    return start, end, stream.astype(np.int64), launches.call_start_ns[called]


def _scope(
    ends: Int64,
    streams: Int64,
    launched: Int64,
    until: int,
    returned: int,
    *,
    only_one: bool,
) -> tuple[int, int | None]:
    """What a call that returned then can have waited for: scope and end of that work."""
    before = launched < until
    if not before.any():
        return -1, None
    last = [(int(ends[before & (streams == one)].max()), one) for one in np.unique(streams[before]).tolist()]
    limit = returned + _SKEW_NS
    if not only_one and max(last)[0] <= limit:
        return -1, max(last)[0]
    possible = [one for one in last if one[0] <= limit]
    if not possible:
        return -1, None
    # of the streams that were done, the one that ended last is the one it can have waited for
    done, stream = max(possible)
    return int(stream), done


def _blocking_copies(links: Links, called: Int64, low: int, high: int) -> Bool:
    """Which launch calls returned only after their copy between host and device had ended."""
    launches, c, names = links.launches, links.trace.columns, links.trace.names
    ends = _work(links, called)[1]
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
    return found & (returned >= ends) & (returned <= high) & (launches.call_start_ns[called] >= low)


def _causes(links: Links, rows: Int64, frees: Bool) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Synchronisation, copy or allocation."""
    c, names = links.trace.columns, links.trace.names
    cause = np.full(len(rows), Cause.SYNC, np.uint8)
    if not len(rows):
        return cause
    around = nearest_around(c.parent, rows, c.category == Category.CPU_OP)
    copies = names.where(lambda text: text in _COPY_OPS)
    cause[(around >= 0) & copies[c.name[np.maximum(around, 0)]]] = Cause.COPY
    cause[marked(links.marks, c.name[rows], Mark.LAUNCH) & (cause != Cause.COPY)] = Cause.COPY
    cause[frees[c.name[rows]]] = Cause.ALLOC
    return cause
