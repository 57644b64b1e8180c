"""What watching costs a step at whose beginning nothing is to be done: one clock reading in a list.

Between two kernels of a real program the processor's caches hold the program, so every function and object
that a hook touches has to be fetched anew: in place, a hook costs ten times what it costs in a loop of its
own. So the hooks look at this one object, and ask whoever listens to them only when it says so.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["Pulse"]

# Events that begin no step, after which the listener is asked again what a step is.
_OTHERS: Final = 1000


class Pulse:
    """Counts beginnings of steps by a simple rule, for as many steps as the listener does not need to see.

    The rule is one of two: a step begins at each call of ``key``; or at the first call after a step of
    ``optimizer``, or at that one's next step if nothing was called between the two.
    """

    __slots__ = ("closing", "depth", "due", "key", "left", "optimizer", "others", "thread", "times_ns")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        """Whose calls are seen; 0, which no thread has, when none are any more."""
        self.depth = 0
        """Compiled calls that are open."""
        self.left = 0
        """Steps that may still begin without the listener; at 0 it hears of every event."""
        self.due = False
        """The next call, whatever is called, begins a step."""
        self.closing: Callable[[], None] | None = None
        """While steps are marked: ends the mark, before anything else is done where the next step begins."""
        self.key = 0
        self.optimizer = 0
        self.others = 0
        self.times_ns: list[int] = []
        """``time.perf_counter_ns()`` of the beginnings that were counted and not yet taken."""

    def count(self, steps: int, *, key: int, optimizer: int, due: bool) -> None:
        """Count the next ``steps`` beginnings; 0 stands for a ``key`` or ``optimizer`` that there is not."""
        self.key, self.optimizer, self.due = key, optimizer, due
        self.others = _OTHERS
        self.left = steps

    def take(self) -> list[int]:
        """Count no longer; the times of the beginnings that were counted, in nanoseconds."""
        self.left = 0
        times, self.times_ns = self.times_ns, []
        return times

    # The two below are called only while ``left`` is not 0.

    def called(self, key: int) -> None:
        """A compiled function or a module is about to be called at the top."""
        if self.due or key == self.key:
            self.due = False
            self.left -= 1
            self.times_ns.append(time.perf_counter_ns())
        else:
            self._spend()

    def stepped(self, optimizer: int) -> None:
        """An optimizer has made a step."""
        if optimizer != self.optimizer:
            self._spend()
        elif self.due:
            self.left -= 1
            self.times_ns.append(time.perf_counter_ns())
        else:
            self.due = True

    def _spend(self) -> None:
        self.others -= 1
        if self.others <= 0:
            self.left = 0
