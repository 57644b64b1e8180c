"""Save to the store beside whatever comes next, which seldom keeps every core busy.

The interpreter waits for it at its end, unless it ends with an error: whoever knows of one (an
uncaught exception is known here) calls `abandon`, and what was written so far is deleted.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
from collections.abc import Callable

#: saves one trace; calls its argument between steps, which raises when it is to stop
Save = Callable[[Callable[[], None]], None]


class _AbandonedError(Exception):
    """The process is about to end."""


class _Saving(threading.Thread):
    """One trace being saved. Nothing is said of a cache that cannot be written: it only saves time."""

    def __init__(self, save: Save) -> None:
        super().__init__(name="kinetoscope-store", daemon=True)
        self._save = save
        self.abandoned = threading.Event()

    def run(self) -> None:
        """Save, whatever comes of it; then let go of what was saved."""
        with contextlib.suppress(Exception):
            self._save(self._go_on)
        del self._save

    def _go_on(self) -> None:
        if self.abandoned.is_set():
            raise _AbandonedError

    def settle(self) -> None:
        """At the interpreter's end: wait, unless it ends with an error."""
        if getattr(sys, "last_value", None) is not None and not hasattr(sys, "ps1"):
            abandon()
        try:
            self.join()
        except KeyboardInterrupt:
            abandon()
            self.join(1.0)


def in_background(save: Save) -> None:
    """Start saving."""
    saving = _Saving(save)
    with contextlib.suppress(RuntimeError):  # no more threads
        saving.start()
        atexit.register(saving.settle)


def abandon() -> None:
    """Stop saving, now: the process ends with an error, or its user wants it to end."""
    for thread in threading.enumerate():
        if isinstance(thread, _Saving):
            thread.abandoned.set()
