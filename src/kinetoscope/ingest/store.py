"""The store: the columns of a trace kept in the user's cache, so that opening it again is fast.

One file a trace, found by a digest of samples of the input (so a copied or moved trace is found
as well) and believed only if the whole input is still the one it was made from: either its
file was not touched since (size, times, inode), or every block of it has the checksum noted in
the store. The store's own bytes carry a checksum too. A store that does not fit in any way is
ignored and made anew; deleting any or all of them is safe. Files are written beside their
place and renamed into it.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
import numpy as np
from isal import isal_zlib

from kinetoscope.ingest.assemble import Body
from kinetoscope.ingest.reader import Extent, Reading
from kinetoscope.trace import Counters, Flows, Instants, Slices, Strings, TraceWarning, Track

#: part of every file's name: raise it whenever what is stored changes its meaning
VERSION = 1
#: traces of fewer events are read again in no time
MIN_EVENTS = 150_000
_MAGIC = b"kinetoscope store\n"
_ALIGN = 64
_BLOCK_BYTES = 8 << 20
_SAMPLES, _SAMPLE_BYTES = 48, 4096
_LIMIT_BYTES = 20 << 30
#: a file changed this shortly before it was looked at could change again within its time stamp
_RACY_NS = 2_000_000_000


class _Stat(msgspec.Struct, frozen=True, array_like=True):
    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


class _Column(msgspec.Struct, frozen=True, array_like=True):
    table: str
    name: str
    dtype: str
    offset: int
    count: int


class _Contents(msgspec.Struct, frozen=True):
    """Everything of a reading but its columns, and where those lie."""

    member: str | None
    size: int
    blocks: list[int]
    columns: list[_Column]
    data_bytes: int
    data_checksum: int
    origin_ns: int
    events: int
    names: list[str]
    cats: list[str]
    tracks: list[tuple[int | str, int | str, str | None, str | None, str | None, int | None, int, int]]
    warnings: list[tuple[str, str, int]]
    header: bytes
    extents: list[tuple[int, int, int, int, bool]]
    complete: bool
    ends_early: str | None
    notes: dict[str, int]


@dataclass(frozen=True, eq=False)
class Stored:
    """A reading from the store, and why its text ended early if it did."""

    reading: Reading
    ends_early: str | None


class Store:
    """A directory of stored traces."""

    def __init__(self, where: Path) -> None:
        self._where = where

    def find(self, file: Path, member: str | None) -> Stored | None:
        """The stored reading of this file (or of its ``member``), if there is one that can be believed."""
        try:
            path = self._path(file, member)
            if not path.exists():
                return None
            contents, data = _open(path)
            if contents.member != member or not self._believes(path, file, contents):
                return None
            stored = _restore(contents, data)
            os.utime(path)  # recently used: pruned last
        except (OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError):
            return None  # damaged, or gone meanwhile: it will be made anew
        return stored

    def save(
        self, file: Path, member: str | None, before: Stamp, reading: Reading, ends_early: str | None
    ) -> None:
        """Keep a reading; ``before`` is the file's stamp from before it was read.

        Nothing is kept of a file that changed meanwhile. An OSError (disk full, no permission) is
        the caller's to judge.
        """
        self._where.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(file, member)
        blocks = list(_block_checksums(file))
        if Stamp.of(file) != before:
            return
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            with open(temporary, "wb") as out:
                _write(out, member, before.stat.size, blocks, reading, ends_early)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        _trust(path, before)
        self._prune(keep=path)

    def _path(self, file: Path, member: str | None) -> Path:
        return self._where / f"{_sample_digest(file, member)}.v{VERSION}-{sys.byteorder}.store"

    @staticmethod
    def _believes(path: Path, file: Path, contents: _Contents) -> bool:
        stamp = Stamp.of(file)
        if stamp.stat.size != contents.size:
            return False
        if _trusted(path) == stamp.stat:
            return True
        if list(_block_checksums(file)) != contents.blocks:
            return False
        _trust(path, stamp)
        return True

    def _prune(self, keep: Path) -> None:
        """Delete the least recently used beyond the limit."""
        found = []
        for path in self._where.glob("*.store"):
            try:
                stat = path.stat()
            except OSError:
                continue
            found.append((stat.st_mtime_ns, stat.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= _LIMIT_BYTES:
                break
            if path != keep:
                path.unlink(missing_ok=True)
                _trust_path(path).unlink(missing_ok=True)
                total -= size


@dataclass(frozen=True)
class Stamp:
    """What tells that a file was not touched, and when it was looked at."""

    stat: _Stat
    seen_ns: int

    @staticmethod
    def of(file: Path) -> Stamp:
        """The stamp of a file now."""
        seen = time.time_ns()
        s = os.stat(file)
        return Stamp(_Stat(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns), seen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stamp) and self.stat == other.stat

    def __hash__(self) -> int:
        return hash((self.stat.size, self.stat.mtime_ns))


def default_store() -> Store:
    """The store in the user's cache directory; KINETOSCOPE_CACHE names another."""
    return Store(_cache_home() / "traces")


def _cache_home() -> Path:
    if chosen := os.environ.get("KINETOSCOPE_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "kinetoscope" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "kinetoscope"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kinetoscope"


def _sample_digest(file: Path, member: str | None) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with open(file, "rb") as source:
        size = os.fstat(source.fileno()).st_size
        digest.update(f"{size}|{member}|".encode(errors="surrogateescape"))
        step = max(_SAMPLE_BYTES, size // _SAMPLES)
        for offset in [*range(0, size, step), max(0, size - _SAMPLE_BYTES)]:
            source.seek(offset)
            digest.update(source.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _block_checksums(file: Path) -> Iterator[int]:
    with open(file, "rb") as source:
        while block := source.read(_BLOCK_BYTES):
            yield isal_zlib.crc32(block)


def _trust_path(path: Path) -> Path:
    return path.with_suffix(".seen")


def _trusted(path: Path) -> _Stat | None:
    try:
        return msgspec.msgpack.decode(_trust_path(path).read_bytes(), type=_Stat)
    except (OSError, msgspec.MsgspecError):
        return None


def _trust(path: Path, stamp: Stamp) -> None:
    """Note that the file with this stamp is the one; not if it could still change unseen."""
    if stamp.seen_ns - max(stamp.stat.mtime_ns, stamp.stat.ctime_ns) < _RACY_NS:
        return
    target = _trust_path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}")
    temporary.write_bytes(msgspec.msgpack.encode(stamp.stat))
    os.replace(temporary, target)


def _write(
    out: IO[bytes], member: str | None, size: int, blocks: list[int], reading: Reading, ends_early: str | None
) -> None:
    """Magic, length and contents, then the columns, aligned."""
    body = reading.body
    tables: dict[str, Slices | Flows | Instants | Counters] = {
        "slices": body.slices,
        "flows": body.flows,
        "instants": body.instants,
        "counters": body.counters,
    }
    columns: list[_Column] = []
    arrays: list[np.ndarray[Any, Any]] = []
    offset = 0
    for kind, table in tables.items():
        for field in fields(table):
            array = np.ascontiguousarray(getattr(table, field.name))
            columns.append(_Column(kind, field.name, array.dtype.str, offset, len(array)))
            arrays.append(array)
            offset += _aligned(array.nbytes)
    checksum = 0
    for array in arrays:
        checksum = isal_zlib.crc32(_padded(array), checksum)
    contents = _Contents(
        member=member,
        size=size,
        blocks=blocks,
        columns=columns,
        data_bytes=offset,
        data_checksum=checksum,
        origin_ns=body.origin_ns,
        events=body.events,
        names=list(body.names),
        cats=list(body.cats),
        tracks=[
            (t.pid, t.tid, t.process_name, t.thread_name, t.labels, t.sort_index, t.first, t.last)
            for t in body.tracks
        ],
        warnings=[(w.code, w.message, w.count) for w in body.warnings],
        header=msgspec.json.encode(reading.header),
        extents=[(e.offset, e.length, e.first_event, e.events, e.salvaged) for e in reading.extents],
        complete=reading.complete,
        ends_early=ends_early,
        notes=dict(reading.notes),
    )
    packed = msgspec.msgpack.encode(contents)
    out.write(_MAGIC)
    out.write(len(packed).to_bytes(8, "little"))
    out.write(isal_zlib.crc32(packed).to_bytes(8, "little"))
    out.write(packed)
    out.write(b"\0" * (-out.tell() % _ALIGN))
    for array in arrays:
        out.write(_padded(array))


def _aligned(size: int) -> int:
    return (size + _ALIGN - 1) // _ALIGN * _ALIGN


def _padded(array: np.ndarray[Any, Any]) -> bytes:
    return array.tobytes() + b"\0" * (_aligned(array.nbytes) - array.nbytes)


def _open(path: Path) -> tuple[_Contents, memoryview]:
    with open(path, "rb") as file:
        head = file.read(len(_MAGIC) + 16)
        if not head.startswith(_MAGIC) or len(head) < len(_MAGIC) + 16:
            raise ValueError("not a store")
        length = int.from_bytes(head[len(_MAGIC) : -8], "little")
        packed = file.read(length)
        if len(packed) < length or isal_zlib.crc32(packed) != int.from_bytes(head[-8:], "little"):
            raise ValueError("damaged contents")
        contents = msgspec.msgpack.decode(packed, type=_Contents)
        start = _aligned(len(head) + length)
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    data = view[start : start + contents.data_bytes]
    if len(data) < contents.data_bytes or isal_zlib.crc32(data) != contents.data_checksum:
        raise ValueError("damaged columns")
    return contents, data


_T = TypeVar("_T")


def _restore(contents: _Contents, data: memoryview) -> Stored:
    tables: dict[str, dict[str, Any]] = {"slices": {}, "flows": {}, "instants": {}, "counters": {}}
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
        tracks=tuple(Track(*track) for track in contents.tracks),
        names=Strings(contents.names),
        cats=Strings(contents.cats),
        warnings=tuple(TraceWarning(*warning) for warning in contents.warnings),
    )
    reading = Reading(
        body=body,
        header=msgspec.json.decode(contents.header),
        extents=tuple(Extent(*extent) for extent in contents.extents),
        complete=contents.complete,
        notes=contents.notes,
    )
    return Stored(reading, contents.ends_early)
