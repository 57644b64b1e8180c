"""When the warm-up is over, and what to measure then."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import FrameType
from typing import Final

from kinetoscope.capturing.lookahead import STEPS_LOOKED_AT, Lookahead
from kinetoscope.capturing.options import RunOptions
from kinetoscope.capturing.plan import SHORT_PROGRAM_STEPS, Plan, RankAgreement, make_plan

__all__ = ["Warmup"]

_QUIET_STEPS: Final = 2
# In a long warm-up it is looked this often whether steps are still what they were.
_AT_ONCE: Final = 50
# CUDA graphs are recorded in the second and third call of a compiled function.
_LEAST_STEPS: Final = 3
# Timed before and after those that are profiled: where fewer are left, a later loop is worth waiting for.
_AROUND_STEPS: Final = 10


class Warmup:
    """Decides at each boundary between two steps whether measuring begins, alone or with the other ranks."""

    def __init__(self, options: RunOptions, agreement: RankAgreement, warn: Callable[[str], None]) -> None:
        self.settled: bool | None = None
        """Whether compilation had settled when measuring began; None before."""
        self._options = options
        self._agreement = agreement
        self._warn = warn
        self._lookahead = Lookahead()
        self._agreed: tuple[int, Plan] | None = None
        self._began_s = 0.0

    def begin(self) -> None:
        """The program can be seen from now on."""
        self._began_s = time.monotonic()

    def restart(self) -> None:
        """Steps are counted anew."""
        self._lookahead.restart()

    def look(self, frame: FrameType | None, step: int, *, began: bool) -> None:
        """A call is made; see :meth:`Lookahead.look`."""
        self._lookahead.look(frame, step, began=began)

    def looks_long(self) -> bool:
        """Whether the loops of the program say that it has steps to measure."""
        return self._lookahead.looks_long()

    def expects_steps(self, frame: FrameType | None) -> bool:
        """See :meth:`Lookahead.expects_steps`."""
        return self._lookahead.expects_steps(frame)

    def plan(self, step: int, quiet: int, step_ns: int, *, whole: bool) -> Plan | None:
        """What to measure from here on, None while it is too early.

        ``quiet``: steps since something was compiled; ``whole``: the program is still profiled whole, because
        it may be a short one.
        """
        if self._agreed is None and self._agreement.active and not self._agreement.leads:
            self._follow(step, quiet, step_ns)
        elif self._agreed is None and self._is_warm(step, quiet):
            if whole and self._options.warmup is None and step < SHORT_PROGRAM_STEPS:
                return None
            plan = make_plan(self._options, step_ns, self._lookahead.remaining(step))
            self._agreed = self._agreement.propose(step, plan) if self._agreement.active else (step, plan)
        if self._agreed is None or step < self._agreed[0]:
            return None
        return self._agreed[1]

    def idle_steps(self, step: int) -> int:
        """How many steps from ``step`` on may begin without :meth:`plan` being asked."""
        warmup = self._options.warmup
        if warmup is None or step < STEPS_LOOKED_AT:
            return 0
        return min(_AT_ONCE, max(0, warmup - step - 1))

    def _follow(self, step: int, quiet: int, step_ns: int) -> None:
        if step < (self._options.warmup or 0):
            return
        self.settled = quiet >= _QUIET_STEPS
        self._agreed = self._agreement.look()
        if self._agreed is None and step >= 3 * self._options.limits.warmup_steps:
            self._warn("rank 0 did not say which steps to profile; this rank chose its own")
            self._agreed = (step, make_plan(self._options, step_ns, None))

    def _is_warm(self, step: int, quiet: int) -> bool:
        options, limits = self._options, self._options.limits
        self.settled = quiet >= (_QUIET_STEPS if options.warmup is None else 1)
        if options.warmup is not None:
            return step >= options.warmup
        if self._lookahead.has_better_later(step, options.steps + 2 * _AROUND_STEPS):
            return False
        if step >= _LEAST_STEPS and self.settled:
            return True
        # A program that recompiles in every step is profiled all the same: that is what there is to find. At
        # the latest when half of a short program is over.
        total = self._lookahead.total()
        cap = limits.warmup_steps if total is None else min(limits.warmup_steps, max(1, total // 2))
        tired = time.monotonic() - self._began_s > limits.warmup_seconds and step >= _LEAST_STEPS
        return step >= cap or tired
