"""Which step of the program compiled something: told by the compile log, so that no step has to look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["CompilationsByStep"]

_MOST_STEPS: Final = 1000


class CompilationsByStep:
    """Counts the compilations in each step; ``current_step`` tells which one is open, -1 before the first."""

    def __init__(self, current_step: Callable[[], int]) -> None:
        self._current_step = current_step
        self._begun: dict[int, int] = {}
        self._last_active = -1

    def restart(self) -> None:
        """Steps are counted anew."""
        self._begun.clear()
        self._last_active = -1

    def record_written(self, begins: bool) -> None:
        """The compile log gets a record; ``begins``: of a compilation that begins."""
        step = self._current_step()
        self._last_active = max(self._last_active, step)
        if begins and 0 <= step < _MOST_STEPS:
            self._begun[step] = self._begun.get(step, 0) + 1

    def quiet_steps(self, step: int) -> int:
        """How many steps before ``step``, which now begins, have passed since one compiled something."""
        return max(0, step - 1 - self._last_active)

    def per_step(self, steps: int) -> list[int]:
        """Compilations in each of the first ``steps`` steps, at most a thousand."""
        return [self._begun.get(step, 0) for step in range(min(max(steps, 0), _MOST_STEPS))]
