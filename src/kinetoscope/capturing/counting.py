"""The steps of a program so far: which events began one, how long each took, which ones compiled."""

from __future__ import annotations

from kinetoscope.capturing.compilations import CompilationsByStep
from kinetoscope.capturing.pulse import Pulse
from kinetoscope.capturing.steps import EventKind, StepClock, Unit
from kinetoscope.capturing.timing import StepTimer

__all__ = ["StepCount"]


class StepCount:
    """Counts steps, event by event or, while ``pulse`` counts them, all at once afterwards."""

    def __init__(self) -> None:
        self.pulse = Pulse()
        self.timer = StepTimer()
        self.compilations = CompilationsByStep(self.current)
        self.number = -1
        """Of the step that is open, from 0; -1 before the first."""
        self._clock = StepClock()
        self._generation = 0
        self._ahead = False

    def current(self) -> int:
        """Number of the step that is open, those included that the pulse has counted."""
        return self.number + len(self.pulse.times_ns)

    def compilations_per_step(self) -> list[int]:
        """Compilations that began in each step that has ended."""
        return self.compilations.per_step(self.current())

    @property
    def unit(self) -> Unit | None:
        """What tells the steps."""
        return self._clock.unit

    def called_once(self) -> int:
        """See :meth:`StepClock.called_once`."""
        return self._clock.called_once()

    def freeze(self) -> int | None:
        """Keep the meaning of a step from now on; the one callable that still matters, None if all do."""
        self._clock.freeze()
        return self._clock.only_key()

    def event(self, kind: EventKind, key: int) -> bool:
        """Whether this event begins a step."""
        self.catch_up()
        began = self._clock.event(kind, key)
        self.pulse.due = self._clock.is_due
        return began

    def begin(self, now_ns: int) -> bool:
        """A step begins at ``now_ns``; whether it is the first, because steps mean something else now."""
        restarted = self._clock.generation != self._generation
        if restarted:
            self._generation = self._clock.generation
            self.number = -1
            self.compilations.restart()
            self.timer.restart()
        self.number += 1
        self.timer.boundary(now_ns)
        return restarted

    def count_ahead(self, steps: int) -> None:
        """Leave the beginnings of the next ``steps`` steps to the pulse."""
        if steps > 0:
            key, optimizer, due = self._clock.rule()
            self.pulse.count(steps, key=key, optimizer=optimizer, due=due)
            self._ahead = True

    def catch_up(self) -> None:
        """Take over what the pulse has counted."""
        if self._ahead:
            self._ahead = False
            for time_ns in self.pulse.take():
                self.number += 1
                self.timer.boundary(time_ns)
            self._clock.counted(due=self.pulse.due)
