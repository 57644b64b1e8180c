"""A decoding process: reads pieces named on standard input, answers with columns on standard output.

Started as ``python -c`` by `kinetoscope.ingest.pool`, so that it is the same on every platform,
needs no guard in the caller's ``__main__`` and inherits nothing from a process that may run
threads. Every message is its length in eight bytes and that many bytes of MessagePack; a job's
text, where it is sent, follows its message as it is.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

import msgspec
import numpy as np

from kinetoscope.errors import InternalError
from kinetoscope.ingest.events import (
    FLOW_DTYPES,
    INSTANT_DTYPES,
    SLICE_DTYPES,
    EventColumns,
    Table,
)
from kinetoscope.ingest.forms import MalformedError
from kinetoscope.ingest.repair import decode_mended

_DTYPES = {"slices": SLICE_DTYPES, "flows": FLOW_DTYPES, "instants": INSTANT_DTYPES}


class Job(msgspec.Struct, array_like=True):
    """A piece to decode: a range of an inherited file, or (``descriptor`` is None) the text that follows."""

    descriptor: int | None
    offset: int
    length: int


class Answer(msgspec.Struct, array_like=True):
    """Columns as bytes by table and name; or ``malformed``; or what went wrong in here.

    ``odd`` is JSON: only that holds every integer and every string that a file can have.
    """

    malformed: bool = False
    error: str | None = None
    events: int = 0
    tables: dict[str, dict[str, bytes]] = {}
    names: list[str] = []
    cats: list[str] = []
    odd: bytes = b""
    notes: dict[str, int] = {}


def pack(columns: EventColumns | None) -> bytes:
    """The answer to a job, ready to send."""
    if columns is None:
        return msgspec.msgpack.encode(Answer(malformed=True))
    tables = {
        kind: {name: column.tobytes() for name, column in table.items()}
        for kind, table in (
            ("slices", columns.slices),
            ("flows", columns.flows),
            ("instants", columns.instants),
        )
    }
    return msgspec.msgpack.encode(
        Answer(
            events=columns.events,
            tables=tables,
            names=list(columns.names),
            cats=list(columns.cats),
            odd=_pack_odd(columns.tracks, columns.extra),
            notes=dict(columns.notes),
        )
    )


def _pack_odd(
    tracks: Sequence[tuple[int | str, int | str]], extra: Sequence[tuple[int, Mapping[str, Any]]]
) -> bytes:
    return json.dumps([tracks, extra], separators=(",", ":")).encode()


_ANSWERS = msgspec.msgpack.Decoder(Answer)


def unpack(message: bytes) -> EventColumns | None:
    """The columns of an answer; None where the piece was malformed.

    Raises:
        InternalError: decoding failed in a way that it never should.
    """
    answer = _ANSWERS.decode(message)
    if answer.error is not None:
        raise InternalError(f"decoding failed ({answer.error})")
    if answer.malformed:
        return None
    tracks, extra = json.loads(answer.odd)

    def table(kind: str) -> Table:
        columns = answer.tables[kind]
        return {name: np.frombuffer(columns[name], dtype) for name, dtype in _DTYPES[kind].items()}

    return EventColumns(
        answer.events,
        table("slices"),
        table("flows"),
        table("instants"),
        answer.names,
        answer.cats,
        [(pid, tid) for pid, tid in tracks],
        [(number, event) for number, event in extra],
        answer.notes,
    )


def send(stream: IO[bytes], message: bytes, text: bytes | None = None) -> None:
    """Write one message, and the text that belongs to it."""
    stream.write(len(message).to_bytes(8, "little"))
    stream.write(message)
    if text is not None:
        stream.write(text)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read one message; None at the end of the stream.

    Raises:
        EOFError: the stream ends inside a message.
    """
    head = stream.read(8)
    if not head:
        return None
    length = int.from_bytes(head, "little")
    message = stream.read(length) if len(head) == 8 else b""
    if len(head) < 8 or len(message) < length:
        raise EOFError("a message broke off")
    return message


def main() -> None:
    """Answer jobs until standard input ends."""
    import gc

    gc.disable()  # decoded events hold no cycles, and walking them costs a fifth of the time
    jobs = msgspec.msgpack.Decoder(Job)
    incoming, outgoing = sys.stdin.buffer, sys.stdout.buffer
    while (message := receive(incoming)) is not None:
        job = jobs.decode(message)
        if job.descriptor is None:
            text = incoming.read(job.length)
        else:
            text = os.pread(job.descriptor, job.length, job.offset)
        send(outgoing, _answer(text))


def _answer(text: bytes) -> bytes:
    try:
        return pack(decode_mended(text))
    except MalformedError:
        return pack(None)
    except Exception as error:  # told where it can be shown
        return msgspec.msgpack.encode(Answer(error=f"{type(error).__name__}: {error}"[:500]))
