"""The devices of a trace and their events, whoever launched them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinetoscope.link.intervals import gaps_between
from kinetoscope.link.names import Mark, marked
from kinetoscope.trace import NONE, Bool, Category, Flag, Int64, Trace, UInt32


@dataclass(frozen=True, eq=False)
class DeviceEvents:
    """The measurable device events of one device, ordered by start.

    Attributes:
        device: ``args.device`` as text, or the process where that is not given.
        rows: rows of the events.
        start_ns: their starts, ascending.
        end_ns: their ends.
        is_memcpy: copies.
        is_communication: kernels whose metadata or name says that they talk to other devices.
    """

    device: str
    rows: Int64
    start_ns: Int64
    end_ns: Int64
    is_memcpy: Bool
    is_communication: Bool

    @property
    def span_ns(self) -> int:
        """From the first start to the last end."""
        return int(self.end_ns.max() - self.start_ns[0])

    @cached_property
    def gaps(self) -> tuple[Int64, Int64, Int64]:
        """Start and end of each stretch in which none runs, in time order, and the row of the event after."""
        start, end, after = gaps_between(self.start_ns, self.end_ns)
        return start, end, self.rows[after]


def find_devices(trace: Trace, marks: UInt32) -> tuple[DeviceEvents, ...]:
    """Device events with valid times, device by device, in order of the devices' texts."""
    c = trace.columns
    rows = np.flatnonzero(c.is_device & c.is_valid)
    by_name: dict[str, list[Int64]] = {}
    borders = np.flatnonzero(np.diff(c.track[rows])) + 1
    for mine in np.split(rows, borders) if len(rows) else []:  # a track is a stream of one device
        device = c.device[mine]
        for number in [int(device[0])] if (device == device[0]).all() else np.unique(device).tolist():
            name = str(trace.track_list[c.track[mine[0]]].pid if number == NONE else number)
            by_name.setdefault(name, []).append(mine if len(mine) == 1 else mine[device == number])
    return tuple(_of(trace, marks, name, np.concatenate(by_name[name])) for name in sorted(by_name))


def _of(trace: Trace, marks: UInt32, name: str, rows: Int64) -> DeviceEvents:
    c = trace.columns
    start = c.start_ns[rows]
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        rows, start = rows[order], start[order]
    memcpy = c.category[rows] == Category.MEMCPY
    says_so = marked(marks, c.name[rows], Mark.COLLECTIVE) | ((c.flags[rows] & Flag.COLLECTIVE) != 0)
    return DeviceEvents(
        device=name,
        rows=rows,
        start_ns=start,
        end_ns=c.end_ns[rows],
        is_memcpy=memcpy,
        is_communication=says_so & ~memcpy,
    )
