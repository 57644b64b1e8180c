"""Predictions: a change replayed on corrected models, with a range and an honest verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from kinetoscope.analyses.origins import KINDS, kinds_by_name
from kinetoscope.analyses.steps import steps
from kinetoscope.analyses.wording import duration
from kinetoscope.ingest.unprofiled import Unprofiled
from kinetoscope.replay import changes
from kinetoscope.replay.breaks import no_breaks
from kinetoscope.replay.constants import BEST, LEAST, MOST, Constants
from kinetoscope.replay.cuda_graphs import cuda_graphs
from kinetoscope.replay.distortion import DEVICE_BOUND, USUAL_SCALE, Corrected, correct, device_alone_ns
from kinetoscope.replay.model import Model
from kinetoscope.replay.run import busy_ns, run
from kinetoscope.schema import Saving

Verdict: TypeAlias = Literal["gain", "no gain", "unsure"]

#: a step this much of the one before counts as no gain: steps vary by as much from run to run
NO_GAIN = 0.97
# How much a step differs, where each side sets the pace: from one process of a program to the next, and
# from one time to another in the same process, before and after a change.
_HOST_SPREAD, _DEVICE_SPREAD = 0.2, 0.03
_PAIRED_HOST_SPREAD = 0.12
# The same loop, timed twice, varies by this much on a machine that is left alone.
_EVEN = 1.15
#: a replay this far from what was measured explains the step, but for noise
_OFF = 0.05
# A device near its power limit runs slower when it no longer rests: seen to be 4 to 8 % where tensor cores
# are busy for nearly the whole step.
_HOT, _HOT_BUSY, _HOT_SHARE = 0.05, 0.8, 0.5
# At that limit it pays for work with rest: of the rest that a change takes away, a lower clock takes a part.
# Seen: 0.57 and 0.85 of it; all, if only power counted.
_LOST_TO_POWER = 0.5


@dataclass(frozen=True)
class Change:
    """Something to be replayed: what it is called, what it does to a model, what that takes for granted."""

    text: str
    apply: Callable[[Model, Constants], Model]
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prediction:
    """What a step would be. Times in ns.

    Attributes:
        change: what was changed.
        measured_ns: the step as measured: without a profiler where that is known.
        replayed_ns: the step as replayed unchanged.
        predicted_ns: best guess of the step after the change.
        low_ns: at least, in any run of the program.
        high_ns: at most.
        paired_low_ns: at least, compared with ``replayed_ns`` in the same process.
        paired_high_ns: at most.
        profiled_ns: the step in the trace.
        unprofiled_ns: the step without a profiler, where known.
        source: where that is from.
        is_device_bound: whether the device sets the pace before the change.
        is_device_bound_after: and after it.
        host_scale: unprofiled over profiled host time of the best guess.
        assumptions: what is taken for granted.
    """

    change: tuple[str, ...]
    measured_ns: int
    replayed_ns: int
    predicted_ns: int
    low_ns: int
    high_ns: int
    paired_low_ns: int
    paired_high_ns: int
    profiled_ns: int
    unprofiled_ns: int | None
    source: str | None
    is_device_bound: bool
    is_device_bound_after: bool
    host_scale: float
    assumptions: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """Whether it pays."""
        if self.predicted_ns >= NO_GAIN * self.replayed_ns:
            return "no gain"
        return "unsure" if self.paired_high_ns > NO_GAIN * self.replayed_ns else "gain"

    @property
    def saving(self) -> Saving:
        """Time saved a step. Where there is no gain, at most what counts as none."""
        high = max(0, self.replayed_ns - self.paired_low_ns)
        if self.verdict == "no gain":
            return Saving(low=0, best=0, high=min(high, round((1 - NO_GAIN) * self.replayed_ns)))
        best = self.replayed_ns - self.predicted_ns
        low = max(0, self.replayed_ns - self.paired_high_ns)
        return Saving(low=min(best, low), best=best, high=max(best, high))


@dataclass(frozen=True, eq=False)
class Before:
    """Steps ready to be changed: the model with its corrections."""

    model: Model
    corrected: tuple[Corrected, ...]
    steps_ns: tuple[int, ...]
    profiled_ns: int
    unprofiled: Unprofiled | None

    @classmethod
    def of(cls, model: Model, unprofiled: Unprofiled | None = None) -> Before:
        """Of a model, and a step without a profiler where one is known."""
        corrected = correct(model, None if unprofiled is None else unprofiled.step_ns)
        profiled = steps(model.links).median_ns or run(model).step_ns
        return cls(
            model,
            corrected,
            tuple(run(one.model).step_ns for one in corrected),
            profiled,
            unprofiled,
        )

    @property
    def unprofiled_ns(self) -> int | None:
        """The step without a profiler."""
        return None if self.unprofiled is None else self.unprofiled.step_ns

    @property
    def step_ns(self) -> int:
        """The step that savings are measured against."""
        return self.steps_ns[0]

    @property
    def is_throttled(self) -> bool | None:
        """Whether the device's clock was held down without a profiler; None if unknown."""
        return None if self.unprofiled is None else self.unprofiled.is_throttled

    @property
    def best(self) -> Corrected:
        """The best guess."""
        return self.corrected[0]

    def changed(self, *wanted: Change) -> Model:
        """The best guess after these changes, made one after the other."""
        model = self.best.model
        for change in wanted:
            model = change.apply(model, _in_time_of(self, self.best, BEST))
        return model


def predict(before: Before, wanted: Sequence[Change]) -> Prediction:
    """The step after these changes, made one after the other."""

    def step_after(corrected: Corrected, constants: Constants) -> int:
        model = corrected.model
        for change in wanted:
            model = change.apply(model, constants)
        return run(model).step_ns

    best_model = before.changed(*wanted)
    predicted = run(best_model).step_ns
    range_ns = [predicted]
    for corrected, own_ns in zip(before.corrected, before.steps_ns, strict=True):
        for constants in (LEAST, MOST):
            after = step_after(corrected, _in_time_of(before, corrected, constants))
            if before.unprofiled_ns is not None:
                range_ns.append(after)
                continue
            # supposed unprofiled times, told in profiled time: by what they save, and by their ratio
            range_ns.append(before.step_ns - own_ns + after)
            range_ns.append(round(before.step_ns * after / own_ns) if own_ns else after)
    device_bound = predicted > 0 and device_alone_ns(best_model) > DEVICE_BOUND * predicted
    less_rest = _less_rest_ns(before, best_model, predicted) if device_bound else 0
    if before.is_throttled:
        range_ns.append(predicted + less_rest)
        predicted += round(_LOST_TO_POWER * less_rest)
    spread, paired = (_DEVICE_SPREAD,) * 2 if device_bound else (_HOST_SPREAD, _PAIRED_HOST_SPREAD)
    hot = _HOT if less_rest > (1 - NO_GAIN) * before.step_ns and _may_grow_hot(before) else 0.0
    if not best_model.differs_from(before.best.model):  # there was nothing to change
        range_ns, spread, paired, hot = [predicted], 0.0, 0.0, 0.0
    uneven = 1.0 if device_bound or not spread else _unevenness(before)
    return Prediction(
        change=tuple(change.text for change in wanted),
        measured_ns=before.unprofiled_ns if before.unprofiled_ns is not None else before.profiled_ns,
        replayed_ns=before.step_ns,
        predicted_ns=predicted,
        low_ns=max(0, round(min(range_ns) * (1 - spread) / uneven)),
        high_ns=round(max(range_ns) * (1 + spread + hot) * uneven),
        paired_low_ns=max(0, round(min(range_ns) * (1 - paired))),
        paired_high_ns=round(max(range_ns) * (1 + paired + hot)),
        profiled_ns=before.profiled_ns,
        unprofiled_ns=before.unprofiled_ns,
        source=None if before.unprofiled is None else before.unprofiled.source,
        is_device_bound=before.best.is_device_bound,
        is_device_bound_after=device_bound,
        host_scale=before.best.host_scale,
        assumptions=tuple(
            dict.fromkeys(
                [
                    *_off(before),
                    *_uneven(before),
                    *(text for change in wanted for text in change.assumptions),
                    *_of_profiler(before),
                    *_ALWAYS,
                ]
            )
        ),
    )


def _of_profiler(before: Before) -> tuple[str, ...]:
    """What is supposed of the profiler's share."""
    if before.unprofiled_ns is None:
        return _UNKNOWN
    return _KNOWN_BY_DEVICE if before.best.is_device_bound else _KNOWN


def _off(before: Before) -> list[str]:
    """What is to be said where the replay of the unchanged step is not what was measured."""
    if before.unprofiled_ns is not None:
        measured, replayed = before.unprofiled_ns, before.step_ns
    else:
        measured, replayed = before.profiled_ns, run(before.model).step_ns
    if abs(replayed - measured) <= _OFF * measured:
        return []
    if before.model.first_step == before.model.last_step and busy_ns(before.model) > measured:
        return [
            f"the single step takes the host {duration(measured)}, and the device {duration(replayed)} for"
            " what it launches: more steps would tell which of them sets the pace, here the device is taken"
        ]
    return [
        f"the replay of the unchanged step gives {duration(replayed)}, not the measured {duration(measured)}:"
        " something that is not in the trace takes or hides the difference, so go by the ratio, and with care"
    ]


def _unevenness(before: Before) -> float:
    """By what the speed of the CPU changed over the capture, where that is too much; else 1."""
    found = 1.0 if before.unprofiled is None else before.unprofiled.unevenness
    return found if found > _EVEN else 1.0


def _uneven(before: Before) -> list[str]:
    found = _unevenness(before)
    if found == 1.0:
        return []
    return [
        f"a fixed loop took the CPU {found:.1f} times as long at one end of the capture as at the other"
        " (others use this machine, or its clock changes): capture again when it is quiet"
    ]


def _less_rest_ns(before: Before, after: Model, predicted_ns: int) -> int:
    """How much less a device that works for most of a step would rest in one; 0 for any other device.

    One that rests for long is not at a limit of power or heat because of this program, whatever its clock.
    """
    busy = busy_ns(before.best.model)
    if busy < _HOT_BUSY * before.step_ns:
        return 0
    rest = max(0, before.step_ns - busy) - max(0, predicted_ns - busy_ns(after))
    return min(max(0, rest), max(0, before.step_ns - predicted_ns))


def _may_grow_hot(before: Before) -> bool:
    """Whether the device is busy with matrix products, at a clock that is not held down yet."""
    if before.is_throttled:
        return False
    model = before.best.model
    kinds = kinds_by_name(model.links)[model.links.trace.columns.name[model.events.row]]
    products = np.isin(kinds, [KINDS.index("gemm"), KINDS.index("attention")])
    dur = model.events.dur_ns
    return int(dur[products].sum()) >= _HOT_SHARE * max(1, int(dur.sum()))


def _in_time_of(before: Before, corrected: Corrected, constants: Constants) -> Constants:
    """Constants are unprofiled times; in a model that is still in profiled time they are longer."""
    if before.unprofiled_ns is not None or corrected is not before.best:
        return constants
    return replace(
        constants,
        graph_host_ns=round(constants.graph_host_ns / USUAL_SCALE),
        gradient_ns=round(constants.gradient_ns / USUAL_SCALE),
        async_ns=round(constants.async_ns / USUAL_SCALE),
        # what recording takes is not shorter with warm caches
        cold_share=USUAL_SCALE * constants.cold_share,
    )


_ALWAYS = (
    "threads that launch take turns; unrecorded work and other processes change nothing",
    "which event a stream waits for is not recorded: the order of calls and what started when tell it",
)
_KNOWN = (
    "the profiler slowed host time in proportion, up to what recording its events can have cost (or alike, or"
    " each event by the same time: part of the range)",
)
_KNOWN_BY_DEVICE = (
    "the device sets the pace, so that what the profiler added to host time cannot be told: the range covers"
    " hosts that are 1 to 2.2 times as fast without it",
)
_UNKNOWN = (
    "no step without a profiler is known: times are profiled, and the range covers hosts that are 1 to 2.2"
    " times as fast without it where events were recorded",
)

CUDA_GRAPHS = Change(
    "CUDA graphs for every compiled graph that can have one",
    cuda_graphs,
    (
        f"a replayed graph costs {LEAST.graph_host_ns / 1e3:g} to {MOST.graph_host_ns / 1e3:g} us of host"
        f" time a call, and {LEAST.gradient_ns / 1e3:g} to {MOST.gradient_ns / 1e3:g} us for each gradient"
        " that is accumulated after a backward",
        f"{LEAST.node_gap_ns / 1e3:g} to {MOST.node_gap_ns / 1e3:g} us between the kernels of a CUDA graph;"
        " inputs need not be copied",
    ),
)
NO_BREAKS = Change(
    "no graph breaks",
    lambda model, constants: no_breaks(model),
    (
        "guards, wrappers and bytecode between the pieces go; what the pieces compute stays as it is,"
        " although a whole graph could be fused further",
    ),
)
NO_SYNC = Change(
    "no synchronisations",
    changes.no_sync,
    ("the program does not need what it waits for before the next step",),
)
NO_COPIES = Change(
    "copies between host and device beside everything else",
    changes.no_copies,
    (
        "copies run on a stream of their own and nobody waits for them",
        f"pageable memory becomes pinned memory, which copies {MOST.pinned_bytes_per_ns:g} to"
        f" {LEAST.pinned_bytes_per_ns:g} GB/s",
    ),
)
FUSED_OPTIMIZER = Change(
    "a fused optimizer",
    changes.fused_optimizer,
    (f"a fused step takes one launch and {LEAST.fused_share:g} to {MOST.fused_share:g} of the device time",),
)
NO_GUARDS = Change(
    "no guard checks",
    changes.no_guards,
    (
        "a long check leaves cold caches behind: without it, what follows it (for as long as it took) takes"
        f" {100 * MOST.cold_share:g} to {100 * LEAST.cold_share:g} % less",
    ),
)
NO_ALLOCATIONS = Change(
    "no memory asked of the driver or given back",
    lambda model, _: changes.no_allocations(model),
    ("memory stays with the program from step to step",),
)
NO_DATA_WAIT = Change(
    "no waiting for data",
    lambda model, _: changes.no_data_wait(model),
    ("the next batch is always there",),
)
NO_COMPILE = Change("nothing compiled in the window", lambda model, constants: changes.no_compile(model))


def kernel_change(pattern: str, factor: float) -> Change:
    """Kernels that match ``factor`` times as fast."""
    return Change(
        f"kernels matching {pattern} {factor:g} times as fast",
        lambda model, constants: changes.kernel(model, pattern, factor),
    )
