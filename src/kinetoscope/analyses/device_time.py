"""Busy and idle time of each device, from its kernels, memcpys and memsets.

Every device event counts, linked to a launch or not; those with invalid times are left out.
Communication is a kernel whose metadata or name says so, memset is compute. Busy time and its
parts are unions, so what runs at once on several streams counts once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.link import Links
from kinetoscope.link.intervals import gaps_between, union_ns
from kinetoscope.link.names import Mark, marked
from kinetoscope.schema import DeviceTime
from kinetoscope.trace import NONE, Bool, Category, Flag, Int64, Trace


@dataclass(frozen=True, eq=False)
class DeviceEvents:
    """The measurable device events of one device, ordered by start.

    ``device`` is ``args.device``, or the process where that is not given.
    """

    device: str
    rows: Int64
    start_ns: Int64
    end_ns: Int64


def events_by_device(trace: Trace) -> list[DeviceEvents]:
    """Device events with valid times, device by device, in order of the device's text."""
    c = trace.columns
    rows = np.flatnonzero(c.is_device & c.is_valid)
    # A track belongs to one process, and nearly always to one device.
    pairs = np.unique(np.stack((c.device[rows], c.track[rows].astype(np.int64))), axis=1)
    names = [
        str(trace.track_list[track].pid) if device == NONE else str(device)
        for device, track in pairs.T.tolist()
    ]
    found = []
    for name in sorted(set(names)):
        mine = np.zeros(len(rows), np.bool_)
        for (device, track), its in zip(pairs.T.tolist(), names, strict=True):
            if its == name:
                mine |= (c.device[rows] == device) & (c.track[rows] == track)
        chosen = rows if mine.all() else rows[mine]
        chosen = chosen[np.argsort(c.start_ns[chosen], kind="stable")]
        found.append(DeviceEvents(name, chosen, c.start_ns[chosen], c.end_ns[chosen]))
    return found


def is_communication(links: Links, rows: Int64) -> Bool:
    """Which of these device events communicate between devices."""
    c = links.trace.columns
    says_so = marked(links.marks, c.name[rows], Mark.COLLECTIVE) | ((c.flags[rows] & Flag.COLLECTIVE) != 0)
    found: Bool = says_so & (c.category[rows] != Category.MEMCPY)
    return found


def device_time(links: Links) -> list[DeviceTime]:
    """Time of each device, in order of its name."""
    return [_of(links, events) for events in events_by_device(links.trace)]


def _of(links: Links, events: DeviceEvents) -> DeviceTime:
    category = links.trace.columns.category[events.rows]
    memcpy = category == Category.MEMCPY
    communication = is_communication(links, events.rows)
    compute = ~memcpy & ~communication

    def union(which: Bool) -> int:
        if not which.any():
            return 0
        return union_ns(events.start_ns[which], events.end_ns[which])

    busy = union_ns(events.start_ns, events.end_ns)
    compute_ns = union(compute)
    with_communication = union(compute | communication)
    span = int(events.end_ns.max() - events.start_ns[0])
    return DeviceTime(
        device=events.device,
        events=len(events.rows),
        span_ns=span,
        busy_ns=busy,
        idle_ns=span - busy,
        gaps=len(gaps_between(events.start_ns, events.end_ns)[0]),
        compute_ns=compute_ns,
        communication_ns=union(communication),
        memcpy_ns=union(memcpy),
        exposed_communication_ns=with_communication - compute_ns,
        exposed_memcpy_ns=busy - with_communication,
    )


__all__ = ["DeviceEvents", "device_time", "events_by_device", "is_communication"]
