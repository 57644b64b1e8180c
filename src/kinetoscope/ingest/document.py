"""Where the events lie in a trace document, and where a text may be cut between them.

A trace is a JSON object with a ``traceEvents`` array, or that array alone. Nothing here
depends on white space: a border is any ``},{`` that looks like the start of an event, and
whoever decodes the pieces proves it: text that starts at a true border and decodes as whole
values ends at one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kinetoscope.errors import EmptyTraceError, NotATraceError

#: between two events; the cut goes after the comma
BORDER = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s|tts)"\s*:)')
#: between the end of one document and the start of another; inside one it occurs in strings only
_JOINT = re.compile(rb"[\]}](?:[ \t\r\n\x00\x1e]|\xef\xbb\xbf)*(?=[\[{])")
_SPACE = re.compile(r"[ \t\r\n]*")
_KEY = re.compile(r'"((?:[^"\\]|\\.)*)"[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
#: borders that a trailer may hold
_CLOSING_BORDERS = 100
_HEADER_KEYS = re.compile(rb'"(?:schemaVersion|deviceProperties|distributedInfo)"')
_BOM = b"\xef\xbb\xbf"
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True)
class Opening:
    """The start of a document: where its events begin, and the header read before them."""

    start: int  # offset of the first byte after the array's bracket
    header: Mapping[str, Any]
    header_damaged: bool
    is_array: bool


class NeedMoreError(Exception):
    """The prefix ends before the events begin."""


def find_events(prefix: bytes, *, whole: bool) -> Opening:
    """Find the ``traceEvents`` array in the first bytes of a document.

    Raises:
        NeedMoreError: not found yet, and more can be read (``whole`` is False).
        NotATraceError: this is not a trace.
        EmptyTraceError: it is the header of one, cut before the events.
    """
    skip = len(_BOM) if prefix.startswith(_BOM) else 0
    lead = prefix[skip:].lstrip(b" \t\r\n")
    if not lead:
        if whole:
            raise NotATraceError("the file is empty; was the profiler's export interrupted?")
        raise NeedMoreError
    if lead[:1] == b"[":
        return Opening(len(prefix) - len(lead) + 1, {}, False, True)
    if lead[:1] != b"{":
        raise NotATraceError(
            f"not a trace: the content starts with {_shown(lead[:12])}, not with a JSON object or array"
        )
    found = _walk(prefix, len(prefix) - len(lead))
    if found is not None:
        return found
    # The header itself may be broken JSON: its first key of that name is then taken.
    match = _EVENTS_KEY.search(prefix)
    if match is not None:
        return Opening(match.end(), {}, True, False)
    if not whole:
        raise NeedMoreError
    if not prefix.rstrip(b" \t\r\n\0").endswith((b"}", b"]")) and _HEADER_KEYS.search(prefix):
        raise EmptyTraceError(
            "the trace ends inside its header, before its first event; "
            "was the program killed while writing it?"
        )
    raise NotATraceError(_what_else(prefix))


def _walk(prefix: bytes, at: int) -> Opening | None:
    """Read key by key from the opening brace until ``traceEvents``; None where that fails."""
    # latin-1 keeps offsets: one character a byte; values are decoded again properly below
    text = prefix.decode("latin-1")
    at = _skip(text, at + 1)
    header: dict[str, Any] = {}
    while True:
        key = _KEY.match(text, at)
        if key is None:
            return None
        at = key.end()
        if key.group(1) == "traceEvents":
            if text[at : at + 1] != "[":
                return None
            return Opening(at + 1, header, False, False)
        try:
            _, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        value = _value(prefix[at:end])
        header[key.group(1)] = value
        at = _skip(text, end)
        if text[at : at + 1] != ",":
            return None
        at = _skip(text, at + 1)


def _value(raw: bytes) -> Any:
    try:
        return _DECODER.decode(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def parse_trailer(rest: bytes, *, is_array: bool) -> Mapping[str, Any] | None:
    """What follows the array's closing bracket: the remaining keys; None when it is damaged or cut."""
    rest = rest.strip(b" \t\r\n\x00")
    if is_array:
        return {} if not rest else None
    if rest == b"}":
        return {}
    if not rest.startswith(b",") or not rest.endswith(b"}"):
        return None
    value = _value(b"{" + rest[1:])
    return value if isinstance(value, dict) else None


def closings(text: bytes, *, is_array: bool) -> Iterator[tuple[bytes, Mapping[str, Any] | None]]:
    """Possible (events, trailer) readings of a document's last text; the trailer is None where damaged.

    The last event is taken from each border, last border first, and must be followed by ``]``.
    A border inside the trailer gives a false reading, which does not decode: try the next. Lists
    inside events look alike, so that a bracket without a good trailer counts only near the end.
    """
    stripped = text.lstrip(b" \t\r\n")
    if stripped[:1] == b"]":
        yield b"", parse_trailer(stripped[1:], is_array=is_array)
        return
    borders = [match.end() for match in BORDER.finditer(text)]
    seen: set[int] = set()  # several borders lead to one bracket, and one reading of it is enough
    for number, start in enumerate([*reversed(borders[-_CLOSING_BORDERS:]), 0]):
        tail = text[start:].decode("latin-1")
        at = _skip(tail, 0)
        try:
            _, end = _DECODER.raw_decode(tail, at)
        except (ValueError, RecursionError):
            continue
        close = _skip(tail, end)
        while tail[close : close + 1] == ",":  # entries that do not look like events: {} and others
            close = _skip(tail, close + 1)
            try:
                _, end = _DECODER.raw_decode(tail, close)
            except (ValueError, RecursionError):  # a comma after the last event
                break
            close = _skip(tail, end)
        if tail[close : close + 1] == "]" and start + close not in seen:
            seen.add(start + close)
            trailer = parse_trailer(text[start + close + 1 :], is_array=is_array)
            if trailer is not None or number < 2:
                yield text[: start + end], trailer


def joints(text: bytes) -> Iterator[tuple[int, int]]:
    """Where a document may end and another may start in ``text``: pairs of offsets."""
    for match in _JOINT.finditer(text):
        yield match.start() + 1, match.end()


def _what_else(prefix: bytes) -> str:
    head = prefix[:65536]
    if re.search(rb'"schema"\s*:\s*"[^"]*(?:chakra|-)', head) and b'"nodes"' in prefix:
        return (
            "not a profiler trace but an execution trace (ExecutionTraceObserver, Chakra): it has no "
            "'traceEvents'; export the profile with prof.export_chrome_trace()"
        )
    value = _value(prefix)
    if isinstance(value, dict):
        if "traceEvents" in value:
            return "not a trace: its 'traceEvents' is not an array"
        named = ", ".join(str(key)[:30] for key in list(value)[:6]) or "none"
        return f"not a trace: JSON without 'traceEvents' (its keys: {named})"
    return "not a trace: it begins like JSON, is none, and has no 'traceEvents'"


def _shown(data: bytes) -> str:
    printable = all(32 <= b <= 126 or b in b"\t\r\n" for b in data)
    return repr(data.decode("ascii")) if printable else "0x" + data[:8].hex()
