"""Decode pieces on every core, in order and a bounded number ahead."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kinetoscope.errors import InternalError
from kinetoscope.ingest.events import EventColumns
from kinetoscope.ingest.reader import DecodePieces, Piece, decode_here
from kinetoscope.ingest.text import Text
from kinetoscope.ingest.worker import Job, receive, send, unpack

if TYPE_CHECKING:  # imported when there is a pool: most traces are too small for one
    import subprocess
    from concurrent.futures import Future

#: below this a text is decoded before a process has even started
_WORTHWHILE_BYTES = 24 << 20
#: pieces decoded ahead of the one that is taken next, for each process
_AHEAD = 3
_MOST_PROCESSES = 16
#: room in a pipe: a piece passes in a few turns instead of dozens
_PIPE_BYTES = 1 << 20

_Decoded = Generator[tuple[Piece, "EventColumns | None"], None, None]


def cores() -> int:
    """Cores this process may use; KINETOSCOPE_PROCESSES overrides."""
    asked = os.environ.get("KINETOSCOPE_PROCESSES", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not on this platform
        return max(1, os.cpu_count() or 1)


def decoder_for(expected_bytes: int) -> DecodePieces:
    """How to decode a text of about this length (0: unknown): here, or on every core.

    A text that turns out longer than expected moves to the other cores on the way.
    """
    workers = min(cores(), _MOST_PROCESSES)
    if workers < 2 or not sys.executable:
        return decode_here
    alone = 0 if expected_bytes >= _WORTHWHILE_BYTES else _WORTHWHILE_BYTES

    def decode(text: Text, pieces: Iterator[Piece]) -> _Decoded:
        return _decode(text, pieces, workers, alone)

    return decode


def _decode(text: Text, pieces: Iterator[Piece], workers: int, alone: int) -> _Decoded:
    """Decode in this process up to offset ``alone``, and after that in ``workers`` others."""
    for piece in pieces:
        if piece.offset >= alone:
            with contextlib.closing(_Pool(workers, text.descriptor)) as pool:
                yield from pool.decode(text, _again(piece, pieces))
            return
        yield from decode_here(text, iter((piece,)))


def _again(first: Piece, rest: Iterator[Piece]) -> Iterator[Piece]:
    yield first
    yield from rest


class _Pool:
    """Worker processes, each spoken to by one thread at a time."""

    def __init__(self, workers: int, descriptor: int | None) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._descriptor = descriptor
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            with contextlib.suppress(OSError):  # no more processes allowed: those there are will do
                for _ in range(workers):
                    self._processes.append(_start(descriptor))
        except BaseException:
            self._end_processes()
            raise
        self._idle = list(self._processes)
        self._local = threading.local()
        self._threads = ThreadPoolExecutor(max(1, len(self._idle)), thread_name_prefix="kinetoscope-ingest")

    def decode(self, text: Text, pieces: Iterator[Piece]) -> _Decoded:
        """Decode pieces, and give them in their order."""
        if not self._processes:
            yield from decode_here(text, pieces)
            return
        waiting: deque[tuple[Piece, Future[bytes]]] = deque()
        for piece in pieces:
            data = None if self._descriptor is not None else text.read_at(piece.offset, piece.length)
            job = Job(self._descriptor, piece.offset, piece.length if data is None else len(data))
            waiting.append((piece, self._threads.submit(self._ask, job, data)))
            del data
            if len(waiting) > _AHEAD * len(self._processes):
                done, future = waiting.popleft()
                yield done, unpack(future.result())
        while waiting:
            done, future = waiting.popleft()
            yield done, unpack(future.result())

    def _ask(self, job: Job, text: bytes | None) -> bytes:
        process: subprocess.Popen[bytes] | None = getattr(self._local, "process", None)
        if process is None:
            process = self._local.process = self._idle.pop()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            send(process.stdin, msgspec.msgpack.encode(job), text)
            message = receive(process.stdout)
        except (OSError, EOFError):
            message = None
        if message is None:
            status = process.wait()
            raise InternalError(
                f"a decoding process died (status {status}) at byte {job.offset}; "
                "is the machine out of memory? KINETOSCOPE_PROCESSES=1 reads in one process"
            )
        return message

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._end_processes()
        self._threads.shutdown(wait=True)
        for process in self._processes:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):  # of what it was not sent any more
                        stream.close()

    def _end_processes(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()


def _start(descriptor: int | None) -> subprocess.Popen[bytes]:
    import subprocess

    home = str(Path(__file__).resolve().parents[2])
    # the same module search path as here, whatever put kinetoscope on it
    code = (
        f"import sys; sys.path[:] = {[home, *sys.path]!r}; from kinetoscope.ingest.worker import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is ours to handle
        pass_fds=() if descriptor is None else (descriptor,),
        # a thread pool of a linear algebra library, one a core, is made on import
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    )
    if sys.platform == "linux":
        import fcntl

        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # not more than the system allows
                    fcntl.fcntl(stream, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return process
