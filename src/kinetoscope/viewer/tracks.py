"""The list of tracks as a person wants to see it.

The threads that launch the device's work come first, right under them what the device does, then the rest.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import msgspec

from kinetoscope.trace import Track
from kinetoscope.viewer.lanes import Strip
from kinetoscope.viewer.timeline import Timeline

_STRIP_NAMES = {"work": "", "python": "Python stack", "device": "", "other": "Annotations, waits"}
_PSEUDO = ("Spans", "Traces", "")
#: a thread with so much of all launches is one of those that feed the device
_FEEDS = 0.1


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One strip on the page: lanes ``first`` to ``last`` (excluded), under the name of its track."""

    id: str
    number: int  # of the strip
    track: int
    process: str
    name: str
    kind: str  # cpu, device, other, idle
    strip: str
    first: int
    last: int
    slices: int


def rows(timeline: Timeline) -> list[Row]:
    """Every strip that has slices, in the order of the page."""
    trace = timeline.trace
    devices = {device.index: device.name for device in trace.info.devices}
    kinds = _kinds(timeline)
    several = {strip.track for strip in timeline.strips if strip.kind == "device"}
    found = []
    for number, strip in enumerate(timeline.strips):
        track = trace.track_list[strip.track]
        kind = kinds[strip.track]
        suffix = _STRIP_NAMES[strip.kind]
        if strip.kind == "other" and strip.track not in several:
            suffix = "" if kind == "other" else suffix
        name = _thread(track, kind)
        found.append(
            Row(
                id=f"{track.pid}/{track.tid}/{strip.kind}",
                number=number,
                track=strip.track,
                process=_process(track, kind, devices),
                name=_strip_name(name, suffix, kind),
                kind=kind,
                strip=strip.kind,
                first=strip.first,
                last=strip.last,
                slices=strip.slices,
            )
        )
    launches = timeline.launches_of_track
    feeds = {number for number, count in enumerate(launches) if count and count >= _FEEDS * sum(launches)}
    feeds = feeds or {row.track for row in found if row.kind == "cpu"}
    return sorted(
        found, key=lambda row: _order(row, trace.track_list[row.track], timeline.strips, feeds, launches)
    )


def _strip_name(name: str, suffix: str, kind: str) -> str:
    """What tells a strip from the one above it stands first: long names are cut at their end."""
    if not suffix:
        return name
    # above it stands the same of another stream, or of the same thread
    return f"{name}: {suffix.lower()}" if kind == "device" else f"{suffix} · {name}"


def label_of(timeline: Timeline, track: int) -> str:
    """A track in one line."""
    about = timeline.trace.track_list[track]
    devices = {device.index: device.name for device in timeline.trace.info.devices}
    kind = _kinds(timeline)[track]
    return f"{_process(about, kind, devices)} · {_thread(about, kind)}"


def _kinds(timeline: Timeline) -> list[str]:
    has_device = {strip.track for strip in timeline.strips if strip.kind == "device"}
    has_work = {strip.track for strip in timeline.strips if strip.kind in ("work", "python")}
    kinds = []
    for number, track in enumerate(timeline.trace.track_list):
        # a thread can have the number of a device's process: what ran there tells which it is
        is_labelled = (track.labels or "").upper().startswith(("GPU", "XPU")) and number not in has_work
        if number in has_device or is_labelled:
            kinds.append("device")
        elif number in has_work and str(track.pid) not in _PSEUDO:
            kinds.append("cpu")
        else:
            kinds.append("other")
    return kinds


def _order(
    row: Row, track: Track, strips: Sequence[Strip], feeds: Set[int], launches: Sequence[int]
) -> tuple[Any, ...]:
    sort = track.sort_index if track.sort_index is not None else 1 << 40
    if row.kind != "cpu":
        group = (1 if row.strip == "device" else 3) if row.kind == "device" else 4
        return group, sort, str(track.pid), _natural(track.tid), row.strip
    # a process's main thread has its number, and is where reading begins
    main = 0 if track.pid == track.tid else 1
    strip = {"work": 0, "device": 0, "other": 1, "python": 2}[row.strip]
    if row.track in feeds:
        return 0, sort, str(track.pid), main, -launches[row.track], _natural(track.tid), strip
    busiest = -sum(strip.slices for strip in strips if strip.track == row.track)
    return 2, sort, str(track.pid), main, busiest, _natural(track.tid), strip


def _natural(tid: int | str) -> tuple[int, int, str]:
    return (0, tid, "") if isinstance(tid, int) else (1, 0, tid)


def _process(track: Track, kind: str, devices: dict[int, str | None]) -> str:
    if kind == "device":
        label = (track.labels or "").strip() or f"Device {track.pid}"
        name = devices.get(track.pid) if isinstance(track.pid, int) else None
        return f"{label} · {name}" if name else label
    if kind == "other":
        return "Profiler and other rows"
    name = (track.process_name or "").strip()
    return f"{name} {track.pid}" if name else f"Process {track.pid}"


def _thread(track: Track, kind: str) -> str:
    name = " ".join((track.thread_name or "").split())
    if name:
        return name
    if kind == "device":
        return f"stream {track.tid}"
    if kind == "cpu":
        return f"thread {track.tid}"
    return f"process {track.pid}, thread {track.tid}" if str(track.pid) else "(no name)"
