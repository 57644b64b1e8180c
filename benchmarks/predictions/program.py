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

_WARMUP, _SETTLING = 8, 20
_SPIN_S, _ROUND_S, _ROUNDS = 0.3, 0.06, 9


def settle() -> None:
    """Wait for the device."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def pass_gate(gate: str | None) -> None:
    """Wait for one's turn, keep to the same cores as everybody, and bring the device up to its clock."""
    if gate is None:
        return
    Path(gate + ".ready").touch()
    while not Path(gate + ".go").exists():
        time.sleep(0.01)
    cores = os.environ.get("PREDICTIONS_CORES")
    if cores:
        wanted = {int(core) for core in cores.split(",")}
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), wanted)
    if DEVICE == "cuda":
        square = torch.randn(4096, 4096, device=DEVICE)
        end = time.perf_counter() + _SPIN_S
        while time.perf_counter() < end:
            torch.mm(square, square)
            torch.cuda.synchronize()


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
    for number in range(options.steps if options.times is None else _WARMUP + _SETTLING):
        if number == _WARMUP:
            settle()
            pass_gate(options.gate)
        step()
    settle()
    if options.times is not None:
        times = rounds(step)
        Path(options.times).write_text(json.dumps({"ms": times, "median_ms": statistics.median(times)}))


if __name__ == "__main__":
    main()
