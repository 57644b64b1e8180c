"""Who belongs to whom: launches, regions, steps, backward and compile phases of one trace.

Nothing here is decided by when the device ran something: device work belongs to the operator,
region and step that launched it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from kinetoscope.link.autograd import Pairs, find_pairs
from kinetoscope.link.compiles import Compiles, find_compiles
from kinetoscope.link.devices import DeviceEvents, find_devices
from kinetoscope.link.launches import Launches, find_launches
from kinetoscope.link.names import mark_names
from kinetoscope.link.once import Once
from kinetoscope.link.regions import Regions, find_regions
from kinetoscope.link.steps import Steps, StepSpans, find_steps
from kinetoscope.trace import Trace, UInt32

__all__ = ["Links", "link"]

_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class Links:
    """The links of one trace, each found when it is first asked for.

    ``known_steps`` are the steps where the trace is a part that was cut by steps: alone, a part of
    one or two steps has nothing that repeats.
    """

    trace: Trace
    known_steps: StepSpans | None = None
    _shared: Once[Links] = field(default_factory=Once, init=False, repr=False)

    def once(self, make: Callable[[Links], _Result]) -> _Result:
        """``make(self)``, made by whoever asks first and kept for the others.

        For what several analyses need: ``make`` is a pure function, and the same object each time.
        """
        return self._shared.get(make, self)

    @cached_property
    def marks(self) -> UInt32:
        """What each distinct name stands for: bits of `kinetoscope.link.names.Mark`."""
        return mark_names(self.trace.names)

    @cached_property
    def launches(self) -> Launches:
        """Device events and the calls that launched them."""
        return find_launches(self.trace, self.marks)

    @cached_property
    def devices(self) -> tuple[DeviceEvents, ...]:
        """The device events of each device, whoever launched them."""
        return find_devices(self.trace, self.marks)

    @cached_property
    def regions(self) -> Regions:
        """Compiled regions and graphs, and what was launched in them."""
        return find_regions(self.trace, self.marks, self.launches)

    @cached_property
    def compiles(self) -> Compiles:
        """Compile phases, and what ran inside them."""
        return find_compiles(self.trace, self.marks, self.launches)

    @cached_property
    def steps(self) -> Steps:
        """The steps, and which step launched what."""
        if self.known_steps is not None:
            return self.known_steps.of(self.launches)
        return find_steps(self.trace, self.marks, self.launches, self.regions, self.compiles)

    @cached_property
    def pairs(self) -> Pairs:
        """Compiled forwards with their backwards."""
        return find_pairs(self.trace, self.regions)


def link(trace: Trace, known_steps: StepSpans | None = None) -> Links:
    """The links of ``trace``."""
    return Links(trace, known_steps)
