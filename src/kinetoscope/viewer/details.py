"""Everything about one slice: its times, what is around it, what launched it, and what it launched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kinetoscope.analyses import one_kernel
from kinetoscope.analyses.joined_kernels import KernelPlaces
from kinetoscope.analyses.one_kernel_tools import tool_commands
from kinetoscope.analyses.origins import KINDS, ORIGINS
from kinetoscope.errors import UsageError
from kinetoscope.link.provenance import KernelSource
from kinetoscope.render import words
from kinetoscope.trace import NONE, Flag, Int64
from kinetoscope.viewer import flows as arrows
from kinetoscope.viewer import tracks
from kinetoscope.viewer.timeline import Timeline

if TYPE_CHECKING:
    from kinetoscope.viewer.analysis import Analysis

_PARENTS = 60
_LAUNCHED = 20


def basics(timeline: Timeline, row: int) -> dict[str, Any]:
    """What the slice's own columns say."""
    trace, c = timeline.trace, timeline.trace.columns
    flags = int(c.flags[row])
    lane = timeline.lane_of(row)
    strip = next((strip for strip in timeline.strips if strip.first <= lane < strip.last), None)
    given = {
        name: int(column[row])
        for name, column in (
            ("correlation", c.correlation),
            ("external id", c.external_id),
            ("sequence number", c.sequence),
            ("device", c.device),
            ("stream", c.stream),
        )
        if int(column[row]) != NONE
    }
    return {
        "row": row,
        "name": trace.name_of(row),
        "short": words.kernel(trace.name_of(row)),
        "category": trace.cats[int(c.cat[row])],
        "is_device": bool(c.is_device[row]),
        "track": int(c.track[row]),
        "track_label": tracks.label_of(timeline, int(c.track[row])),
        "lane": lane,
        "strip_first": strip.first if strip else lane,
        "depth": int(c.depth[row]),
        "start_ns": int(c.start_ns[row]),
        "dur_ns": int(c.dur_ns[row]),
        "end_ns": int(c.end_ns[row]),
        "invalid_time": bool(flags & Flag.INVALID_TIME),
        "clipped": bool(flags & Flag.CLIPPED),
        "ids": given,
        "parents": _parents(timeline, row),
    }


def linked(timeline: Timeline, analysis: Analysis, row: int) -> dict[str, Any]:
    """What belongs to the slice: launch, operator, region, step, forward or backward."""
    c = timeline.trace.columns
    found: dict[str, Any] = {
        "meaning": int(analysis.meaning[row]),
        "self_ns": _self_ns(timeline, row),
        "flows": arrows.of_slice(timeline, analysis.flows, row),
    }
    found.update(_device(timeline, analysis, row) if c.is_device[row] else _cpu(timeline, analysis, row))
    for number in analysis.flows.arriving(row).tolist():
        if analysis.flows.kind[number] == 1:
            found["forward"] = brief(timeline, int(analysis.flows.source[number]))
    for number in analysis.flows.leaving(row).tolist():
        if analysis.flows.kind[number] == 1:
            found["backward"] = brief(timeline, int(analysis.flows.target[number]))
    return found


def brief(timeline: Timeline, row: int) -> dict[str, Any]:
    """A slice as one line of another one's details."""
    c = timeline.trace.columns
    return {
        "row": row,
        "name": words.kernel(timeline.trace.name_of(row)),
        "start_ns": int(c.start_ns[row]),
        "dur_ns": int(c.dur_ns[row]),
    }


def _parents(timeline: Timeline, row: int) -> list[dict[str, Any]]:
    parent = timeline.trace.columns.parent
    chain: list[dict[str, Any]] = []
    above = int(parent[row])
    while above >= 0 and len(chain) < _PARENTS:
        chain.append(brief(timeline, above))
        above = int(parent[above])
    return chain


def _self_ns(timeline: Timeline, row: int) -> int:
    c = timeline.trace.columns
    track = timeline.trace.track_list[int(c.track[row])]
    last = track.first + int(
        np.searchsorted(c.start_ns[track.first : track.last], int(c.end_ns[row]), side="right")
    )
    children = c.dur_ns[row + 1 : last][c.parent[row + 1 : last] == row]
    return max(0, int(c.dur_ns[row]) - int(children.sum()))


def _device(timeline: Timeline, analysis: Analysis, row: int) -> dict[str, Any]:
    links, launches = analysis.links, analysis.links.launches
    at = int(np.searchsorted(launches.device_rows, row))
    found: dict[str, Any] = {}
    launch = int(launches.launch_row[at])
    if launch >= 0:
        c = timeline.trace.columns
        found["launch"] = brief(timeline, launch)
        found["queue_ns"] = int(c.start_ns[row]) - int(c.start_ns[launch])
        found["graph_replay"] = bool(launches.in_graph_replay[at])
        operator = int(launches.operator_row[at])
        if operator >= 0:
            found["operator"] = brief(timeline, operator)
        call = int(links.regions.call_of_device[at])
        if call >= 0:
            found["region"] = _region(timeline, analysis, call)
    else:
        found["unlinked"] = "before" if launches.before_window[at] else "missing"
    step = int(links.steps.of_device[at]) if len(links.steps) else -1
    if step >= 0:
        found["step"] = _step(analysis, step)
    found.update(_work(analysis, row))
    return found


def _cpu(timeline: Timeline, analysis: Analysis, row: int) -> dict[str, Any]:
    links, c = analysis.links, timeline.trace.columns
    found: dict[str, Any] = {}
    calls = links.regions.calls
    rows = np.array([row], np.int64)
    call = int(calls.at_rows(rows)[0]) if len(calls) else -1
    if call >= 0:
        found["region"] = _region(timeline, analysis, call)
    if len(links.steps):
        step = int(links.steps.at(c.start_ns[rows])[0])
        if step >= 0:
            found["step"] = _step(analysis, step)
    leaving = analysis.flows.leaving(row)
    device = analysis.flows.target[leaving[analysis.flows.kind[leaving] == 0]]
    if len(device):
        found["launched"] = _launched(timeline, device)
    elif c.dur_ns[row] > 0:
        inside = _launched_inside(timeline, analysis, row)
        if len(inside):
            found["launched_inside"] = _launched(timeline, inside)
    found.update(_work(analysis, row))
    return found


def _launched(timeline: Timeline, rows: Int64) -> dict[str, Any]:
    c = timeline.trace.columns
    return {
        "count": len(rows),
        "total_ns": int(c.dur_ns[rows].sum()),
        "first": [brief(timeline, int(row)) for row in rows[:_LAUNCHED]],
    }


def _launched_inside(timeline: Timeline, analysis: Analysis, row: int) -> Int64:
    """Device events launched on the slice's thread while it ran."""
    c, launches = timeline.trace.columns, analysis.links.launches
    start = launches.launch_start_ns
    inside = launches.launch_track == int(c.track[row])
    inside &= (start >= int(c.start_ns[row])) & (start < int(c.end_ns[row]))
    return np.asarray(launches.device_rows[inside], np.int64)


def _region(timeline: Timeline, analysis: Analysis, call: int) -> dict[str, Any]:
    calls = analysis.links.regions.calls
    id_ = calls.labels[int(calls.label[call])]
    about = next((region for region in analysis.report.regions if region.id == id_), None)
    return {
        "id": id_,
        "function": about.function if about else None,
        "where": words.place(about.file, about.line) if about else None,
        **brief(timeline, int(calls.rows[call])),
    }


def _step(analysis: Analysis, number: int) -> dict[str, Any]:
    steps = analysis.links.steps
    start, end = int(steps.start_ns[number]), int(steps.end_ns[number])
    return {"index": number, "name": steps.names[number], "start_ns": start, "dur_ns": end - start}


def _work(analysis: Analysis, row: int) -> dict[str, Any]:
    work = analysis.work
    at = int(np.searchsorted(work.rows, row))
    if at >= len(work.rows) or int(work.rows[at]) != row:
        return {}
    origin = ORIGINS[int(work.origin[at])]
    return {
        "origin": origin,
        "origin_label": words.ORIGINS[origin],
        "kind": KINDS[int(work.kind[at])],
        "is_kernel": bool(work.is_kernel[at]),
    }


def kernel(analysis: Analysis, row: int) -> dict[str, Any]:
    """Where the kernel run in ``row`` comes from, its code, and the commands that look into it."""
    work = analysis.work
    at = int(np.searchsorted(work.rows, row))
    if at >= len(work.rows) or int(work.rows[at]) != row:
        raise UsageError("row: this is no kernel")
    trace = work.links.trace
    name = trace.name_of(row)
    places = KernelPlaces(analysis.join, work)
    found = one_kernel.details(work, name, places)
    told = [place.source for place in places.of(np.array([at], np.int64)) if place.source is not None]
    manifest = analysis.capture.manifest if analysis.capture is not None else {}
    return {
        "place": _place(told[0]) if told else None,
        "commands": tool_commands(work, found, trace.info.device_kind, manifest),
    }


def _place(source: KernelSource) -> dict[str, Any]:
    """Source lines, each once, and generated code."""
    lines = dict.fromkeys((frame.file, frame.line, frame.function, frame.code) for frame in source.sources)
    return {
        "source": [
            {"file": file, "line": line, "function": function, "code": code}
            for file, line, function, code in lines
        ],
        "source_state": source.source_state,
        "consumer": source.consumer,
        "file_path": source.file_path,
        "code_line": source.code_line,
        "code": source.code,
    }
