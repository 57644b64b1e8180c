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

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    collective: msgspec.Raw | None = msgspec.field(default=None, name="Collective name")
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


class MalformedError(Exception):
    """The text is not JSON; the message is the decoder's."""


def decode(text: bytes) -> EventColumns:
    """Columns of the events in ``text``, the inside of a JSON array.

    Raises:
        MalformedError: the text is not a sequence of whole JSON values.
    """
    document = b"".join((b"[", text, b"]"))
    try:
        events, to_ns = _typed(document)
    except msgspec.ValidationError:
        return _coerced(document)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedError(str(error)) from None
    try:
        return _columns(events, to_ns, document, {})
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


_ToNs = Callable[[list[Any], str], npt.NDArray[np.int64]]


def _typed(document: bytes) -> tuple[list[Any], _ToNs]:
    """Decode in the cheapest form that keeps every nanosecond."""
    events = _DOUBLE.decode(document)
    times = np.fromiter(map(attrgetter("ts"), events), np.float64, len(events))
    durations = np.fromiter(map(attrgetter("dur"), events), np.float64, len(events))
    # a tie in the digit after the nanosecond is decided by decimals, not by the nearest double
    if _resolves_ns(times) and _resolves_ns(durations):
        return events, _doubles_to_ns
    try:
        return _INTEGER.decode(document), _integers_to_ns
    except msgspec.ValidationError:
        return _DECIMAL.decode(document), _decimals_to_ns


def _resolves_ns(us: npt.NDArray[np.float64]) -> bool:
    finite = us[np.isfinite(us)]
    if len(finite) == 0:
        return True
    if float(np.abs(finite).max()) >= _DOUBLE_LIMIT_US:
        return False
    fraction = np.mod(finite, 1.0) * 1000.0
    # A nanosecond count that is a whole number lies within half a double's step of it; anything
    # near a half could round either way.
    return bool((np.abs(np.mod(fraction, 1.0) - 0.5) > 0.005).all())


def _doubles_to_ns(events: list[Any], field: str) -> npt.NDArray[np.int64]:
    us = np.fromiter(map(attrgetter(field), events), np.float64, len(events))
    missing = np.isnan(us)
    if missing.any():
        us = np.where(missing, 0.0, us)
    whole = np.floor(us)
    ns = whole.astype(np.int64) * 1000 + np.rint((us - whole) * 1000.0).astype(np.int64)
    if missing.any():
        ns[missing] = NONE
    return ns


def _integers_to_ns(events: list[Any], field: str) -> npt.NDArray[np.int64]:
    return np.fromiter(map(attrgetter(field), events), np.int64, len(events)) * 1000


def _decimals_to_ns(events: list[Any], field: str) -> npt.NDArray[np.int64]:
    return np.fromiter((_decimal_ns(getattr(event, field)) for event in events), np.int64, len(events))


def _decimal_ns(us: Decimal | None) -> int:
    if us is None:
        return NONE
    try:
        return int((us * 1000).to_integral_value())  # half to even, as doubles are rounded
    except (InvalidOperation, OverflowError, ValueError):  # NaN or infinity written as a string
        return NONE


def _columns(events: list[Any], to_ns: _ToNs, document: bytes, notes: Mapping[str, int]) -> EventColumns:
    phases = list(map(attrgetter("ph"), events))
    numbers: dict[str, list[int]] = {"slice": [], "flow": [], "instant": [], "extra": []}
    odd: dict[str, int] = dict(notes)
    if phases.count("X") == len(phases):
        numbers["slice"] = list(range(len(events)))
    else:
        for number, phase in enumerate(phases):
            if phase == "X":
                numbers["slice"].append(number)
            elif phase in _FLOW_PHASES:
                numbers["flow"].append(number)
            elif phase in _INSTANT_PHASES:
                numbers["instant"].append(number)
            elif phase in ("M", "C"):
                numbers["extra"].append(number)
            else:
                code = "phase-missing" if not phase else f"phase-{phase[:8]}"
                odd[code] = odd.get(code, 0) + 1
    names, cats, tracks = _Numbering(), _Numbering(), _Numbering()

    def common(chosen: list[Any], at: list[int]) -> Table:
        count = len(chosen)
        return {
            "time_ns": to_ns(chosen, "ts"),
            "cat": _number(cats, map(attrgetter("cat"), chosen), np.uint16, count),
            "track": _number(tracks, map(attrgetter("pid", "tid"), chosen), np.uint32, count),
            "event": np.array(at, np.uint32),
        }

    def args(of: list[Any]) -> list[_Args]:
        return [event.args or _NO_ARGS for event in of]

    chosen = [events[i] for i in numbers["slice"]]
    slices = common(chosen, numbers["slice"])
    slices["name"] = _number(names, map(attrgetter("name"), chosen), np.uint32, len(chosen))
    slices["dur_ns"] = to_ns(chosen, "dur")
    found = args(chosen)
    for field in ("correlation", "external_id", "sequence", "device", "stream"):
        slices[field] = np.fromiter(map(attrgetter(field), found), np.int64, len(found))
    slices["flags"] = np.fromiter(
        (0 if a.collective is None else Flag.COLLECTIVE for a in found), np.uint8, len(found)
    )
    slices = _drop_untimed(slices, odd)

    chosen = [events[i] for i in numbers["flow"]]
    flows = common(chosen, numbers["flow"])
    flows["id"] = _flow_ids([event.id for event in chosen])
    flows["phase"] = np.fromiter((ord(event.ph) for event in chosen), np.uint8, len(chosen))
    flows = _drop_untimed(flows, odd)

    chosen = [events[i] for i in numbers["instant"]]
    instants = common(chosen, numbers["instant"])
    instants["name"] = _number(names, map(attrgetter("name"), chosen), np.uint32, len(chosen))
    found = args(chosen)
    for field in ("bytes", "total_allocated", "total_reserved", "device_type", "device_id"):
        values = map(attrgetter(field), found)
        if field.startswith("total_"):  # an unset total is written as 2**64 - 1
            values = (v if 0 <= v < 2**63 else NONE for v in values)
        instants[field] = np.fromiter(values, np.int64, len(found))
    instants = _drop_untimed(instants, odd)

    extra: list[tuple[int, Mapping[str, Any]]] = []
    if numbers["extra"]:
        raws = _RAW.decode(document)
        extra = [(number, msgspec.json.decode(raws[number])) for number in numbers["extra"]]
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

        return -1 - int.from_bytes(hashlib.blake2b(value.encode(errors="replace"), digest_size=7).digest(), "big")


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
    return _columns(events, _decimals_to_ns, document, notes)


def _coerce_event(value: Mapping[str, Any], notes: dict[str, int]) -> _DecimalEvent:
    args = value.get("args")
    text = {key: item if isinstance(item, str) else "" for key in ("ph", "name", "cat") for item in [value.get(key)]}
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
        field.name: number
        for field in msgspec.structs.fields(_Args)
        if field.name != "collective" and (number := _integer(args.get(field.encode_name))) is not None
    }
    collective = None if args.get("Collective name") is None else msgspec.Raw(b"true")
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
