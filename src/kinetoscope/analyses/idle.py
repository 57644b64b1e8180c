"""Idle time of the devices: the holes between their events, and what caused each.

A gap lies between two device events of one device while none runs; time before the first and
after the last is not idle time. Several causes can share a gap, and the totals by cause always sum to
the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kinetoscope.analyses.idle_causes import describe, pieces_of_gaps
from kinetoscope.analyses.idle_causes_names import CAUSES
from kinetoscope.link import Links
from kinetoscope.schema import CauseShare, Gap, Idle
from kinetoscope.trace import Int64, UInt8

#: how many gaps ``longest`` lists
LONGEST = 20


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
    """What caused the gaps.

    ``of_gap`` gives for the number of a gap the cause of most of its time, a number into ``names``, and
    a word about it. ``total_ns`` holds for each cause its time over all gaps, ``gaps`` the number of gaps
    that it has a part in.
    """

    names: tuple[str, ...]
    of_gap: Callable[[int], tuple[int, str | None]]
    total_ns: Int64
    gaps: Int64


def find_gaps(links: Links) -> Gaps:
    """The gaps of every device."""
    devices = links.devices
    starts, ends, nexts, owner = [], [], [], []
    span = 0
    for number, events in enumerate(devices):
        start, end, following = events.gaps
        starts.append(start)
        ends.append(end)
        nexts.append(following)
        owner.append(np.full(len(start), number, np.int64))
        span += events.span_ns

    def joined(parts: Sequence[Int64]) -> Int64:
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    names = tuple(events.device for events in devices)
    return Gaps(names, joined(owner), joined(starts), joined(ends), joined(nexts), span)


def find_causes(links: Links, gaps: Gaps) -> Causes:
    """What the thread that launched the work after each gap was doing: see `idle_causes`."""
    pieces = pieces_of_gaps(links, gaps.device, gaps.start_ns, gaps.end_ns, gaps.next_row)
    length = pieces.end_ns - pieces.start_ns
    kinds = len(CAUSES)
    has_part = np.zeros((kinds, len(gaps)), np.bool_)
    has_part[pieces.cause, pieces.gap] = True

    def of_gap(number: int) -> tuple[int, str | None]:
        here = slice(*np.searchsorted(pieces.gap, [number, number + 1]))
        spent = _sums(pieces.cause[here], length[here], kinds)
        # the cause of most time; of equals the one that stands last in the list, the more special
        cause = kinds - 1 - int(np.argmax(spent[::-1]))
        longest = np.argmax(np.where(pieces.cause[here] == cause, length[here], -1))
        return cause, describe(links, int(pieces.row[here][longest]))

    return Causes(
        CAUSES,
        of_gap,
        _sums(pieces.cause, length, kinds),
        np.count_nonzero(has_part, axis=1).astype(np.int64),
    )


def _sums(group: UInt8, length: Int64, groups: int) -> Int64:
    # sums of whole nanoseconds stay exact in a double up to 104 days
    return np.bincount(group, weights=length, minlength=groups).astype(np.int64)


def idle(links: Links) -> Idle | None:
    """Idle time summed over devices; None where device events were not recorded.

    That is: there are none, or under a tenth of the launch calls have any.
    """
    found = links.launches
    if not len(found.device_rows) or not found.are_device_events_recorded:
        return None
    gaps = find_gaps(links)
    if not gaps.devices:
        return None
    causes = find_causes(links, gaps)
    length = gaps.end_ns - gaps.start_ns
    total = int(length.sum())
    longest = [(number, *causes.of_gap(number)) for number in _longest(length, gaps.start_ns)]
    return Idle(
        total_ns=total,
        share=total / gaps.span_ns if gaps.span_ns else 0.0,
        gaps=len(gaps),
        by_cause=_by_cause(causes, total),
        longest=[
            Gap(
                start_ns=int(gaps.start_ns[number]),
                dur_ns=int(length[number]),
                cause=causes.names[cause],
                device=gaps.devices[int(gaps.device[number])],
                detail=detail,
            )
            for number, cause, detail in longest
        ],
    )


def _by_cause(causes: Causes, total: int) -> list[CauseShare]:
    shares = [
        CauseShare(cause=name, total_ns=int(ns), share=int(ns) / total if total else 0.0, gaps=number)
        for name, ns, number in zip(causes.names, causes.total_ns.tolist(), causes.gaps.tolist(), strict=True)
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
