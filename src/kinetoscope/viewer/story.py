"""The overview's first lines: one sentence that says what is going on, and where a step's time goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kinetoscope.link.devices import DeviceEvents
from kinetoscope.link.intervals import merged, union_ns
from kinetoscope.render import headline, units, words
from kinetoscope.schema import Report
from kinetoscope.trace import Category, Int64
from kinetoscope.viewer import causes, tracks
from kinetoscope.viewer.area import statistics
from kinetoscope.viewer.meaning import MEANINGS, NUMBER
from kinetoscope.viewer.timeline import Timeline
from kinetoscope.viewer.typical import typical

if TYPE_CHECKING:
    from kinetoscope.viewer.analysis import Analysis

_HOST_BOUND, _DEVICE_BOUND = 0.5, 0.9
_COMPILING = 0.3
_FAR_LONGER = 3
_CHIEFLY = 0.4
#: causes of idle time that get a part of their own
_CAUSES = 8
_THREADS = 2


def overview(timeline: Timeline, analysis: Analysis) -> dict[str, Any]:
    """The sentence, and which stretches of time the bars are of."""
    found = typical(timeline, analysis)
    return {
        "sentence": sentence(
            analysis.report, _busy_ns(analysis, found.windows) if found.is_of_steps else None
        ),
        "of": found.of,
        "of_steps": found.is_of_steps,
        "windows": [{"begin_ns": begin, "end_ns": end} for begin, end in found.windows],
    }


def bars(timeline: Timeline, analysis: Analysis) -> dict[str, Any]:
    """Where the time goes: a bar for the busiest device, and one for each of the busiest threads."""
    windows = typical(timeline, analysis).windows
    threads = _threads(timeline, windows)
    has_device = bool(analysis.links.devices) and analysis.report.kernels is not None
    each = []
    for begin, end in windows:
        device = [_device_bar(analysis, begin, end)] if has_device else []
        each.append([*device, *(_cpu_bar(timeline, analysis, track, begin, end) for track in threads)])
    return {"bars": [_mean(same) for same in zip(*each, strict=True)]}


def sentence(report: Report, busy_ns: int | None) -> str:
    """What is going on, in numbers; ``busy_ns`` is the device time of the step that is spoken of."""
    said = _usual(report, busy_ns)
    return said + _unusual(report) if "A step takes" in said else said


def _unusual(report: Report) -> str:
    """Steps that took far longer: a median does not tell of them."""
    median = report.steps.median_ns
    if not median:
        return ""
    long = [step for step in headline.counted_steps(report) if step.dur_ns > _FAR_LONGER * median]
    if not long:
        return ""
    longest = max(long, key=lambda step: step.dur_ns)
    took = f"{longest.name} took {units.duration(longest.dur_ns)}"
    return f" But {took}." if len(long) == 1 else f" But {len(long)} steps took far longer: {took}."


def _usual(report: Report, busy_ns: int | None) -> str:
    device = words.device(report)
    compiling = report.compile_time.in_window_ns or 0
    span = report.trace.span_ns
    if span and compiling / span >= _COMPILING:
        said = units.duration(compiling)
        return (
            f"Compilation takes {said} of the {units.duration(span)} recorded: this is not yet steady work."
        )
    first = "Nothing compiled ran here. " if report.compiled.verdict == "no" else ""
    if headline.not_recorded(report):
        return (
            f"{first}Work was launched, but the {device}'s side was not recorded: "
            "where its time goes is unknown."
        )
    if not report.device_time:
        if report.steps.median_ns is None:
            said = units.duration(span)
            return f"{first}{said} of CPU work was recorded, without any device and without steps."
        return f"{first}A step takes {units.duration(report.steps.median_ns)}, all of it on the CPU."
    median = report.steps.median_ns
    # several devices can be busy at once: then a share of one step says nothing
    share = busy_ns / median if median and busy_ns is not None and len(report.device_time) < 2 else None
    if median is None or share is None or headline.busy_share(report) is None:
        busy = sum(entry.busy_ns for entry in report.device_time)
        many = f" (over {len(report.device_time)} devices)" if len(report.device_time) > 1 else ""
        takes = (
            f"{units.duration(span)} was recorded"
            if median is None
            else f"A step takes {units.duration(median)}"
        )
        return f"{first}{takes} and the {device} works for {units.duration(busy)}{many} in all."
    takes = f"A step takes {units.duration(median)}"
    works = f"the {device} works for {units.duration(busy_ns)} of it"
    if share < _HOST_BOUND:
        return f"{first}{takes} and {works}: most of the time it waits for the CPU{_chiefly(report)}."
    if share >= _DEVICE_BOUND:
        return f"{first}{takes} and {works}: the {device} sets the pace."
    return f"{first}{takes} and {works} ({units.share(share)})."


def _chiefly(report: Report) -> str:
    """The one cause that stands out among those of idle time."""
    if report.idle is None or not report.idle.by_cause:
        return ""
    most = report.idle.by_cause[0]
    if most.share < _CHIEFLY or most.cause == "unknown":
        return ""
    return f", chiefly for this: {most.cause} ({units.share(most.share)} of its idle time)"


def _busiest(analysis: Analysis) -> int:
    devices = analysis.links.devices
    return max(range(len(devices)), key=lambda number: len(devices[number].rows))


def _busy_ns(analysis: Analysis, windows: Sequence[tuple[int, int]]) -> int | None:
    """How long the device of the bar works in its windows: the sentence speaks of what the bar shows."""
    if not analysis.links.devices:
        return None
    events = analysis.links.devices[_busiest(analysis)]
    every = np.ones(len(events.rows), np.bool_)
    return round(sum(_clipped_union(events, every, *window) for window in windows) / len(windows))


def _device_bar(analysis: Analysis, begin: int, end: int) -> dict[str, Any]:
    """Where the time of the busiest device goes, as exclusive parts that sum to the whole."""
    devices = analysis.links.devices
    which = _busiest(analysis)
    events = devices[which]
    compute = _clipped_union(events, ~(events.is_memcpy | events.is_communication), begin, end)
    with_communication = _clipped_union(events, ~events.is_memcpy, begin, end)
    busy = _clipped_union(events, np.ones(len(events.rows), np.bool_), begin, end)
    parts = [
        _part("compute", NUMBER["triton"], "Compute", compute),
        _part("communication", NUMBER["communication"], "Communication alone", with_communication - compute),
        _part("copy", NUMBER["copy"], "Copies alone", busy - with_communication),
    ]
    idle = (end - begin) - busy
    parts += _idle_parts(analysis, which, begin, end, idle)
    total = end - begin
    title = words.device(analysis.report)
    if len(devices) > 1:
        title = f"{title} {events.device} (of {len(devices)})"
    return _bar(title, "device", parts, total)


def _idle_parts(analysis: Analysis, device: int, begin: int, end: int, idle: int) -> list[dict[str, Any]]:
    gaps = analysis.idle
    if gaps is None or idle <= 0:
        return []
    first, last = gaps.lanes.bounds(device)
    start = np.maximum(gaps.lanes.start_ns[first:last], begin)
    finish = np.minimum(gaps.lanes.end_ns[first:last], end)
    length = np.maximum(finish - start, 0)
    sums = np.bincount(gaps.cause[first:last], weights=length, minlength=len(gaps.causes)).astype(np.int64)
    order = np.argsort(-sums, kind="stable")[:_CAUSES]
    parts = [
        {
            **_part("idle", NUMBER["idle"], _idle_label(gaps.causes[number]), int(sums[number])),
            "about": causes.sentence(gaps.causes[number]),
        }
        for number in order.tolist()
        if sums[number] > 0
    ]
    rest = idle - sum(part["ns"] for part in parts)
    if rest > 0:
        parts.append(_part("idle", NUMBER["idle"], "Idle: before its first or after its last work", rest))
    return parts


def _idle_label(cause: str) -> str:
    return "Idle" if cause == "unknown" else f"Idle: {cause.replace('_', ' ')}"


def _threads(timeline: Timeline, windows: Sequence[tuple[int, int]]) -> list[int]:
    """The CPU threads with most work in the windows, at most two, in the order of the timeline."""
    trace, c = timeline.trace, timeline.trace.columns
    covered: dict[int, int] = {}
    for row in tracks.rows(timeline):
        if row.kind != "cpu" or row.strip != "work":
            continue
        about = trace.track_list[row.track]
        rows = slice(about.first, about.last)
        top = (c.depth[rows] == 0) & c.is_cpu[rows] & (c.category[rows] != Category.PYTHON)
        start, finish = c.start_ns[rows][top], c.end_ns[rows][top]
        covered[row.track] = sum(
            union_ns(*merged(np.maximum(start, begin), np.minimum(finish, end))) for begin, end in windows
        )
    busiest = sorted(covered, key=lambda track: -covered[track])[:_THREADS]
    return [track for track in covered if track in busiest and (covered[track] or len(busiest) == 1)]


def _cpu_bar(timeline: Timeline, analysis: Analysis, track: int, begin: int, end: int) -> dict[str, Any]:
    """Where the time of a CPU thread goes: each moment belongs to the innermost slice."""
    trace = timeline.trace
    python = NUMBER["python"]
    spent = statistics(trace, analysis.meaning, {(track, "work")}, begin, end)["by_meaning"]
    parts = [
        _part(MEANINGS[each["meaning"]][0], each["meaning"], MEANINGS[each["meaning"]][1], each["self_ns"])
        for each in sorted(spent, key=lambda each: -each["self_ns"])
        if each["meaning"] not in (python, NUMBER["other"])
    ]
    total = end - begin
    rest = total - sum(part["ns"] for part in parts)
    if rest > 0:
        parts.append(_part("rest", NUMBER["other"], "Python between them, or nothing", rest))
    about = trace.track_list[track]
    name = " ".join((about.thread_name or f"thread {about.tid}").split())
    return _bar(f"CPU, {name}", "cpu", parts, max(total, sum(part["ns"] for part in parts)))


def _clipped_union(events: DeviceEvents, which: Any, begin: int, end: int) -> int:
    start: Int64 = np.maximum(events.start_ns[which], begin)
    finish: Int64 = np.minimum(events.end_ns[which], end)
    keep = finish > start
    return union_ns(start[keep], finish[keep])


def _part(key: str, meaning: int, label: str, ns: int) -> dict[str, Any]:
    return {"key": key, "meaning": meaning, "label": label, "ns": int(ns)}


def _bar(title: str, kind: str, parts: list[dict[str, Any]], total: int) -> dict[str, Any]:
    return {"title": title, "kind": kind, "total_ns": total, "parts": parts}


def _mean(same: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One bar of those of several windows: parts of the same label are one."""
    total = sum(bar["total_ns"] for bar in same)
    parts: dict[str, dict[str, Any]] = {}
    for part in (part for bar in same for part in bar["parts"]):
        at = parts.setdefault(part["label"], {**part, "ns": 0})
        at["ns"] += part["ns"]
    return {
        **same[0],
        "total_ns": round(total / len(same)),
        "parts": [
            {**part, "ns": round(part["ns"] / len(same)), "share": part["ns"] / total if total else 0.0}
            for part in parts.values()
            if part["ns"] > 0
        ],
    }
