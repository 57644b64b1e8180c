"""Bytes of a container to blocks of text: gzip of any number of members, and gzip in gzip."""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol, cast

from isal import igzip_lib, isal_zlib

from kinetoscope.errors import InputError
from kinetoscope.ingest.text import EndsEarlyError

GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
#: of each text this much is looked at to see whether it is a trace
HEAD_BYTES = 64 << 10
#: how much longer a trace is than its gzip file, at the least (10 to 20 times is usual)
GZIP_RATIO = 8
#: what unpacking raises where the data is damaged; the package's types call its class an instance
DAMAGED: tuple[type[Exception], ...] = (
    cast("type[Exception]", igzip_lib.IsalError),
    zlib.error,
    EOFError,
    OSError,
)
#: small steps: what the engine leaves over of its input is copied at every call, and where the data
#: is damaged the text of that call is lost
_READ_BYTES = 32 << 10
_STEP_BYTES = 128 << 10
_BLOCK_BYTES = 1 << 20
_NESTED = 3
_TAR_MAGIC_AT, _TAR_MAGIC = 257, b"ustar"
_OTHER_PACKERS = (
    (b"BZh", "bzip2", "bunzip2"),
    (b"\xfd7zXZ\0", "xz", "unxz"),
    (b"\x28\xb5\x2f\xfd", "zstd", "unzstd"),
    (b"\x04\x22\x4d\x18", "lz4", "unlz4"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip", "7z x"),
    (b"Rar!", "RAR", "unrar x"),
)
_WIDE = (b"\xff\xfe", b"\xfe\xff", b"{\0", b"[\0", b"\0{", b"\0[", b"\0\0\xfe\xff", b"\0\0\0{", b"\0\0\0[")


class Readable(Protocol):
    """A file, as far as it is needed here."""

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes; none at the end."""


def worth_reading(name: str) -> bool:
    """Whether a file in a directory or archive is meant to be seen; its content decides the rest."""
    parts = name.replace("\\", "/").split("/")
    return not parts[-1].startswith(".") and "__MACOSX" not in parts


def is_tar(head: bytes) -> bool:
    """Whether a file that starts so is a tar archive."""
    return head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + len(_TAR_MAGIC)] == _TAR_MAGIC


def refuse_others(head: bytes, name: str) -> None:
    """Name the formats that are recognised, and that are not read.

    Raises:
        InputError: it is one of them.
    """
    for magic, packer, command in _OTHER_PACKERS:
        if head.startswith(magic):
            raise InputError(f"cannot read {name}: it is packed with {packer}; unpack it first ({command})")
    if head.startswith(_WIDE):
        raise InputError(
            f"cannot read {name}: it is text in UTF-16 or UTF-32; convert it to UTF-8 first "
            "(iconv -f UTF-16 -t UTF-8)"
        )


def text_blocks(file: Readable, name: str, consumed: Callable[[], None] | None = None) -> Iterator[bytes]:
    """The text in a file that is plain or gzipped, as often as it may be.

    Raises:
        InputError: nothing of it can be unpacked.
        EndsEarlyError: the rest of it cannot.
    """
    source: Readable = Chained(b"", file)
    for _ in range(_NESTED):
        head = source.read(len(GZIP))
        source = Chained(head, source)
        if head != GZIP:
            break
        source = BlockFile(gunzip(source, name, consumed))
        consumed = None
    head = source.read(16)
    refuse_others(head, name)
    source = Chained(head, source)
    while block := source.read(_BLOCK_BYTES):
        yield block


def gunzip(file: Readable, name: str, consumed: Callable[[], None] | None = None) -> Iterator[bytes]:
    """The text of a gzip file in large blocks.

    Raises:
        InputError: nothing of it can be unpacked.
        EndsEarlyError: the rest of it cannot.
    """
    parts: list[bytes] = []
    size = 0
    seen = False
    try:
        for part in _gunzip(file):
            parts.append(part)
            size += len(part)
            if size >= _BLOCK_BYTES:
                seen = True
                yield b"".join(parts)
                parts, size = [], 0
                if consumed is not None:
                    consumed()
    except DAMAGED as error:
        if not seen and not parts:
            raise InputError(f"cannot read {name}: damaged gzip data ({_plain(error)})") from None
        yield b"".join(parts)
        raise EndsEarlyError(f"the gzip data is damaged ({_plain(error)})") from None
    except EndsEarlyError as error:
        if not seen and not parts:
            raise InputError(f"cannot read {name}: {error} before any text") from None
        yield b"".join(parts)
        raise
    if parts:
        yield b"".join(parts)
    if consumed is not None:
        consumed()


def _plain(error: Exception) -> str:
    """The engine's words without its number: ``Error -6 Incorrect checksum found``."""
    return re.sub(r"^Error -?\d+ ", "", str(error)).lower()


def _gunzip(file: Readable) -> Iterator[bytes]:
    """The text of every member, in steps; zeros and garbage after the last are no part of it."""
    engine = isal_zlib.decompressobj(wbits=31)
    data = file.read(_READ_BYTES)
    while data:
        if step := engine.decompress(data, _STEP_BYTES):
            yield step
        if engine.eof:
            data = engine.unused_data.lstrip(b"\0")
            while not data and (more := file.read(_READ_BYTES)):
                data = more.lstrip(b"\0")
            if len(data) == 1:
                data += file.read(_READ_BYTES)
            if not data.startswith(GZIP):
                return
            engine = isal_zlib.decompressobj(wbits=31)
        else:
            data = engine.unconsumed_tail or file.read(_READ_BYTES)
    # what the engine still holds
    while not engine.eof and (step := engine.decompress(b"", _STEP_BYTES)):
        yield step
    if not engine.eof:
        raise EndsEarlyError("the gzip data ends early")


class Chained:
    """A file with some bytes of its own in front."""

    def __init__(self, head: bytes, file: Readable) -> None:
        self._head = head
        self._file = file

    def read(self, size: int, /) -> bytes:
        """The head first, then the file."""
        if not self._head:
            return self._file.read(size)
        head, self._head = self._head, b""
        return head + self._file.read(max(1, size - len(head)))


class BlockFile:
    """A file made of blocks; reads never join two, so that blocks pass through as they are."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = b""

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes, and at least one before the end."""
        block = self._rest
        while not block:
            try:
                block = next(self._blocks)
            except StopIteration:
                return b""
        self._rest = block[size:]
        return block[:size]


class FullFile(BlockFile):
    """A file made of blocks whose reads are full, as archive readers expect.

    It simply ends where the blocks break off: the reader of the archive sees what is missing.
    """

    def read(self, size: int, /) -> bytes:
        """``size`` bytes; fewer only at the end."""
        parts = []
        with contextlib.suppress(EndsEarlyError):
            while size > 0 and (part := super().read(size)):
                parts.append(part)
                size -= len(part)
        return b"".join(parts)


__all__ = [
    "DAMAGED",
    "GZIP",
    "GZIP_RATIO",
    "HEAD_BYTES",
    "ZIP",
    "BlockFile",
    "Chained",
    "FullFile",
    "Readable",
    "gunzip",
    "is_tar",
    "refuse_others",
    "text_blocks",
    "worth_reading",
]
