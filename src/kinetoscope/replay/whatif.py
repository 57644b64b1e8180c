"""The answer of ``kinetoscope whatif``: one prediction, as other programs read it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
import numpy as np

from kinetoscope.analyses.idle_causes_names import Cause
from kinetoscope.analyses.wording import counted
from kinetoscope.errors import UsageError
from kinetoscope.ingest.unprofiled import Unprofiled
from kinetoscope.link import Links
from kinetoscope.replay import predict as predictions
from kinetoscope.replay.breaks import break_ns
from kinetoscope.replay.build import build
from kinetoscope.replay.changes import cause_ns, operators_of, optimizer_steps, wait_rows
from kinetoscope.replay.cuda_graphs import graph_calls
from kinetoscope.replay.model import Model
from kinetoscope.replay.predict import Before, Change, Prediction, Verdict, predict

SchemaId: TypeAlias = Literal["kinetoscope.whatif/1"]


class StepTimes(msgspec.Struct, frozen=True, kw_only=True):
    """A step in ns: as measured, as replayed unchanged, and as predicted, with the range around it."""

    measured: int
    replayed: int
    predicted: int
    low: int
    high: int


class Distortion(msgspec.Struct, frozen=True, kw_only=True):
    """The step in the trace, the step without a profiler where it is known, and where that is from."""

    profiled_ns: int
    unprofiled_ns: int | None = None
    source: str | None = None


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction. ``step_ns`` is unprofiled time where ``distortion`` knows it, else profiled time.

    ``verdict``: ``gain``, ``no gain``, or ``unsure`` where the range reaches the step before.
    ``found`` says what there was to change.
    """

    schema: SchemaId = "kinetoscope.whatif/1"
    change: list[str]
    step_ns: StepTimes
    verdict: Verdict
    distortion: Distortion
    found: list[str] = []
    assumptions: list[str] = []


#: nobody asks for kernels that are slower by more; times would leave what can be counted in ns
LEAST_FACTOR = 0.001

#: changes by the option that asks for them, in the order in which they are made: what is in the way of a CUDA
#: graph goes before there is one
BY_OPTION: dict[str, Change] = {
    "--no-breaks": predictions.NO_BREAKS,
    "--no-sync": predictions.NO_SYNC,
    "--no-copies": predictions.NO_COPIES,
    "--no-guards": predictions.NO_GUARDS,
    "--no-allocations": predictions.NO_ALLOCATIONS,
    "--no-data-wait": predictions.NO_DATA_WAIT,
    "--fused-optimizer": predictions.FUSED_OPTIMIZER,
    "--cuda-graphs": predictions.CUDA_GRAPHS,
}


_WAITS = {
    "--no-sync": ("synchronisations", Cause.SYNC),
    "--no-copies": ("copies between host and device", Cause.COPY),
}
_HOST_TIME = {
    "--no-guards": ("host time in guard checks", Cause.GUARD),
    "--no-allocations": ("host time in allocation calls of the driver", Cause.ALLOC),
    "--no-data-wait": ("host time waiting for data", Cause.DATA),
}


def whatif(
    links: Links,
    options: Sequence[str],
    kernels: Sequence[str] = (),
    unprofiled: Unprofiled | None = None,
) -> WhatIf:
    """The step of ``links``' trace after changes: keys of `BY_OPTION`, and ``REGEX=FACTOR`` for kernels.

    Raises:
        UsageError: nothing was asked for, a kernel change is not understood, or there is nothing to replay.
    """
    wanted = changes_of(options, kernels)
    if not wanted:
        raise UsageError(f"whatif needs a change: {', '.join(BY_OPTION)} or --kernel REGEX=FACTOR")
    model = build(links)
    if model is None:
        raise UsageError(
            "nothing to replay: whatif needs steps, the calls that launch, and their device events;"
            " kinetoscope report says which of them this trace has"
        )
    found = [_found(model, option) for option in BY_OPTION if option in options]
    found += [_found_kernels(model, _kernel(text)[0]) for text in kernels]
    before = Before.of(model, unprofiled)
    if before.step_ns <= 0:
        raise UsageError("nothing to replay: the steps of this trace take no time")
    return answer(predict(before, wanted), found)


def changes_of(options: Sequence[str], kernels: Sequence[str] = ()) -> list[Change]:
    """The changes that these options ask for.

    Raises:
        UsageError: a kernel change is not understood.
    """
    return [
        *(change for option, change in BY_OPTION.items() if option in options),
        *(predictions.kernel_change(*_kernel(text)) for text in kernels),
    ]


def answer(prediction: Prediction, found: Sequence[str] = ()) -> WhatIf:
    """A prediction as it is written."""
    return WhatIf(
        change=list(prediction.change),
        step_ns=StepTimes(
            measured=prediction.measured_ns,
            replayed=prediction.replayed_ns,
            predicted=prediction.predicted_ns,
            low=prediction.low_ns,
            high=prediction.high_ns,
        ),
        verdict=prediction.verdict,
        distortion=Distortion(
            profiled_ns=prediction.profiled_ns,
            unprofiled_ns=prediction.unprofiled_ns,
            source=prediction.source,
        ),
        found=list(found),
        assumptions=list(prediction.assumptions),
    )


def _kernel(text: str) -> tuple[str, float]:
    regex, equals, number = text.rpartition("=")
    try:
        factor = float(number)
        re.compile(regex)
    except (ValueError, re.error) as error:
        raise UsageError(f"--kernel {text}: {error}; write REGEX=FACTOR, as in triton_=2") from None
    if not equals or not regex or not LEAST_FACTOR <= factor < float("inf"):
        raise UsageError(
            f"--kernel {text}: write REGEX=FACTOR with a factor of {LEAST_FACTOR} or more, as in triton_=2"
        )
    return regex, factor


def _found_kernels(model: Model, regex: str) -> str:
    trace = model.links.trace
    mine = trace.names.where(re.compile(regex).search)[trace.columns.name[model.events.row]]
    if not mine.any():
        raise UsageError(f"--kernel: no kernel of these steps matches {regex}")
    names = len(np.unique(trace.columns.name[model.events.row[mine]]))
    return f"kernels matching {regex}: {_a_step(model, int(mine.sum()))} a step, of {counted(names, 'name')}"


def _found(model: Model, option: str) -> str:
    """What there is to change, in words."""
    if option == "--cuda-graphs":
        each = _a_step(model, len(graph_calls(model)))
        return f"calls of compiled graphs that could be CUDA graphs: {each} a step"
    if option == "--no-breaks":
        return f"host time because of graph breaks: {_a_step(model, break_ns(model) / 1e3)} us a step"
    if option in _WAITS:
        what, cause = _WAITS[option]
        return f"{what}: {_a_step(model, len(operators_of(model, wait_rows(model, cause))))} a step"
    if option == "--fused-optimizer":
        return f"eager optimizer steps: {_a_step(model, len(optimizer_steps(model)))} a step"
    what, cause = _HOST_TIME[option]
    return f"{what}: {_a_step(model, cause_ns(model, cause) / 1e3)} us a step"


def _a_step(model: Model, total: float) -> str:
    each = total / (model.last_step - model.first_step + 1)
    return f"{each:,.1f}".removesuffix(".0")
