"""Looking for a text in the arguments of every event, which stay in the file.

The file is read once, from front to back. A stretch of it in which a word of the text is nowhere is not
taken apart; of the others only those events are decoded that hold the word.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from kinetoscope.errors import UsageError
from kinetoscope.ingest.reader import ExtentArgs
from kinetoscope.trace import NONE, Bool, Trace

#: a search ends after this time, and says how far it came
SECONDS = 10.0
#: shorter texts are in nearly every event
SHORTEST = 2
#: what no JSON writes in another way: a text is first looked for by the longest run of these
_WORD = re.compile(r"[a-z0-9_.]+")
_ARGS = b'"args"'
_SPACE = re.compile(r"\s+")


class _Event(msgspec.Struct):
    args: Any = None


_DECODER = msgspec.json.Decoder(_Event)
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, eq=False)
class Found:
    """What was found in the arguments.

    Attributes:
        rows: per slice of the trace, whether its arguments hold the text.
        events: how many events of the file were looked at; fewer than there are where time was up.
    """

    rows: Bool
    events: int


def find(
    trace: Trace, text: str, *, seconds: float = SECONDS, is_over: Callable[[], bool] = lambda: False
) -> Found:
    """The slices whose arguments hold a text (in lower case), in any case.

    ``key=value`` asks for the value of one argument: a number has to be the same, everything else has to
    hold the text. Otherwise the text is looked for in all values. Spaces inside of lists do not count.

    Raises:
        UsageError: ``is_over`` said that nobody waits for it any more.
        OSError, InputError: the file cannot be read (again).
    """
    rows = np.zeros(len(trace.columns), np.bool_)
    source = trace.args_source
    if len(text) < SHORTEST or not isinstance(source, ExtentArgs):
        return Found(rows, 0)
    fast = _by_column(trace, text)
    if fast is not None:
        return Found(fast, trace.info.events)
    holds, word = _question(text), _word(text)
    row_of_event = np.full(trace.info.events, -1, np.int64)
    row_of_event[trace.columns.event] = np.arange(len(rows))
    end = time.monotonic() + seconds
    for first, texts in source.texts_with(word):
        if is_over():
            raise UsageError("stopped: another search has begun")
        if time.monotonic() > end:
            return Found(rows, first)
        for number, event in enumerate(texts or ()):
            # (names and times, which are before them as a rule, would let most events through)
            if word in event[event.find(_ARGS) :].lower() and _holds(event, holds):
                row = int(row_of_event[first + number])
                if row >= 0:
                    rows[row] = True
    return Found(rows, trace.info.events)


def _by_column(trace: Trace, text: str) -> Bool | None:
    """Arguments that every reader of the trace needs are columns already."""
    key, _, value = text.partition("=")
    c = trace.columns
    column = {
        "stream": c.stream,
        "correlation": c.correlation,
        "external id": c.external_id,
        "sequence number": c.sequence,
        "device": c.device,
    }.get(key.strip())
    if column is None or not re.fullmatch(r"-?[0-9]{1,18}", value.strip()):
        return None
    found: Bool = (column == int(value)) & (column != NONE)
    return found


def _word(text: str) -> bytes:
    if not text.isascii():
        return b""  # which every event holds: letters of other scripts are written in several ways
    return max(_WORD.findall(text), key=len, default="").encode()


def _holds(event: bytes, holds: Callable[[dict[str, Any]], bool]) -> bool:
    try:
        args = _DECODER.decode(event).args
    except (msgspec.MsgspecError, UnicodeDecodeError):
        args = _leniently(event)
    return isinstance(args, dict) and holds(args)


def _leniently(event: bytes) -> Any:
    """Args of what the fast decoder refuses: half surrogates, NaN."""
    try:
        value = json.loads(event)
    except (ValueError, RecursionError):
        return None  # damaged: its details say so when it is opened
    return value.get("args") if isinstance(value, dict) else None


def _question(text: str) -> Callable[[dict[str, Any]], bool]:
    key, is_pair, value = text.partition("=")
    key, value = key.strip(), value.strip()
    if is_pair and key and value:
        squeezed = _SPACE.sub("", value)
        return lambda args: any(
            _is(given, value, squeezed) for name, given in args.items() if name.casefold() == key
        )
    squeezed = _SPACE.sub("", text)
    return lambda args: any(_has(given, text, squeezed) for given in args.values())


def _is(value: Any, text: str, squeezed: str) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) == text if is_number else _has(value, text, squeezed)


def _has(value: Any, text: str, squeezed: str) -> bool:
    if isinstance(value, str):
        return text in value.casefold()
    if type(value) is int:
        return text in str(value)
    return squeezed in _SPACE.sub("", _written(value)).casefold()


def _written(value: Any) -> str:
    try:
        return _ENCODER.encode(value).decode()
    except (UnicodeEncodeError, msgspec.MsgspecError, OverflowError):
        return json.dumps(value, ensure_ascii=False)
