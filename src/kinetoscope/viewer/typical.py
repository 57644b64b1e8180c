"""Which stretches of time stand for a step: those that take as long as the step that is spoken of.

The step of a report is a median. A mean beside it could differ by any factor (one step that waited for
another process is enough), and its parts would be the parts of something else. So bars are of the step in
the middle, or of the two in the middle where their number is even: their mean is the median.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kinetoscope.render import headline, units
from kinetoscope.schema import Step
from kinetoscope.trace import Int64
from kinetoscope.viewer.timeline import Timeline

if TYPE_CHECKING:
    from kinetoscope.viewer.analysis import Analysis

Window = tuple[int, int]
_NEVER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class Typical:
    """Stretches of time (ns from the trace's origin), what they are in words, and whether they are steps."""

    windows: tuple[Window, ...]
    of: str
    is_of_steps: bool


def typical(timeline: Timeline, analysis: Analysis) -> Typical:
    """The steps in the middle of those that count, or all of the window or trace where there are none."""
    report = analysis.report
    counted = headline.counted_steps(report)
    median = report.steps.median_ns
    if not counted or not median:
        chosen = report.trace.window
        begin, end = (chosen.start_ns, chosen.end_ns) if chosen else timeline.extent_ns
        return Typical(((begin, max(end, begin + 1)),), "all that was recorded", False)
    named = [(step.name, (step.start_ns, step.start_ns + step.dur_ns)) for step in counted]
    what = ""
    # the report's own rule: where the device lags behind, its period is longer and is the step
    if median > statistics.median(step.dur_ns for step in counted) + 1:
        periods = _device_periods(analysis, counted)
        if periods:
            named, what = periods, ", from its first device work to the next step's"
    middle = _middle(named)
    of = f"of {middle[0][0]}" if len(middle) == 1 else f"mean of {middle[0][0]} and {middle[1][0]}"
    if len(counted) > 1:
        of += f", in the middle of {units.counted(len(named), 'step')}" if len(named) > 2 else ""
    return Typical(tuple(window for _, window in middle), of + what, True)


def _middle(named: Sequence[tuple[str, Window]]) -> list[tuple[str, Window]]:
    """The one of median length, or the two around it; in order of time."""
    by_length = sorted(named, key=lambda each: each[1][1] - each[1][0])
    first, last = (len(by_length) - 1) // 2, len(by_length) // 2
    return sorted(by_length[first : last + 1], key=lambda each: each[1])


def _device_periods(analysis: Analysis, counted: Sequence[Step]) -> list[tuple[str, Window]]:
    """Of each step that counts, from its first device work to that of the next step, where both have any."""
    links = analysis.links
    first = _first_device_ns(analysis)
    starts = links.steps.start_ns
    found = []
    for step in counted:
        number = int(np.searchsorted(starts, step.start_ns))
        if number + 1 < len(starts) and first[number] < first[number + 1] != _NEVER:
            found.append((step.name, (int(first[number]), int(first[number + 1]))))
    return found


def _first_device_ns(analysis: Analysis) -> Int64:
    """Per step: start of the first device event that it launched, or `_NEVER`."""
    links = analysis.links
    rows, step = links.launches.device_rows, links.steps.of_device
    keep = (step >= 0) & links.trace.columns.is_valid[rows]
    first = np.full(len(links.steps), _NEVER, np.int64)
    np.minimum.at(first, step[keep], links.trace.columns.start_ns[rows[keep]])
    return first
