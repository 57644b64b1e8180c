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
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from steps import DEVICE, STEPS

_WARMUP = 8
_SETTLE_S, _ROUND_S, _ROUNDS = 0.4, 0.04, 9
# The machine is shared: a core runs at half its speed while others use its sibling. Then nothing is measured.
_CALM, _PATIENCE_S, _CORES = 1.15, 4.0, 4


def settle() -> None:
    """Wait for the device."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def spin_ns(turns: int = 20_000) -> float:
    """Nanoseconds for one turn of a fixed Python loop: how fast this core is right now."""
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter_ns()
        total = 0
        for number in range(turns):
            total += number
        best = min(best, (time.perf_counter_ns() - began) / turns)
    return best


def core_speeds() -> dict[int, float]:
    """Nanoseconds for a turn of the loop on each core that this thread may use."""
    cores = os.sched_getaffinity(0)
    speeds = {}
    for core in cores:
        os.sched_setaffinity(0, {core})
        speeds[core] = spin_ns(5_000)
    os.sched_setaffinity(0, cores)
    return speeds


def keep_to_calm_cores() -> None:
    """Keep all threads of the process to the fastest cores, once these have their usual speed."""
    end = time.perf_counter() + _PATIENCE_S
    usual = float(os.environ.get("PREDICTIONS_SPIN_NS", "inf"))
    while True:
        speeds = core_speeds()
        calm = sorted(speeds, key=lambda core: speeds[core])[:_CORES]
        if all(speeds[core] <= _CALM * usual for core in calm) or time.perf_counter() > end:
            break
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), calm)


def pass_gate(gate: str | None) -> None:
    """Wait for one's turn, then take to calm cores. Ends with the process that would open the gate."""
    if gate is None:
        return
    parent = os.getppid()
    Path(gate + ".ready").touch()
    while not Path(gate + ".go").exists():
        if os.getppid() != parent:
            raise SystemExit("nobody is left to open the gate")
        time.sleep(0.2)
    keep_to_calm_cores()


def rounds(step: Callable[[], None]) -> list[dict[str, float]]:
    """Milliseconds a step, and the speed of the core beside it, until enough rounds were calm."""
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
    usual = float(os.environ.get("PREDICTIONS_SPIN_NS", "inf"))
    end = time.perf_counter() + _PATIENCE_S
    found: list[dict[str, float]] = []
    calm = 0
    while calm < _ROUNDS and time.perf_counter() < end:
        before = spin_ns()
        settle()
        began = time.perf_counter()
        for _ in range(count):
            step()
        settle()
        spent = (time.perf_counter() - began) / count * 1e3
        spin = max(before, spin_ns())
        calm += spin <= _CALM * usual
        found.append({"ms": spent, "spin_ns": spin})
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pair", choices=sorted(STEPS))
    parser.add_argument("side", choices=("before", "after"))
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--gate")
    parser.add_argument("--times")
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    step = STEPS[options.pair](options.side == "after")
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
    Path(options.times).write_text(json.dumps(rounds(step)))


if __name__ == "__main__":
    main()
