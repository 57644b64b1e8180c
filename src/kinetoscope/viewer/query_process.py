"""The process in which SQL runs: whatever a query makes, it takes no more memory than it may.

It is started as ``python -c``, as the decoding processes are, is sent the tables and then questions, and
answers them with JSON in any order (`kinetoscope.viewer.query_worker`). If it dies, the queries that ran say
why, and the next one starts another.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTimeError
from pathlib import Path
from typing import IO, Any

import numpy as np

from kinetoscope.errors import UsageError
from kinetoscope.ingest.worker import receive, send
from kinetoscope.viewer.query import ROOM_BYTES, SECONDS, TOO_LARGE

#: a query that was told to stop and does not is ended with its process
_GRACE_S = 5.0
#: the number of the answer that says that the tables are there; queries have the others
_READY = 0

#: table, column and values, as `kinetoscope.viewer.query_tables` gives them
Column = tuple[str, str, Any]


class QueryProcess:
    """Queries over one trace. They can run at the same time, and each is stopped by itself."""

    def __init__(
        self,
        columns: Callable[[], Iterable[Column]],
        *,
        room_bytes: int = ROOM_BYTES,
        is_watched: bool = sys.platform != "linux",
    ) -> None:
        """``columns`` gives the tables whenever a process is started, ``room_bytes`` what queries may take.

        Where the system does not hold a process to its memory, ``is_watched`` has it watch itself.
        """
        self._columns = columns
        self._settings = {"room": room_bytes, "is_watched": is_watched}
        self._lock = threading.Lock()
        self._numbers = itertools.count(_READY + 1)
        self._now: _Process | None = None
        self._asked: dict[str, int] = {}

    def run(self, sql: str, seconds: float = SECONDS, name: str = "") -> dict[str, Any]:
        """Columns and rows of one SELECT; `stop` ends it by its ``name``.

        Raises:
            UsageError: it was refused, is too large, took too long, or was stopped.
        """
        number = next(self._numbers)
        with self._lock:
            if self._now is None or self._now.is_over:
                self._now = _Process(self._columns(), self._settings)
                weakref.finalize(self, self._now.leave)
            process = self._now
            self._asked[name] = number
        try:
            _unpacked(process.ready.result())
            answer = process.ask(number, sql, seconds)
            try:
                return _unpacked(answer.result(seconds + _GRACE_S))
            except NotInTimeError:
                process.end(f"stopped after {seconds:.0f} s: ask for less, or add a LIMIT")
                return _unpacked(answer.result())
        finally:
            with self._lock:
                if self._asked.get(name) == number:
                    del self._asked[name]

    def stop(self, name: str) -> None:
        """End the query of this name, if it is running."""
        with self._lock:
            number, process = self._asked.get(name), self._now
        if number is not None and process is not None:
            process.stop(number)


def _unpacked(answer: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer)
    if "error" in found:
        raise UsageError(found["error"])
    return found


class _Process:
    """One process, and the answers that are waited for."""

    def __init__(self, columns: Iterable[Column], settings: dict[str, Any]) -> None:
        try:
            process = _start()
        except OSError as error:
            raise UsageError(f"SQL needs a process of its own: {error.strerror or error}") from None
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._in: IO[bytes] = process.stdin
        self._out: IO[bytes] = process.stdout
        self._writing = threading.Lock()
        self.ready: Future[bytes] = Future()
        self._waiting: dict[int, Future[bytes]] = {_READY: self.ready}
        self._why = TOO_LARGE
        self.is_over = False
        threading.Thread(target=self._listen, name="kinetoscope-query", daemon=True).start()
        with contextlib.suppress(OSError):  # it has died, and whoever asks is told so
            self._send(settings)
            for table, name, values in columns:
                self._send_column(table, name, values)
            self._send({})

    def ask(self, number: int, sql: str, seconds: float) -> Future[bytes]:
        """The answer to come."""
        answer: Future[bytes] = Future()
        self._waiting[number] = answer
        with contextlib.suppress(OSError):
            self._send({"run": number, "sql": sql, "seconds": seconds})
        if self.is_over:
            self._give_up()
        return answer

    def stop(self, number: int) -> None:
        """End a query; if it does not end soon, everything."""
        with contextlib.suppress(OSError):
            self._send({"stop": number})

        def insist() -> None:
            if number in self._waiting:
                self.end("stopped")

        later = threading.Timer(_GRACE_S, insist)
        later.daemon = True
        later.start()

    def end(self, why: str) -> None:
        """End the process; what it was asked is answered with ``why``."""
        self._why = why
        self._process.kill()

    def leave(self) -> None:
        """Nobody asks any more: it ends when its input does."""
        with contextlib.suppress(OSError):
            self._in.close()

    def _send(self, message: dict[str, Any]) -> None:
        with self._writing:
            send(self._in, json.dumps(message).encode())

    def _send_column(self, table: str, name: str, values: Any) -> None:
        is_text = isinstance(values, list)
        self._send({"table": table, "name": name, "dtype": None if is_text else values.dtype.str})
        with self._writing:
            send(self._in, json.dumps(values).encode() if is_text else np.ascontiguousarray(values).tobytes())

    def _listen(self) -> None:
        with contextlib.suppress(OSError, EOFError), self._out:
            while (message := receive(self._out)) is not None:
                answer = self._waiting.pop(int.from_bytes(message[:8], "little"), None)
                if answer is not None:
                    answer.set_result(message[8:])
        self._process.wait()
        self.is_over = True
        self._give_up()
        self.leave()

    def _give_up(self) -> None:
        for number in list(self._waiting):
            answer = self._waiting.pop(number, None)
            if answer is not None:
                answer.set_result(json.dumps({"error": self._why}).encode())


def _start() -> subprocess.Popen[bytes]:
    home = str(Path(__file__).resolve().parents[2])
    # the same module search path as here, whatever put kinetoscope on it
    path = [home, *sys.path]
    code = f"import sys; sys.path[:] = {path!r}; from kinetoscope.viewer.query_worker import main; main()"
    # thread pools and heaps of threads take addresses that a query could have
    one = dict.fromkeys(
        ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "MALLOC_ARENA_MAX"), "1"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is the viewer's to handle
        env={**os.environ, **one},
    )
