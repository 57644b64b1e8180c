"""Where compilation spent its time, from a compile log's own events.

Total times are unions, so nested and parallel phases count once. Self times split each frame's union
without rest: at every moment the phase that began last owns it. The outermost wrappers only bracket a
compilation; the moments that are theirs alone get a phase of their own, named by what stands there (setting
up, writing metrics and so on), and are marked ``derived``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kinetoscope.ingest.log_types import Compilation, CompileLog, Span

__all__ = ["CacheCounts", "FrameCompileTime", "LogCompileTime", "LogPhase", "compile_ns", "log_compile_time"]

_WRAPPERS = re.compile(
    r"^(?:dynamo|entire_frame_compile|entire_backward_compile|compile_attempt_\d+|compiled_autograd)$"
)
_GAPS = {
    "dynamo": ("frame_setup", "frame_bookkeeping", "metrics_logging"),
    "entire_frame_compile": ("frame_setup", "frame_bookkeeping", "code_install"),
    "entire_backward_compile": ("backward_setup", "backward_bookkeeping", "metrics_logging"),
    "compiled_autograd": ("autograd_capture", "autograd_capture", "autograd_capture"),
}
_ATTEMPT_GAPS = ("tracing_setup", "graph_output", "bytecode_output")
_BACKWARD = "entire_backward_compile"


@dataclass(frozen=True, slots=True)
class LogPhase:
    """One phase of a frame's compilation, all its occurrences together, in nanoseconds.

    ``total_ns`` is the union of its spans, ``self_ns`` the part that no phase begun later covers.
    ``derived`` marks a phase that the log does not name: time of a wrapper outside the phases within it.
    """

    name: str
    total_ns: int
    self_ns: int
    count: int
    backward: bool = False
    derived: bool = False


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """Look-ups in the FX graph cache and the AOTAutograd cache."""

    fx_hit: int = 0
    fx_miss: int = 0
    fx_bypass: int = 0
    aot_hit: int = 0
    aot_miss: int = 0
    aot_bypass: int = 0


@dataclass(frozen=True, slots=True)
class FrameCompileTime:
    """Compile time of one compilation, in nanoseconds.

    ``forward_ns`` and ``backward_ns`` are unions (backward: compiled lazily, at the first backward);
    ``total_ns`` is the union of both. ``runtime_ns`` is the part spent at a call, outside both (autotuning,
    CUDA graph recording).
    """

    id: str
    generation: int
    function: str | None
    file: str | None
    line: int | None
    start_ns: int | None
    total_ns: int
    forward_ns: int
    backward_ns: int
    runtime_ns: int
    attempts: int
    cached: bool | None
    phases: tuple[LogPhase, ...]


@dataclass(frozen=True, slots=True)
class LogCompileTime:
    """Compile time of a whole log. ``logging_ns`` is what writing the structured log itself cost (as torch
    measured it), and is part of the other numbers; ``spans`` are the merged times, for cutting to a
    window."""

    total_ns: int
    frames: tuple[FrameCompileTime, ...]
    caches: CacheCounts
    logging_ns: int | None
    intervals: tuple[tuple[int, int], ...]

    def within_ns(self, start_ns: int, end_ns: int) -> int:
        """The part of ``total_ns`` between two times (epoch nanoseconds)."""
        return sum(max(0, min(e, end_ns) - max(s, start_ns)) for s, e in self.intervals)


def compile_ns(item: Compilation) -> int:
    """Time that one compilation took, lazy backward included; from its metrics if there are no events."""
    if item.spans:
        return _length(_union((s.start_ns, s.end_ns) for s in item.spans))
    return _metrics_ns(item.metrics) + sum(_metrics_ns(m) for m in item.backward_metrics)


def _logging_ns(item: Compilation) -> int | None:
    """What torch says that writing the log cost; each record of a compilation states the sum so far."""
    stated = [m.get("structured_logging_overhead_us") for m in (item.metrics, *item.backward_metrics)]
    return max((value * 1000 for value in stated if isinstance(value, int)), default=None)


def log_compile_time(log: CompileLog) -> LogCompileTime:
    """Compile time per frame and phase, of one rank (``CompileLog.for_rank``); most costly frame first."""
    frames = [_frame(item) for item in log.compilations]
    spans = [s for item in log.compilations for s in item.spans] + list(log.loose_spans)
    intervals = _union((s.start_ns, s.end_ns) for s in spans)
    bare = sum(compile_ns(item) for item in log.compilations if not item.spans)
    overhead = [ns for item in log.compilations if (ns := _logging_ns(item)) is not None]
    counts = [(r.cache, r.state) for item in log.compilations for r in item.caches]
    return LogCompileTime(
        total_ns=_length(intervals) + bare,
        frames=tuple(sorted((f for f in frames if f.total_ns), key=lambda f: -f.total_ns)),
        caches=CacheCounts(*(counts.count((c, s)) for c in ("fx", "aot") for s in ("hit", "miss", "bypass"))),
        logging_ns=sum(overhead) if overhead else None,
        intervals=tuple(intervals),
    )


def _frame(item: Compilation) -> FrameCompileTime:
    backward = _below(item.spans, lambda name: name == _BACKWARD)
    forward = _below(item.spans, lambda name: name in ("dynamo", "entire_frame_compile", "compiled_autograd"))
    spans = item.spans
    fx = [r.state for r in item.caches if r.cache == "fx"]
    union = _union((s.start_ns, s.end_ns) for s in spans)
    ahead = _union((s.start_ns, s.end_ns) for s, f, b in zip(spans, forward, backward, strict=True) if f or b)
    return FrameCompileTime(
        id=item.id,
        generation=item.generation,
        function=item.function,
        file=item.file,
        line=item.line,
        start_ns=item.start_ns,
        total_ns=_length(union) if spans else compile_ns(item),
        forward_ns=_length(_union((s.start_ns, s.end_ns) for s, f in zip(spans, forward, strict=True) if f))
        if spans
        else _metrics_ns(item.metrics),
        backward_ns=_length(_union((s.start_ns, s.end_ns) for s, b in zip(spans, backward, strict=True) if b))
        if spans
        else sum(_metrics_ns(m) for m in item.backward_metrics),
        runtime_ns=_length(union) - _length(ahead),
        attempts=item.attempts,
        cached=all(state == "hit" for state in fx) if fx else None,
        phases=_phases(spans, backward),
    )


def _below(spans: Sequence[Span], is_root: Any) -> list[bool]:
    """For each span, whether it or one around it is such a root; parents precede their children."""
    inside: list[bool] = []
    for span in spans:
        around = span.parent is not None and span.parent < len(inside) and inside[span.parent]
        inside.append(bool(is_root(span.name)) or around)
    return inside


def _phases(spans: Sequence[Span], backward: Sequence[bool]) -> tuple[LogPhase, ...]:
    own, gaps = _self_times(spans)
    grouped: dict[tuple[str, bool], list[int]] = {}
    for index, span in enumerate(spans):
        grouped.setdefault((span.name, backward[index]), []).append(index)
    phases = [
        LogPhase(
            name=name,
            total_ns=_length(_union((spans[i].start_ns, spans[i].end_ns) for i in members)),
            self_ns=sum(own[i] for i in members),
            count=len(members),
            backward=is_backward,
        )
        for (name, is_backward), members in grouped.items()
    ]
    derived: dict[tuple[str, bool], list[int]] = {}
    for name, index, time_ns in gaps:
        derived.setdefault((name, backward[index]), []).append(time_ns)
    phases += [
        LogPhase(name, sum(times), sum(times), len(times), is_backward, derived=True)
        for (name, is_backward), times in derived.items()
    ]
    return tuple(sorted(phases, key=lambda p: (-p.self_ns, -p.total_ns, p.name)))


def _self_times(spans: Sequence[Span]) -> tuple[list[int], list[tuple[str, int, int]]]:
    """Self time of each span, and the derived phases: (name, wrapper's index, time).

    One sweep over all beginnings and ends. At each moment the span that began last owns the time (of two
    that began together, the later in the log), so the self times sum to the union whatever runs in
    parallel.
    """
    own = [0] * len(spans)
    gaps: list[tuple[str, int, int]] = []
    lasting = [(i, s) for i, s in enumerate(spans) if s.end_ns > s.start_ns]
    edges = sorted([(s.start_ns, 1, i) for i, s in lasting] + [(s.end_ns, 0, i) for i, s in lasting])
    active: list[int] = []  # in begin order, so the last one owns
    began_inside: dict[int, bool] = {}
    last_ns = 0
    pending: dict[int, int] = {}  # a wrapper's own time since its latest child ended
    for time_ns, begins, index in edges:
        if active and time_ns > last_ns:
            owner = active[-1]
            if _WRAPPERS.match(spans[owner].name):
                pending[owner] = pending.get(owner, 0) + time_ns - last_ns
            else:
                own[owner] += time_ns - last_ns
        last_ns = time_ns
        if begins:
            for wrapper in active:
                if wrapper in pending:
                    place = 1 if began_inside.get(wrapper) else 0
                    gaps.append((_gap_name(spans[wrapper].name, place), wrapper, pending.pop(wrapper)))
                began_inside[wrapper] = True
            active.append(index)
        elif index in active:
            if index in pending:
                place = 2 if began_inside.get(index) else 1
                gaps.append((_gap_name(spans[index].name, place), index, pending.pop(index)))
            active.remove(index)
    return own, gaps


def _gap_name(wrapper: str, place: int) -> str:
    return _GAPS.get(wrapper, _ATTEMPT_GAPS)[place]


def _union(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _length(intervals: Iterable[tuple[int, int]]) -> int:
    return sum(end - start for start, end in intervals)


def _metrics_ns(metrics: Any) -> int:
    for name, scale in (("duration_us", 1_000), ("entire_frame_compile_time_s", 1_000_000_000)):
        value = metrics.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return round(value * scale)
    return 0
