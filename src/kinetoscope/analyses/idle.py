"""Idle time of the devices: the holes between their events, and what caused each.

A gap lies between two device events of one device while none runs; time before the first and
after the last is not idle time. Causes are named by a function of the gaps (`by_thread` is the usual
one); several causes can share a gap, and the totals by cause always sum to the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kinetoscope.analyses.idle_causes import describe, pieces_of_gaps
from kinetoscope.analyses.idle_causes_names import CAUSES
from kinetoscope.link import Links
from kinetoscope.schema import CauseShare, Gap, Idle
from kinetoscope.trace import Int64

#: how many gaps ``longest`` lists
LONGEST = 20
#: gaps whose causes are summed at once
_AT_ONCE = 100_000


@dataclass(frozen=True, eq=False)
class Gaps:
    """All gaps, device by device and then in time order.

    Attributes:
        devices: names of the devices.
        device: per gap, index into ``devices``.
        start_ns: start of each gap.
        end_ns: end of each gap.
        next_row: row of the device event that ends it.
        span_ns: time from first to last event, summed over the devices.
    """

    devices: tuple[str, ...]
    device: Int64
    start_ns: Int64
    end_ns: Int64
    next_row: Int64
    span_ns: int

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, eq=False)
class Causes:
    """What caused each gap: a number into ``names``, and a word about it for those asked.

    Where gaps have several causes, ``of_gap`` is the one of most time, and ``totals`` holds for each
    cause its time in ns over all gaps and the number of gaps that it has a part in.
    """

    names: tuple[str, ...]
    of_gap: Int64
    details: Callable[[int], str | None] = lambda gap: None
    totals: tuple[Int64, Int64] | None = None


#: tells the causes of gaps
Explain = Callable[[Links, Gaps], Causes]


def unexplained(links: Links, gaps: Gaps) -> Causes:
    """Nothing is known about any gap."""
    return Causes(("unknown",), np.zeros(len(gaps), np.int64))


def find_gaps(links: Links) -> Gaps:
    """The gaps of every device."""
    devices = links.devices
    starts, ends, nexts, owner = [], [], [], []
    span = 0
    for number, events in enumerate(devices):
        start, end = events.gaps()
        starts.append(start)
        ends.append(end)
        nexts.append(events.rows[np.searchsorted(events.start_ns, end)])
        owner.append(np.full(len(start), number, np.int64))
        span += events.span_ns

    def joined(parts: Sequence[Int64]) -> Int64:
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    names = tuple(events.device for events in devices)
    return Gaps(names, joined(owner), joined(starts), joined(ends), joined(nexts), span)


def by_thread(links: Links, gaps: Gaps) -> Causes:
    """What the thread that launched the work after each gap was doing: see `idle_causes`."""
    pieces = pieces_of_gaps(links, gaps.device, gaps.start_ns, gaps.end_ns, gaps.next_row)
    length = pieces.end_ns - pieces.start_ns
    cause = pieces.cause.astype(np.int64)
    kinds = len(CAUSES)
    of_gap = np.zeros(len(gaps), np.int64)
    totals, counts = np.zeros(kinds, np.int64), np.zeros(kinds, np.int64)
    for first in range(0, len(gaps), _AT_ONCE):
        last = min(first + _AT_ONCE, len(gaps))
        here = slice(*np.searchsorted(pieces.gap, [first, last]))
        key = (pieces.gap[here] - first) * kinds + cause[here]
        # sums of whole nanoseconds stay exact in a double up to 104 days
        spent = np.bincount(key, weights=length[here], minlength=(last - first) * kinds)
        spent = spent.reshape(last - first, kinds)
        totals += spent.sum(axis=0).astype(np.int64)
        counts += (spent > 0).sum(axis=0)
        # the cause of most time; of equals the one that stands last in the list, the more special
        of_gap[first:last] = kinds - 1 - np.argmax(spent[:, ::-1], axis=1)

    def details(number: int) -> str | None:
        at = np.arange(*np.searchsorted(pieces.gap, [number, number + 1]))
        at = at[cause[at] == of_gap[number]]
        return describe(links, int(pieces.row[at[np.argmax(length[at])]])) if len(at) else None

    return Causes(CAUSES, of_gap, details, (totals, counts))


def idle(links: Links, explain: Explain = by_thread) -> Idle | None:
    """Idle time summed over devices; None where device events were not recorded.

    That is: there are none, or under a tenth of the launch calls have any.
    """
    found = links.launches
    if not len(found.device_rows) or not found.are_device_events_recorded:
        return None
    gaps = find_gaps(links)
    if not gaps.devices:
        return None
    causes = explain(links, gaps)
    length = gaps.end_ns - gaps.start_ns
    total = int(length.sum())
    return Idle(
        total_ns=total,
        share=total / gaps.span_ns if gaps.span_ns else 0.0,
        gaps=len(gaps),
        by_cause=_by_cause(causes, length, total),
        longest=[
            Gap(
                start_ns=int(gaps.start_ns[number]),
                dur_ns=int(length[number]),
                cause=causes.names[int(causes.of_gap[number])],
                device=gaps.devices[int(gaps.device[number])],
                detail=causes.details(number),
            )
            for number in _longest(length, gaps.start_ns)
        ],
    )


def _by_cause(causes: Causes, length: Int64, total: int) -> list[CauseShare]:
    if causes.totals is not None:
        sums, count = causes.totals
    else:
        count = np.bincount(causes.of_gap, minlength=len(causes.names))
        sums = np.zeros(len(causes.names), np.int64)
        np.add.at(sums, causes.of_gap, length)
    shares = [
        CauseShare(cause=name, total_ns=int(ns), share=int(ns) / total if total else 0.0, gaps=number)
        for name, ns, number in zip(causes.names, sums.tolist(), count.tolist(), strict=True)
        if number
    ]
    return sorted(shares, key=lambda share: (-share.total_ns, share.cause))


def _longest(length: Int64, start_ns: Int64) -> list[int]:
    """Numbers of the longest gaps, longest first, the earlier of equals first."""
    some = np.arange(len(length))
    if len(length) > LONGEST:
        limit = np.partition(length, -LONGEST)[-LONGEST]
        some = np.flatnonzero(length >= limit)
    order = some[np.lexsort((start_ns[some], -length[some]))]
    chosen: list[int] = order[:LONGEST].tolist()
    return chosen
