"""A decoding process: reads pieces named on standard input, answers with columns on standard output.

Started as ``python -c`` by `kinetoscope.ingest.pool`, so that it is the same on every platform,
needs no guard in the caller's ``__main__`` and inherits nothing from a process that may run
threads. Every message is its length in eight bytes and that many bytes of MessagePack.
"""

from __future__ import annotations

import sys
from typing import IO, Any

import msgspec
import numpy as np

from kinetoscope.ingest.events import (
    FLOW_DTYPES,
    INSTANT_DTYPES,
    SLICE_DTYPES,
    EventColumns,
    MalformedError,
    Table,
)
from kinetoscope.ingest.repair import decode_mended

_DTYPES = {"slices": SLICE_DTYPES, "flows": FLOW_DTYPES, "instants": INSTANT_DTYPES}


class Job(msgspec.Struct, array_like=True):
    """A piece to decode: a range of a file, or the text itself."""

    path: str | None
    offset: int
    length: int
    text: bytes | None


class Answer(msgspec.Struct, array_like=True):
    """Columns as bytes by table and name, or ``malformed``."""

    malformed: bool
    events: int = 0
    tables: dict[str, dict[str, bytes]] = {}
    names: list[str] = []
    cats: list[str] = []
    tracks: list[tuple[int | str, int | str]] = []
    extra: list[tuple[int, dict[str, Any]]] = []
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
            False,
            columns.events,
            tables,
            list(columns.names),
            list(columns.cats),
            list(columns.tracks),
            [(number, dict(event)) for number, event in columns.extra],
            dict(columns.notes),
        )
    )


_ANSWERS = msgspec.msgpack.Decoder(Answer)


def unpack(message: bytes) -> EventColumns | None:
    """The columns of an answer; None where the piece was malformed."""
    answer = _ANSWERS.decode(message)
    if answer.malformed:
        return None

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
        answer.tracks,
        answer.extra,
        answer.notes,
    )


def send(stream: IO[bytes], message: bytes) -> None:
    """Write one message."""
    stream.write(len(message).to_bytes(8, "little"))
    stream.write(message)
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
    files: dict[str, IO[bytes]] = {}
    while (message := receive(sys.stdin.buffer)) is not None:
        job = jobs.decode(message)
        if job.text is not None:
            text = job.text
        else:
            path = job.path or ""
            if path not in files:
                files[path] = open(path, "rb", buffering=0)  # noqa: SIM115 - ends with the process
            files[path].seek(job.offset)
            text = files[path].read(job.length)
        try:
            columns = decode_mended(text)
        except MalformedError:
            columns = None
        send(sys.stdout.buffer, pack(columns))
