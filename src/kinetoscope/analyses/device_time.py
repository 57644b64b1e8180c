"""Busy and idle time of each device, from its kernels, memcpys and memsets.

Every device event counts, linked to a launch or not; those with invalid times are left out.
Communication is a kernel whose metadata or name says so, memset is compute. Busy time and its
parts are unions, so what runs at once on several streams counts once.
"""

from __future__ import annotations

from kinetoscope.link import Links
from kinetoscope.link.devices import DeviceEvents
from kinetoscope.link.intervals import union_ns
from kinetoscope.schema import DeviceTime
from kinetoscope.trace import Bool


def device_time(links: Links) -> list[DeviceTime]:
    """Time of each device, in order of its name."""
    return [_of(events) for events in links.devices]


def _of(events: DeviceEvents) -> DeviceTime:
    def union(which: Bool) -> int:
        if which.all():
            return busy
        return union_ns(events.start_ns[which], events.end_ns[which])

    starts, ends, _ = events.gaps
    busy = events.span_ns - int((ends - starts).sum())
    compute = union(~(events.is_memcpy | events.is_communication))
    with_communication = union(~events.is_memcpy)
    return DeviceTime(
        device=events.device,
        events=len(events.rows),
        span_ns=events.span_ns,
        busy_ns=busy,
        idle_ns=events.span_ns - busy,
        gaps=len(starts),
        compute_ns=compute,
        communication_ns=union(events.is_communication),
        memcpy_ns=union(events.is_memcpy),
        exposed_communication_ns=with_communication - compute,
        exposed_memcpy_ns=busy - with_communication,
    )
