"""What runs in the process that `kinetoscope.viewer.query_process` starts."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from kinetoscope.errors import UsageError
from kinetoscope.ingest.worker import receive, send
from kinetoscope.viewer.query import TOO_LARGE, Database, start

_WATCH_S = 0.02
_READY = 0


def main() -> None:
    """Take the tables, then answer until standard input ends."""
    incoming, outgoing = sys.stdin.buffer, sys.stdout.buffer
    settings = json.loads(receive(incoming) or b"{}")
    sending = threading.Lock()

    def reply(number: int, answer: dict[str, Any]) -> None:
        try:
            data = json.dumps(answer).encode()
        except MemoryError:
            data = json.dumps({"error": TOO_LARGE}).encode()
        with sending:
            send(outgoing, number.to_bytes(8, "little") + data)

    columns = _columns(incoming)
    try:
        database = Database(columns)
        _bound(settings["room"], settings["is_watched"])
    except Exception as error:  # told to whoever asks, as there is nowhere else to show it
        for _ in columns:
            pass
        reply(_READY, {"error": f"the tables could not be made: {type(error).__name__}: {error}"})
        return
    reply(_READY, {})

    def answer(number: int, sql: str, seconds: float) -> None:
        try:
            found = database.run(sql, seconds, str(number))
        except UsageError as error:
            found = {"error": str(error)}
        except MemoryError:
            found = {"error": TOO_LARGE}
        except Exception as error:
            found = {"error": f"this is a bug in kinetoscope: {type(error).__name__}: {error}"}
        reply(number, found)

    while message := receive(incoming):
        asked = json.loads(message)
        if "stop" in asked:
            database.stop(str(asked["stop"]))
            continue
        given = (asked["run"], asked["sql"], asked["seconds"])
        try:
            start(threading.Thread(target=answer, args=given, daemon=True))
        except UsageError as error:
            reply(asked["run"], {"error": str(error)})
    os._exit(0)  # whatever still runs, nobody waits for it


def _columns(incoming: IO[bytes]) -> Iterator[tuple[str, str, Any]]:
    while head := json.loads(receive(incoming) or b"{}"):
        data = receive(incoming) or b""
        dtype = head["dtype"]
        yield head["table"], head["name"], json.loads(data) if dtype is None else np.frombuffer(data, dtype)


def _bound(room_bytes: int, is_watched: bool) -> None:
    """Let this process take so much more memory than it has now, and no more.

    Linux refuses what is beyond; elsewhere, where the memory can be measured, the process watches itself
    and ends. Windows does neither.
    """
    try:
        import resource
    except ImportError:
        return
    if is_watched:
        threading.Thread(target=_watch, args=(room_bytes,), daemon=True).start()
        return
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = now + room_bytes
    resource.setrlimit(
        resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard)
    )


def _watch(room_bytes: int) -> None:
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # of the most memory that was ever taken
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    while resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - before < room_bytes:
        time.sleep(_WATCH_S)
    os._exit(1)
