"""What the loops around the present step say about how many steps will follow."""

from __future__ import annotations

from types import CodeType, FrameType

from kinetoscope.capturing.frames import PACKAGE
from kinetoscope.capturing.hooks import torch_directory
from kinetoscope.capturing.plan import SHORT_PROGRAM_STEPS
from kinetoscope.capturing.predict import Repeats, later_repeats, predict_repeats, seems_to_compile
from kinetoscope.capturing.session import device_module

__all__ = ["STEPS_LOOKED_AT", "Lookahead"]

_Site = tuple[CodeType, int]
#: by then the loops are known; walking the stack at every call is a cost that steps would show
STEPS_LOOKED_AT = 64


class Lookahead:
    """Follows the place in the user's code that steps begin at, and reads the loops around it."""

    def __init__(self) -> None:
        self._site: _Site | None = None
        self._first_step = 0
        self._repeats = self._later = Repeats(None, 1, False)
        self._calls: dict[_Site, int] = {}
        self._calls_per_step = 1
        self._skip: tuple[str, str] | None = None
        # by identity (a code object's hash is computed anew each time); kept, so that it stays the same
        self._skipped: dict[int, tuple[bool, CodeType]] = {}

    def restart(self) -> None:
        """Steps are counted anew."""
        self._site = None
        self._calls.clear()

    def look(self, frame: FrameType | None, step: int, *, began: bool) -> None:
        """A call is made in ``frame`` (torch's frames and ours on top); ``began``: it begins a step."""
        while frame is not None and self._is_skipped(frame.f_code):
            frame = frame.f_back
        if frame is None:
            return
        site = (frame.f_code, frame.f_lasti)
        if began:
            # One instruction that calls several times a step stands in a loop within the step: over blocks,
            # or over the batches whose gradients are accumulated.
            self._calls_per_step = max(1, self._calls.get(site, 1))
            self._calls.clear()
            # the same call in another loop, once the one that was read is over: a warm-up comes before it
            if site != self._site or self.remaining(step) == 0:
                self._site, self._first_step = site, step
                skip = self._skip or ("\0", PACKAGE)
                self._repeats, self._later = predict_repeats(frame, skip), later_repeats(frame, skip)
        self._calls[site] = self._calls.get(site, 0) + 1

    def _is_skipped(self, code: CodeType) -> bool:
        """Whether it is torch's code or ours: asked for every frame of every call, so from memory."""
        known = self._skipped.get(id(code))
        if known is None:
            if self._skip is None:
                self._skip = (torch_directory() or "\0", PACKAGE)
            known = self._skipped[id(code)] = (code.co_filename.startswith(self._skip), code)
        return known[0]

    def looks_long(self) -> bool:
        """Whether there will be settled steps to profile."""
        return any(self._is_long(repeats) for repeats in (self._repeats, self._later))

    def _is_long(self, repeats: Repeats) -> bool:
        if repeats.at_least // self._calls_per_step >= SHORT_PROGRAM_STEPS:
            return True
        # A loop of unknown length. With a device, an attached profiler costs a long program more than a short
        # one is worth; on a CPU it is cheap to wait and see.
        return repeats.count is None and device_module() is not None

    def has_better_later(self, step: int, wanted: int) -> bool:
        """Whether fewer steps than ``wanted`` are left of this loop, and a longer one comes later."""
        remaining, later = self.remaining(step), self._later
        if not later.in_loop or (remaining is None and self._repeats.in_loop):
            return False
        left = remaining or 0
        return left < wanted and (later.count is None or later.count // self._calls_per_step > left)

    def expects_steps(self, frame: FrameType | None) -> bool:
        """Whether the program, which is in ``frame``, seems to have something that will mark its steps."""
        return seems_to_compile(frame, (torch_directory() or "\0", PACKAGE))

    def total(self) -> int | None:
        """Steps that the loops make in all; None where it is unknown."""
        count = self._repeats.count if self._repeats.in_loop else None
        return None if count is None else count // self._calls_per_step

    def remaining(self, step: int) -> int | None:
        """Steps that begin after this one; None where it is unknown."""
        total = self.total()
        return None if total is None else max(0, total - (step - self._first_step))
