"""The window that a user asked for, found in a trace."""

from __future__ import annotations

import numpy as np

from kinetoscope.errors import UsageError
from kinetoscope.link import Links, link
from kinetoscope.link.intervals import merged
from kinetoscope.link.select import Interval, select
from kinetoscope.schema import Window
from kinetoscope.trace import Category
from kinetoscope.window import WindowSpec


def windowed(links: Links, spec: WindowSpec) -> tuple[Links, Window]:
    """The part of the trace that ``spec`` names, as a trace with its links, and what it is.

    Raises:
        UsageError: it names steps or an annotation that the trace does not have, or an empty span.
    """
    trace = links.trace
    intervals, steps = _intervals(links, spec)
    part = select(trace, intervals, links.launches.launch_of_row)
    if len(part.columns) == 0:
        raise UsageError(f"nothing starts in this window; the trace lasts {trace.span_ns} ns")
    window = Window(
        start_ns=intervals[0][0], end_ns=intervals[-1][1], steps=steps, annotation=spec.annotation
    )
    return link(part, links.steps.between(*steps) if steps is not None else None), window


def intervals_of(links: Links, spec: WindowSpec) -> list[Interval]:
    """The stretches of time that ``spec`` names: in order, apart, in ns from the trace's origin.

    Raises:
        UsageError: as `windowed`, but for a span in which nothing starts.
    """
    return _intervals(links, spec)[0]


def _intervals(links: Links, spec: WindowSpec) -> tuple[list[Interval], tuple[int, int] | None]:
    if spec.steps is not None:
        first, last = _step_range(links, *spec.steps)
        found = links.steps
        return [(int(found.start_ns[first]), int(found.end_ns[last]))], (first, last)
    if spec.annotation is not None:
        return _annotation(links, spec.annotation), None
    assert spec.span_ns is not None  # the parser gives one of the three
    start, end = spec.span_ns
    c = links.trace.columns
    latest = int(c.end_ns.max()) + 1 if len(c) else 0
    return [(start if start is not None else int(c.start_ns.min()), end if end is not None else latest)], None


def _step_range(links: Links, first: int | None, last: int | None) -> tuple[int, int]:
    count = len(links.steps)
    if count == 0:
        raise UsageError("--steps: no steps were found in this trace; use --annotation or --window")
    begin = 0 if first is None else first
    end = count - 1 if last is None else last
    if end >= count or begin >= count:
        raise UsageError(f"--steps {begin}..{end}: the trace has the steps 0..{count - 1}")
    return begin, end


def _annotation(links: Links, name: str) -> list[Interval]:
    trace, c = links.trace, links.trace.columns
    annotations = np.flatnonzero((c.category == Category.USER_ANNOTATION) & c.is_valid)
    number = trace.names.index.get(name)
    rows = annotations[c.name[annotations] == number] if number is not None else annotations[:0]
    if len(rows) == 0:
        names, counts = np.unique(c.name[annotations], return_counts=True)
        common = [trace.names[int(number)] for number in names[np.argsort(-counts, kind="stable")][:6]]
        there = f"it has {', '.join(common)}" if common else "it has none"
        raise UsageError(f"--annotation {name}: the trace has no such annotation; {there}")
    start, end = merged(c.start_ns[rows], c.end_ns[rows])
    return list(zip(start.tolist(), end.tolist(), strict=True))
