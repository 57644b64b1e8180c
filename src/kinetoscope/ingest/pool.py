"""Decode pieces on every core, in order and a bounded number ahead."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec

from kinetoscope.errors import InternalError
from kinetoscope.ingest.events import EventColumns
from kinetoscope.ingest.reader import DecodePieces, Piece, decode_here
from kinetoscope.ingest.text import Text
from kinetoscope.ingest.worker import Job, receive, send, unpack

#: below this a file is decoded before a process has even started
_WORTHWHILE_BYTES = 24 << 20
#: pieces decoded ahead of the one that is taken next, for each process
_AHEAD = 3


def cores() -> int:
    """Cores this process may use; KINETOSCOPE_PROCESSES overrides."""
    asked = os.environ.get("KINETOSCOPE_PROCESSES", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not on this platform
        return max(1, os.cpu_count() or 1)


def decoder_for(size_bytes: int | None) -> DecodePieces:
    """How to decode a text of about this size: here, or on every core."""
    workers = min(cores(), 16)
    if workers < 2 or size_bytes is None or size_bytes < _WORTHWHILE_BYTES or not sys.executable:
        return decode_here

    def decode_on_cores(text: Text, pieces: Iterator[Piece]) -> Iterator[tuple[Piece, EventColumns | None]]:
        return _decode_on_cores(text, pieces, workers)

    return decode_on_cores


def _decode_on_cores(
    text: Text, pieces: Iterator[Piece], workers: int
) -> Iterator[tuple[Piece, EventColumns | None]]:
    pool = _Pool(workers)
    waiting: deque[tuple[Piece, Future[bytes]]] = deque()
    path = None if text.path is None else str(text.path.absolute())
    try:
        for piece in pieces:
            data = None if path is not None else text.read_at(piece.offset, piece.length)
            waiting.append((piece, pool.submit(Job(path, piece.offset, piece.length, data))))
            if len(waiting) > workers * _AHEAD:
                done, future = waiting.popleft()
                yield done, unpack(future.result())
        while waiting:
            done, future = waiting.popleft()
            yield done, unpack(future.result())
    finally:
        pool.close()


class _Pool:
    """Worker processes, each spoken to by one thread at a time."""

    def __init__(self, workers: int) -> None:
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="kinetoscope-ingest")
        self._local = threading.local()
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[bytes]] = []

    def submit(self, job: Job) -> Future[bytes]:
        """Decode a piece; the future holds the worker's message."""
        return self._threads.submit(self._ask, job)

    def _ask(self, job: Job) -> bytes:
        process: subprocess.Popen[bytes] | None = getattr(self._local, "process", None)
        if process is None:
            process = self._local.process = _start()
            with self._lock:
                self._processes.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            send(process.stdin, msgspec.msgpack.encode(job))
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
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
        self._threads.shutdown(wait=True)


def _start() -> subprocess.Popen[bytes]:
    home = str(Path(__file__).resolve().parents[2])
    # the same module search path as here, whatever put kinetoscope on it
    code = (
        f"import sys; sys.path[:] = {[home, *sys.path]!r}; from kinetoscope.ingest.worker import main; main()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is ours to handle
    )
