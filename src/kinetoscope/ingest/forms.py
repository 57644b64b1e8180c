"""JSON events as typed objects with exact times, in the cheapest form that keeps every digit.

* A JSON number below 2**43 us is decoded as a double, which still resolves a nanosecond there;
* above (epoch times of 16 and 17 digits) integers are decoded as integers, and everything else,
  strings included, as decimals;
* where fields have unexpected types, every event is decoded as it is and converted field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from math import isfinite
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kinetoscope.trace import NONE

#: no clock has run for so long: more than 17 digits of microseconds
_LONGEST_US = 10**17 - 1
#: doubles of this size and more cannot tell nanoseconds apart
_DOUBLE_LIMIT_US = float(2**43)


class Args(msgspec.Struct, gc=False):
    """The args that become columns; `NONE` where an event has none."""

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
    args: Args | None = None


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
RAW = msgspec.json.Decoder(list[msgspec.Raw])
#: what has more digits before its point is no time and no id, and as an integer would fill the memory
_MOST_DIGITS = 40
NO_ARGS = Args()
_TS, _DUR = attrgetter("ts"), attrgetter("dur")
_INTEGER_ARGS = tuple(
    (field.name, field.encode_name) for field in msgspec.structs.fields(Args) if field.name != "collective"
)


@dataclass(frozen=True, eq=False)
class Decoded:
    """Events of a chunk in one of the forms above, with their times and durations."""

    events: list[Any]
    time_ns: npt.NDArray[np.int64]
    dur_ns: npt.NDArray[np.int64]


class MalformedError(Exception):
    """The text is not JSON; the message is the decoder's."""


def raw_events(text: bytes) -> list[bytes]:
    """The text of each event of a chunk.

    Raises:
        MalformedError: the text is not a sequence of whole JSON values.
    """
    try:
        return [bytes(raw) for raw in RAW.decode(b"".join((b"[", text, b"]")))]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(str(error)) from None


def typed(document: bytes) -> Decoded:
    """Decode in the cheapest form that keeps every nanosecond.

    Raises:
        msgspec.DecodeError, UnicodeDecodeError: as the decoder; a ValidationError for unexpected types.
    """
    events = _DOUBLE.decode(document)
    times_us = np.fromiter(map(_TS, events), np.float64, len(events))
    durations_us = np.fromiter(map(_DUR, events), np.float64, len(events))
    times_ns, durations_ns = _doubles_to_ns(times_us), _doubles_to_ns(durations_us)
    if times_ns is not None and durations_ns is not None:
        return Decoded(events, times_ns, durations_ns)
    try:
        integers = _INTEGER.decode(document)
    except msgspec.ValidationError:
        return _of_decimals(_DECIMAL.decode(document))
    return Decoded(integers, _integers_to_ns(integers, _TS), _integers_to_ns(integers, _DUR))


def _integers_to_ns(events: list[Any], field: Callable[[Any], int]) -> npt.NDArray[np.int64]:
    us = np.fromiter(map(field, events), np.int64, len(events))
    return np.where(np.abs(us) > _LONGEST_US, NONE, us * 1000)


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


def _of_decimals(events: list[_DecimalEvent]) -> Decoded:
    return Decoded(
        events,
        np.fromiter((_decimal_ns(event.ts) for event in events), np.int64, len(events)),
        np.fromiter((_decimal_ns(event.dur) for event in events), np.int64, len(events)),
    )


def _decimal_ns(us: Decimal | None) -> int:
    # its size first: sums of a number with an exponent of a billion do not end
    if us is None or _is_huge(us) or abs(us) > _LONGEST_US:
        return NONE
    try:
        # Half to even, as doubles are rounded. Beyond int64 (17 digits of microseconds) all forms wrap
        # alike, so that differences stay exact.
        return wrapped(int((us * 1000).to_integral_value()))
    except (InvalidOperation, OverflowError, ValueError):  # NaN or infinity written as a string
        return NONE


def exact_ns(us: Any) -> int:
    """Nanoseconds of microseconds, however they were written; `NONE` where they are no time."""
    return _decimal_ns(_decimal(str(us)))


def _is_huge(number: Decimal) -> bool:
    return number.is_finite() and number.adjusted() >= _MOST_DIGITS


def any_value(raw: bytes) -> Any:
    """The JSON value; a number that no double can hold is its text.

    Raises:
        msgspec.DecodeError, UnicodeDecodeError: it is no JSON.
    """
    try:
        return msgspec.json.decode(raw)
    except msgspec.ValidationError:
        return _OUT_OF_RANGE.decode(raw)


def _float_or_text(text: str) -> float | str:
    number = float(text)
    return number if isfinite(number) else text


_OUT_OF_RANGE = msgspec.json.Decoder(Any, float_hook=_float_or_text)


def tolerant(document: bytes) -> tuple[Decoded, dict[str, int]]:
    """Decode every event as it is and convert its fields one by one; also returns what was odd, counted.

    Raises:
        MalformedError: the document is not JSON.
    """
    try:
        anything = _ANYTHING.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, InvalidOperation, RecursionError) as error:
        raise MalformedError(str(error)) from None
    notes: dict[str, int] = {}
    events: list[_DecimalEvent] = []
    for value in anything:
        if isinstance(value, dict):
            events.append(_coerce_event(value, notes))
        else:
            notes["not-an-object"] = notes.get("not-an-object", 0) + 1
            events.append(_DecimalEvent(ph="?"))
    return _of_decimals(events), notes


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
        dur=_duration(value, notes),
        args=_coerce_args(args) if isinstance(args, dict) else None,
    )


def _duration(value: Mapping[str, Any], notes: dict[str, int]) -> Decimal:
    """The duration; a negative one, which is never measured, where it cannot be read."""
    found = _decimal(value.get("dur", 0))
    if found is None:
        if value.get("ph") == "X":
            notes["unreadable-duration"] = notes.get("unreadable-duration", 0) + 1
        return Decimal(-1)
    return found


def _coerce_args(args: Mapping[str, Any]) -> Args:
    integers = {
        name: number
        for name, key in _INTEGER_ARGS
        if key in args and (number := _integer(args[key])) is not None
    }
    collective = None if args.get("Collective name") is None else ""
    return Args(collective=collective, **integers)


def _id(value: Any) -> int | str:
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, (int, str)):
        return value
    if isinstance(value, Decimal) and not _is_huge(value) and value == value.to_integral_value():
        return int(value)
    return str(value)


def _integer(value: Any) -> int | None:
    if isinstance(value, bool) or value is None or (isinstance(value, Decimal) and _is_huge(value)):
        return None
    try:
        return wrapped(int(value))
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


def wrapped(value: int) -> int:
    """An unsigned 64-bit value as the int64 of the same bits, so that ids stay distinct."""
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value
