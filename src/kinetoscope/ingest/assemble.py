"""From the columns of many chunks to one `Trace`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kinetoscope.ingest.events import FLOW_DTYPES, INSTANT_DTYPES, SLICE_DTYPES, EventColumns, Table
from kinetoscope.ingest.forms import exact_ns
from kinetoscope.ingest.nesting import nest_lanes
from kinetoscope.ingest.times import check_times, clip_impossible
from kinetoscope.trace import (
    NONE,
    ArgsSource,
    Category,
    Counters,
    Flag,
    Flows,
    Info,
    Instants,
    Int64,
    Slices,
    Strings,
    Trace,
    TraceWarning,
    Track,
    category_of,
)

_LEGACY_CPU, _LEGACY_DEVICE = "CPU functions", "CUDA functions"


class Gathered:
    """Columns of the chunks so far, numbered in one space."""

    def __init__(self) -> None:
        self.events = 0
        self.notes: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._cats: dict[str, int] = {}
        self._tracks: dict[tuple[int | str, int | str], int] = {}
        self._slices: list[Table] = []
        self._flows: list[Table] = []
        self._instants: list[Table] = []
        self._extra: list[tuple[int, Mapping[str, Any]]] = []

    def add(self, columns: EventColumns) -> None:
        """Append a chunk; chunks come in file order."""
        names = _renumber(self._names, columns.names, np.uint32)
        cats = _renumber(self._cats, columns.cats, np.uint16)
        tracks = _renumber(self._tracks, columns.tracks, np.uint32)
        for table, kept in (
            (columns.slices, self._slices),
            (columns.flows, self._flows),
            (columns.instants, self._instants),
        ):
            if len(table["event"]) == 0:
                continue
            moved = dict(table)
            moved["event"] = table["event"] + np.uint32(self.events)
            moved["cat"] = cats[table["cat"]]
            moved["track"] = tracks[table["track"]]
            if "name" in table:
                moved["name"] = names[table["name"]]
            kept.append(moved)
        self._extra.extend((number + self.events, event) for number, event in columns.extra)
        self.events += columns.events
        for code, count in columns.notes.items():
            self.notes[code] = self.notes.get(code, 0) + count

    def tables(self) -> RawTables:
        """Everything gathered; chunk columns are let go of as they are joined."""
        return RawTables(
            events=self.events,
            slices=_joined(self._slices, SLICE_DTYPES),
            flows=_joined(self._flows, FLOW_DTYPES),
            instants=_joined(self._instants, INSTANT_DTYPES),
            names=list(self._names),
            cats=list(self._cats),
            tracks=list(self._tracks),
            extra=self._extra,
        )


@dataclass(frozen=True, eq=False)
class RawTables:
    """A whole file's events in file order, times absolute; see `kinetoscope.ingest.events`."""

    events: int
    slices: Table
    flows: Table
    instants: Table
    names: list[str]
    cats: list[str]
    tracks: list[tuple[int | str, int | str]]
    extra: Sequence[tuple[int, Mapping[str, Any]]]


_Key = TypeVar("_Key")


def _renumber(numbers: dict[_Key, int], values: Sequence[_Key], dtype: type) -> npt.NDArray[Any]:
    return np.fromiter((numbers.setdefault(value, len(numbers)) for value in values), dtype, len(values))


def _joined(tables: list[Table], dtypes: Mapping[str, type]) -> Table:
    joined: Table = {}
    for name, dtype in dtypes.items():
        parts = [table.pop(name) for table in tables]
        joined[name] = np.concatenate(parts) if parts else np.empty(0, dtype)
    tables.clear()
    return joined


@dataclass(frozen=True, eq=False)
class Body:
    """Everything of a `Trace` that comes from its events: what the store keeps."""

    origin_ns: int
    events: int
    slices: Slices
    flows: Flows
    instants: Instants
    counters: Counters
    tracks: tuple[Track, ...]
    names: Strings
    cats: Strings
    warnings: tuple[TraceWarning, ...]


def build(raw: RawTables) -> Body:
    """Order the slices, nest them, and check the times of device events."""
    legacy = {_LEGACY_CPU, _LEGACY_DEVICE} & {str(pid) for pid, _ in raw.tracks}
    category = _categories(raw, legacy=bool(legacy))
    slices = raw.slices
    warnings: list[TraceWarning] = []
    check_times(slices, category, warnings)
    origin = _origin(raw, category, (slices["flags"] & Flag.INVALID_TIME) != 0)
    for table in (slices, raw.flows, raw.instants):
        table["time_ns"] = table["time_ns"] - origin
    order = _order(slices["track"], slices["time_ns"], slices["dur_ns"])
    columns = {name: slices.pop(name)[order] for name in list(slices)}
    category = category[order]
    clipped = clip_impossible(columns, category)
    if clipped:
        warnings.append(
            TraceWarning(
                "impossible-duration",
                "device events that run more than 1 ms past the next start on their stream were cut there",
                clipped,
            )
        )
    depth, parent = nest_lanes(columns["track"], category, columns["time_ns"], columns["dur_ns"])
    tracks, names, counters = _metadata(raw, columns["track"], origin)
    return Body(
        origin_ns=origin,
        events=raw.events,
        slices=Slices(
            start_ns=columns["time_ns"],
            dur_ns=columns["dur_ns"],
            name=columns["name"],
            cat=columns["cat"],
            category=category,
            track=columns["track"],
            correlation=columns["correlation"],
            external_id=columns["external_id"],
            sequence=columns["sequence"],
            device=columns["device"],
            stream=columns["stream"],
            event=columns["event"],
            flags=columns["flags"],
            depth=depth,
            parent=parent,
        ),
        flows=Flows(**raw.flows),
        instants=Instants(**raw.instants),
        counters=counters,
        tracks=tracks,
        names=names,
        cats=Strings(raw.cats),
        warnings=tuple(warnings),
    )


def freeze(body: Body, info: Info, args_source: ArgsSource) -> Trace:
    """The `Trace` of a body; every column becomes read-only."""
    for table in (body.slices, body.flows, body.instants, body.counters):
        for column in vars(table).values():
            if isinstance(column, np.ndarray):
                column.flags.writeable = False
    return Trace(
        info=info,
        origin_ns=body.origin_ns,
        columns=body.slices,
        flow_columns=body.flows,
        instants=body.instants,
        counters=body.counters,
        track_list=body.tracks,
        names=body.names,
        cats=body.cats,
        args_source=args_source,
    )


def _categories(raw: RawTables, *, legacy: bool) -> npt.NDArray[np.uint8]:
    by_cat = np.fromiter((category_of(cat) for cat in raw.cats), np.uint8, len(raw.cats))
    category = by_cat[raw.slices["cat"]] if len(raw.cats) else np.zeros(0, np.uint8)
    if not legacy:
        return category
    # torch.autograd.profiler's own export has no categories; its pseudo-processes tell
    by_track = np.fromiter(
        (
            Category.CPU_OP if pid == _LEGACY_CPU else Category.KERNEL if pid == _LEGACY_DEVICE else 0
            for pid, _ in raw.tracks
        ),
        np.uint8,
        len(raw.tracks),
    )
    return np.where(category == Category.OTHER, by_track[raw.slices["track"]], category)


def _origin(raw: RawTables, category: npt.NDArray[np.uint8], invalid: npt.NDArray[np.bool_]) -> int:
    for keep in (~invalid & (category != Category.TRACE), ~invalid):
        if keep.any():
            return int(raw.slices["time_ns"][keep].min())
    times = [
        table["time_ns"].min() for table in (raw.slices, raw.flows, raw.instants) if len(table["time_ns"])
    ]
    return int(min(times)) if times else 0


def _order(track: npt.NDArray[Any], start_ns: Int64, dur_ns: Int64) -> npt.NDArray[np.int64]:
    """By track, start, longest first, file order."""
    if len(start_ns) == 0:
        return np.empty(0, np.int64)
    low = int(start_ns.min())
    bits = int(int(start_ns.max()) - low).bit_length()
    if bits + int(track.max()).bit_length() < 63:
        key = (track.astype(np.int64) << bits) | (start_ns - low)
        order = np.argsort(key, kind="stable")
        key = key[order]
        same = key[1:] == key[:-1]
    else:
        order = np.lexsort((start_ns, track))
        same = (start_ns[order][1:] == start_ns[order][:-1]) & (track[order][1:] == track[order][:-1])
    # few slices share track and start: only those runs are put longest first
    tied = np.zeros(len(order), np.bool_)
    tied[1:] |= same
    tied[:-1] |= same
    at = np.flatnonzero(tied)
    if len(at):
        rows = order[at]
        order[at] = rows[np.lexsort((rows, -dur_ns[rows], start_ns[rows], track[rows]))]
    return order


def _metadata(
    raw: RawTables, track_column: npt.NDArray[Any], origin: int
) -> tuple[tuple[Track, ...], Strings, Counters]:
    process: dict[int | str, dict[str, Any]] = {}
    thread: dict[tuple[int | str, int | str], str] = {}
    samples: list[tuple[Mapping[str, Any], int]] = []
    for _, event in raw.extra:
        args = event.get("args")
        pid, tid = event.get("pid", ""), event.get("tid", "")
        if not isinstance(args, dict) or not _hashable(pid) or not _hashable(tid):
            continue
        if event.get("ph") == "C":
            samples.append((event, exact_ns(event.get("ts"))))
        elif event.get("name") == "thread_name":
            thread[pid, tid] = str(args.get("name", ""))
        elif event.get("name") in ("process_name", "process_labels", "process_sort_index"):
            process.setdefault(pid, {})[str(event["name"])] = next(iter(args.values()), None)
    bounds = np.searchsorted(track_column, np.arange(len(raw.tracks) + 1))
    tracks = []
    for number, (pid, tid) in enumerate(raw.tracks):
        about = process.get(pid, {})
        sort_index = about.get("process_sort_index")
        tracks.append(
            Track(
                pid=pid,
                tid=tid,
                process_name=_text(about.get("process_name")),
                thread_name=thread.get((pid, tid)),
                labels=_text(about.get("process_labels")),
                sort_index=sort_index if isinstance(sort_index, int) else None,
                first=int(bounds[number]),
                last=int(bounds[number + 1]),
            )
        )
    names = {name: number for number, name in enumerate(raw.names)}
    track_numbers = {key: number for number, key in enumerate(raw.tracks)}
    counters = _counters(samples, names, track_numbers, tracks, origin)
    return tuple(tracks), Strings(list(names)), counters


_LARGEST = sys.float_info.max


def _counters(
    samples: Iterable[tuple[Mapping[str, Any], int]],
    names: dict[str, int],
    track_numbers: dict[tuple[int | str, int | str], int],
    tracks: list[Track],
    origin: int,
) -> Counters:
    rows: list[tuple[int, int, int, int, float]] = []
    for event, time_ns in samples:
        if time_ns == NONE:
            continue
        key = (event.get("pid", ""), event.get("tid", ""))
        if key not in track_numbers:
            track_numbers[key] = len(tracks)
            end = tracks[-1].last if tracks else 0
            tracks.append(Track(*key, None, None, None, None, end, end))
        name = names.setdefault(str(event.get("name", "")), len(names))
        for series, value in event["args"].items():
            # what no double can hold is no measurement
            if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _LARGEST:
                number = names.setdefault(str(series), len(names))
                rows.append((time_ns - origin, name, number, track_numbers[key], float(value)))
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [(), (), (), (), ()]
    return Counters(
        time_ns=np.array(columns[0], np.int64),
        name=np.array(columns[1], np.uint32),
        series=np.array(columns[2], np.uint32),
        track=np.array(columns[3], np.uint32),
        value=np.array(columns[4], np.float64),
    )


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else re.sub(r"\s+", " ", str(value))


def _hashable(value: Any) -> bool:
    return isinstance(value, (int, str))
