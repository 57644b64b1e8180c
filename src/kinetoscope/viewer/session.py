"""One input being viewed: read, arranged and analysed in the background while the page already answers."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kinetoscope.errors import KinetoscopeError
from kinetoscope.ingest import load_source
from kinetoscope.ingest.capture_directory import Input, LogShelf
from kinetoscope.viewer.loading import loaded
from kinetoscope.viewer.search import Searches
from kinetoscope.viewer.timeline import Timeline
from kinetoscope.window import WindowSpec

if TYPE_CHECKING:
    from kinetoscope.viewer.analysis import Analysis


#: progress of reading is told this often
_PATIENCE_S = 0.25


class NotReadyError(Exception):
    """What was asked for is still being made."""


class Session:
    """The state behind one trace; `start` begins to read it."""

    def __init__(
        self,
        item: Input,
        shelf: LogShelf,
        window: WindowSpec | None = None,
        *,
        use_store: bool = True,
        failed: Callable[[Session, str], None] | None = None,
    ) -> None:
        """``failed`` is told, in the thread that reads, why the trace cannot be shown."""
        self.item = item
        self._shelf = shelf
        self._window = window
        self._use_store = use_store
        self._failed = failed
        self._told = threading.Event()
        self._state = "reading"
        self._done = 0
        self._total: int | None = None
        self._error: str | None = None
        self._timeline: Timeline | None = None
        self._analysis: Analysis | None = None
        self._searches: Searches | None = None
        self._began = time.monotonic()
        self._took: dict[str, float] = {}
        self._changed = threading.Condition()

    def start(self) -> None:
        """Read in the background."""
        threading.Thread(target=self.run, name="kinetoscope-session", daemon=True).start()

    def run(self) -> None:
        """Read, arrange and analyse; whatever goes wrong becomes the state."""
        try:
            trace = load_source(self.item.source, progress=self._advance, use_store=self._use_store)
            self._mark("read")
            self._enter("arranging")
            timeline = Timeline.of(trace)
            self._searches = Searches(timeline, lambda: self.analysis)
            self._timeline = timeline
            self._mark("arranged")
            self._enter("analysing")
            log, warnings = self._shelf.log_for(self.item, trace)
            self._analysis = loaded(_analysis).of(
                trace, window=self._window, log=log, capture=self.item.capture, warnings=warnings
            )
            self._mark("analysed")
            self._enter("ready")
            self._analysis.prepare()
            self._mark("prepared")
        except KinetoscopeError as error:
            self._fail(str(error))
        except MemoryError:
            self._fail("not enough memory for this trace")
        except Exception as error:
            # A bug of ours: the page says so, and the terminal shows where.
            traceback.print_exc()
            self._fail(f"this is a bug in kinetoscope: {type(error).__name__}: {error}")

    def wait_beyond(self, state: str | None) -> None:
        """Wait until the state is another one, but not for long: who asks wants to see progress."""
        with self._changed:
            self._changed.wait_for(lambda: self._state != state, _PATIENCE_S)

    def wait_until_told(self, seconds: float) -> None:
        """After a failure: wait until somebody has asked for it, but no longer than this."""
        self._told.wait(seconds)

    def status(self) -> dict[str, Any]:
        """How far it is."""
        if self._state == "failed":
            self._told.set()
        return {
            "state": self._state,
            "done": self._done,
            "total": self._total,
            "error": self._error,
            "label": self.item.source.label,
            "seconds": round(time.monotonic() - self._began, 3),
            "took": self._took,
        }

    @property
    def is_loading(self) -> bool:
        """Whether it is not finished."""
        return self._state not in ("ready", "failed")

    @property
    def timeline(self) -> Timeline:
        """The timeline, once the trace was read."""
        if self._timeline is None:
            raise NotReadyError
        return self._timeline

    @property
    def searches(self) -> Searches:
        """Search, once the trace was read."""
        if self._searches is None:
            raise NotReadyError
        return self._searches

    @property
    def analysis(self) -> Analysis:
        """The analysis, once it is done."""
        if self._analysis is None:
            raise NotReadyError
        return self._analysis

    @property
    def analysis_if_ready(self) -> Analysis | None:
        """The analysis, or None while it is being made."""
        return self._analysis

    def _enter(self, state: str) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()

    def _advance(self, done: int, total: int | None) -> None:
        self._done, self._total = done, total

    def _mark(self, what: str) -> None:
        self._took[what] = round(time.monotonic() - self._began, 3)

    def _fail(self, message: str) -> None:
        self._error = message
        self._enter("failed")
        if self._failed is not None:
            self._failed(self, message)


def _analysis() -> type[Analysis]:
    # not at the top: the trace can be read before this is imported
    from kinetoscope.viewer.analysis import Analysis

    return Analysis
