"""Tracks of what was found: steps, idle time by cause, breaks, compile phases, regions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kinetoscope.analyses.idle import find_gaps
from kinetoscope.analyses.idle_causes import pieces_of_gaps
from kinetoscope.analyses.idle_causes_names import CAUSES
from kinetoscope.export.breaks import passings
from kinetoscope.export.part import CATEGORY, Part
from kinetoscope.link import Links
from kinetoscope.link.regions import Calls
from kinetoscope.schema import Report

#: the first number that is tried for the process of the tracks
_PID = 1_802_071_653
_STEPS, _BREAKS, _CUT, _IDLE, _THREADS = 1, 2, 3, 10, 1000

#: one entry of ``traceEvents``; ``ts`` and ``dur`` in ns
Event = dict[str, Any]


def tracks(links: Links, report: Report, part: Part) -> Iterator[Event]:
    """The events of every track, those that name the tracks first; times from the trace's origin."""
    pid = _free_pid(links)
    yield _named(pid, 0, "process_name", "kinetoscope")
    is_cut = not links.trace.info.complete
    found = "what was found in this trace" + (", the end of which is missing" if is_cut else "")
    yield _meta(pid, 0, "process_labels", {"labels": found})
    yield _meta(pid, 0, "process_sort_index", {"sort_index": -1})
    for event in _events(links, report, part):
        yield {"pid": pid, **event}


def _events(links: Links, report: Report, part: Part) -> Iterator[Event]:
    if not links.trace.info.complete:
        yield from _end(part)
    yield from _steps(links, part)
    yield from _breaks(links, report, part)
    yield from _idle(links, part)
    regions = {region.id: region for region in report.regions}

    def about_region(label: str) -> tuple[str, Event]:
        region = regions.get(label)
        if region is None:
            return label or "a region", {"region": label}
        where = {"file": region.file, "line": region.line, "resumes": region.resumes}
        known = {key: value for key, value in where.items() if value is not None}
        return f"{label} {region.function or ''}".strip() or "a region", {"region": label, **known}

    yield from _calls(links.regions.calls, part, _THREADS, "Compiled regions", about_region)
    yield from _calls(
        links.compiles.phases, part, 2 * _THREADS, "Compile phases", lambda label: (label, {"phase": label})
    )


def _end(part: Part) -> Iterator[Event]:
    """A mark where a file that was cut ends, or the part of it."""
    yield _thread(_CUT, "The input is partial")
    name = "the end of the file is missing: what came later was not recorded here"
    yield {"ph": "i", "s": "p", "cat": CATEGORY, "name": name, "tid": _CUT, "ts": part.end_ns}


def _steps(links: Links, part: Part) -> Iterator[Event]:
    found = links.steps
    shown = np.flatnonzero((found.end_ns > part.begin_ns) & (found.start_ns < part.end_ns))
    if len(shown):
        yield _thread(_STEPS, "Steps")
    for number in shown.tolist():
        start, end = int(found.start_ns[number]), int(found.end_ns[number])
        yield _span(_STEPS, f"step {number}", start, end, {"index": number, "name": found.names[number]})


def _breaks(links: Links, report: Report, part: Part) -> Iterator[Event]:
    named = False
    for each in passings(links, report):
        if not part.rows[each.row]:
            continue
        if not named:
            named = True
            yield _thread(_BREAKS, "Graph breaks")
        site = each.site
        args: Event = {"from": each.outer, "to": each.inner}
        if site is not None:
            known = {"file": site.file, "line": site.line, "function": site.function, "reason": site.reason}
            args |= {key: value for key, value in known.items() if value is not None}
        name = f"{each.label} at {each.where}" if each.where else each.label
        yield {
            "ph": "i",
            "s": "t",
            "cat": CATEGORY,
            "name": name,
            "tid": _BREAKS,
            "ts": each.time_ns,
            "args": args,
        }


def _idle(links: Links, part: Part) -> Iterator[Event]:
    if not len(links.launches.device_rows) or not links.launches.are_device_events_recorded:
        return
    trace, gaps = links.trace, find_gaps(links)
    pieces = pieces_of_gaps(links, gaps.device, gaps.start_ns, gaps.end_ns, gaps.next_row)
    kept = part.rows[gaps.next_row[pieces.gap]]
    for number, device in enumerate(gaps.devices):
        mine = np.flatnonzero(kept & (gaps.device[pieces.gap] == number))
        if len(mine):
            yield _thread(_IDLE + number, f"Idle, device {device}")
        columns = (pieces.start_ns[mine], pieces.end_ns[mine], pieces.cause[mine], pieces.row[mine])
        for start, end, cause, row in zip(*(column.tolist() for column in columns), strict=True):
            args: Event = {"cause": CAUSES[cause], "device": device}
            if row >= 0:
                args["because_of"] = trace.name_of(row)
            yield _span(_IDLE + number, f"idle: {CAUSES[cause]}", start, end, args)


def _calls(calls: Calls, part: Part, first_tid: int, title: str, about: Any) -> Iterator[Event]:
    """One track for each thread; calls nest there as they do on the thread."""
    kept = np.flatnonzero(part.rows[calls.rows]) if len(calls) else np.empty(0, np.int64)
    for track in np.unique(calls.track[kept]).tolist() if len(kept) else []:
        thread = part.trace.track_list[track]
        name = " ".join((thread.thread_name or f"thread {thread.tid}").split())
        yield _thread(first_tid + track, f"{title}, {name}")
        for number in kept[calls.track[kept] == track].tolist():
            said, args = about(calls.labels[int(calls.label[number])])
            args = {**args, "self_us": int(calls.self_ns[number]) / 1000}
            start, end = int(calls.start_ns[number]), int(calls.end_ns[number])
            yield _span(first_tid + track, said, start, end, args)


def _span(tid: int, name: str, start: int, end: int, args: Event) -> Event:
    return {
        "ph": "X",
        "cat": CATEGORY,
        "name": name,
        "tid": tid,
        "ts": start,
        "dur": end - start,
        "args": args,
    }


def _thread(tid: int, name: str) -> Event:
    return {"ph": "M", "name": "thread_name", "tid": tid, "args": {"name": name}}


def _named(pid: int, tid: int, what: str, name: str) -> Event:
    return _meta(pid, tid, what, {"name": name})


def _meta(pid: int, tid: int, what: str, args: Event) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def _free_pid(links: Links) -> int:
    taken = {str(track.pid) for track in links.trace.track_list}
    pid = _PID
    while str(pid) in taken:
        pid += 1
    return pid
