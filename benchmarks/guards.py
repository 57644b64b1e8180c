"""What guard checks cost beyond their own time: the caches that they leave cold to what follows them.

Usage: python benchmarks/guards.py [--device cuda]

Compiles models with many guarded objects, with their guards and without any, and times both without a
profiler. A check itself is timed by a profiler, which hardly lengthens it (it records nothing inside).
*extra* is what a step saves without guards, over that; *rule* is what `kinetoscope whatif --no-guards` counts
on: half of the host time that follows, for as long as the check took, in proportion for checks shorter than
60 us.
"""

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from kinetoscope.replay.changes import EVICTS_NS
from kinetoscope.replay.constants import BEST

sys.path.insert(0, str(Path(__file__).resolve().parent / "predictions"))
from models import MLP, Scales

_ROUNDS, _STEPS = 25, 200


def compiled(make: Callable[[], nn.Module], value: torch.Tensor, *, guarded: bool) -> Callable[[], None]:
    """A step of a compiled model, warm."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    options = {} if guarded else {"options": {"guard_filter_fn": lambda guards: [False for _ in guards]}}
    model = torch.compile(make().to(value.device).eval(), **options)

    def step() -> None:
        with torch.no_grad():
            model(value)

    for _ in range(20):
        step()
    return step


def step_us(step: Callable[[], None], device: str) -> float:
    """In undisturbed rounds."""
    rounds = []
    for _ in range(_ROUNDS):
        began = time.perf_counter_ns()
        for _ in range(_STEPS):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
        rounds.append((time.perf_counter_ns() - began) / _STEPS / 1e3)
    return statistics.quantiles(rounds, n=10)[0]


def recorded_us(step: Callable[[], None]) -> tuple[float, float]:
    """A step's checks, and what the calls of compiled graphs take of the CPU, kernels on it included."""
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(_STEPS):
            step()
    checks, graphs = [], []
    for event in profiled.events():
        if event.name == "TorchDynamo Cache Lookup":
            checks.append(event.time_range.elapsed_us())
        elif "Call CompiledFxGraph" in event.name:
            graphs.append(event.time_range.elapsed_us())
    return statistics.median(checks) * len(checks) / _STEPS, statistics.median(graphs)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    small = torch.randn(4, 16, device=options.device)
    wide = torch.randn(4, 64, device=options.device)
    models = {f"{count} scales": (lambda count=count: Scales(count), small) for count in (50, 200, 400, 800)}
    models |= {f"{count} scales": (lambda count=count: Scales(count), small) for count in (1500, 3000)}
    models["12 layers"] = (lambda: MLP(64, 12), wide)
    models["40 layers"] = (lambda: MLP(64, 40), wide)
    print("us a step      before  after  check  extra   rule")
    for name, (make, value) in models.items():
        # compiled code of the one is forgotten for the other: they cannot take turns
        step = compiled(make, value, guarded=True)
        check, graph = recorded_us(step)
        before = step_us(step, options.device)
        after = step_us(compiled(make, value, guarded=False), options.device)
        computes = 0.0 if options.device == "cuda" else graph
        follows = min(check, max(0.0, before - check - computes))
        rule = BEST.cold_share * min(1.0, 1e3 * check / EVICTS_NS) * follows
        print(
            f"{name:12} {before:8.1f} {after:6.1f} {check:6.1f} {before - after - check:6.1f} {rule:6.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
