"""The model of some steps: host segments, and what the host asks of the device between them.

The host is one line of segments without holes, in the order in which the program ran them; threads
that launch take turns on it. Between segments stand *items*: a launch, a wait, an event, the start
of a step. Device work comes in *blocks*: what one call launched, on one stream, without a rest in
between. All that is kept of time are durations; when something starts follows from what it waits
for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from kinetoscope.link import Links
from kinetoscope.trace import Bool, Category, Int64, UInt8


class Item(IntEnum):
    """What stands between host segments."""

    LAUNCH = 0  # of the block that ``argument`` says
    WAIT = 1  # ``argument`` indexes `Waits`
    STEP = 2  # the step that ``argument`` says starts here (or the last one ends)
    RECORD = 3  # an event takes note of what was launched last, and so of all before it on its stream
    STREAM_WAIT = 4  # what is launched next waits for the event recorded last


@dataclass(frozen=True, eq=False)
class Host:
    """Segments of host time, in program order.

    Attributes:
        dur_ns: length of each; 0 inside waits, whose length the replay finds.
        cause: what the thread did, as `kinetoscope.analyses.idle_causes_names.Cause`.
        row: slice that says so, or -1.
        step: step that it is part of.
        recorded_ns: when it was recorded; only to find segments, never to replay them.
    """

    dur_ns: Int64
    cause: UInt8
    row: Int64
    step: Int64
    recorded_ns: Int64

    def __len__(self) -> int:
        return len(self.dur_ns)


@dataclass(frozen=True, eq=False)
class Waits:
    """Waits of the host for the device.

    ``scope`` is a stream, -1 for all of them, or ``-2 - b`` for block ``b`` alone. A wait takes
    ``own_ns`` if the work is done, and otherwise ends ``return_ns`` after it. ``cause`` as in `Host`.
    ``row`` is the call.
    """

    scope: Int64
    own_ns: Int64
    return_ns: Int64
    cause: UInt8
    row: Int64


@dataclass(frozen=True, eq=False)
class Blocks:
    """Device work by launch, in order of launch.

    Attributes:
        stream: number of the stream.
        length_ns: from the start of its first event to the end of its last.
        latency_ns: from the launch to the start on a free device.
        gap_ns: from the end of what runs before on the stream.
        extra_ns: added to both where the idle device took up its work late, for no reason that is recorded.
        behind: block of another stream that it waited for, -1 for none.
        behind_ns: from that block's end.
        step: step that launched it.
        row: launching call.
    """

    stream: Int64
    length_ns: Int64
    latency_ns: Int64
    gap_ns: Int64
    extra_ns: Int64
    behind: Int64
    behind_ns: Int64
    step: Int64
    row: Int64

    def __len__(self) -> int:
        return len(self.length_ns)


@dataclass(frozen=True, eq=False)
class Events:
    """Device events of the blocks, by block and then start.

    ``gap_ns`` is the time since all earlier events of the block ended: negative where they overlap,
    0 for the first.
    """

    block: Int64
    row: Int64
    dur_ns: Int64
    gap_ns: Int64


@dataclass(frozen=True, eq=False)
class Items:
    """Items in program order; ``after`` is the number of segments that come before each."""

    kind: UInt8
    after: Int64
    argument: Int64

    def __len__(self) -> int:
        return len(self.kind)

    def where(self, keep: Bool | Int64) -> Items:
        """Some of the items."""
        return Items(self.kind[keep], self.after[keep], self.argument[keep])


@dataclass(frozen=True, eq=False)
class Model:
    """The steps ``first_step`` to ``last_step`` of a trace, ready to be replayed.

    ``queue`` is how many launches the host may be ahead of the device before it has to wait. ``backlog_ns``
    tells for each stream until when, from the window's start, it is busy with what was launched before.
    ``usual`` are the numbers of steps that a median is taken over. The stream ``aside`` runs ahead of all
    others, as far as it can: it sets the pace only by how much there is of it. ``has_breaks`` is False where
    the pieces between graph breaks are taken for one.
    """

    links: Links
    first_step: int
    last_step: int
    usual: Int64
    host: Host
    items: Items
    waits: Waits
    blocks: Blocks
    events: Events
    queue: int
    backlog_ns: Int64
    aside: int = -1
    has_breaks: bool = True

    @property
    def window_ns(self) -> tuple[int, int]:
        """When the first step began and the last one ended, as recorded."""
        found = self.links.steps
        return int(found.start_ns[self.first_step]), int(found.end_ns[self.last_step])

    def differs_from(self, other: Model) -> bool:
        """Whether anything that takes time is not the same in ``other``, a model of the same steps."""
        return not (
            len(self.items) == len(other.items)
            and self.aside == other.aside
            and np.array_equal(self.host.dur_ns, other.host.dur_ns)
            and np.array_equal(self.events.dur_ns, other.events.dur_ns)
        )

    def with_host(self, dur_ns: Int64) -> Model:
        """The same with other host durations."""
        return replace(self, host=replace(self.host, dur_ns=dur_ns))

    def scaled(self, host: float = 1.0, device: float = 1.0) -> Model:
        """Host and device times multiplied."""
        found = self
        if host != 1:
            found = found.with_host(np.rint(self.host.dur_ns * host).astype(np.int64))
            waits = replace(self.waits, own_ns=np.rint(self.waits.own_ns * host).astype(np.int64))
            found = replace(found, waits=waits)
        if device != 1:
            found = found.with_events(np.rint(self.events.dur_ns * device).astype(np.int64))
        return found

    def is_pageable_copy(self) -> Bool:
        """Device events that copy from or to pageable memory, at the pace of the CPU; one flag an event."""
        c, row = self.links.trace.columns, self.events.row
        named = self.links.trace.names.where(lambda name: "Pageable" in name)
        found: Bool = named[c.name[row]] & (c.category[row] == Category.MEMCPY)
        return found

    def with_events(self, dur_ns: Int64) -> Model:
        """The same with other durations of device events; blocks grow and shrink with them."""
        events = replace(self.events, dur_ns=dur_ns)
        length = lengths_of_blocks(events, len(self.blocks))
        return replace(self, events=events, blocks=replace(self.blocks, length_ns=length))


def lengths_of_blocks(events: Events, count: int) -> Int64:
    """From the start of each block's first event to the end of its last one."""
    # one after the other: the sum of it all
    first = np.append(True, events.block[1:] != events.block[:-1])[: len(events.block)]
    spent = events.dur_ns + np.where(first, 0, events.gap_ns)
    length = np.bincount(events.block, spent, count).astype(np.int64)  # exact below 2**53
    # An event that overlaps starts before the others have ended and may end before them, too.
    overlaps = np.zeros(count, np.bool_)
    overlaps[events.block[events.gap_ns < 0]] = True
    rest = np.flatnonzero(overlaps[events.block])
    end = 0
    current = -1
    for block, dur, gap in zip(
        events.block[rest].tolist(), events.dur_ns[rest].tolist(), events.gap_ns[rest].tolist(), strict=True
    ):
        if block != current:
            current, end = block, 0
            gap = 0
        end = max(end, max(0, end + gap) + dur)
        length[block] = end
    return length
