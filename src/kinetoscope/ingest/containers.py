"""From a path to the texts in it. Content decides what a file is, never its name.

Plain JSON, gzip (of one or several members), zip and tar (gzipped or not) are told by their first
bytes. Archives and directories give one text a trace in them: the ranks of one job. What is no
trace in them (manifests, logs, scripts) is left out.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from kinetoscope.errors import InputError, NotATraceError
from kinetoscope.ingest.document import NeedMoreError, find_events
from kinetoscope.ingest.text import FileText, StreamText, Text, shown
from kinetoscope.ingest.unpack import (
    GZIP,
    GZIP_RATIO,
    HEAD_BYTES,
    ZIP,
    FullFile,
    gunzip,
    is_tar,
    refuse_others,
    text_blocks,
    worth_reading,
)

if TYPE_CHECKING:
    from kinetoscope.ingest.archives import Member

_SNIFFED_BYTES = 512
#: an empty or unreadable file of such a name, among others, was meant to be a trace
_TRACE_ENDINGS = (".json", ".json.gz", ".zip", ".tar.gz", ".tgz", ".tar")
_CAPTURE_SCHEMA = "kinetoscope.capture/"
_COPY_BYTES = 1 << 20
_STANDARD_INPUT = "standard input"


class OpenText(Protocol):
    """Opens a text from its start, as often as asked."""

    def __call__(self) -> Text:
        """A new reader; the caller closes it."""


@dataclass(frozen=True)
class Source:
    """One trace in an input.

    ``label`` is its path, with the member of an archive after a colon; ``file`` is the file on
    disk it is or is in (None: it came through a pipe), ``member`` its name inside an archive.
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
        return _piped(_standard_input(), _STANDARD_INPUT)
    where = Path(path)
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            return _directory(where)
        if stat.S_ISFIFO(mode):
            with open(where, "rb") as pipe:
                return _piped(pipe, path)
        if not stat.S_ISREG(mode):
            raise InputError(f"cannot read {shown(path)}: it is a {_kind(mode)}, not a file")
        return _file(where)
    except OSError as error:
        raise InputError(f"cannot read {shown(path)}: {error.strerror or error}") from None
    except ValueError as error:  # a zero byte in the name
        raise InputError(f"cannot read {shown(path)}: {error}") from None


def _file(where: Path, label: str | None = None) -> list[Source]:
    """The traces in a file, which is called ``label`` where its path would tell nothing.

    Raises:
        OSError: it cannot be read.
        InputError: as `find_sources`.
    """
    label = str(where) if label is None else label
    name = shown(label)
    with open(where, "rb") as file:
        head = file.read(_SNIFFED_BYTES)
        size = os.fstat(file.fileno()).st_size
    if not head:
        raise InputError(f"{name} is empty (0 bytes); was the profiler's export interrupted?")
    if head.startswith(ZIP):
        from kinetoscope.ingest.archives import zip_members

        return _members(where, label, zip_members(where, name))
    gzipped = head.startswith(GZIP)
    if is_tar(_start_of_gzip(where, name) if gzipped else head):
        from kinetoscope.ingest.archives import tar_members

        return _members(where, label, tar_members(where, name, gzipped=gzipped))
    if gzipped:
        return [Source(label, where, None, lambda: _gzip_text(where, name, size))]
    refuse_others(head, name)
    return [Source(label, where, None, lambda: FileText(where))]


def _gzip_text(where: Path, name: str, size: int) -> StreamText:
    holder: list[StreamText] = []

    def blocks() -> Iterator[bytes]:
        with open(where, "rb") as file:

            def consumed() -> None:
                if holder:
                    holder[0].consumed = file.tell()

            yield from text_blocks(file, name, consumed)

    text = StreamText(blocks, total=size, expected_bytes=size * GZIP_RATIO)
    holder.append(text)
    return text


def _start_of_gzip(where: Path, name: str) -> bytes:
    with open(where, "rb") as file:
        return FullFile(gunzip(file, name)).read(_SNIFFED_BYTES)


def _members(where: Path, label: str, members: Sequence[Member]) -> list[Source]:
    def source(member: Member) -> Source:
        def open_text() -> Text:
            return StreamText(member.open_blocks, expected_bytes=member.expected_bytes)

        return Source(f"{label}:{member.name}", where, member.name, open_text)

    found = [(source(member), _looks(member.head, whole=len(member.head) < HEAD_BYTES)) for member in members]
    return _traces_among(found, f"{shown(label)}: none of its {len(members)} files is one")


def _directory(where: Path) -> list[Source]:
    captured = _captured(where)
    if captured is not None:
        return [source for path in captured for source in _file(path)]
    found: list[tuple[Source, int]] = []
    seen: set[str] = set()
    files = [where / name for name in sorted(os.listdir(where)) if worth_reading(name)]
    for path in files:
        real = os.path.realpath(path)
        if real in seen or not path.is_file():  # a link to a file that counts already
            continue
        seen.add(real)
        named = path.name.lower().endswith(_TRACE_ENDINGS)
        try:
            found += [(source, _sniffed(source)) for source in _file(path)]
        except OSError as error:
            if named:
                raise InputError(f"cannot read {shown(path)}: {error.strerror or error}") from None
        except NotATraceError:
            pass  # an archive of other things
        except InputError:
            if named:
                raise
    has = f"none of its {len(seen)} files is one" if seen else "it has no files"
    below = "; give one of the directories in it" if any(path.is_dir() for path in where.iterdir()) else ""
    return _traces_among(found, f"the directory {shown(where)}: {has}{below}")


def _captured(where: Path) -> list[Path] | None:
    """The traces that a capture directory's manifests (one a rank) name; None if it is no such directory."""
    found: list[Path] = []
    captures = 0
    for path in sorted(where.glob("manifest*.json")):
        try:
            manifest = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            continue
        if not isinstance(manifest, dict) or not str(manifest.get("schema")).startswith(_CAPTURE_SCHEMA):
            continue
        captures += 1
        files = manifest.get("files")
        name = files.get("trace") if isinstance(files, dict) else None
        # a name, never a path: a manifest is data, and does not send the reader elsewhere
        if isinstance(name, str) and (where / os.path.basename(name)).is_file():
            found.append(where / os.path.basename(name))
    if not captures:
        return None
    if not found:
        raise InputError(f"the capture in {shown(where)} has no trace; was the program killed?")
    return found


#: is a trace, may be one (the part that was looked at does not tell), is something else
_IS, _MAY_BE, _IS_NOT = 2, 1, 0


def _looks(head: bytes, *, whole: bool) -> int:
    """Whether a text that starts so is a trace; one without a start counts, so that it is complained of."""
    if not head:
        return _IS
    try:
        opening = find_events(head, whole=whole)
    except NeedMoreError:
        return _MAY_BE
    except NotATraceError:
        return _IS_NOT
    return _IS if not opening.is_array or b'"ph"' in head else _IS_NOT


def _sniffed(source: Source) -> int:
    try:
        with contextlib.closing(source.open()) as text:
            head = text.read_at(0, HEAD_BYTES)
    except InputError:
        return _IS
    return _looks(head, whole=len(head) < HEAD_BYTES)


def _traces_among(found: Sequence[tuple[Source, int]], where: str) -> list[Source]:
    for wanted in (_IS, _MAY_BE):
        chosen = [source for source, looks in found if looks == wanted]
        if chosen:
            return chosen
    if len(found) == 1:
        return [found[0][0]]  # reading it says what it is
    raise NotATraceError(f"no trace in {where} (a trace is JSON with 'traceEvents', plain or gzipped)")


def _standard_input() -> IO[bytes]:
    stream: Any = getattr(sys.stdin, "buffer", None)
    if stream is None or stream.closed:
        raise InputError("cannot read standard input: it is closed")
    found: IO[bytes] = stream
    return found


def _piped(pipe: IO[bytes], label: str) -> list[Source]:
    """What comes through a pipe is put in a file first: archives, and args asked for later, need it again."""
    import shutil
    import tempfile

    try:
        head = pipe.read(_SNIFFED_BYTES)
        if not head:
            raise InputError(f"{shown(label)} is empty: nothing came through the pipe")
        if not head.startswith((ZIP, GZIP)) and not is_tar(head):
            _refuse_at_once(head, shown(label))
        descriptor, name = tempfile.mkstemp(prefix="kinetoscope-")
        forget = _Forget(name)
        try:
            with open(descriptor, "wb") as copy:
                copy.write(head)
                shutil.copyfileobj(pipe, copy, _COPY_BYTES)
            sources = _file(Path(name), label)
        except BaseException:
            forget.now()
            raise
    except OSError as error:
        raise InputError(f"cannot read {shown(label)}: {error.strerror or error}") from None
    return [replace(source, file=None, open=_Kept(source.open, forget)) for source in sources]


def _refuse_at_once(head: bytes, name: str) -> None:
    """Refuse what cannot be a trace before all of it has come."""
    refuse_others(head, name)
    try:
        find_events(head, whole=False)
    except NeedMoreError:
        pass
    except NotATraceError as error:
        raise NotATraceError(f"{name}: {error}") from None


class _Forget:
    """Deletes a temporary file when nobody can ask for it any more."""

    def __init__(self, name: str) -> None:
        self.now = weakref.finalize(self, _delete, name)


def _delete(name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name)


@dataclass(frozen=True)
class _Kept:
    """Opens a text in a temporary file, which stays as long as this does."""

    how: Callable[[], Text]
    forget: _Forget

    def __call__(self) -> Text:
        return self.how()


def _kind(mode: int) -> str:
    for test, name in (
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISCHR, "device"),
        (stat.S_ISBLK, "device"),
    ):
        if test(mode):
            return name
    return "special file"


__all__ = ["OpenText", "Source", "find_sources"]
