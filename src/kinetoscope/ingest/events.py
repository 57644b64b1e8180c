"""From the text of some events to columns: the part that runs on every core.

`decode` takes the inside of a ``traceEvents`` array (whole events, commas between them) and
returns `EventColumns`, whose strings and tracks are numbered within themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kinetoscope.ingest.forms import (
    NO_ARGS,
    RAW,
    Args,
    Decoded,
    MalformedError,
    any_value,
    tolerant,
    typed,
    wrapped,
)
from kinetoscope.trace import NONE, Flag

SLICE_DTYPES: Mapping[str, type] = {
    "time_ns": np.int64,
    "dur_ns": np.int64,
    "name": np.uint32,
    "cat": np.uint16,
    "track": np.uint32,
    "correlation": np.int64,
    "external_id": np.int64,
    "sequence": np.int64,
    "device": np.int64,
    "stream": np.int64,
    "event": np.uint32,
    "flags": np.uint8,
}
FLOW_DTYPES: Mapping[str, type] = {
    "id": np.int64,
    "time_ns": np.int64,
    "phase": np.uint8,
    "cat": np.uint16,
    "track": np.uint32,
    "event": np.uint32,
}
INSTANT_DTYPES: Mapping[str, type] = {
    "time_ns": np.int64,
    "name": np.uint32,
    "cat": np.uint16,
    "track": np.uint32,
    "event": np.uint32,
    "bytes": np.int64,
    "total_allocated": np.int64,
    "total_reserved": np.int64,
    "device_type": np.int64,
    "device_id": np.int64,
}
_FLOW_PHASES = frozenset("stf")
_INSTANT_PHASES = frozenset("iI")

Table = dict[str, npt.NDArray[Any]]


class _Numbering(dict[Any, int]):
    """Numbers things in the order they are first asked for."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number


@dataclass(frozen=True)
class EventColumns:
    """Columns of the events of one chunk, numbered within it.

    ``extra`` holds the counter and metadata events themselves, which are few, by position.
    ``notes`` counts what was odd: code of the oddity -> how many.
    """

    events: int
    slices: Table
    flows: Table
    instants: Table
    names: Sequence[str]
    cats: Sequence[str]
    tracks: Sequence[tuple[int | str, int | str]]
    extra: Sequence[tuple[int, Mapping[str, Any]]]
    notes: Mapping[str, int]


def decode(text: bytes) -> EventColumns:
    """Columns of the events in ``text``, the inside of a JSON array.

    Raises:
        MalformedError: the text is not a sequence of whole JSON values.
    """
    document = b"".join((b"[", text, b"]"))
    try:
        return _columns(typed(document), document, {})
    except (msgspec.ValidationError, OverflowError):  # unexpected types, or an id beyond int64
        decoded, odd = tolerant(document)
        return _columns(decoded, document, odd)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(str(error)) from None


def _columns(decoded: Decoded, document: bytes, notes: Mapping[str, int]) -> EventColumns:
    events = decoded.events
    at: dict[str, list[int]] = {"slice": [], "flow": [], "instant": [], "extra": []}
    odd: dict[str, int] = dict(notes)
    at["slice"], others = _by_phase([event.ph for event in events])
    for number, phase in others:
        if phase in _FLOW_PHASES:
            at["flow"].append(number)
        elif phase in _INSTANT_PHASES:
            at["instant"].append(number)
        elif phase in ("M", "C"):
            at["extra"].append(number)
        else:
            code = "phase-missing" if not phase else f"phase-{phase[:8]}"
            odd[code] = odd.get(code, 0) + 1
    names, cats, tracks = _Numbering(), _Numbering(), _Numbering()

    def common(chosen: list[Any], rows: npt.NDArray[np.int64]) -> Table:
        count = len(chosen)
        return {
            "time_ns": decoded.time_ns[rows],
            "cat": _number(cats, map(attrgetter("cat"), chosen), np.uint16, count),
            "track": _number(tracks, map(attrgetter("pid", "tid"), chosen), np.uint32, count),
            "event": rows.astype(np.uint32),
        }

    def args(of: list[Any]) -> list[Args]:
        return [event.args or NO_ARGS for event in of]

    chosen, rows = _pick(events, at["slice"])
    slices = common(chosen, rows)
    slices["name"] = _number(names, map(attrgetter("name"), chosen), np.uint32, len(chosen))
    slices["dur_ns"] = decoded.dur_ns[rows]
    found = args(chosen)
    for field in ("correlation", "external_id", "sequence", "device", "stream"):
        slices[field] = np.fromiter(map(attrgetter(field), found), np.int64, len(found))
    slices["flags"] = _collective_flags(list(map(attrgetter("collective"), found)))
    slices = _drop_untimed(slices, odd)

    chosen, rows = _pick(events, at["flow"])
    flows = common(chosen, rows)
    flows["id"] = _flow_ids([event.id for event in chosen])
    flows["phase"] = np.fromiter((ord(event.ph) for event in chosen), np.uint8, len(chosen))
    flows = _drop_untimed(flows, odd)

    chosen, rows = _pick(events, at["instant"])
    instants = common(chosen, rows)
    instants["name"] = _number(names, map(attrgetter("name"), chosen), np.uint32, len(chosen))
    found = args(chosen)
    for field in ("bytes", "total_allocated", "total_reserved", "device_type", "device_id"):
        values: Iterable[int] = map(attrgetter(field), found)
        if field.startswith("total_"):  # an unset total is written as 2**64 - 1
            values = (v if 0 <= v < 2**63 else NONE for v in values)
        instants[field] = np.fromiter(values, np.int64, len(found))
    instants = _drop_untimed(instants, odd)

    extra: list[tuple[int, Mapping[str, Any]]] = []
    if at["extra"]:
        raws = RAW.decode(document)
        extra = [(number, any_value(raws[number])) for number in at["extra"]]
    return EventColumns(
        events=len(events),
        slices=slices,
        flows=flows,
        instants=instants,
        names=list(names),
        cats=list(cats),
        tracks=list(tracks),
        extra=extra,
        notes=odd,
    )


def _by_phase(phases: list[str]) -> tuple[list[int], Iterable[tuple[int, str]]]:
    """Numbers of the complete events, and number and phase of all others."""
    text = "".join(phases)
    if len(text) == len(phases) and "" not in phases:  # a letter each, as nearly always
        is_slice = np.frombuffer(text.encode("latin-1", "replace"), np.uint8) == ord("X")
        others = np.flatnonzero(~is_slice).tolist()
        return np.flatnonzero(is_slice).tolist(), ((number, phases[number]) for number in others)
    slices = [number for number, phase in enumerate(phases) if phase == "X"]
    return slices, ((number, phase) for number, phase in enumerate(phases) if phase != "X")


def _collective_flags(collectives: list[str | None]) -> npt.NDArray[np.uint8]:
    if collectives.count(None) == len(collectives):
        return np.zeros(len(collectives), np.uint8)
    flags = (0 if collective is None else Flag.COLLECTIVE for collective in collectives)
    return np.fromiter(flags, np.uint8, len(collectives))


def _pick(events: list[Any], numbers: list[int]) -> tuple[list[Any], npt.NDArray[np.int64]]:
    return [events[number] for number in numbers], np.array(numbers, np.int64)


def _number(numbering: _Numbering, keys: Iterable[Any], dtype: type, count: int) -> npt.NDArray[Any]:
    return np.fromiter(map(numbering.__getitem__, keys), dtype, count)


def _flow_ids(ids: list[int | str]) -> npt.NDArray[np.int64]:
    try:
        return np.array(ids, np.int64).reshape(len(ids))
    except (ValueError, TypeError, OverflowError):
        return np.fromiter((_flow_id(i) for i in ids), np.int64, len(ids))


def _flow_id(value: int | str) -> int:
    if isinstance(value, int):
        return wrapped(value)
    try:
        return wrapped(int(value, 0))
    except ValueError:  # any text will do as an id: a digest of it, so that chunks agree
        import hashlib

        return -1 - int.from_bytes(
            hashlib.blake2b(value.encode(errors="replace"), digest_size=7).digest(), "big"
        )


def _drop_untimed(table: Table, odd: dict[str, int]) -> Table:
    timed = table["time_ns"] != NONE
    if timed.all():
        return table
    odd["no-timestamp"] = odd.get("no-timestamp", 0) + int(len(timed) - timed.sum())
    return {name: column[timed] for name, column in table.items()}
