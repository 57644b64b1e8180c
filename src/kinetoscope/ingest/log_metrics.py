"""What a ``compilation_metrics`` record says, taken only where it has the form that torch writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinetoscope.ingest.log_text import GuardTree, parse_failure
from kinetoscope.ingest.log_types import BreakRecord, Span

__all__ = [
    "failure_of",
    "guard_ns_of",
    "integer",
    "is_number",
    "skip_reason_of",
    "text",
    "texts",
    "times_of",
]

# No time, line or count of a log is larger; a damaged one can be, and would not fit the columns of a trace.
_LARGEST = 1 << 53


def is_number(value: object) -> bool:
    """Whether a value of a record is a number that can be counted with: finite, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST


def integer(value: object) -> int | None:
    """A whole number, else None."""
    return value if isinstance(value, int) and is_number(value) else None


def text(value: object) -> str | None:
    """A text that is not empty, else None."""
    return value if isinstance(value, str) and value else None


def texts(value: object) -> tuple[str, ...]:
    """The entries of a list, as texts; nothing of what is no list."""
    return tuple(str(each) for each in value) if isinstance(value, list) else ()


def times_of(spans: tuple[Span, ...], m: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Start and end of the forward compilation in ns since the epoch: of the event ``dynamo``, else of the
    metrics, else of whatever events there are."""
    for span in spans:
        if span.name in ("dynamo", "entire_frame_compile") and span.parent is None:
            return span.start_ns, span.end_ns if span.closed else None
    start, end = integer(m.get("start_time_us")), integer(m.get("end_time_us"))
    if start is None and is_number(m.get("start_time")):
        start = int(m["start_time"] * 1e6)
    if end is None and start is not None and is_number(m.get("entire_frame_compile_time_s")):
        end = start + int(m["entire_frame_compile_time_s"] * 1e6)
    if start is None and spans:
        return spans[0].start_ns, max(span.end_ns for span in spans)
    return None if start is None else start * 1000, None if end is None else end * 1000


def failure_of(compile_id: str, attempt: int, m: Mapping[str, Any]) -> tuple[BreakRecord, ...]:
    """The error of a compilation that failed, such as one of the whole graph. It has no record of a break."""
    kind, reason = text(m.get("fail_type")), text(m.get("fail_reason"))
    # without has_guarded_code the frame was not tried (recompile limit); a Skip exception is a decision
    if m.get("has_guarded_code") is not False or kind is None or reason is None or "Skip" in kind:
        return ()
    place = text(m.get("fail_user_frame_filename")), integer(m.get("fail_user_frame_lineno"))
    return (parse_failure(reason, compile_id, attempt, *place),)


def guard_ns_of(m: Mapping[str, Any], tree: GuardTree | None) -> int | None:
    """Time of one check of all guards, in ns."""
    if tree is not None and tree.latency_ns is not None:
        return tree.latency_ns
    latency = integer(m.get("guard_latency_us"))
    return None if latency is None else latency * 1000


def skip_reason_of(*metrics: Mapping[str, Any]) -> str | None:
    """Why CUDA graphs were skipped: the first that says so."""
    return next((said for m in metrics if (said := text(m.get("cudagraph_skip_reason"))) is not None), None)
