"""The replay: runs a model from durations and dependencies.

A block starts when its launch has reached the device, its stream is free, and what it was told to
wait for is done. A wait ends when its work is done, a launch when there is room in the queue.
Everything else takes the time that it took.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.replay.model import Item, Model
from kinetoscope.trace import Int64

_LONG_AGO = -(2**62)


@dataclass(frozen=True, eq=False)
class Replayed:
    """What a replay gave.

    Attributes:
        step_ns: median of a step: of the host's steps or of the device's, whichever is longer; where no
            two steps have device work, no less than it takes.
        host_steps_ns: length of each step on the host.
        device_steps_ns: from the first work of a step to that of the next, where both have any.
        total_ns: until host and device had finished.
        waits_ns: how long each wait of the model took, its call included; 0 for those that are gone.
    """

    step_ns: int
    host_steps_ns: Int64
    device_steps_ns: Int64
    total_ns: int
    waits_ns: Int64


def run(model: Model) -> Replayed:
    """Replay ``model``."""
    items, waits, blocks = model.items, model.waits, model.blocks
    before = np.concatenate(([0], np.cumsum(model.host.dur_ns)))
    spent = np.diff(np.concatenate(([0], before[items.after]))).tolist()
    # what each launch needs stands in the order of the items: nothing is looked up on the way
    is_launch = items.kind == Item.LAUNCH
    block = np.where(is_launch, items.argument, 0)
    stream, latency, gap, extra, length, behind, behind_ns = (
        (column[block] if len(blocks) else block).tolist()
        for column in (
            blocks.stream,
            blocks.latency_ns,
            blocks.gap_ns,
            blocks.extra_ns,
            blocks.length_ns,
            blocks.behind,
            blocks.behind_ns,
        )
    )
    scope, own, back = waits.scope.tolist(), waits.own_ns.tolist(), waits.return_ns.tolist()
    streams = int(blocks.stream.max()) + 1 if len(blocks) else 1
    free = model.backlog_ns.tolist()[:streams]
    free += [_LONG_AGO] * (streams - len(free))  # a change may have put work on a stream of its own
    ends = [_LONG_AGO] * len(blocks)
    starts_of = [_LONG_AGO] * len(blocks)
    # the launches so far, behind so many that never were as fit into the queue
    starts: list[int] = [_LONG_AGO] * model.queue
    marks: dict[int, int] = {}
    aside = model.aside
    shared = streams if aside < 0 else aside  # who waits for all streams does not wait for what runs ahead
    waited = [0] * len(waits.row)
    now, recorded, pending, last, launched = 0, _LONG_AGO, _LONG_AGO, 0, 0
    launch, wait, step, record = (int(one) for one in (Item.LAUNCH, Item.WAIT, Item.STEP, Item.RECORD))
    # tens of thousands of turns, some dozen replays: comparisons, not calls of max()
    for kind, host_ns, argument, its, its_latency, its_gap, its_extra, its_length, other, other_ns in zip(
        items.kind.tolist(),
        spent,
        items.argument.tolist(),
        stream,
        latency,
        gap,
        extra,
        length,
        behind,
        behind_ns,
        strict=True,
    ):
        now += host_ns
        if kind == launch:
            if starts[launched] > now:
                now = starts[launched]
            launched += 1
            start = now + its_latency
            ready = free[its] + its_gap
            if ready > start:
                start = ready
            if pending > start:
                start = pending
            if other >= 0:
                ready = ends[other] + other_ns
                if ready > start:
                    start = ready
            start += its_extra
            pending = _LONG_AGO
            if its != aside:
                last = its
            free[its] = ends[argument] = start + its_length
            starts_of[argument] = start
            starts.append(start)
        elif kind == wait:
            where = scope[argument]
            done = free[where] if where >= 0 else max(free[:shared]) if where == -1 else ends[-2 - where]
            after = max(now + own[argument], done + back[argument])
            waited[argument] = after - now
            now = after
        elif kind == step:
            marks[argument] = now
        elif kind == record:
            recorded = free[last]
        elif recorded > pending:
            pending = recorded
    now += int(before[-1] - before[items.after[-1]]) if len(items) else int(before[-1])
    return _measured(model, marks, starts_of, max(now, max(free)), waited)


def _measured(
    model: Model, marks: dict[int, int], starts: list[int], total_ns: int, waits_ns: list[int]
) -> Replayed:
    """Steps as `kinetoscope.analyses.steps` measures them, over the same steps."""
    numbers = np.arange(model.first_step, model.last_step + 1)
    host = np.array([marks[number + 1] - marks[number] for number in numbers.tolist()], np.int64)
    first = np.full(len(numbers), 2**62, np.int64)
    number = model.blocks.step - model.first_step
    at = np.array(starts, np.int64)
    # a change may have left blocks that nothing launches any more
    inside = (number >= 0) & (number < len(numbers)) & (at != _LONG_AGO)
    aside = inside & (model.blocks.stream == model.aside)
    inside &= ~aside
    np.minimum.at(first, number[inside], at[inside])
    known = (first[:-1] < 2**61) & (first[1:] < 2**61)
    usual = np.isin(numbers, model.usual)
    device = (first[1:] - first[:-1])[known & usual[:-1]]
    busy = np.bincount(number[aside], model.blocks.length_ns[aside], len(numbers))[usual]
    medians = [float(np.median(some)) for some in (host[usual], device, busy) if len(some)]
    if not len(device):  # no next step's work tells how long the device takes: no less than it works
        medians.append(busy_ns(model))
    step = round(max(medians)) if medians else 0
    return Replayed(step, host, device, int(total_ns), np.array(waits_ns, np.int64))


def busy_ns(model: Model) -> int:
    """Device time of a step: of the stream that has most of it, median over the steps."""
    numbers = model.blocks.step - model.first_step
    count = model.last_step - model.first_step + 1
    inside = (numbers >= 0) & (numbers < count)
    launched = np.zeros(len(model.blocks), np.bool_)  # a change may leave blocks that nothing launches
    launched[model.items.argument[model.items.kind == Item.LAUNCH]] = True
    inside &= launched
    streams = int(model.blocks.stream.max()) + 1 if len(model.blocks) else 1
    each = np.zeros((streams, count), np.int64)
    np.add.at(each, (model.blocks.stream[inside], numbers[inside]), model.blocks.length_ns[inside])
    return round(float(np.median(each, axis=1).max()))
