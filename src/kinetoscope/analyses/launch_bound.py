"""Launch overhead: is the device waiting for the CPU, or the CPU for the device, and by how much.

A piece of device work started *late* if the device had nothing to do when the call that launched it
returned. A graph launch counts once, with its first kernel. The queue at a time is what had been
launched and had not started.

The verdict compares what each side needs for a step: the CPU its time outside of waits, the device
its busy time. Where either fills most of the step, that side sets the pace; where neither does,
both wait for each other in turns. Times are those of the profiled run, in which the CPU is slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from kinetoscope.analyses.idle_causes import launching_lines
from kinetoscope.analyses.idle_causes_names import WAITS, State
from kinetoscope.analyses.origins import has_cpu_rows
from kinetoscope.analyses.steps import device_busy_ns, of_middle_step, steps, usual_steps
from kinetoscope.link import Links
from kinetoscope.link.intervals import union_by_group
from kinetoscope.trace import Bool, Int64

Verdict: TypeAlias = Literal["cpu", "gpu", "mixed"]

#: a side that needs this share of a step sets its pace
_FILLS = 0.9


@dataclass(frozen=True)
class Overhead:
    """Launches of one step, or of one region, over the steps that means are taken over.

    ``launches`` and ``launch_ns`` are medians a step (a call), ``late_share`` is of the launches.
    """

    name: str
    calls: int
    launches: float
    launch_ns: int
    host_ns_per_launch: int | None
    late_share: float | None


@dataclass(frozen=True)
class Queue:
    """How much work stood ready for a device: mean over time, most at once, share of time with none."""

    mean: float
    most: int
    empty_share: float


@dataclass(frozen=True)
class LaunchBound:
    """Who waits for whom. Times are medians a step in ns.

    Attributes:
        verdict: which side sets the pace; None where steps or device work are missing.
        margin: by how much the side that sets the pace exceeds the other, as a share of the step.
        step_ns: length of a step.
        host_ns: CPU time of a step outside of waits for the device.
        device_ns: busy time of the device.
        late_share: share of launches whose work the device was waiting for.
        queue: the queue over the steps.
        steps: launches of each step, in time order.
        regions: launches by region, those with most launch time first.
    """

    verdict: Verdict | None
    margin: float | None
    step_ns: int | None
    host_ns: int | None
    device_ns: int | None
    late_share: float | None
    queue: Queue | None
    steps: tuple[Overhead, ...]
    regions: tuple[Overhead, ...]


def launch_bound(links: Links) -> LaunchBound | None:
    """Launch overhead of the steps; None where launches or their device work were not recorded."""
    launches = links.launches
    if not launches.is_linked.any() or not launches.are_device_events_recorded or not has_cpu_rows(links):
        return None
    late, first = late_starts(links)
    call_late, call_known = _by_call(links, late, first)
    found = links.steps
    wait = host_wait_ns(links)
    by_step = _by_step(links, call_late, call_known, found.end_ns - found.start_ns - wait)
    usual = usual_steps(found) if len(found) else np.empty(0, np.int64)
    inside = np.isin(found.of_call, usual) if len(found) else np.ones(len(launches.call_rows), np.bool_)
    known = call_known & inside
    about = steps(links)
    host = device = None
    if len(usual) and about.median_ns:
        host = int(np.median((found.end_ns - found.start_ns - wait)[usual]))
        device = int(of_middle_step(links, device_busy_ns(links)))
    verdict, margin = _verdict(about.median_ns, host, device)
    return LaunchBound(
        verdict=verdict,
        margin=margin,
        step_ns=about.median_ns,
        host_ns=host,
        device_ns=device,
        late_share=float(call_late[known].mean()) if known.any() else None,
        queue=queue_of(links, usual, first),
        steps=by_step,
        regions=_by_region(links, inside, call_late, call_known),
    )


def late_starts(links: Links) -> tuple[Bool, Bool]:
    """[d] whether the device had nothing to do when the launching call returned, and whether an event
    is the first of its launch (others of a graph follow by themselves)."""
    return links.once(_late_starts)


def _late_starts(links: Links) -> tuple[Bool, Bool]:
    launches, c = links.launches, links.trace.columns
    rows, call = launches.device_rows, launches.call_of
    has_call = call >= 0
    late = np.zeros(len(rows), np.bool_)
    first = np.zeros(len(rows), np.bool_)
    if not has_call.any():
        return late, first
    returned = (launches.call_start_ns + launches.call_dur_ns)[np.maximum(call, 0)]
    for events in links.devices:
        at = launches.numbers_of(events.rows)
        until = np.maximum.accumulate(events.end_ns)
        late[at[0]] = has_call[at[0]]
        late[at[1:]] = has_call[at[1:]] & (returned[at[1:]] > until[:-1])
    mine = np.flatnonzero(has_call & c.is_valid[rows])
    # most calls launch one event, which is their first then
    single = np.bincount(call[mine], minlength=len(launches.call_rows))[call[mine]] == 1
    first[mine[single]] = True
    mine = mine[~single]
    order = mine[np.lexsort((c.start_ns[rows[mine]], call[mine]))]
    first[order[np.append(True, np.diff(call[order]) > 0)[: len(order)]]] = True
    return late, first


def host_wait_ns(links: Links) -> Int64:
    """Per step: time in which the launching threads waited for the device, in runtime calls."""
    found = links.steps
    begin, end = [], []
    is_wait = np.isin(np.arange(len(State)), WAITS)
    for line in launching_lines(links).values():
        stop = line.at_ns[1:]
        waits = np.flatnonzero(is_wait[line.state[: len(stop)]])
        begin.append(line.at_ns[waits])
        end.append(stop[waits])
    starts, ends = np.concatenate(begin), np.concatenate(end)
    step = found.at(starts)
    keep = step >= 0
    return union_by_group(step[keep], starts[keep], ends[keep], len(found))


def queue_depth(links: Links, first: Bool) -> tuple[Int64, Int64]:
    """How many launches had been made and not started, over time: when it changes, and to what.

    ``first``: [d] the first events of launches, as `late_starts` tells them.
    """
    launches, c = links.launches, links.trace.columns
    rows, call = launches.device_rows, launches.call_of
    keep = (call >= 0) & c.is_valid[rows] & first
    ends = launches.call_start_ns + launches.call_dur_ns
    put, taken = ends[call[keep]], c.start_ns[rows[keep]]
    put = np.minimum(put, taken)  # a kernel can start before its call returns
    at = np.concatenate((put, taken))
    change = np.concatenate((np.ones(len(put), np.int64), np.full(len(taken), -1)))
    order = np.argsort(at, kind="stable")  # at one time, what was put stands first
    return at[order], np.cumsum(change[order])


def queue_of(links: Links, usual: Int64, first: Bool) -> Queue | None:
    """The queue from the first to the last of these steps (all there is where there are none)."""
    at, depth = queue_depth(links, first)
    found = links.steps
    if len(usual):
        low, high = int(found.start_ns[usual].min()), int(found.end_ns[usual].max())
    elif len(at):
        low, high = int(at[0]), int(at[-1])
    else:
        return None
    if high <= low:
        return None
    begin, end = np.searchsorted(at, [low, high])
    before = int(depth[begin - 1]) if begin else 0
    times = np.concatenate(([low], at[begin:end], [high]))
    depths = np.concatenate(([before], depth[begin:end]))
    width = np.diff(times)
    return Queue(
        mean=float((depths * width).sum() / (high - low)),
        most=int(depths.max()),
        empty_share=float(width[depths == 0].sum() / (high - low)),
    )


def _by_call(links: Links, late: Bool, first: Bool) -> tuple[Bool, Bool]:
    launches = links.launches
    call_late = np.zeros(len(launches.call_rows), np.bool_)
    known = np.zeros(len(launches.call_rows), np.bool_)
    call_late[launches.call_of[first]] = late[first]
    known[launches.call_of[first]] = True
    return call_late, known


def _by_step(links: Links, late: Bool, known: Bool, host_ns: Int64) -> tuple[Overhead, ...]:
    launches, found = links.launches, links.steps
    step = found.of_call
    inside = step >= 0
    many = len(found)
    count = np.bincount(step[inside], minlength=many).tolist()
    spent = np.zeros(many, np.int64)
    np.add.at(spent, step[inside], launches.call_dur_ns[inside])
    judged = np.bincount(step[inside & known], minlength=many).tolist()
    were_late = np.bincount(step[inside & known & late], minlength=many).tolist()
    return tuple(
        Overhead(
            name=found.names[number],
            calls=1,
            launches=count[number],
            launch_ns=spent.item(number),
            host_ns_per_launch=round(host_ns.item(number) / count[number]) if count[number] else None,
            late_share=were_late[number] / judged[number] if judged[number] else None,
        )
        for number in range(many)
    )


def _overhead(
    links: Links, name: str, calls: int, mine: Bool, late: Bool, known: Bool, host_ns: int | None
) -> Overhead:
    count = int(mine.sum())
    judged = mine & known
    return Overhead(
        name=name,
        calls=calls,
        launches=count / calls,
        launch_ns=round(int(links.launches.call_dur_ns[mine].sum()) / calls),
        host_ns_per_launch=round(host_ns / count) if host_ns is not None and count else None,
        late_share=float(late[judged].mean()) if judged.any() else None,
    )


def _by_region(links: Links, inside: Bool, late: Bool, known: Bool) -> tuple[Overhead, ...]:
    launches, calls = links.launches, links.regions.calls
    if not len(calls):
        return ()
    around = calls.at_rows(launches.call_rows)
    label = np.where(around >= 0, calls.label[np.maximum(around, 0)], -1)
    found = []
    for number, name in enumerate(calls.labels):
        mine = inside & (label == number)
        turns = len(np.unique(around[mine]))
        if turns:
            spent = int(calls.self_ns[np.unique(around[mine])].sum())
            found.append(_overhead(links, name, turns, mine, late, known, spent))
    return tuple(sorted(found, key=lambda one: (-one.launch_ns * one.calls, one.name)))


def _verdict(
    step_ns: int | None, host_ns: int | None, device_ns: int | None
) -> tuple[Verdict | None, float | None]:
    if not step_ns or host_ns is None or device_ns is None:
        return None, None
    margin = abs(host_ns - device_ns) / step_ns
    if device_ns >= _FILLS * step_ns and device_ns >= host_ns:
        return "gpu", margin
    if host_ns >= _FILLS * step_ns and host_ns > device_ns:
        return "cpu", margin
    return "mixed", margin
