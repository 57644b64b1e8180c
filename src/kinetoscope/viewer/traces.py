"""The traces of one input, one of which is open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from kinetoscope.errors import UsageError
from kinetoscope.ingest.capture_directory import Input, LogShelf
from kinetoscope.viewer.session import Session
from kinetoscope.window import WindowSpec


class Traces:
    """Opens the traces of an input as they are asked for, one at a time."""

    def __init__(
        self,
        inputs: Sequence[Input],
        window: WindowSpec | None = None,
        *,
        use_store: bool = True,
        failed: Callable[[Session, str], None] | None = None,
    ) -> None:
        """``failed`` is told, in another thread, which trace cannot be shown and why."""
        self._inputs = list(inputs)
        self._shelf = LogShelf()
        self._window = window
        self._use_store = use_store
        self._failed = failed
        self._lock = Lock()
        self._open: dict[int, Session] = {}
        self.chosen = 0

    def __len__(self) -> int:
        return len(self._inputs)

    @property
    def session(self) -> Session:
        """The trace that is shown; it is read when it is first asked for."""
        return self.choose(self.chosen)

    def asked(self, number: str | None) -> Session:
        """The trace that a page shows, by its number as the page writes it.

        Raises:
            UsageError: another one has been chosen since, in another window of the browser.
        """
        if number is not None and number != str(self.chosen):
            raise UsageError("another trace of this input was chosen in another window: load this page again")
        return self.session

    def choose(self, number: int) -> Session:
        """Show another trace of the input.

        Raises:
            UsageError: there is none with this number.
        """
        if not 0 <= number < len(self._inputs):
            raise UsageError("there is no such trace in the input")
        with self._lock:
            self.chosen = number
            if number not in self._open:
                self._open.clear()  # one trace in memory at a time
                session = Session(
                    self._inputs[number],
                    self._shelf,
                    self._window,
                    use_store=self._use_store,
                    failed=self._failed,
                )
                self._open[number] = session
                session.start()
            return self._open[number]

    def status(self, seen: str | None = None) -> dict[str, Any]:
        """State of the trace that is shown (at once, or when it is not ``seen``), and what else there is."""
        session = self.session
        session.wait_beyond(seen)
        return {
            **session.status(),
            "inputs": [item.source.label for item in self._inputs],
            "chosen": self.chosen,
        }
