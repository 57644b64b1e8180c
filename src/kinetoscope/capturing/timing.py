"""Times of steps, taken with two clock readings a step and no synchronisation between steps."""

from __future__ import annotations

import statistics
import time
from typing import Any

__all__ = ["StepTimer"]


class StepTimer:
    """Counts and times the steps of one block."""

    def __init__(self) -> None:
        self.counted = 0
        """Steps that have ended in this block."""
        self.last_ns = 0
        """Time of the latest step, from its beginning to the next one's, on the CPU."""
        self._last: int | None = None
        self._began: int | None = None
        self._steps: list[int] = []

    def restart(self) -> None:
        """Forget the step that is open."""
        self._last = None
        self.last_ns = 0

    def boundary(self, now_ns: int) -> None:
        """A step begins, and the one before it ends."""
        if self._last is not None:
            self.last_ns = now_ns - self._last
            if self._began is not None:
                self.counted += 1
                self._steps.append(self.last_ns)
        self._last = now_ns

    def begin(self) -> None:
        """A block begins with the step that has just begun; call it when the device is idle."""
        self.counted = 0
        self._steps = []
        self._began = self._last = time.perf_counter_ns()

    def end(self, *, whole: bool = True) -> dict[str, Any]:
        """End the block; call it when the device is idle, so that ``mean_ns`` holds all its work.

        ``whole``: the block ends with a step. ``host_ns`` are the CPU's times of the single steps; the device
        may lag behind them.
        """
        wall = time.perf_counter_ns() - (self._began or 0)
        steps, self._began = self._steps, None
        if not steps:
            mean = None
        elif whole:
            mean = round(wall / len(steps))
        else:
            # The wall holds a part of a step, or more; only the CPU's times can be told.
            mean = round(statistics.fmean(steps))
        return {
            "steps": self.counted,
            "wall_ns": wall,
            "mean_ns": mean,
            "median_host_ns": round(statistics.median(steps)) if steps else None,
            "host_ns": steps,
        }
