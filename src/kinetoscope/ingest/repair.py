"""Broken JSON: what can be proved is mended and counted, and at most the broken event is lost.

Writers of traces have left illegal escapes (Windows paths), bare ``nan``, ``inf`` and ``N/A``,
control characters, bytes that are not UTF-8, and unescaped quotes in names. The first four are
told from good JSON token by token (`mend_tokens`). An unescaped quote is not: a name is then
taken to end at the first quote that a known key of an event follows (`mend_name`), and only if
the event decodes afterwards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from kinetoscope.ingest.document import BORDER
from kinetoscope.ingest.events import EventColumns, decode
from kinetoscope.ingest.forms import MalformedError

#: strings whole, then whatever bare word JSON does not know
_TOKENS = re.compile(
    rb'"(?:[^"\\]|\\.)*"|\}\s*(?=\{)|(?<![\w.])(?:[-+]?(?:nan|inf(?:inity)?)(?:\([\w]*\))?|N/A|n/a|None|True|False|undefined)(?![\w.])',
    re.DOTALL | re.IGNORECASE,
)
_ESCAPES = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\', re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_SURROGATE_PAIR = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_NAME = re.compile(rb'"(name|cat)"\s*:\s*"')
_NAME_END = re.compile(rb'"\s*(?:,\s*"(?:ph|cat|name|pid|tid|ts|dur|args|id|bp|s)"\s*:|\}\s*$)')
_DECODER = json.JSONDecoder(strict=False)
_OWN_KEY = re.compile(rb'"(?:ph|cat|pid|tid|ts|dur|args|External id|correlation)"\s*:')
#: how many borders an event may span before it is given up
_LONGEST_EVENT_BORDERS = 8
_COARSE_BYTES = 1 << 16


@dataclass(frozen=True)
class Salvaged:
    """What could be read of a broken text.

    ``pieces`` are texts, as they were decoded after mending, with their columns.
    ``rest`` is text at the end that may be the start of an event cut by a false border: it
    belongs before the next text. ``lost`` counts events given up; ``cut``: the last one was.
    """

    pieces: tuple[tuple[bytes, EventColumns], ...]
    rest: bytes
    lost: int
    cut: bool


@dataclass
class _Progress:
    pieces: list[tuple[bytes, EventColumns]] = field(default_factory=list)
    lost: int = 0
    in_lost: bool = False  # what follows may still be the inside of an event given up


def decode_mended(text: bytes) -> EventColumns:
    """Decode a chunk, after mending its tokens if need be. Raises MalformedError where that is not enough."""
    text = strip_comma(text)
    try:
        return decode(text)
    except MalformedError:
        mended, notes = mend_tokens(text)
        if mended == text:
            raise
    return _noted(decode(mended), notes)


def strip_comma(text: bytes) -> bytes:
    """The text without white space and commas around it."""
    text = text.strip(b" \t\r\n")
    if text.endswith(b","):
        text = text[:-1].rstrip(b" \t\r\n")
    return text


def mend_tokens(text: bytes) -> tuple[bytes, Mapping[str, int]]:
    """Mend what single tokens prove to be broken; returns the text and how often each repair was made."""
    notes: dict[str, int] = {}

    def note(code: str) -> None:
        notes[code] = notes.get(code, 0) + 1

    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        mended = text.decode("utf-8", "replace")
        notes["repaired-utf8"] = max(1, mended.count("\ufffd") - text.count(b"\xef\xbf\xbd"))
        text = mended.encode()

    def escape(match: re.Match[bytes]) -> bytes:
        found = match.group()
        if len(found) > 1:
            return found
        note("repaired-escape")
        return b"\\\\"

    def control(match: re.Match[bytes]) -> bytes:
        note("repaired-control-character")
        return b"\\u%04x" % match.group()[0]

    def surrogate(match: re.Match[bytes]) -> bytes:
        if len(match.group()) > 6:
            return match.group()
        note("repaired-escape")
        return b"\\ufffd"

    def token(match: re.Match[bytes]) -> bytes:
        found = match.group()
        if found.startswith(b"}"):
            note("repaired-comma")
            return b"},"
        if not found.startswith(b'"'):
            note("repaired-number")
            return b"null"
        if b"\\" in found:
            found = _ESCAPES.sub(escape, found)
            if _SURROGATE.search(found):
                found = _SURROGATE_PAIR.sub(surrogate, found)
        return _CONTROL.sub(control, found) if _CONTROL.search(found) else found

    return _TOKENS.sub(token, text), notes


def mend_name(event: bytes) -> bytes | None:
    """Escape the quotes inside an event's name or category; None where its end cannot be told."""
    mended = event
    changed = False
    at = 0
    while (start := _NAME.search(mended, at)) is not None:
        end = _NAME_END.search(mended, start.end())
        if end is None:
            return None
        inner = mended[start.end() : end.start()]
        if _OWN_KEY.search(inner):
            return None  # the rest of another event: what lies between them is gone
        escaped = re.sub(rb'(?<!\\)((?:\\\\)*)"', rb'\1\\"', inner)
        changed = changed or escaped != inner
        mended = mended[: start.end()] + escaped + mended[end.start() :]
        at = start.end() + len(escaped)
        if start.group(1) == b"name":
            break  # what follows may be args, whose own "name" is not the event's
    return mended if changed else None


def salvage(text: bytes, *, final: bool) -> Salvaged:
    """Read what can be read of a text that starts at an event and does not decode as a whole."""
    progress = _Progress()
    coarse: list[bytes] = []
    size = 0
    rest = b""
    pieces = list(_pieces(text))
    at = 0
    while at < len(pieces):
        coarse.append(pieces[at])
        size += len(pieces[at])
        at += 1
        if size < _COARSE_BYTES and at < len(pieces):
            continue
        joined = b"".join(coarse)
        try:
            joined = strip_comma(joined)
            columns = decode(joined)
            if progress.in_lost and "phase-missing" in columns.notes:
                raise MalformedError("the inside of a broken event")
            progress.pieces.append((joined, columns))
            progress.in_lost = False
        except MalformedError:
            # fine steps may need text beyond this group: hand them the rest of the pieces
            taken, rest = _one_by_one(coarse, pieces[at:], progress, final=final)
            at += taken
        coarse, size = [], 0
        if rest:
            break
    return Salvaged(tuple(progress.pieces), rest, progress.lost, progress.in_lost)


def _one_by_one(
    group: list[bytes], following: list[bytes], progress: _Progress, *, final: bool
) -> tuple[int, bytes]:
    """Decode event by event; returns how many of the following pieces were used up, and text left over."""
    pieces = group + following
    at = 0
    while at < len(group):
        reach = min(len(pieces), at + _LONGEST_EVENT_BORDERS)
        found = _first_event(pieces, at, reach, progress)
        if found is not None:
            at = found
        else:
            if reach == len(pieces) and not final:
                return len(following), b"".join(pieces[at:])
            if final and reach == len(pieces) and not progress.in_lost:
                before_cut = _leading_event(b"".join(pieces[at:]))
                if before_cut is not None:
                    progress.pieces.append(before_cut)
            if not progress.in_lost and strip_comma(pieces[at]):
                progress.lost += 1
                progress.in_lost = True
            at += 1
    return at - len(group), b""


def _first_event(pieces: list[bytes], at: int, reach: int, progress: _Progress) -> int | None:
    """Take the event that begins with piece ``at``, as it is or mended; returns the piece after it.

    Mending costs a hundred times what decoding does. Behind an event given up many pieces in a row
    can be its inside, so that only short ones are mended there.
    """
    patient = reach if not progress.in_lost else min(reach, at + 2)
    for attempt, last in ((_as_it_is, reach), (_one, patient)):
        for end in range(at + 1, last + 1):
            one = attempt(b"".join(pieces[at:end]))
            if one is not None and not (progress.in_lost and "phase-missing" in one[1].notes):
                progress.pieces.append(one)
                progress.in_lost = False
                return end
    return None


def _as_it_is(text: bytes) -> tuple[bytes, EventColumns] | None:
    text = strip_comma(text)
    try:
        return (text, decode(text)) if text else None
    except MalformedError:
        return None


def _one(text: bytes) -> tuple[bytes, EventColumns] | None:
    text = strip_comma(text)
    if not text:
        return None
    named = mend_name(text)
    attempts: list[tuple[bytes, Mapping[str, int]]] = [(text, {}), mend_tokens(text)]
    if named is not None:
        mended, notes = mend_tokens(named)
        attempts.append((mended, {**notes, "repaired-quotes": 1}))
    for attempt, notes in attempts:
        try:
            return attempt, _noted(decode(attempt), notes)
        except MalformedError:
            continue
    return None


def _leading_event(text: bytes) -> tuple[bytes, EventColumns] | None:
    """A whole event at the start of the last text, before one of which too little is left to see a border."""
    try:
        text = text.lstrip(b" \t\r\n")
        value, end = _DECODER.raw_decode(text.decode("latin-1"))
    except (ValueError, RecursionError):
        return None
    return _one(text[:end]) if isinstance(value, dict) and "ph" in value else None


def _pieces(text: bytes) -> Iterator[bytes]:
    start = 0
    for border in BORDER.finditer(text):
        yield text[start : border.end()]
        start = border.end()
    if strip_comma(text[start:]):
        yield text[start:]


def _noted(columns: EventColumns, notes: Mapping[str, int]) -> EventColumns:
    merged = dict(columns.notes)
    for code, count in notes.items():
        merged[code] = merged.get(code, 0) + count
    return replace(columns, notes=merged)
