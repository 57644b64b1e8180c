"""The step without a profiler, from what a capture timed before it started its own."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Unprofiled", "within"]

_BEFORE_PROFILER = "steps timed before the profiler started, in the capture"
_BLOCKS, _LEAST_IN_BLOCK, _FEWEST_BLOCKS = 8, 5, 3
# A device that lags by less than this many steps when the block ends did not set its pace.
_MOST_LAG = 2.0
#: no step takes a year: such a number is damaged
_TOO_LONG_NS = 365 * 86_400 * 10**9
#: a clock below this share of its highest, straight after steady work, is held down by power or heat
_HELD_DOWN = 0.97


@dataclass(frozen=True)
class Unprofiled:
    """A step in a process in which no profiler is on.

    Attributes:
        step_ns: its usual time.
        source: where that is from, in words.
        is_throttled: whether the device's clock was below its highest then; None if unknown.
        unevenness: how many times as long a fixed loop took on the CPU at one end of the measurement as at
            the other; 1 if that is unknown.
    """

    step_ns: int
    source: str
    is_throttled: bool | None = None
    unevenness: float = 1.0

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> Unprofiled | None:
        """What the manifest of a capture says; None if it timed no steps without a profiler."""
        usual = _usual_ns(within(manifest, "steps", "before"))
        if usual is None:
            return None
        return cls(usual, _BEFORE_PROFILER, _is_throttled(manifest), _unevenness(manifest))


def within(value: Any, *names: str) -> Any:
    """What lies under these names; None where one is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _usual_ns(block: Any) -> int | None:
    """Where the host sets the pace, the median over parts of the block: a core that others slow down for some
    milliseconds is not the program's doing. Else the mean, since only the block's end waits for the device.
    """
    mean, wall, each = (within(block, name) for name in ("mean_ns", "wall_ns", "host_ns"))
    if type(mean) is not int or not 0 < mean < _TOO_LONG_NS:
        return None
    if type(wall) is not int or not isinstance(each, list) or not each:
        return mean
    if not all(type(one) is int and one > 0 for one in each):
        return mean
    blocks = min(_BLOCKS, len(each) // _LEAST_IN_BLOCK)
    lag = wall - sum(each)
    if blocks < _FEWEST_BLOCKS or not 0 <= lag < _MOST_LAG * mean:
        return mean
    size = len(each) // blocks
    means = [sum(each[at : at + size]) / size for at in range(0, blocks * size, size)]
    return round(statistics.median(means) + lag / len(each))


def _unevenness(manifest: Mapping[str, Any]) -> float:
    spins = [within(manifest, "calibration", when, "spin_ns") for when in ("before", "after")]
    if not all(type(spin) in (int, float) and 0 < spin < _TOO_LONG_NS for spin in spins):
        return 1.0
    return float(max(spins) / min(spins))


def _is_throttled(manifest: Mapping[str, Any]) -> bool | None:
    devices = within(manifest, "calibration", "device_before")
    current = _physical(manifest)
    for device in devices if isinstance(devices, list) else []:
        now, most = within(device, "sm_mhz"), within(device, "max_sm_mhz")
        known = all(type(clock) in (int, float) and clock > 0 for clock in (now, most))
        if current is not None and within(device, "index") == current and known:
            return bool(now < _HELD_DOWN * most)
    return None


def _physical(manifest: Mapping[str, Any]) -> int | None:
    """Number of the current device among all of the machine, as the driver's tools count; None if unknown.

    A program that is shown only some devices counts those.
    """
    current = within(manifest, "device", "current")
    if type(current) is not int or current < 0:
        return None
    shown = within(manifest, "environment", "CUDA_VISIBLE_DEVICES")
    if not isinstance(shown, str):
        return current
    names = [name.strip() for name in shown.split(",")]
    # a device can also be named by its UUID, which tells no number
    return int(names[current]) if current < len(names) and names[current].isdecimal() else None
