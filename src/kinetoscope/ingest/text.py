"""The decompressed text of one trace, wherever it lies.

A `FileText` can be read anywhere. A `StreamText` (gzip, a zip member, standard input) is read
once from front to back, keeping what has not been released; reading behind that starts over
where the origin can be opened again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from kinetoscope.errors import InputError

#: opens the blocks of a stream from its start
OpenBlocks = Callable[[], Iterator[bytes]]


class Text(Protocol):
    """What the reader asks of a source."""

    @property
    def path(self) -> Path | None:
        """The plain file behind it, if ranges of it can be read by other processes."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer only at the end."""

    def read_to_end(self, offset: int) -> bytes:
        """Everything from ``offset``."""

    def release(self, offset: int) -> None:
        """Nothing before ``offset`` will be read again soon."""

    @property
    def ends_early(self) -> str | None:
        """Why the text stopped before its container's end, once that is known."""

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes read of the input so far, and their total where known."""

    def close(self) -> None:
        """Let go of the file."""


class FileText:
    """A plain file."""

    ends_early: str | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = open(path, "rb")  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from None
        self._size = os.fstat(self._file.fileno()).st_size
        self._read = 0

    @property
    def path(self) -> Path | None:
        """The file."""
        return self._path

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``."""
        try:
            self._file.seek(offset)
            data = self._file.read(length)
        except OSError as error:
            raise InputError(f"cannot read {self._path}: {error.strerror or error}") from None
        self._read = max(self._read, offset + len(data))
        return data

    def read_to_end(self, offset: int) -> bytes:
        """Everything from ``offset``; the file may have grown since it was opened."""
        return self.read_at(offset, max(0, os.fstat(self._file.fileno()).st_size - offset))

    def release(self, offset: int) -> None:
        """Nothing to let go of."""

    @property
    def progress(self) -> tuple[int, int | None]:
        """Position and size of the file."""
        return self._read, self._size

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class StreamText:
    """Text that comes as a stream of blocks."""

    def __init__(self, open_blocks: OpenBlocks, *, again: bool, total: int | None = None) -> None:
        self._open = open_blocks
        self._again = again
        self._total = total
        self._blocks = open_blocks()
        self._buffer = bytearray()
        self._start = 0
        self._ended = False
        self.ends_early: str | None = None
        self.consumed = 0  # bytes of the container, kept up to date by whoever makes the blocks

    @property
    def path(self) -> Path | None:
        """None: ranges cannot be read by others."""
        return None

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; behind what was released the stream is started anew."""
        if offset < self._start:
            if not self._again:
                raise InputError("standard input cannot be read twice; save the trace to a file")
            self._blocks = self._open()
            self._buffer, self._start, self._ended = bytearray(), 0, False
        while not self._ended and self._start + len(self._buffer) < offset + length:
            if self._start + len(self._buffer) <= offset:  # not there yet: nothing in between is wanted
                self._start += len(self._buffer)
                self._buffer.clear()
            try:
                self._buffer += next(self._blocks)
            except StopIteration:
                self._ended = True
            except EndsEarlyError as error:
                self._ended = True
                self.ends_early = str(error)
        at = offset - self._start
        return bytes(self._buffer[at : at + length])

    def read_to_end(self, offset: int) -> bytes:
        """Everything from ``offset``."""
        self.read_at(offset, 0)
        length = 1 << 20
        while not self._ended:
            self.read_at(offset, length)
            length *= 2
        return bytes(self._buffer[offset - self._start :])

    def release(self, offset: int) -> None:
        """Forget the text before ``offset``."""
        gone = min(offset - self._start, len(self._buffer))
        if gone > 0:
            del self._buffer[:gone]
            self._start += gone

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes of the container consumed, and its size."""
        return self.consumed, self._total

    def close(self) -> None:
        """Stop reading."""
        self._blocks = iter(())
        self._buffer = bytearray()


class EndsEarlyError(Exception):
    """A stream broke off; what came before it counts."""
