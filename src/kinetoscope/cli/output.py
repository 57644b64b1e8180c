"""Where a command's answer goes, and what that place can show."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from kinetoscope.cli.errors import stop_writing
from kinetoscope.errors import KinetoscopeError, UsageError

_WIDTH = 80  # of a file or a pipe
_WIDEST = 120  # beyond it a table's rows are hard to follow


@dataclass(frozen=True)
class Page:
    """What the place of output can show."""

    width: int
    color: bool
    ascii_only: bool


def page(out: str | None, stream: TextIO | None = None) -> Page:
    """The page for a text report in file ``out``, or else on ``stream`` or stdout.

    ``NO_COLOR`` turns colour off and ``FORCE_COLOR`` on, the first being the stronger.
    """
    if out is not None:
        return Page(width=_width(_WIDTH), color=False, ascii_only=False)
    stream = stream or sys.stdout
    terminal = _is_terminal(stream)
    width = _width(_columns(stream) if terminal else _WIDTH)
    wanted = bool(os.environ.get("FORCE_COLOR")) or (terminal and os.environ.get("TERM") != "dumb")
    return Page(
        width=min(width, _WIDEST),
        color=wanted and not os.environ.get("NO_COLOR"),
        ascii_only=not _holds_unicode(stream),
    )


def write(text: str, out: str | None, stream: TextIO | None = None) -> None:
    """Write ``text`` to file ``out``, in whole or not at all, or else to ``stream`` or stdout."""
    if out is not None:
        try:
            _write_file([text.encode()], out)
        except OSError as error:
            raise UsageError(f"cannot write {out}: {error.strerror or error}") from None
        return
    stream = stream or sys.stdout
    if stream is None:
        raise UsageError("cannot write the report: stdout is closed; name a file with -o")
    try:
        binary = getattr(stream, "buffer", None)
        if binary is None:
            stream.write(text)
        else:
            # Past the stream's own encoding: JSON is UTF-8 by definition, and text was made to fit it.
            stream.flush()
            binary.write(text.encode())
            binary.flush()
        stream.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        stop_writing()
        reason = error.strerror if isinstance(error, OSError) else None
        raise UsageError(f"cannot write the report: {reason or error}") from None


def write_pieces(pieces: Iterable[bytes], out: str) -> None:
    """Write bytes that are made as they are written to file ``out``, in whole or not at all."""
    try:
        _write_file(pieces, out)
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from None


def refuse_own_input(out: str | None, inputs: Sequence[str]) -> None:
    """A report must not replace the trace it is about, nor anything else that is read with it."""
    if out is None:
        return
    for path in (file for given in inputs for file in _files_of(given)):
        with contextlib.suppress(OSError):  # one of them is not there: no harm can be done
            if os.path.samefile(out, path):
                raise UsageError(f"-o {out} would overwrite the input; give another file")


def _files_of(given: str) -> Iterator[str | os.PathLike[str]]:
    """The files of an input: of a directory the traces and compile logs that are found in it."""
    if not os.path.isdir(given):
        yield given
        return
    from kinetoscope.ingest.capture_directory import find_inputs

    try:
        found = find_inputs([given])
    except KinetoscopeError:
        return  # reading it will say the same
    for item in found:
        if item.source.file is not None:
            yield item.source.file
        log = item.log_path
        if log is not None:
            yield from log.iterdir() if log.is_dir() else (log,)


def _write_file(pieces: Iterable[bytes], path: str) -> None:
    if os.path.isdir(path):
        raise IsADirectoryError(None, "it is a directory", path)
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        with open(path, "wb") as device:  # a pipe or a device: nothing is there to be replaced
            device.writelines(pieces)
        return
    target = os.path.realpath(path)  # a link stays, what it points at is replaced
    descriptor, temporary = tempfile.mkstemp(prefix=".kinetoscope-", dir=os.path.dirname(target))
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(pieces)
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _mode(target: str) -> int:
    """The permissions of the file that is replaced, or those that a new file gets."""
    try:
        return stat.S_IMODE(os.stat(target).st_mode)
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _width(fallback: int) -> int:
    try:
        return int(os.environ.get("COLUMNS", "")) or fallback
    except ValueError:
        return fallback


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or _WIDTH
    except (OSError, ValueError):
        return _WIDTH


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def _holds_unicode(stream: TextIO) -> bool:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        "·…└".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return encoding.lower().replace("-", "").startswith("utf")
