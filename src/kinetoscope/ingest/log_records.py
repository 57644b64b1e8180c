"""Bytes of a TORCH_TRACE log -> its records, one at a time, in bounded memory.

Subset of the format that is read: a record is one header line, a glog prefix that ends with ``] `` and then
a JSON object, followed by its payload, each line of it with one leading tab.  Plain and gzip files are told
apart by content.  A line that is neither is counted as malformed.  A record is whole when it ends with a
newline or when its payload has the digest that its header names; the last record of a cut file is dropped
when it is neither.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from isal import isal_zlib

from kinetoscope.errors import InputError

__all__ = ["LogRecord", "Payload", "ReadState", "iter_records"]

_BLOCK = 4 << 20
_MAX_IN_MEMORY = 64 << 20  # a longer payload is left in the file, and only its place is kept
_BOUNDARY = re.compile(rb"\n(?=[^\t])", re.DOTALL)
_HEADER = re.compile(rb"[A-Z](\d{4} \d\d:\d\d:\d\d\.\d+) +(\d+) [^\n]*?\] (\{.*)", re.DOTALL)
_COMMON = frozenset(
    {
        "rank",
        "frame_id",
        "frame_compile_id",
        "attempt",
        "compiled_autograd_id",
        "has_payload",
        "stack",
        "process",
        "thread",
        "timestamp",
        "pathname",
        "lineno",
    }
)


@dataclass(frozen=True, slots=True)
class Payload:
    """Where a record's payload lies, and its text when it was small enough to keep.

    ``offset`` and ``length`` count bytes of the (uncompressed) file, tabs included; ``digest`` is the MD5
    that the record's header names (logs whose paths were edited no longer match theirs).
    """

    path: str
    offset: int
    length: int
    digest: str | None
    kept: str | None = field(default=None, repr=False)

    def text(self) -> str:
        """The payload's text: from memory if it was kept, else read again from the file."""
        if self.kept is not None:
            return self.kept
        return _untab(_read_range(self.path, self.offset, self.length)).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One whole record: its kind, the JSON under that kind, and its payload's bytes (tabs removed)."""

    kind: str
    is_artifact: bool
    body: Any
    header: dict[str, Any]
    pid: int
    clock: str
    payload: bytes | None
    place: Payload | None

    @property
    def compile_id(self) -> str | None:
        """``frame/compile``, ``!N`` or ``!N/frame/compile`` as in the trace; None outside a compile."""
        frame, compile_, autograd = (
            self.header.get(k) for k in ("frame_id", "frame_compile_id", "compiled_autograd_id")
        )
        own = f"{frame}/{compile_}" if frame is not None and compile_ is not None else None
        if autograd is None:
            return own
        return f"!{autograd}" if own is None else f"!{autograd}/{own}"


@dataclass(slots=True)
class ReadState:
    """What went wrong while reading one file; filled by :func:`iter_records`."""

    records: int = 0
    malformed: int = 0
    truncated: str | None = None


def iter_records(path: Path, state: ReadState) -> Iterator[LogRecord]:
    """The whole records of one log file in file order.  Raises InputError when the file cannot be opened."""
    last: tuple[bytes, int, bytes | None, int] | None = None
    for header, offset, payload, length in _split(_chunks(path, state)):
        if last is not None:
            record = _record(path, *last, state)
            if record is not None:
                yield record
        last = (header, offset, payload, length)
    if last is None:
        return
    record = _record(path, *last, state, final=True)
    if record is not None:
        yield record


def _record(
    path: Path,
    header: bytes,
    offset: int,
    payload: bytes | None,
    length: int,
    state: ReadState,
    final: bool = False,
) -> LogRecord | None:
    match = _HEADER.match(header)
    fields = _json_object(match.group(3)) if match else None
    kind = next((k for k in fields if k not in _COMMON), None) if fields else None
    if match is None or fields is None or kind is None:
        if final and not header.endswith(b"\n"):
            state.truncated = "the file ends inside a record's header"
        elif header.strip():
            state.malformed += 1
        return None
    digest = fields.get("has_payload")
    text = _untab(payload) if payload is not None and length else None
    if final and not _is_whole(header, payload, text, digest, length):
        state.truncated = f"the file ends inside a {kind} record"
        return None
    body = fields[kind]
    is_artifact = kind in ("artifact", "dump_file") and isinstance(body, dict) and "name" in body
    place = None
    if length:
        place = Payload(str(path), offset, length, digest if isinstance(digest, str) else None)
    state.records += 1
    return LogRecord(
        kind=str(body["name"]) if is_artifact else kind,
        is_artifact=is_artifact,
        body=body,
        header=fields,
        pid=int(match.group(2)),
        clock=match.group(1).decode("ascii"),
        payload=text,
        place=place,
    )


def _is_whole(header: bytes, payload: bytes | None, text: bytes | None, digest: object, length: int) -> bool:
    if digest is None:
        return header.endswith(b"\n") or length > 0
    if not length:
        return False
    if payload is None or payload.endswith(b"\n"):
        return True
    return text is not None and hashlib.md5(text, usedforsecurity=False).hexdigest() == digest


def _json_object(data: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:  # NaN, infinities and bytes that are no UTF-8: rarer, and slower
            value = json.loads(data.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _untab(payload: bytes) -> bytes:
    text = payload.replace(b"\r\n", b"\n").replace(b"\n\t", b"\n")
    return text[1 if text[:1] == b"\t" else 0 : len(text) - text.endswith(b"\n")]


def _split(chunks: Iterator[bytes]) -> Iterator[tuple[bytes, int, bytes | None, int]]:
    """Cut the stream at each newline that no tab follows.

    Yields (header line, payload offset, payload, payload length); a payload longer than the limit comes as
    None.
    """
    pending, base, search = b"", 0, 0
    for chunk in chunks:
        pending = pending + chunk if pending else chunk
        start = 0
        for match in _BOUNDARY.finditer(pending, search):
            yield _cut(pending, start, match.end(), base)
            start = match.end()
        if start:
            pending, base = pending[start:], base + start
        search = max(0, len(pending) - 1)
        if len(pending) > _MAX_IN_MEMORY:
            end = pending.find(b"\n") + 1
            if not end:  # one endless line is no log
                pending, base, search = b"", base + len(pending), 0
                yield b"\x00", base, None, 0
                continue
            pending, base = yield from _skip_long(pending, end, base, chunks)
            search = 0
    if pending:
        yield _cut(pending, 0, len(pending), base)


def _skip_long(
    pending: bytes, end: int, base: int, chunks: Iterator[bytes]
) -> Generator[tuple[bytes, int, bytes | None, int], None, tuple[bytes, int]]:
    """Count a payload too long to hold; returns what follows it, and where that starts."""
    header, offset = pending[:end], base + end
    seen, tail = len(pending) - 1, pending[-1:]
    for chunk in chunks:
        tail += chunk
        match = _BOUNDARY.search(tail)
        if match is not None:
            stop = base + seen + match.end()
            yield header, offset, None, stop - offset
            return tail[match.end() :], stop
        seen += len(tail) - 1
        tail = tail[-1:]
    yield header, offset, None, base + seen + len(tail) - offset
    return b"", base + seen + len(tail)


def _cut(data: bytes, start: int, end: int, base: int) -> tuple[bytes, int, bytes | None, int]:
    line = data.find(b"\n", start, end) + 1 or end
    return data[start:line], base + line, data[line:end], end - line


def _chunks(path: Path, state: ReadState) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            head = file.read(2)
            file.seek(0)
            if head != b"\x1f\x8b":
                while block := file.read(_BLOCK):
                    yield block
                return
            try:
                yield from _gunzip(file)
            except (isal_zlib.error, EOFError) as error:  # type: ignore[misc]
                state.truncated = f"the gzip data ends early or is damaged ({error})"
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error


def _gunzip(file: Any) -> Iterator[bytes]:
    """Inflate member after member, never more than one block of output at a time."""
    data = file.read(1 << 20)
    while data:
        inflate = isal_zlib.decompressobj(wbits=31)
        while not inflate.eof:
            out = inflate.decompress(data, _BLOCK)
            if out:
                yield out
            data = inflate.unconsumed_tail
            if not data and not inflate.eof:
                data = file.read(1 << 20)
                if not data and not out:
                    raise EOFError("no end marker")
        data = inflate.unused_data or file.read(1 << 20)
        if data.strip(b"\x00") == b"":  # padding after the last member
            return


def _read_range(path: str, offset: int, length: int) -> bytes:
    with Path(path).open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            file.seek(offset)
            return file.read(length)
    state, parts, base = ReadState(), [], 0
    for chunk in _chunks(Path(path), state):
        stop = base + len(chunk)
        if stop > offset:
            parts.append(chunk[max(0, offset - base) : offset + length - base])
        base = stop
        if base >= offset + length:
            break
    return b"".join(parts)
