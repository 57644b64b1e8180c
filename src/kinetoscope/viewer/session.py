"""One input being viewed: read, arranged and analysed in the background while the page already answers."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Sequence
from typing import Any

from kinetoscope.errors import KinetoscopeError
from kinetoscope.ingest import load_source
from kinetoscope.ingest.capture_directory import Input, LogShelf
from kinetoscope.reporting import summary
from kinetoscope.viewer import overlays, tracks
from kinetoscope.viewer.analysis import Analysis
from kinetoscope.viewer.search import Searches
from kinetoscope.viewer.timeline import Timeline
from kinetoscope.window import WindowSpec


class NotReadyError(Exception):
    """What was asked for is still being made."""


class Session:
    """The state behind one trace; `start` begins to read it."""

    def __init__(
        self, item: Input, shelf: LogShelf, window: WindowSpec | None = None, *, use_store: bool = True
    ) -> None:
        self.item = item
        self._shelf = shelf
        self._window = window
        self._use_store = use_store
        self._state = "reading"
        self._done = 0
        self._total: int | None = None
        self._error: str | None = None
        self._timeline: Timeline | None = None
        self._analysis: Analysis | None = None
        self._searches: Searches | None = None
        self._began = time.monotonic()
        self._took: dict[str, float] = {}

    def start(self) -> None:
        """Read in the background."""
        threading.Thread(target=self.run, name="kinetoscope-session", daemon=True).start()

    def run(self) -> None:
        """Read, arrange and analyse; whatever goes wrong becomes the state."""
        try:
            trace = load_source(self.item.source, progress=self._advance, use_store=self._use_store)
            self._mark("read")
            self._state = "arranging"
            timeline = Timeline.of(trace)
            self._searches = Searches(timeline)
            self._timeline = timeline
            self._mark("arranged")
            self._state = "analysing"
            log, warnings = self._shelf.log_for(self.item, trace)
            self._analysis = Analysis.of(
                trace, window=self._window, log=log, capture=self.item.capture, warnings=warnings
            )
            self._mark("analysed")
            self._state = "ready"
        except KinetoscopeError as error:
            self._fail(str(error))
        except MemoryError:
            self._fail("not enough memory for this trace")
        except Exception as error:
            # A bug of ours: the page says so, and the terminal shows where.
            traceback.print_exc()
            self._fail(f"this is a bug in kinetoscope: {type(error).__name__}: {error}")

    def status(self) -> dict[str, Any]:
        """How far it is."""
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

    def _advance(self, done: int, total: int | None) -> None:
        self._done, self._total = done, total

    def _mark(self, what: str) -> None:
        self._took[what] = round(time.monotonic() - self._began, 3)

    def _fail(self, message: str) -> None:
        self._error = message
        self._state = "failed"


def about(session: Session) -> dict[str, Any]:
    """What the page needs to lay out the timeline: summary, tracks, extent."""
    timeline = session.timeline
    low, high = timeline.extent_ns
    return {
        "summary": summary(timeline.trace),
        "begin_ns": low,
        "end_ns": high,
        "lanes": len(timeline.lanes),
        "rows": tracks.rows(timeline),
        "tracks": [tracks.label_of(timeline, number) for number in range(len(timeline.trace.track_list))],
    }


def overlaid(timeline: Timeline, analysis: Analysis) -> dict[str, Any]:
    """Steps, breaks, phases, idle lanes (numbered after the others) and counters."""
    idle, first_lane = analysis.idle, len(timeline.lanes)
    return {
        "steps": overlays.steps(analysis.links),
        "breaks": overlays.breaks(timeline, analysis.links, analysis.report),
        "phases": overlays.phases(analysis.links),
        "idle": [
            {"device": device, "lane": first_lane + number, "gaps": gaps, "tracks": _tracks(analysis, number)}
            for number, (device, gaps) in enumerate(_gap_counts(idle))
        ],
        "causes": list(idle.causes) if idle else [],
        "counters": [series.summary(number) for number, series in enumerate(analysis.series)],
    }


def _gap_counts(idle: overlays.IdleLanes | None) -> Sequence[tuple[str, int]]:
    if idle is None:
        return []
    offset = idle.lanes.offset.tolist()
    return [(device, offset[n + 1] - offset[n]) for n, device in enumerate(idle.devices)]


def _tracks(analysis: Analysis, device: int) -> list[int]:
    rows = analysis.links.devices[device].rows
    found: list[int] = sorted(set(analysis.links.trace.columns.track[rows].tolist()))
    return found
