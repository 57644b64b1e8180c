"""Begin and end events of a compile log (``chromium_event``) -> phase spans of each compilation.

All events carry process and thread 0, helper threads write among the others (with compile id ``None``), and a
backward graph may be compiled on another thread: so an end closes the latest open begin of its name and id,
and spans are not assumed to nest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from kinetoscope.ingest.log_types import Span

__all__ = ["OpenSpan", "SpanTracker", "freeze_spans", "is_compile_id", "nanoseconds"]


class _Event(msgspec.Struct):
    name: str
    ts: float
    ph: str
    args: Any = None


_DECODER = msgspec.json.Decoder(_Event)
_LATEST_US = 1 << 53  # of the year 2255; what is later does not fit nanoseconds of 64 bits


@dataclass(slots=True, eq=False)
class OpenSpan:
    """A span while the log is still being read."""

    name: str
    compile_id: str | None
    start_ns: int
    parent: OpenSpan | None
    worker: bool
    end_ns: int | None = None


def nanoseconds(microseconds: float) -> int:
    """Microseconds as whole nanoseconds, without the rounding that a product of 19 digits would add."""
    whole = int(microseconds)
    return whole * 1000 + round((microseconds - whole) * 1000)


def is_compile_id(value: object) -> bool:
    """Whether an event's ``compile_id`` names a compilation (helper threads write the text ``None``)."""
    return isinstance(value, str) and value not in ("", "None")


class SpanTracker:
    """The spans of one file; ``last_ns`` is the latest time seen."""

    def __init__(self) -> None:
        self.open: list[OpenSpan] = []
        self.last_ns = 0

    def feed(self, payload: bytes) -> OpenSpan | None:
        """Take one event. Raises ValueError for one that is no event."""
        event = _DECODER.decode(payload)
        if not 0 <= event.ts < _LATEST_US:
            raise ValueError(f"{event.ts} is no time of an event")
        now = nanoseconds(event.ts)
        self.last_ns = max(self.last_ns, now)
        own = event.args.get("compile_id") if isinstance(event.args, dict) else None
        compile_id = str(own) if is_compile_id(own) else None
        if event.ph == "B":
            return self._begin(event.name, compile_id, now)
        if event.ph == "E":
            self._end(event.name, compile_id, now)
        return None

    def _begin(self, name: str, compile_id: str | None, now: int) -> OpenSpan:
        around = next((s for s in reversed(self.open) if not s.worker), None)
        worker = compile_id is None and around is not None
        if compile_id is None and around is not None:
            compile_id = around.compile_id
        parent = next((s for s in reversed(self.open) if not s.worker and s.compile_id == compile_id), None)
        span = OpenSpan(name, compile_id, now, parent, worker)
        self.open.append(span)
        return span

    def _end(self, name: str, compile_id: str | None, now: int) -> None:
        named = [s for s in self.open if s.name == name]
        same = [s for s in named if compile_id is None or s.compile_id == compile_id]
        if not (same or named):
            return  # its beginning was not recorded
        span = (same or named)[-1]
        span.end_ns = max(now, span.start_ns)
        self.open.remove(span)


def freeze_spans(spans: list[OpenSpan], last_ns: int) -> tuple[Span, ...]:
    """The spans of one compilation, in begin order; one without an end reaches to the last time seen."""
    index = {id(span): i for i, span in enumerate(spans)}
    return tuple(
        Span(
            name=span.name,
            start_ns=span.start_ns,
            end_ns=max(last_ns, span.start_ns) if span.end_ns is None else span.end_ns,
            parent=None if span.parent is None else index.get(id(span.parent)),
            worker=span.worker,
            closed=span.end_ns is not None,
        )
        for span in spans
    )
