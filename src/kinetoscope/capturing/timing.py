"""Times of steps, taken with two clock readings a step and no synchronisation between steps."""

from __future__ import annotations

import statistics
import time
from collections import deque
from typing import Any

__all__ = ["StepTimer"]


class StepTimer:
    """Counts and times the steps of one block."""

    def __init__(self) -> None:
        self.counted = 0
        """Steps that have ended in this block."""
        self._recent: deque[int] = deque(maxlen=5)
        self._last: int | None = None
        self._began: int | None = None
        self._steps: list[int] = []

    @property
    def usual_ns(self) -> int:
        """Median of the latest steps: one that was held up says little about those to come."""
        return round(statistics.median(self._recent)) if self._recent else 0

    def restart(self) -> None:
        """Forget the step that is open."""
        self._last = None
        self._recent.clear()

    def boundary(self, now_ns: int) -> None:
        """A step begins, and the one before it ends."""
        if self._last is not None:
            step = now_ns - self._last
            self._recent.append(step)
            if self._began is not None:
                self.counted += 1
                self._steps.append(step)
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
