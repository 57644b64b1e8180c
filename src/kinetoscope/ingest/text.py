"""The decompressed text of one trace, wherever it lies.

A `FileText` can be read anywhere. A `StreamText` (gzip, a member of an archive) is unpacked from
front to back, by a thread that runs ahead, and keeps what has not been released; reading behind
that starts over.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from kinetoscope.errors import InputError

#: opens the blocks of a stream from its start
OpenBlocks = Callable[[], Iterator[bytes]]
#: blocks unpacked ahead of the one that is taken next
_AHEAD_BLOCKS = 8


def shown(name: object) -> str:
    """A path or member name as it may stand in a message: one line, whatever the name holds."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(name))


class EndsEarlyError(Exception):
    """A stream broke off; what came before it counts."""


class Text(Protocol):
    """What the reader asks of a source."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer only at the end."""

    def read_to_end(self, offset: int) -> bytes:
        """Everything from ``offset``."""

    def release(self, offset: int) -> None:
        """Nothing before ``offset`` will be read again soon."""

    @property
    def descriptor(self) -> int | None:
        """Of the plain file behind it, if a process that inherits it can read ranges of the text there."""

    @property
    def expected_bytes(self) -> int:
        """About how long the text will turn out to be; 0 where nothing tells."""

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
            raise InputError(f"cannot read {shown(path)}: {error.strerror or error}") from None
        self._size = os.fstat(self._file.fileno()).st_size
        self._read = 0

    @property
    def descriptor(self) -> int | None:
        """The open file, where processes inherit descriptors."""
        return self._file.fileno() if os.name == "posix" else None

    @property
    def expected_bytes(self) -> int:
        """The size of the file."""
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``."""
        try:
            self._file.seek(offset)
            data = self._file.read(length)
        except OSError as error:
            raise InputError(f"cannot read {shown(self._path)}: {error.strerror or error}") from None
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
        return min(self._read, self._size), self._size

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class StreamText:
    """Text that comes as a stream of blocks."""

    descriptor: int | None = None

    def __init__(self, open_blocks: OpenBlocks, *, total: int | None = None, expected_bytes: int = 0) -> None:
        self._open = open_blocks
        self._total = total
        self._expected_bytes = expected_bytes
        self._blocks = _Ahead(open_blocks())
        self._kept: deque[bytes] = deque()
        self._start = self._end = 0  # what is kept
        self._released = 0
        self._ended = False
        self.ends_early: str | None = None
        self.consumed = 0  # bytes of the container, kept up to date by whoever makes the blocks

    @property
    def expected_bytes(self) -> int:
        """What the container says or lets guess; never less than what came."""
        return max(self._expected_bytes, self._end)

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; behind what was released the stream is started anew."""
        if offset < self._start:
            self._blocks.close()
            self._blocks = _Ahead(self._open())
            self._kept.clear()
            self._start = self._end = 0
            self._released = offset
            self._ended = False
        while self._end < offset + length and self._take():
            pass
        return self._cut(offset, length)

    def read_to_end(self, offset: int) -> bytes:
        """Everything from ``offset``."""
        self.read_at(offset, 0)
        while self._take():
            pass
        return self._cut(offset, max(0, self._end - offset))

    def release(self, offset: int) -> None:
        """Forget the text before ``offset``, now or when it comes."""
        self._released = max(self._released, offset)
        while self._kept and self._start + len(self._kept[0]) <= self._released:
            self._start += len(self._kept.popleft())

    def _take(self) -> bool:
        """Keep the next block; False at the end."""
        if self._ended:
            return False
        try:
            block = next(self._blocks, None)
        except EndsEarlyError as error:
            self.ends_early = str(error)
            block = None
        if block is None:
            self._ended = True
            return False
        self._kept.append(block)
        self._end += len(block)
        self.release(self._released)
        return True

    def _cut(self, offset: int, length: int) -> bytes:
        parts = []
        at = self._start
        for block in self._kept:
            if at >= offset + length:
                break
            if at + len(block) > offset:
                parts.append(memoryview(block)[max(0, offset - at) : offset + length - at])
            at += len(block)
        return b"".join(parts)

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes of the container consumed, and its size."""
        return self.consumed, self._total

    def close(self) -> None:
        """Stop reading."""
        self._blocks.close()
        self._kept.clear()
        self._ended = True


class _Ahead:
    """Blocks of a stream, made by a thread a bounded number ahead: unpacking lets go of the interpreter.

    The first blocks come without a thread, since most traces are small.
    """

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._taken = 0
        self._thread: threading.Thread | None = None
        self._queue: queue.Queue[bytes | BaseException | None] = queue.Queue(_AHEAD_BLOCKS)
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._thread is None:
            if self._taken < _AHEAD_BLOCKS:
                self._taken += 1
                return next(self._blocks)
            self._thread = threading.Thread(target=self._run, name="kinetoscope-unpack", daemon=True)
            self._thread.start()
        item = self._queue.get()
        if isinstance(item, bytes):
            return item
        self._queue.put(item)  # whoever asks again is told again
        if item is None:
            raise StopIteration
        raise item

    def _run(self) -> None:
        end: BaseException | None = None
        try:
            for block in self._blocks:
                self._queue.put(block)
                if self._closed:
                    break
        except BaseException as error:  # handed to whoever takes the blocks
            end = error
        self._queue.put(end)

    def close(self) -> None:
        """Stop the thread and let go of what the blocks come from."""
        self._closed = True
        if self._thread is not None:
            while self._thread.is_alive():
                with contextlib.suppress(queue.Empty):
                    self._queue.get_nowait()  # make room, so that it sees that it is to stop
                self._thread.join(0.01)
            self._thread = None
        close = getattr(self._blocks, "close", None)
        if close is not None:
            close()
        self._blocks = iter(())
        self._taken = 0
