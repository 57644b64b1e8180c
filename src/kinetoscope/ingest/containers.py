"""From a path to the texts in it. Content decides what a file is, never its name.

Plain JSON, gzip (of one or several members), zip and tar (gzipped or not) are told by their first
bytes. Archives and directories give one text a trace in them: the ranks of one job.
"""

from __future__ import annotations

import io
import os
import stat
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, cast

from isal import igzip, igzip_lib, isal_zlib

from kinetoscope.errors import InputError
from kinetoscope.ingest.text import EndsEarlyError, FileText, StreamText, Text

# the package's types call its exception class an instance
_DAMAGED_GZIP = cast("type[Exception]", igzip_lib.IsalError)
_DAMAGED_TAR = (OSError, EOFError, tarfile.TarError, _DAMAGED_GZIP)
_BLOCK_BYTES = 1 << 20
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"
_TAR_MAGIC_AT, _TAR_MAGIC = 257, b"ustar"
_TRACE_ENDINGS = (".json", ".json.gz", ".zip", ".tar.gz", ".tgz", ".tar", ".gz")
#: files of a capture directory that are JSON and no traces
_NOT_TRACES = frozenset({"manifest.json", "counters.json", "cudagraph_skips.json", "facts.json"})
MANIFEST = "manifest.json"


class OpenText(Protocol):
    """Opens a text from its start, as often as asked."""

    def __call__(self) -> Text:
        """A new reader; the caller closes it."""


@dataclass(frozen=True)
class Source:
    """One trace in an input.

    ``label`` names it for people, ``file`` is the file on disk it is or is in (None: standard
    input), ``member`` its name inside an archive.
    """

    label: str
    file: Path | None
    member: str | None
    open: OpenText


def find_sources(path: str) -> list[Source]:
    """The traces of one INPUT argument.

    Raises:
        InputError: it is missing, cannot be read, or holds no trace.
    """
    if path == "-":
        return [_standard_input()]
    where = Path(path)
    try:
        mode = os.stat(where).st_mode
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    if stat.S_ISDIR(mode):
        return _directory(where)
    if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
        raise InputError(f"cannot read {path}: it is a {_kind(mode)}, not a file")
    return _file(where, is_pipe=stat.S_ISFIFO(mode))


def _directory(where: Path) -> list[Source]:
    try:
        names = sorted(os.listdir(where))
    except OSError as error:
        raise InputError(f"cannot read {where}: {error.strerror or error}") from None
    chosen = [
        where / name
        for name in names
        if name.lower().endswith(_TRACE_ENDINGS)
        and name not in _NOT_TRACES
        and not name.endswith((".reference.json", ".facts.json", ".log.gz"))
        and (where / name).is_file()
    ]
    if not chosen:
        raise InputError(
            f"no trace in the directory {where}: expected .json, .json.gz, .zip or .tar.gz files"
        )
    return [source for path in chosen for source in _file(path, is_pipe=False)]


def _file(where: Path, *, is_pipe: bool) -> list[Source]:
    if is_pipe:
        return [Source(str(where), None, None, lambda: _sniffed_stream(open(where, "rb")))]
    try:
        with open(where, "rb") as file:
            head = file.read(512)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise InputError(f"cannot read {where}: {error.strerror or error}") from None
    if not head:
        raise InputError(f"{where} is empty (0 bytes); was the profiler's export interrupted?")
    if head.startswith(_ZIP):
        return _zip(where)
    if head.startswith(_GZIP):
        if _is_tar(_first_block(where)):
            return _tar(where, gzipped=True)
        return [Source(str(where), where, None, lambda: gzip_text(where, size))]
    if _is_tar(head):
        return _tar(where, gzipped=False)
    return [Source(str(where), where, None, lambda: FileText(where))]


def gzip_text(where: Path, size: int | None) -> StreamText:
    """The text of a gzip file."""
    holder: list[StreamText] = []

    def blocks() -> Iterator[bytes]:
        with open(where, "rb") as file:
            for block in _gunzip(file, str(where)):
                if holder:
                    holder[0].consumed = file.tell()
                yield block

    text = StreamText(blocks, again=True, total=size)
    holder.append(text)
    return text


def _gunzip(file: IO[bytes], name: str) -> Iterator[bytes]:
    engine = isal_zlib.decompressobj(wbits=31)
    data = file.read(_BLOCK_BYTES)
    seen = False
    while data:
        try:
            block = engine.decompress(data)
        except _DAMAGED_GZIP as error:
            if not seen:
                raise InputError(f"cannot read {name}: damaged gzip data ({error})") from None
            raise EndsEarlyError(f"the gzip data is damaged ({error})") from None
        if block:
            seen = True
            yield block
        if engine.eof:
            data = engine.unused_data.lstrip(b"\0")
            if not data:
                data = file.read(_BLOCK_BYTES).lstrip(b"\0")
            if not data:
                return
            if not data.startswith(_GZIP[: len(data)]):
                return  # bytes after the last member are no part of it
            engine = isal_zlib.decompressobj(wbits=31)
        else:
            data = file.read(_BLOCK_BYTES)
    if not engine.eof:
        raise EndsEarlyError("the gzip data ends early")


def _first_block(where: Path) -> bytes:
    with open(where, "rb") as file:
        try:
            return next(iter(_gunzip(file, str(where))), b"")
        except EndsEarlyError:
            return b""


def _is_tar(head: bytes) -> bool:
    return head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + len(_TAR_MAGIC)] == _TAR_MAGIC


def _zip(where: Path) -> list[Source]:
    try:
        with zipfile.ZipFile(where) as archive:
            members = [m for m in archive.infolist() if not m.is_dir() and _looks_like_trace(m.filename)]
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot read {where}: damaged zip file ({error})") from None
    if not members:
        raise InputError(f"no trace in {where}: expected .json or .json.gz members")

    def opener(member: zipfile.ZipInfo) -> OpenText:
        def open_text() -> Text:
            def blocks() -> Iterator[bytes]:
                try:
                    with zipfile.ZipFile(where) as archive, archive.open(member) as file:
                        yield from _maybe_gunzip(file, f"{where}:{member.filename}")
                except RuntimeError as error:  # encrypted
                    raise InputError(f"cannot read {where}:{member.filename}: {error}") from None
                except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
                    raise EndsEarlyError(f"the zip member is damaged ({error})") from None

            return StreamText(blocks, again=True, total=None)

        return open_text

    return [Source(f"{where}:{m.filename}", where, m.filename, opener(m)) for m in members]


def _tar(where: Path, *, gzipped: bool) -> list[Source]:
    def open_archive() -> tarfile.TarFile:
        if not gzipped:
            return tarfile.open(where, "r:")
        unpacked = cast("IO[bytes]", igzip.IGzipFile(where, "rb"))  # type: ignore[no-untyped-call]
        return tarfile.open(fileobj=unpacked, mode="r|")

    names: list[str] = []
    try:
        with open_archive() as archive:
            # one at a time: the names before a damaged place count
            names.extend(m.name for m in archive if m.isfile() and _looks_like_trace(m.name))
    except _DAMAGED_TAR as error:
        if not names:
            raise InputError(f"cannot read {where}: damaged tar file ({error})") from None
    if not names:
        raise InputError(f"no trace in {where}: expected .json or .json.gz members")

    def opener(name: str) -> OpenText:
        def open_text() -> Text:
            def blocks() -> Iterator[bytes]:
                try:
                    with open_archive() as archive:
                        for member in archive:
                            if member.name == name and (file := archive.extractfile(member)) is not None:
                                yield from _maybe_gunzip(file, f"{where}:{name}")
                                return
                except _DAMAGED_TAR as error:
                    raise EndsEarlyError(f"the tar file is damaged ({error})") from None

            return StreamText(blocks, again=True, total=None)

        return open_text

    return [Source(f"{where}:{name}", where, name, opener(name)) for name in names]


def _looks_like_trace(name: str) -> bool:
    base = os.path.basename(name)
    return base.lower().endswith((".json", ".gz")) and base not in _NOT_TRACES and not base.startswith("._")


def _maybe_gunzip(file: IO[bytes], name: str) -> Iterator[bytes]:
    head = file.read(2)
    whole: Any = _Chained(head, file)
    if head == _GZIP:
        yield from _gunzip(whole, name)
        return
    while block := whole.read(_BLOCK_BYTES):
        yield block


def _standard_input() -> Source:
    return Source("standard input", None, None, lambda: _sniffed_stream(sys.stdin.buffer))


def _sniffed_stream(file: IO[bytes]) -> Text:
    def blocks() -> Iterator[bytes]:
        yield from _maybe_gunzip(file, "standard input")

    return StreamText(blocks, again=False, total=None)


class _Chained(io.RawIOBase):
    """A stream with some bytes of its own in front."""

    def __init__(self, head: bytes, file: IO[bytes]) -> None:
        self._head = head
        self._file = file

    def read(self, size: int = -1) -> bytes:
        """The head first, then the stream."""
        head, self._head = self._head, b""
        return head + (self._file.read(size) or b"")


def _kind(mode: int) -> str:
    for test, name in (
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISCHR, "device"),
        (stat.S_ISBLK, "device"),
        (stat.S_ISLNK, "link"),
    ):
        if test(mode):
            return name
    return "special file"
