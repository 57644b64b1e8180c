"""One stored reading as a file: magic, contents (MessagePack), columns, each with a checksum.

Columns are mapped into memory when a store is opened, and written one after the other from where
they are, so that neither needs room for a second copy.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
import numpy as np
from isal import isal_zlib

from kinetoscope.ingest.assemble import Body
from kinetoscope.ingest.reader import Extent, Reading
from kinetoscope.trace import Counters, Flows, Instants, Slices, Strings, TraceWarning, Track

#: raise it whenever what is stored changes its meaning
VERSION = 2
_MAGIC = b"kinetoscope store %d\n" % VERSION
_NUMBER_BYTES = 8
_ALIGN = 64

_T = TypeVar("_T")
_Array = np.ndarray[Any, Any]
_Tables = dict[str, dict[str, _Array]]


@dataclass(frozen=True, eq=False)
class Stored:
    """A reading from the store, and why its text ended early if it did."""

    reading: Reading
    ends_early: str | None


@dataclass(frozen=True)
class Origin:
    """What a reading was made from: the input's size, a checksum of each of its blocks, the member."""

    member: bytes | None
    size: int
    blocks: tuple[int, ...]


class _Column(msgspec.Struct, frozen=True, array_like=True):
    table: str
    name: str
    dtype: str
    offset: int
    count: int


class _Contents(msgspec.Struct, frozen=True):
    """Everything of a reading but its columns, and where those lie.

    ``header`` and ``tracks`` are JSON as Python writes it: a file can hold numbers and half
    characters there that MessagePack has no form for.
    """

    member: bytes | None
    size: int
    blocks: tuple[int, ...]
    columns: list[_Column]
    data_bytes: int
    data_checksum: int
    origin_ns: int
    events: int
    names: list[str]
    cats: list[str]
    tracks: bytes
    warnings: list[tuple[str, str, int]]
    header: bytes
    extents: list[tuple[int, int, int, int, bool]]
    complete: bool
    ends_early: str | None
    notes: dict[str, int]


class StoreFile:
    """An open store: where it comes from can be asked before anything is made of it.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged, of another version, or another user's.
        msgspec.MsgspecError: the same.
    """

    def __init__(self, path: Path) -> None:
        with open(path, "rb") as file:
            stat = os.fstat(file.fileno())
            if hasattr(os, "geteuid") and stat.st_uid != os.geteuid():
                raise ValueError("written by another user")
            head = file.read(len(_MAGIC) + 2 * _NUMBER_BYTES)
            if not head.startswith(_MAGIC) or len(head) < len(_MAGIC) + 2 * _NUMBER_BYTES:
                raise ValueError("not a store")
            length = int.from_bytes(head[len(_MAGIC) : -_NUMBER_BYTES], "little")
            #: of the contents, and through them of everything
            self.checksum = int.from_bytes(head[-_NUMBER_BYTES:], "little")
            packed = file.read(min(length, stat.st_size))
            if len(packed) < length or isal_zlib.crc32(packed) != self.checksum:
                raise ValueError("damaged contents")
            self._contents = msgspec.msgpack.decode(packed, type=_Contents)
            start = _aligned(len(head) + length)
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        self._data = view[start : start + self._contents.data_bytes]

    @property
    def origin(self) -> Origin:
        """What it says that it was made from."""
        return Origin(self._contents.member, self._contents.size, self._contents.blocks)

    def restore(self) -> Stored:
        """The reading; its columns are in the mapped file.

        Raises:
            ValueError: the columns are damaged.
        """
        contents, data = self._contents, self._data
        if len(data) < contents.data_bytes or isal_zlib.crc32(data) != contents.data_checksum:
            raise ValueError("damaged columns")
        tables: _Tables = {"slices": {}, "flows": {}, "instants": {}, "counters": {}}
        for column in contents.columns:
            dtype = np.dtype(column.dtype)
            tables[column.table][column.name] = np.frombuffer(data, dtype, column.count, column.offset)

        def table(kind: Callable[..., _T], name: str) -> _T:
            return kind(**tables[name])

        body = Body(
            origin_ns=contents.origin_ns,
            events=contents.events,
            slices=table(Slices, "slices"),
            flows=table(Flows, "flows"),
            instants=table(Instants, "instants"),
            counters=table(Counters, "counters"),
            tracks=tuple(Track(*track) for track in json.loads(contents.tracks)),
            names=Strings(contents.names),
            cats=Strings(contents.cats),
            warnings=tuple(TraceWarning(*warning) for warning in contents.warnings),
        )
        reading = Reading(
            body=body,
            header=json.loads(contents.header),
            extents=tuple(Extent(*extent) for extent in contents.extents),
            complete=contents.complete,
            notes=contents.notes,
        )
        return Stored(reading, contents.ends_early)


def data_bytes(reading: Reading) -> int:
    """About how much room a reading takes."""
    return sum(_aligned(array.nbytes) for _, _, array in _arrays(reading.body))


def write(
    out: IO[bytes], origin: Origin, reading: Reading, ends_early: str | None, go_on: Callable[[], None]
) -> int:
    """Write a reading; ``go_on`` is called before each step, and may raise to stop. Returns the checksum."""
    body = reading.body
    columns: list[_Column] = []
    offset = checksum = 0
    for kind, name, array in _arrays(body):
        go_on()
        columns.append(_Column(kind, name, array.dtype.str, offset, len(array)))
        offset += _aligned(array.nbytes)
        checksum = isal_zlib.crc32(_padding(array), isal_zlib.crc32(_bytes_of(array), checksum))
    packed = msgspec.msgpack.encode(
        _Contents(
            member=origin.member,
            size=origin.size,
            blocks=origin.blocks,
            columns=columns,
            data_bytes=offset,
            data_checksum=checksum,
            origin_ns=body.origin_ns,
            events=body.events,
            names=list(body.names),
            cats=list(body.cats),
            tracks=json.dumps(
                [
                    (t.pid, t.tid, t.process_name, t.thread_name, t.labels, t.sort_index, t.first, t.last)
                    for t in body.tracks
                ]
            ).encode(),
            warnings=[(w.code, w.message, w.count) for w in body.warnings],
            header=json.dumps(reading.header).encode(),
            extents=[(e.offset, e.length, e.first_event, e.events, e.salvaged) for e in reading.extents],
            complete=reading.complete,
            ends_early=ends_early,
            notes=dict(reading.notes),
        )
    )
    out.write(_MAGIC)
    out.write(len(packed).to_bytes(_NUMBER_BYTES, "little"))
    packed_checksum = isal_zlib.crc32(packed)
    out.write(packed_checksum.to_bytes(_NUMBER_BYTES, "little"))
    out.write(packed)
    out.write(b"\0" * (-out.tell() % _ALIGN))
    for _, _, array in _arrays(body):
        go_on()
        out.write(_bytes_of(array))
        out.write(_padding(array))
    return packed_checksum


def _arrays(body: Body) -> list[tuple[str, str, _Array]]:
    tables: dict[str, Slices | Flows | Instants | Counters] = {
        "slices": body.slices,
        "flows": body.flows,
        "instants": body.instants,
        "counters": body.counters,
    }
    return [
        (kind, field.name, np.ascontiguousarray(getattr(table, field.name)))
        for kind, table in tables.items()
        for field in fields(table)
    ]


def _bytes_of(array: _Array) -> memoryview:
    return array.view(np.uint8).data if len(array) else memoryview(b"")


def _padding(array: _Array) -> bytes:
    return b"\0" * (_aligned(array.nbytes) - array.nbytes)


def _aligned(size: int) -> int:
    return (size + _ALIGN - 1) // _ALIGN * _ALIGN
