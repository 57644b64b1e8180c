"""From the text of some events to columns: the part that runs on every core.

`decode` takes the inside of a ``traceEvents`` array (whole events, commas between them) and
returns `EventColumns`, whose strings and tracks are numbered within themselves. Times are
exact integer nanoseconds whatever their form:

* a JSON number below 2**43 us is decoded as a double, which still resolves a nanosecond there;
* above (epoch times of 16 and 17 digits) integers are decoded as integers, and everything else,
  strings included, as decimals.

Each chunk is tried in the cheapest form first and only what fails pays for a slower one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

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
#: doubles of this size and more cannot tell nanoseconds apart
_DOUBLE_LIMIT_US = float(2**43)
_FLOW_PHASES = frozenset("stf")
_INSTANT_PHASES = frozenset("iI")

Table = dict[str, npt.NDArray[Any]]


class _Args(msgspec.Struct, gc=False):
    correlation: int = NONE
    device: int = NONE
    stream: int = NONE
    external_id: int = msgspec.field(default=NONE, name="External id")
    sequence: int = msgspec.field(default=NONE, name="Sequence number")
    collective: str | None = msgspec.field(default=None, name="Collective name")
    bytes: int = msgspec.field(default=NONE, name="Bytes")
    total_allocated: int = msgspec.field(default=NONE, name="Total Allocated")
    total_reserved: int = msgspec.field(default=NONE, name="Total Reserved")
    device_type: int = msgspec.field(default=NONE, name="Device Type")
    device_id: int = msgspec.field(default=NONE, name="Device Id")


class _Event(msgspec.Struct, gc=False):
    """The fields that become columns; ``ts`` and ``dur`` differ between the forms below."""

    ph: str = ""
    name: str = ""
    cat: str = ""
    pid: int | str = ""
    tid: int | str = ""
    id: int | str = 0
    args: _Args | None = None


class _DoubleEvent(_Event, gc=False):
    ts: float = np.nan
    dur: float = 0.0


class _IntegerEvent(_Event, gc=False, kw_only=True):
    ts: int
    dur: int = 0


class _DecimalEvent(_Event, gc=False):
    ts: Decimal | None = None
    dur: Decimal = Decimal(0)


_DOUBLE = msgspec.json.Decoder(list[_DoubleEvent])
_INTEGER = msgspec.json.Decoder(list[_IntegerEvent])
_DECIMAL = msgspec.json.Decoder(list[_DecimalEvent])
_ANYTHING = msgspec.json.Decoder(list[Any], float_hook=Decimal)
_RAW = msgspec.json.Decoder(list[msgspec.Raw])
_NO_ARGS = _Args()
_TS, _DUR = attrgetter("ts"), attrgetter("dur")
_INTEGER_ARGS = tuple(
    (field.name, field.encode_name) for field in msgspec.structs.fields(_Args) if field.name != "collective"
)


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


@dataclass(frozen=True, eq=False)
class _Decoded:
    """Events of a chunk in one of the forms above, with their times and durations."""

    events: list[Any]
    time_ns: npt.NDArray[np.int64]
    dur_ns: npt.NDArray[np.int64]


class MalformedError(Exception):
    """The text is not JSON; the message is the decoder's."""


def decode(text: bytes) -> EventColumns:
    """Columns of the events in ``text``, the inside of a JSON array.

    Raises:
        MalformedError: the text is not a sequence of whole JSON values.
    """
    document = b"".join((b"[", text, b"]"))
    try:
        decoded = _typed(document)
    except msgspec.ValidationError:
        return _coerced(document)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedError(str(error)) from None
    try:
        return _columns(decoded, document, {})
    except OverflowError:  # an id beyond int64
        return _coerced(document)


def raw_events(text: bytes) -> list[bytes]:
    """The text of each event of a chunk.

    Raises:
        MalformedError: the text is not a sequence of whole JSON values.
    """
    try:
        return [bytes(raw) for raw in _RAW.decode(b"".join((b"[", text, b"]")))]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedError(str(error)) from None


def _typed(document: bytes) -> _Decoded:
    """Decode in the cheapest form that keeps every nanosecond."""
    events = _DOUBLE.decode(document)
    times_us = np.fromiter(map(_TS, events), np.float64, len(events))
    durations_us = np.fromiter(map(_DUR, events), np.float64, len(events))
    times_ns, durations_ns = _doubles_to_ns(times_us), _doubles_to_ns(durations_us)
    if times_ns is not None and durations_ns is not None:
        return _Decoded(events, times_ns, durations_ns)
    try:
        integers = _INTEGER.decode(document)
    except msgspec.ValidationError:
        return _of_decimals(_DECIMAL.decode(document))
    return _Decoded(
        integers,
        np.fromiter(map(_TS, integers), np.int64, len(integers)) * 1000,
        np.fromiter(map(_DUR, integers), np.int64, len(integers)) * 1000,
    )


def _doubles_to_ns(us: npt.NDArray[np.float64]) -> npt.NDArray[np.int64] | None:
    """Nanoseconds of microseconds (NaN: `NONE`); None where doubles cannot tell them exactly."""
    missing = np.isnan(us)
    if missing.any():
        us = np.where(missing, 0.0, us)
    if len(us) and not float(np.abs(us).max()) < _DOUBLE_LIMIT_US:
        return None
    whole = np.floor(us)
    fraction = (us - whole) * 1000.0
    rounded = np.rint(fraction)
    # A count of whole nanoseconds lies within half a double's step of one; what is nearer to a
    # half may have more digits, and those are rounded as decimals.
    if bool((np.abs(fraction - rounded) > 0.49).any()):
        return None
    ns = whole.astype(np.int64) * 1000 + rounded.astype(np.int64)
    if missing.any():
        ns[missing] = NONE
    return ns


def _of_decimals(events: list[_DecimalEvent]) -> _Decoded:
    return _Decoded(
        events,
        np.fromiter((_decimal_ns(event.ts) for event in events), np.int64, len(events)),
        np.fromiter((_decimal_ns(event.dur) for event in events), np.int64, len(events)),
    )


def _decimal_ns(us: Decimal | None) -> int:
    if us is None:
        return NONE
    try:
        return int((us * 1000).to_integral_value())  # half to even, as doubles are rounded
    except (InvalidOperation, OverflowError, ValueError):  # NaN or infinity written as a string
        return NONE


def _columns(decoded: _Decoded, document: bytes, notes: Mapping[str, int]) -> EventColumns:
    events = decoded.events
    phases = list(map(attrgetter("ph"), events))
    at: dict[str, list[int]] = {"slice": [], "flow": [], "instant": [], "extra": []}
    at["slice"] = [number for number, phase in enumerate(phases) if phase == "X"]
    odd: dict[str, int] = dict(notes)
    if len(at["slice"]) < len(events):
        for number, phase in enumerate(phases):
            if phase == "X":
                continue
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

    def args(of: list[Any]) -> list[_Args]:
        return [event.args or _NO_ARGS for event in of]

    chosen, rows = _pick(events, at["slice"])
    slices = common(chosen, rows)
    slices["name"] = _number(names, map(attrgetter("name"), chosen), np.uint32, len(chosen))
    slices["dur_ns"] = decoded.dur_ns[rows]
    found = args(chosen)
    for field in ("correlation", "external_id", "sequence", "device", "stream"):
        slices[field] = np.fromiter(map(attrgetter(field), found), np.int64, len(found))
    slices["flags"] = np.fromiter(
        (0 if a.collective is None else Flag.COLLECTIVE for a in found), np.uint8, len(found)
    )
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
        raws = _RAW.decode(document)
        extra = [(number, msgspec.json.decode(raws[number])) for number in at["extra"]]
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
        return _wrapped(value)
    try:
        return _wrapped(int(value, 0))
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


def _coerced(document: bytes) -> EventColumns:
    """The tolerant form: every event is decoded as it is and its fields are converted one by one."""
    try:
        anything = _ANYTHING.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, InvalidOperation) as error:
        raise MalformedError(str(error)) from None
    notes: dict[str, int] = {}
    events: list[_DecimalEvent] = []
    for value in anything:
        if isinstance(value, dict):
            events.append(_coerce_event(value, notes))
        else:
            notes["not-an-object"] = notes.get("not-an-object", 0) + 1
            events.append(_DecimalEvent(ph="?"))
    return _columns(_of_decimals(events), document, notes)


def _coerce_event(value: Mapping[str, Any], notes: dict[str, int]) -> _DecimalEvent:
    args = value.get("args")
    text = {
        key: item if isinstance(item, str) else ""
        for key in ("ph", "name", "cat")
        for item in [value.get(key)]
    }
    if isinstance(value.get("ts"), str):
        notes["string-timestamp"] = notes.get("string-timestamp", 0) + 1
    return _DecimalEvent(
        ph=text["ph"],
        name=text["name"],
        cat=text["cat"],
        pid=_id(value.get("pid")),
        tid=_id(value.get("tid")),
        id=_id(value.get("id", 0)),
        ts=_decimal(value.get("ts")),
        dur=_decimal(value.get("dur")) or Decimal(0),
        args=_coerce_args(args) if isinstance(args, dict) else None,
    )


def _coerce_args(args: Mapping[str, Any]) -> _Args:
    integers = {
        name: number
        for name, key in _INTEGER_ARGS
        if key in args and (number := _integer(args[key])) is not None
    }
    collective = None if args.get("Collective name") is None else ""
    return _Args(collective=collective, **integers)


def _id(value: Any) -> int | str:
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, (int, str)):
        return value
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    return str(value)


def _integer(value: Any) -> int | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        return _wrapped(int(value))
    except (ValueError, TypeError, OverflowError):
        return None


def _decimal(value: Any) -> Decimal | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = Decimal(value)
    except (InvalidOperation, ValueError, TypeError):
        return None
    return number if number.is_finite() else None


def _wrapped(value: int) -> int:
    """An unsigned 64-bit value as the int64 of the same bits, so that ids stay distinct."""
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value
