"""What lies over the timeline: steps, graph breaks, compile phases, and the devices' idle gaps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from kinetoscope.analyses.idle import find_gaps
from kinetoscope.analyses.idle_causes import pieces_of_gaps
from kinetoscope.analyses.idle_causes_names import CAUSES
from kinetoscope.export.breaks import passings
from kinetoscope.link import Links
from kinetoscope.schema import Report
from kinetoscope.trace import Int32, UInt8
from kinetoscope.viewer.lanes import Lanes, single_lanes
from kinetoscope.viewer.pyramid import Pyramid, build
from kinetoscope.viewer.timeline import Timeline

#: marks beyond so many are left out, longest first
_PHASES = 2000
_BREAKS = 5000


@dataclass(frozen=True, eq=False)
class IdleLanes:
    """The idle time of each device as a lane of its own: gaps, divided where their causes differ.

    Attributes:
        devices: name of the device of each lane.
        pyramid: the pieces of gaps, for coarse pictures; a slice's ``row`` indexes the columns below.
        causes: names of causes.
        cause: per piece, index into ``causes``.
        because: per piece, row of the slice that names the cause, or -1.
        next_row: per piece, row of the device event that ends the gap.
    """

    devices: tuple[str, ...]
    pyramid: Pyramid
    causes: tuple[str, ...]
    cause: UInt8
    because: Int32
    next_row: Int32

    @property
    def lanes(self) -> Lanes:
        """The pieces by device."""
        return self.pyramid.lanes


def idle_lanes(links: Links) -> IdleLanes | None:
    """The idle time, or None where the devices' side was not recorded."""
    launches = links.launches
    if not len(launches.device_rows) or not launches.are_device_events_recorded:
        return None
    gaps = find_gaps(links)
    pieces = pieces_of_gaps(links, gaps.device, gaps.start_ns, gaps.end_ns, gaps.next_row)
    device = gaps.device[pieces.gap]
    groups = []
    for number in range(len(gaps.devices)):
        mine = device == number
        groups.append((pieces.start_ns[mine], pieces.end_ns[mine]))
    return IdleLanes(
        devices=gaps.devices,
        pyramid=build(single_lanes(groups)),
        causes=CAUSES,
        cause=pieces.cause,
        because=pieces.row.astype(np.int32),
        next_row=gaps.next_row[pieces.gap].astype(np.int32),
    )


def steps(links: Links) -> list[dict[str, Any]]:
    """Name, start and end of each step."""
    found = links.steps
    return [
        {"name": name, "start_ns": start, "end_ns": end}
        for name, start, end in zip(found.names, found.start_ns.tolist(), found.end_ns.tolist(), strict=True)
    ]


def breaks(timeline: Timeline, links: Links, report: Report) -> list[dict[str, Any]]:
    """Where compiled code goes on after a break: one mark a passed break, in time order."""
    return [
        {
            "time_ns": passing.time_ns,
            "row": passing.row,
            "lane": timeline.lane_of(passing.row),
            "label": passing.label,
            "why": passing.why,
        }
        for passing in islice(passings(links, report), _BREAKS)
    ]


def phases(links: Links) -> list[dict[str, Any]]:
    """Compile phases that are in no other, the longest ones, in time order."""
    compiles = links.compiles
    entries = compiles.entries
    entries = entries[np.argsort(-compiles.phases.dur_ns[entries], kind="stable")][:_PHASES]
    entries = entries[np.argsort(compiles.phases.start_ns[entries], kind="stable")]
    calls = compiles.phases
    return [
        {
            "name": calls.labels[calls.label[number]],
            "id": compiles.ids[compiles.compile_id[number]] if compiles.compile_id[number] >= 0 else None,
            "start_ns": int(calls.start_ns[number]),
            "end_ns": int(calls.end_ns[number]),
            "row": int(calls.rows[number]),
        }
        for number in entries.tolist()
    ]
