"""How fast this machine is right now, and what the profiler adds: small measurements inside the program.

They run between two steps, take some tens of milliseconds together, draw no random numbers, and leave the
program's tensors alone. All results are nanoseconds; None is "could not be measured here".
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final

from kinetoscope.capturing.session import (
    Kinds,
    ProfileSession,
    device_module,
    is_capturing_graph,
    profiler_is_running,
)

__all__ = ["measure_costs", "measure_profiled_costs", "spin_ns"]

_SPINS: Final = 50_000
_OPERATORS: Final = 400
_ROUNDS: Final = 5


def spin_ns() -> float:
    """Nanoseconds for one turn of a fixed Python loop: tells a slow or throttled CPU from a slow program."""
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.perf_counter_ns()
        total = 0
        for number in range(_SPINS):
            total += number
        best = min(best, time.perf_counter_ns() - began)
    return best / _SPINS


def measure_costs() -> dict[str, float | None]:
    """Without a profiler: a turn of the spin loop, a CPU operator, a launch, a synchronisation."""
    costs: dict[str, float | None] = {"spin_ns": round(spin_ns(), 2)}
    if is_capturing_graph() or profiler_is_running():
        return costs
    costs["cpu_operator_ns"] = _safely(lambda: _operator_ns("cpu"))
    device = device_module()
    if device is not None:
        costs["launch_ns"] = _safely(lambda: _operator_ns(device[0]))
        costs["synchronize_ns"] = _safely(_synchronize_ns)
    return costs


def measure_profiled_costs() -> dict[str, dict[str, float | None]]:
    """The same operators under a profiler that records both sides, the CPU only, the device only."""
    result: dict[str, dict[str, float | None]] = {}
    if is_capturing_graph() or profiler_is_running():
        return result
    device = device_module()
    kinds: tuple[Kinds, ...] = ("cpu",) if device is None else ("both", "cpu", "device")
    for kind in kinds:
        try:
            session = ProfileSession(kind)
            session.start()
        except Exception:  # the numbers of this kind are then not known, and the program must go on
            continue
        try:
            costs = {"cpu_operator_ns": _safely(lambda: _operator_ns("cpu"))}
            if device is not None:
                costs["launch_ns"] = _safely(lambda: _operator_ns(device[0]))
        finally:
            session.stop()
        result[kind] = costs
    return result


def _operator_ns(device: str) -> float:
    """Median time to dispatch one in-place operator on one element, the device's own time left out."""
    import torch

    with torch.no_grad():
        tensor = torch.zeros(1, device=device)
        tensor.add_(1.0)
        rounds = []
        for _ in range(_ROUNDS):
            if device != "cpu":
                getattr(torch, device).synchronize()
            began = time.perf_counter_ns()
            for _ in range(_OPERATORS):
                tensor.add_(1.0)
            rounds.append((time.perf_counter_ns() - began) / _OPERATORS)
        return round(statistics.median(rounds), 1)


def _synchronize_ns() -> float | None:
    device = device_module()
    if device is None:
        return None
    device[1].synchronize()
    rounds = []
    for _ in range(20):
        began = time.perf_counter_ns()
        device[1].synchronize()
        rounds.append(time.perf_counter_ns() - began)
    return float(statistics.median(rounds))


def _safely(measure: Callable[[], float | None]) -> float | None:
    # A program may have put a mode or a default device in force under which these operators fail; then the
    # number is not known, and the program must go on.
    try:
        return measure()
    except Exception:
        return None


def model_size(subject: Any) -> dict[str, int | None]:
    """Number and bytes of the parameters that an optimizer updates, or that a module holds."""
    try:
        if hasattr(subject, "param_groups"):
            parameters = [parameter for group in subject.param_groups for parameter in group["params"]]
        else:
            parameters = list(subject.parameters())
        return {
            "parameters": sum(parameter.numel() for parameter in parameters),
            "parameter_tensors": len(parameters),
            "parameter_bytes": sum(parameter.numel() * parameter.element_size() for parameter in parameters),
        }
    except Exception:  # a module or optimizer of another kind may answer with anything; then nothing is known
        return {"parameters": None, "parameter_tensors": None, "parameter_bytes": None}
