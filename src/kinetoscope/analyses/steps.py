"""Steps: how long each took, and how long the device was busy with what it launched."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinetoscope.link import Links
from kinetoscope.link.intervals import union_by_group
from kinetoscope.link.steps import Steps as FoundSteps
from kinetoscope.schema import Step, Steps
from kinetoscope.trace import Int64

_NEVER = int(np.iinfo(np.int64).max)


def steps(links: Links) -> Steps:
    """The steps in time order, with their mean and median.

    Both leave out the first step where there are more than two, and steps that were cut. Where the
    device lags behind, the time from the first device event of a step to that of the next is longer
    than the CPU's steps, and is taken instead. ``device_busy_ns`` is null where no device event is
    linked to a launch.
    """
    return links.once(_steps)


def _steps(links: Links) -> Steps:
    found = links.steps
    if found.source is None:
        return Steps()
    busy = device_busy_ns(links) if links.launches.is_linked.any() else None
    duration = found.end_ns - found.start_ns
    rows = [
        Step(
            name=found.names[number],
            start_ns=int(found.start_ns[number]),
            dur_ns=int(duration[number]),
            device_busy_ns=None if busy is None else int(busy[number]),
            complete=found.complete[number],
        )
        for number in range(len(found))
    ]
    usual = usual_steps(found)
    cpu, device = duration[usual], device_periods_ns(links)
    return Steps(
        source=found.source,
        count=len(found),
        mean_ns=_longer(cpu, device, np.mean),
        median_ns=_longer(cpu, device, np.median),
        list=rows,
    )


def usual_steps(found: FoundSteps) -> Int64:
    """Indices of the steps that means are taken over: whole ones, without the first of more than two."""
    whole = np.flatnonzero(np.array(found.complete, np.bool_))
    if not len(whole):
        whole = np.arange(len(found))
    return whole[whole > 0] if len(found) > 2 else whole


def of_middle_step(links: Links, values: Int64) -> float:
    """Of one value a step: that of the usual step of median length, or the mean of the two in the middle.

    A median of the values would be of another step, such as one that waited for another rank. There has to
    be a step.
    """
    found = links.steps
    usual = usual_steps(found)
    order = usual[np.argsort((found.end_ns - found.start_ns)[usual], kind="stable")]
    return float(np.mean(values[order[(len(order) - 1) // 2 : len(order) // 2 + 1]]))


def device_periods_ns(links: Links) -> Int64:
    """From the first device event of a usual step to the first of the next, where both have any."""
    found = links.steps
    first = _first_device_ns(links)
    usual = usual_steps(found)
    usual = usual[usual < len(found) - 1]
    known = usual[(first[usual] != _NEVER) & (first[usual + 1] != _NEVER)]
    periods: Int64 = first[known + 1] - first[known]
    return periods


def device_busy_ns(links: Links) -> Int64:
    """Per step: union of the device events that it launched, whenever they ran."""
    return links.once(_device_busy_ns)


def _device_busy_ns(links: Links) -> Int64:
    found, c = links.steps, links.trace.columns
    rows, step = _launched(links)
    return union_by_group(step, c.start_ns[rows], c.end_ns[rows], len(found))


def _first_device_ns(links: Links) -> Int64:
    """Per step: start of the first device event that it launched, or `_NEVER`."""
    rows, step = _launched(links)
    first = np.full(len(links.steps), _NEVER, np.int64)
    np.minimum.at(first, step, links.trace.columns.start_ns[rows])
    return first


def _launched(links: Links) -> tuple[Int64, Int64]:
    """Device events with valid times that a step launched, and the step of each."""
    rows, step = links.launches.device_rows, links.steps.of_device
    inside = (step >= 0) & links.trace.columns.is_valid[rows]
    return rows[inside], step[inside]


def _longer(cpu: Int64, device: Int64, average: Callable[[Int64], np.float64]) -> int | None:
    both = [float(average(values)) for values in (cpu, device) if len(values)]
    return round(max(both)) if both else None
