"""Finding the steps of a program that does not mark them.

Three kinds of events are seen from outside: an optimizer's step has ended, a compiled function was called
from eager code, a module was called from eager code. The best kind present makes the steps, in that order:

* With an optimizer, a step begins at the first call after ``optimizer.step()``, so that a step reads forward,
  backward, update. Gradient accumulation and regional compilation then make one step, not many.
* Otherwise a step begins at each call of one callable, the anchor. The anchor is the first callable seen;
  it is replaced when it turns out to have been called once (a prefill, a preprocessing) or to have stopped.

Nothing here knows torch, so that every rule can be tested in microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

__all__ = ["EventKind", "StepClock", "Unit"]

EventKind = Literal["optimizer", "compiled", "module"]
Unit = EventKind

# An anchor seen once gives way after so many calls of another callable, one seen more often after so many.
_REPLACE_ONCE_SEEN: Final = 3
_REPLACE_STOPPED: Final = 16
# Calls without an optimizer step after which training is taken to be over.
_TRAINING_OVER: Final = 5000


@dataclass
class _Anchor:
    """The callable (or optimizer) whose every call begins a step."""

    key: int | None = None
    seen: int = 0
    others: dict[int, int] = field(default_factory=dict)

    def hit(self, key: int, *, may_move: bool) -> tuple[bool, bool]:
        """Count a call of ``key``: is it the anchor's, and did the anchor move to it."""
        if self.key is None:
            self.key = key
        if key == self.key:
            self.seen += 1
            self.others.clear()
            return True, False
        count = self.others.get(key, 0) + 1
        self.others[key] = count
        if may_move and count >= (_REPLACE_ONCE_SEEN if self.seen == 1 else _REPLACE_STOPPED):
            self.key, self.seen = key, 1
            self.others.clear()
            return True, True
        return False, False


class StepClock:
    """Turns the events of a program into the beginnings of its steps.

    ``generation`` grows whenever the meaning of a step changed (an optimizer appeared, the anchor moved);
    steps counted before must then be forgotten.
    """

    def __init__(self) -> None:
        self.unit: Unit | None = None
        self.generation = 0
        self._frozen = False
        self._optimizer = _Anchor()
        self._calls: dict[EventKind, _Anchor] = {"compiled": _Anchor(), "module": _Anchor()}
        self._step_is_due = False
        self._calls_since_optimizer = 0

    def freeze(self) -> None:
        """Keep the meaning of a step from now on: measuring has begun."""
        self._frozen = True

    def event(self, kind: EventKind, key: int) -> bool:
        """Whether this event begins a step; ``key`` tells callables (or optimizers) apart."""
        if kind == "optimizer":
            return self._optimizer_event(key)
        if self.unit == "optimizer":
            if self._step_is_due:
                self._step_is_due = False
                self._calls_since_optimizer = 0
                return True
            self._calls_since_optimizer += 1
            if self._calls_since_optimizer < _TRAINING_OVER or self._frozen:
                return False
            self._become(kind)
        if kind != self.unit:
            if self._frozen or (kind == "module" and self.unit == "compiled"):
                return False
            self._become(kind)
        began, moved = self._calls[kind].hit(key, may_move=not self._frozen)
        if moved:
            self.generation += 1
        return began

    def only_key(self) -> int | None:
        """The one callable that still matters, or None while any may: lets hooks return early."""
        if not self._frozen or self.unit in (None, "optimizer"):
            return None
        assert self.unit is not None
        return self._calls[self.unit].key

    def called_once(self) -> int:
        """How many compiled functions were called, where none was called twice; else 0."""
        anchor = self._calls["compiled"]
        once = self.unit == "compiled" and anchor.seen == 1 and set(anchor.others.values()) <= {1}
        return 1 + len(anchor.others) if once else 0

    @property
    def is_due(self) -> bool:
        """Whether the next call begins a step, whatever is called."""
        return self.unit == "optimizer" and self._step_is_due

    def rule(self) -> tuple[int, int, bool]:
        """``key``, ``optimizer`` and ``due`` of `Pulse.count`: how steps are told if nothing changes."""
        if self.unit == "optimizer":
            return 0, self._optimizer.key or 0, self._step_is_due
        key = None if self.unit is None else self._calls[self.unit].key
        return key or 0, 0, False

    def counted(self, *, due: bool) -> None:
        """Steps were counted by that rule, and events are told again; ``due``: the next call begins one."""
        if self.unit == "optimizer":
            self._step_is_due = due
            self._calls_since_optimizer = 0

    def _optimizer_event(self, key: int) -> bool:
        if self.unit != "optimizer":
            if self._frozen:
                return False
            self._become("optimizer")
        anchor, moved = self._optimizer.hit(key, may_move=not self._frozen)
        if moved:
            self.generation += 1
        if not anchor:
            return False
        # Still due: nothing that we see was called since the last step, so the update itself ends the step.
        was_due, self._step_is_due = self._step_is_due, True
        return was_due

    def _become(self, unit: Unit) -> None:
        self.unit = unit
        self.generation += 1
        self._step_is_due = False
        self._calls_since_optimizer = 0
