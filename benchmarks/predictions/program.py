"""One side of a pair: a loop of its steps, as a user would write it, that may time itself.

Usage: program.py PAIR before|after [--steps N] [--gate FILE] [--times FILE]

``--gate``: after warm-up it makes FILE.ready and waits until FILE.go exists, so that many can start side by
side and then be timed one by one. ``--times``: no profiler is expected; rounds of steps are timed, each
until the device has finished, and their milliseconds a step are written.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from pairs import DEVICE, PAIRS

_WARMUP = 8
_SETTLE_S, _ROUND_S, _ROUNDS = 0.4, 0.05, 9
# The CPU is shared: at times it runs at half its speed. Nothing is measured then.
_CALM, _PATIENCE_S = 1.15, 20.0


def settle() -> None:
    """Wait for the device."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def spin_ns() -> float:
    """Nanoseconds for one turn of a fixed Python loop: how fast the CPU is right now."""
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter_ns()
        total = 0
        for number in range(20_000):
            total += number
        best = min(best, (time.perf_counter_ns() - began) / 20_000)
    return best


def pass_gate(gate: str | None) -> None:
    """Wait for one's turn, and for a CPU that has its usual speed."""
    if gate is None:
        return
    Path(gate + ".ready").touch()
    while not Path(gate + ".go").exists():
        time.sleep(0.01)
    usual = float(os.environ.get("PREDICTIONS_SPIN_NS", "inf"))
    end = time.perf_counter() + _PATIENCE_S
    while spin_ns() > _CALM * usual and time.perf_counter() < end:
        time.sleep(0.1)


def rounds(step: Callable[[], None]) -> list[float]:
    """Milliseconds a step, of each of several rounds."""
    count, spent = 5, 0.0
    while True:
        settle()
        began = time.perf_counter()
        for _ in range(count):
            step()
        settle()
        spent = time.perf_counter() - began
        if spent >= _ROUND_S / 2 or count >= 2000:
            break
        count *= 2
    times = []
    for _ in range(_ROUNDS):
        settle()
        began = time.perf_counter()
        for _ in range(count):
            step()
        settle()
        times.append((time.perf_counter() - began) / count * 1e3)
    return times


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pair", choices=sorted(PAIRS))
    parser.add_argument("side", choices=("before", "after"))
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--gate")
    parser.add_argument("--times")
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    step = PAIRS[options.pair].make(options.side == "after")
    steps = _WARMUP if options.times is not None else _WARMUP + options.steps
    for number in range(steps):
        step()
        if number == _WARMUP - 1:
            settle()
            pass_gate(options.gate)
    settle()
    if options.times is None:
        return
    end = time.perf_counter() + _SETTLE_S
    while time.perf_counter() < end:
        step()
    before = spin_ns()
    times = rounds(step)
    found = {"ms": times, "median_ms": statistics.median(times), "spin_ns": [before, spin_ns()]}
    Path(options.times).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
