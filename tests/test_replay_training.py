"""Replays of training steps without their graph breaks: by hand, in microseconds."""

from __future__ import annotations

from pathlib import Path

from helpers import Event, call, kernel, op, region
from kinetoscope.replay import run
from kinetoscope.replay.breaks import break_ns, no_breaks
from test_replay_together import STEPS, model_of

GRAPH = "## Call CompiledFxGraph f ##"
ENGINE = "autograd::engine::evaluate_function: CompiledFunctionBackward"


def forward(at: float, correlation: int, sequence: int) -> list[Event]:
    """110 us: a compiled function, of which 100 are its graph, with a launch from 50 to 70."""
    return [
        op("CompiledFunction", at, 110, sequence_number=sequence),
        op(GRAPH, at + 5, 100),
        call(correlation, at + 50, 20),
        kernel(correlation, at + 72, 20),
    ]


def backward(at: float, correlation: int, sequence: int) -> list[Event]:
    """120 us of the engine: after 10, a backward of 105; in it after 30 a graph of 60 that launches at 20."""
    return [
        op(ENGINE, at, 120),
        op("CompiledFunctionBackward", at + 10, 105, sequence_number=sequence),
        op(GRAPH, at + 40, 60),
        call(correlation, at + 60, 10),
        kernel(correlation, at + 72, 10),
    ]


def step(at: float, first: int) -> list[Event]:
    """700 us: 0/0 from 40 to 370 with a graph from 50 to 150; 1/0 from 200 to 350 with one from 240 to 340;
    the backward of 1/0 at 400, that of 0/0 at 540."""
    return [
        region("0/0", at + 40, 330),
        *forward(at + 45, first + 1, 20 * first + 1),
        op("TorchDynamo Cache Lookup", at + 160, 30),
        region("1/0", at + 200, 150),
        *forward(at + 235, first + 2, 20 * first + 2),
        *backward(at + 400, first + 3, 20 * first + 2),
        *backward(at + 540, first + 4, 20 * first + 1),
    ]


def test_a_backward_of_a_piece_goes_with_its_piece(tmp_path: Path) -> None:
    model = model_of(tmp_path, 700, step)
    # Forward: from the first function's end at 155 to the region's at 370, less the second graph, of which
    # what is behind its launch, from 305 to 340, goes too.
    of_forward = 215 - 100 + 35
    # Backward of 1/0: the engine's 40 us up to its graph, 20 from the graph's end at 500 to its own at 520,
    # and 30 from the launch's end at 470 to the graph's at 500. That of 0/0 would be there without the break.
    of_backward = 40 + 20 + 30
    assert break_ns(model) == (STEPS - 1) * (of_forward + of_backward) * 1000
    assert run(no_breaks(model)).step_ns == (700 - of_forward - of_backward) * 1000
