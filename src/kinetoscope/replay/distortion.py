"""What the profiler added, taken away again.

A profiler slows the host: each event that it records costs some time, and much of a small step can
be that. It does not change what kernels take. The step without a profiler, where it is known, tells
how much there is to take away, and not from where; so there are several models of it, and a
prediction is made with each. The first is the best guess: host time shrinks in proportion, but by no
more than recording its events can have cost. In the second all host time shrinks alike, in the third
every recorded event cost the same.

An event's own times leave out most of its recording: its beginning is taken when that has been
prepared, its end before that is stored. So recording an event lengthens what is around it, hardly
the event itself: one in which nothing else is recorded (guards that are checked, a loop in C++)
takes nearly as long without a profiler.

Where the device alone needs (nearly) the whole unprofiled step, the host's time cannot be told from
it; the device's own times are then adjusted: hot kernels run some percent slower.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from kinetoscope.analyses.idle_causes_names import Cause
from kinetoscope.link.names import Mark, marked
from kinetoscope.replay.model import Model
from kinetoscope.replay.run import busy_ns, run
from kinetoscope.trace import Int64

_Make: TypeAlias = Callable[[float], Model]
_StepOf: TypeAlias = Callable[[float], int]

#: unprofiled over profiled host time where it cannot be solved for: usual, and the range of it
USUAL_SCALE, LEAST_SCALE, MOST_SCALE = 0.62, 0.45, 1.0
#: the device sets the pace if it alone needs this share of a step without a profiler
DEVICE_BOUND = 0.93
#: host time cannot have grown by taking the profiler away; beyond this the step varies for other reasons
_MOST_GROWTH = 1.1
#: of a segment at least this much is the program's own
_LEAST_LEFT = 0.2
#: recording one beginning or end of an event costs no more around the event, what it does to caches and the
#: Python of marks such as `record_function` included
_MOST_AROUND_NS = 30_000
#: and no more within it: the way back to the program, and what tracing adds to a call of the driver. A launch
#: takes 2 to 5 us longer when it is recorded, both of its ends together, on a core with warm caches
_MOST_WITHIN_NS = 4_000
#: what the profiler takes in the steps beside two marks of steps, as a share of what it takes between: of
#: torch's own ``profiler.step()`` in a loop of one operator 5.5 us are between the marks, and 5.6 beside
_BESIDE_MARKS = 1.0
#: how many times as long the same copy of pageable memory takes, at least and at most
_COPIES_VARY = (0.4, 2.5)
#: a step this near to the measured one has nothing left to adjust
_EXPLAINED = 0.005
_TURNS = 24


@dataclass(frozen=True, eq=False)
class Corrected:
    """A model in (supposed) unprofiled time.

    Attributes:
        model: with corrected durations.
        host_scale: unprofiled over profiled host time, on the whole.
        is_device_bound: whether the device alone sets the pace.
    """

    model: Model
    host_scale: float
    is_device_bound: bool


def correct(model: Model, unprofiled_ns: int | None) -> tuple[Corrected, ...]:
    """Models of the steps as they are without a profiler, the best guess first.

    Without a known step nothing is corrected in the best guess, which then speaks of profiled time;
    the others are supposed corrections, for a range of answers.
    """
    clean = without_profiler(model)
    if unprofiled_ns is None:
        most = _most_of(*_borders_by_segment(clean))
        bound = _is_device_bound(clean, run(clean).step_ns)
        supposed = (clean, *(_bounded(clean, most, scale) for scale in (USUAL_SCALE, LEAST_SCALE)))
        return tuple(Corrected(one, _host_scale(clean, one), bound) for one in supposed)
    if _is_device_bound(clean, unprofiled_ns):
        return tuple(
            Corrected(_device_fitted(clean.scaled(host=scale), unprofiled_ns), scale, True)
            for scale in (USUAL_SCALE, LEAST_SCALE, MOST_SCALE)
        )
    clean = _without_marks(clean)
    around, within = _borders_by_segment(clean)
    most = _most_of(around, within)
    found = [
        Corrected(_device_fitted(one, unprofiled_ns), _host_scale(clean, one), False)
        for one in (
            _solved(lambda scale: _bounded(clean, most, scale), unprofiled_ns, 0.0, 1.0),
            _solved(lambda scale: clean.scaled(host=scale), unprofiled_ns, 0.02, _MOST_GROWTH),
        )
    ]
    if not _gives(found[0].model, unprofiled_ns):
        found.reverse()
    by_event = _by_event(clean, around, unprofiled_ns)
    if _gives(by_event, unprofiled_ns):
        found.append(Corrected(by_event, _host_scale(clean, by_event), False))
    return tuple(found)


def _most_of(around: Int64, within: Int64) -> Int64:
    """[segments] what recording so many beginnings and ends of events can have cost, in ns."""
    return _MOST_AROUND_NS * around + _MOST_WITHIN_NS * within


def _bounded(model: Model, most_ns: Int64, scale: float) -> Model:
    """Host time in proportion, each segment shorter by no more than recording can have cost there."""
    dur = model.host.dur_ns
    return model.with_host(np.rint(dur - np.minimum((1 - scale) * dur, most_ns)).astype(np.int64))


def _by_event(model: Model, events: Int64, step_ns: int) -> Model:
    """Each recorded event cost the same; something is left of each segment."""
    dur = model.host.dur_ns
    most = float(np.percentile(dur[events > 0] / events[events > 0], 99)) if events.any() else 0.0

    def less(cost: float) -> Model:
        left = np.maximum(np.rint(_LEAST_LEFT * dur), dur - cost * events)
        return model.with_host(left.astype(np.int64))

    # a higher cost makes a shorter step, so it is solved for downwards
    return _solved(lambda negative: less(-negative), step_ns, -max(most, 1.0), 0.0)


def _gives(model: Model, step_ns: int, within: float = 0.05) -> bool:
    return abs(run(model).step_ns - step_ns) <= within * step_ns


def _host_scale(before: Model, after: Model) -> float:
    return int(after.host.dur_ns.sum()) / max(1, int(before.host.dur_ns.sum()))


def without_profiler(model: Model) -> Model:
    """Host time in which the profiler handled its own buffers is gone."""
    own = model.host.cause == Cause.PROFILER
    return model.with_host(np.where(own, 0, model.host.dur_ns)) if own.any() else model


def _without_marks(model: Model) -> Model:
    """Without what marks of steps cost on either side of them; what they cost between them is gone already.

    It is taken in proportion from the Python that ends the one step and begins the next.
    """
    host, c = model.host, model.links.trace.columns
    is_mark = (host.cause == Cause.PROFILER) & (host.row >= 0)
    is_mark &= marked(model.links.marks, c.name[host.row], Mark.STEP)
    is_python = (host.cause == Cause.PYTHON) & (host.row < 0)
    length = np.diff(np.append(host.recorded_ns, model.window_ns[1]))
    change = np.flatnonzero(np.diff(is_mark.astype(np.int8), prepend=0, append=0))
    dur = host.dur_ns.copy()
    for begin, end in change.reshape(-1, 2).tolist():
        beside = [one for one in (begin - 1, end) if 0 <= one < len(host) and is_python[one]]
        own = _BESIDE_MARKS * int(length[begin:end].sum())
        left = max(0.0, 1 - own / max(1, int(dur[beside].sum())))
        dur[beside] = np.rint(dur[beside] * left).astype(np.int64)
    return model.with_host(dur)


def device_alone_ns(model: Model) -> int:
    """A step if the host took no time."""
    return run(model.with_host(np.zeros_like(model.host.dur_ns))).step_ns


def _is_device_bound(model: Model, step_ns: int) -> bool:
    waits_too = len(model.waits.row) > 0
    # with waits in every step the device is never alone: only its busy time counts
    alone = device_alone_ns(model) if not waits_too else busy_ns(model)
    return alone > DEVICE_BOUND * step_ns


def _device_fitted(model: Model, step_ns: int) -> Model:
    """Device times adjusted where the host's alone do not explain the step.

    Those of copies of pageable memory first: the CPU makes them, through memory that others use too, and they
    take twice as long in one process as in the next. Kernels do not vary by more than a tenth.
    """
    if _gives(model, step_ns, _EXPLAINED):
        return model
    copies = model.is_pageable_copy()
    if copies.any():
        dur = model.events.dur_ns

        def with_copies(factor: float) -> Model:
            return model.with_events(np.where(copies, np.rint(dur * factor).astype(np.int64), dur))

        model = _solved(with_copies, step_ns, *_COPIES_VARY)
        if _gives(model, step_ns, _EXPLAINED):
            return model
    return _solved(lambda factor: model.scaled(device=factor), step_ns, 0.9, 1.15)


def _solved(make: _Make, step_ns: int, low: float, high: float) -> Model:
    """What ``make`` gives of the value, from ``low`` to ``high``, with which a step takes this long."""
    return make(_bisect(lambda value: run(make(value)).step_ns, step_ns, low, high))


def _bisect(step_of: _StepOf, step_ns: int, low: float, high: float) -> float:
    """Where a step that grows with a value reaches ``step_ns``, between ``low`` and ``high``."""
    if step_of(high) <= step_ns:
        return high
    for _ in range(_TURNS):
        middle = (low + high) / 2
        if step_of(middle) > step_ns:
            high = middle
        else:
            low = middle
        if high - low < 1e-4 * max(1.0, abs(high)):
            break
    return (low + high) / 2


def _borders_by_segment(model: Model) -> tuple[Int64, Int64]:
    """[segments] how many starts and ends of recorded CPU slices each host segment touches, by its side.

    First those that it is around (it ends with a start, or begins with an end), then those that it is within.
    """
    c = model.links.trace.columns
    host = model.host
    around, within = np.zeros(len(host), np.int64), np.zeros(len(host), np.int64)
    if not len(host):
        return around, within
    low, high = model.window_ns
    tracks = np.unique(c.track[model.blocks.row])
    here = np.isin(c.track, tracks) & c.is_cpu & c.is_valid
    for times, before, after in ((c.start_ns, around, within), (c.end_ns, within, around)):
        mine = times[here & (times > low) & (times < high)]
        # what lies inside a segment (marks are no borders) has it on both sides
        ends = np.searchsorted(host.recorded_ns, mine, side="left") - 1
        begins = np.searchsorted(host.recorded_ns, mine, side="right") - 1
        before += np.bincount(ends, minlength=len(host))
        after += np.bincount(begins, minlength=len(host))
    return around, within
