"""Keeping our own frames out of the stacks that torch's compiler records and prints.

The program runs below frames of kinetoscope, which it would not have without us. They come outermost, so a
stack is right again when everything up to the last of them is left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

__all__ = ["PACKAGE", "OurFrames"]

PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""The directory of kinetoscope, with the separator that ends it."""


class OurFrames:
    """Cuts stacks; knows the numbers by which the compile log calls our files."""

    def __init__(self) -> None:
        self._numbers: set[int] = set()

    def hide_from_messages(self, exc: ModuleType, warn: Callable[[str], None]) -> None:
        """Hook ``torch._dynamo.exc``: the stacks in messages about graph breaks and errors."""
        original = getattr(exc, "filter_stack", None)
        if not callable(original):
            warn("torch._dynamo.exc has no filter_stack: stacks in Dynamo's messages begin with our frames")
            return

        def filter_stack(stack: Any) -> Any:
            frames = original(stack)
            del frames[: _outer(frames, lambda frame: str(frame.filename).startswith(PACKAGE))]
            return frames

        exc.filter_stack = filter_stack  # type: ignore[attr-defined]

    def cut(self, metadata: dict[str, Any]) -> None:
        """Cut the stacks in one record of the compile log, in place."""
        interned = metadata.get("str")
        if isinstance(interned, (list, tuple)) and len(interned) == 2:
            if str(interned[0]).startswith(PACKAGE):
                self._numbers.add(interned[1])
            return
        for value in metadata.values():
            stack = value.get("stack") if isinstance(value, dict) else value
            if isinstance(stack, list) and self._numbers:
                del stack[: _outer(stack, self._is_ours)]

    def _is_ours(self, entry: Any) -> bool:
        return isinstance(entry, dict) and entry.get("filename") in self._numbers


def _outer(stack: Sequence[Any], is_ours: Callable[[Any], bool]) -> int:
    """How many entries lead up to the last of ours; only calls into the program are ours."""
    return max((place for place, entry in enumerate(stack, 1) if is_ours(entry)), default=0)
