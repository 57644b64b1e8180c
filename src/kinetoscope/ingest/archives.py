"""The members of a zip or tar file that may be traces.

An archive that was cut off still gives the members before the cut, and the one it was cut in.
"""

from __future__ import annotations

import contextlib
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from kinetoscope.errors import InputError
from kinetoscope.ingest.text import EndsEarlyError, OpenBlocks, shown
from kinetoscope.ingest.unpack import (
    DAMAGED,
    GZIP_RATIO,
    HEAD_BYTES,
    ZIP,
    BlockFile,
    FullFile,
    Readable,
    gunzip,
    text_blocks,
    worth_reading,
)

_BUFFER_BYTES = 1 << 20
_Errors = tuple[type[Exception], ...]
_DAMAGED_ZIP: _Errors = (zipfile.BadZipFile, ValueError, NotImplementedError, *DAMAGED)
_DAMAGED_MEMBER: _Errors = (zipfile.BadZipFile, tarfile.TarError, *DAMAGED)
_DAMAGED_TAR: _Errors = (tarfile.TarError, EndsEarlyError, *DAMAGED)


@dataclass(frozen=True)
class Member:
    """A file in an archive: its name (made distinct), the start of its text, and how to get all of it."""

    name: str
    head: bytes
    expected_bytes: int
    open_blocks: OpenBlocks


def zip_members(where: Path, name: str) -> list[Member]:
    """The members of a zip file, which messages call ``name``.

    Raises:
        InputError: it cannot be read at all.
    """
    try:
        with zipfile.ZipFile(where) as archive:
            infos = [i for i in archive.infolist() if not i.is_dir() and worth_reading(i.filename)]
    except _DAMAGED_ZIP as error:
        salvaged = list(_zip_without_directory(where, name))
        if salvaged:
            return salvaged
        raise InputError(f"cannot read {name}: damaged zip file ({_plain(error)})") from None
    names = _distinct(info.filename for info in infos)
    return [
        _zip_member(where, f"{name}:{shown(own)}", own, info) for own, info in zip(names, infos, strict=True)
    ]


def _zip_member(where: Path, label: str, name: str, info: zipfile.ZipInfo) -> Member:

    @contextlib.contextmanager
    def opened() -> Iterator[Readable]:
        with zipfile.ZipFile(where) as archive, archive.open(info) as file:
            yield file

    def blocks() -> Iterator[bytes]:
        return _member_blocks(opened, label, "the zip member is damaged")

    head = _head(blocks)
    ratio = GZIP_RATIO if info.filename.lower().endswith(".gz") else 1
    return Member(name, head, info.file_size * ratio, blocks)


def _member_blocks(
    opened: Callable[[], AbstractContextManager[Readable]], label: str, damaged: str
) -> Iterator[bytes]:
    seen = False
    try:
        with opened() as file:
            for block in text_blocks(file, label):
                seen = True
                yield block
    except RuntimeError as error:  # encrypted, or packed in a way that zipfile does not know
        raise InputError(f"cannot read {label}: {_plain(error)}") from None
    except _DAMAGED_MEMBER as error:
        if not seen:
            raise InputError(f"cannot read {label}: {damaged} ({_plain(error)})") from None
        raise EndsEarlyError(f"{damaged} ({_plain(error)})") from None


def _head(open_blocks: OpenBlocks) -> bytes:
    """The start of a member's text; whatever is wrong with it is said when it is read."""
    head = b""
    blocks = open_blocks()
    with contextlib.suppress(InputError, EndsEarlyError):
        while len(head) < HEAD_BYTES and (block := next(blocks, None)) is not None:
            head += block[: HEAD_BYTES - len(head)]
    cast("Generator[bytes, None, None]", blocks).close()
    return head


_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_ENCRYPTED, _SIZES_FOLLOW, _UTF8 = 1, 8, 1 << 11
_STORED, _DEFLATED = 0, 8


def _zip_without_directory(where: Path, label: str) -> Iterator[Member]:
    """Members of a zip file whose directory, which is at its end, is missing: from their own headers."""
    with open(where, "rb") as file:
        offset = 0
        while True:
            file.seek(offset)
            fields = file.read(_LOCAL.size)
            if len(fields) < _LOCAL.size or not fields.startswith(ZIP):
                return
            _, _, flags, method, _, _, _, packed, _, name_bytes, extra_bytes = _LOCAL.unpack(fields)
            raw_name = file.read(name_bytes)
            start = offset + _LOCAL.size + name_bytes + extra_bytes
            known = packed not in (0, 0xFFFFFFFF) and not flags & _SIZES_FOLLOW
            if flags & _ENCRYPTED or method not in (_STORED, _DEFLATED) or (method == _STORED and not known):
                return
            name = raw_name.decode("utf-8" if flags & _UTF8 else "cp437", "replace")
            size = packed if known else None
            if worth_reading(name):
                yield _bare_member(where, label, name, start, size, deflated=method == _DEFLATED)
            end = start + packed if known else _deflated_end(where, start)
            if end is None:
                return
            offset = end


def _bare_member(
    where: Path, archive: str, name: str, start: int, size: int | None, *, deflated: bool
) -> Member:
    @contextlib.contextmanager
    def opened() -> Iterator[Readable]:
        with open(where, "rb") as file:
            file.seek(start)
            yield BlockFile(_inflated(file) if deflated else _exactly(file, size or 0, "zip"))

    def blocks() -> Iterator[bytes]:
        return _member_blocks(opened, f"{archive}:{shown(name)}", "the zip file is damaged")

    return Member(name, _head(blocks), 0, blocks)


def _inflated(file: IO[bytes]) -> Iterator[bytes]:
    engine = zlib.decompressobj(-15)
    data = file.read(_BUFFER_BYTES)
    while data:
        block = engine.decompress(data, _BUFFER_BYTES)
        if block:
            yield block
        if engine.eof:
            return
        data = engine.unconsumed_tail or file.read(_BUFFER_BYTES)
    raise EOFError("the zip file ends early")


def _exactly(file: Readable, size: int, kind: str) -> Iterator[bytes]:
    """The next bytes of a file, which must be there."""
    while size > 0:
        block = file.read(min(size, _BUFFER_BYTES))
        if not block:
            raise EOFError(f"the {kind} file ends early")
        size -= len(block)
        yield block


def _deflated_end(where: Path, start: int) -> int | None:
    """Where the next local header begins after deflated data of unknown length."""
    engine = zlib.decompressobj(-15)
    with open(where, "rb") as file:
        file.seek(start)
        try:
            while not engine.eof and (data := engine.unconsumed_tail or file.read(_BUFFER_BYTES)):
                engine.decompress(data, _BUFFER_BYTES)
        except zlib.error:
            return None
        if not engine.eof:
            return None
        rest = engine.unused_data + file.read(64)
        at = rest.find(ZIP)
        return None if at < 0 else file.tell() - len(rest) + at


def tar_members(where: Path, name: str, *, gzipped: bool) -> list[Member]:
    """The members of a tar file, itself gzipped or not, which messages call ``name``.

    Raises:
        InputError: it cannot be read at all.
    """
    found: list[tuple[tarfile.TarInfo, bytes]] = []
    try:
        with open(where, "rb") as file, contextlib.ExitStack() as stack:
            tar = stack.enter_context(_open_tar(file, name, gzipped=gzipped))
            # one at a time: those before a damaged place count
            for info in tar:
                if info.isfile() and not info.issparse() and worth_reading(info.name):
                    found.append((info, b""))
                    found[-1] = (info, _tar_head(tar, info))
    except _DAMAGED_TAR as error:
        if not found:
            raise InputError(f"cannot read {name}: damaged tar file ({_plain(error)})") from None
    names = _distinct(info.name for info, _ in found)
    return [
        _tar_member(where, name, own, info, head, gzipped=gzipped)
        for own, (info, head) in zip(names, found, strict=True)
    ]


def _open_tar(file: IO[bytes], name: str, *, gzipped: bool) -> tarfile.TarFile:
    if not gzipped:
        return tarfile.open(fileobj=file, mode="r:")
    return tarfile.open(
        fileobj=cast("IO[bytes]", FullFile(gunzip(file, name))), mode="r|", bufsize=_BUFFER_BYTES
    )


def _tar_head(tar: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(info)
    return b"" if file is None else _head(lambda: text_blocks(_Limited(file, HEAD_BYTES), ""))


class _Limited:
    """The first bytes of a file."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes."""
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data


def _tar_member(
    where: Path, archive: str, name: str, info: tarfile.TarInfo, head: bytes, *, gzipped: bool
) -> Member:
    # not through tarfile, which gives nothing of a last read that falls short
    @contextlib.contextmanager
    def opened() -> Iterator[Readable]:
        with open(where, "rb") as file:
            if gzipped:
                whole: Readable = BlockFile(gunzip(file, archive))
                skip = info.offset_data
                while skip > 0 and (block := whole.read(min(skip, _BUFFER_BYTES))):
                    skip -= len(block)
            else:
                file.seek(info.offset_data)
                whole = file
            yield BlockFile(_exactly(whole, info.size, "tar"))

    def blocks() -> Iterator[bytes]:
        return _member_blocks(opened, f"{archive}:{shown(name)}", "the tar file is damaged")

    expected = info.size * (GZIP_RATIO if name.lower().endswith(".gz") else 1)
    return Member(name, head, expected, blocks)


def _distinct(names: Iterator[str]) -> list[str]:
    """An archive may hold a name twice; the second gets a number."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return found


def _plain(error: Exception) -> str:
    return shown(error) or type(error).__name__


__all__ = ["Member", "tar_members", "zip_members"]
