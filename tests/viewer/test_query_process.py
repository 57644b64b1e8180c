"""The process in which SQL runs: its memory has an end, and so has it."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from kinetoscope.errors import UsageError
from kinetoscope.viewer.query import Database
from kinetoscope.viewer.query_process import Column, QueryProcess

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="memory of another process is read from /proc")
#: each makes texts of 4 GB in all: at once, row by row, and as one value
FOUR_GB = (
    "SELECT repeat('x', 2000000000) || repeat('y', 2000000000)",
    "SELECT max(x) FROM (SELECT repeat('x', 2000000) || range AS x FROM range(2000)) WHERE length(x) > 0",
    "SELECT length(string_agg(x, '')) FROM (SELECT repeat('x', 2000000) || range AS x FROM range(2000))",
)
ROOM = 512 << 20


def little() -> Iterator[Column]:
    """The tables of a trace without any event."""
    for table in ("name_texts", "cat_texts", "category_texts"):
        yield table, "text", []
    none = np.empty(0, np.int64)
    for name in (
        "row",
        "name",
        "cat",
        "category",
        "start_ns",
        "dur_ns",
        "track",
        "depth",
        "parent",
        "launch",
    ):
        yield "slice_rows", name, none
    yield "slice_rows", "invalid_time", np.empty(0, np.bool_)
    for name in ("correlation", "external_id", "sequence", "device", "stream"):
        yield "slice_rows", name, none
    for name in ("id", "time_ns", "phase", "cat", "track"):
        yield "flow_rows", name, none
    yield "track_rows", "track", none
    for name in ("pid", "tid", "process_name", "thread_name", "labels"):
        yield "track_rows", name, []


def resident(pid: int | str) -> int:
    """Bytes of a process that are in memory now."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def children() -> set[int]:
    """The processes of this one in which SQL runs."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == os.getpid() and b"query_worker" in (path / "cmdline").read_bytes():
                found.add(int(path.name))
        except OSError:
            continue
    return found


@contextmanager
def most_memory() -> Iterator[list[int]]:
    """The most that the processes with SQL, and this one, take meanwhile."""
    most, over = [0, 0], threading.Event()

    def look() -> None:
        while not over.wait(0.002):
            for place, pids in enumerate((children(), {"self"})):
                for pid in pids:
                    try:
                        most[place] = max(most[place], resident(pid))
                    except OSError:
                        continue

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield most
    finally:
        over.set()
        looking.join()


@LINUX
@pytest.mark.parametrize("sql", FOUR_GB)
@pytest.mark.parametrize("is_watched", [False, True])
def test_a_query_of_four_gigabytes_ends_before_it_has_them(sql: str, is_watched: bool) -> None:
    database = QueryProcess(little, room_bytes=ROOM, is_watched=is_watched)
    assert database.run("SELECT count(*) FROM slices")["rows"] == [[0]]
    here = resident("self")
    with most_memory() as most, pytest.raises(UsageError, match="needs more memory than a query may take"):
        database.run(sql)
    # a watch sees it a moment later
    assert most[0] < ROOM + (1 << 30 if is_watched else 256 << 20)
    assert most[1] < here + (128 << 20)
    assert database.run("SELECT 1")["rows"] == [[1]]


@LINUX
def test_the_process_ends_with_what_asked() -> None:
    before = children()
    database = QueryProcess(little)
    database.run("SELECT 1")
    (mine,) = children() - before
    del database
    gc.collect()
    end = time.monotonic() + 10
    while mine in children() and time.monotonic() < end:
        time.sleep(0.02)
    assert mine not in children()


@LINUX
def test_a_process_that_dies_is_told_and_started_again() -> None:
    database = QueryProcess(little)
    database.run("SELECT 1")
    said: list[str] = []

    def endless() -> None:
        try:
            database.run("SELECT count(*) FROM range(10000000) a, range(1000000) b")
        except UsageError as error:
            said.append(str(error))

    running = threading.Thread(target=endless)
    running.start()
    time.sleep(0.3)
    assert database._now is not None
    database._now.end("ended by a test")
    running.join(10)
    assert said == ["ended by a test"]
    assert database.run("SELECT count(*) FROM tracks")["rows"] == [[0]]


def test_tables_that_cannot_be_made_are_told() -> None:
    def broken() -> Iterator[Column]:
        yield "name_texts", "text", ["a"]
        yield "slice_rows", "row", np.arange(3)

    with pytest.raises(UsageError, match="the tables could not be made"):
        QueryProcess(broken).run("SELECT 1")


def test_a_query_without_memory_for_a_thread_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(little())

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")  # as Python says where the system gives no stack

    with monkeypatch.context() as without:
        without.setattr(threading.Thread, "start", refuse)
        with pytest.raises(UsageError, match="needs more memory than a query may take"):
            database.run("SELECT 1")
    assert database.run("SELECT 1")["rows"] == [[1]]


def test_memory_that_comes_back_a_moment_later_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    database, refused = Database(little()), iter(range(3))
    real = threading.Thread.start

    def late(thread: threading.Thread) -> None:
        if next(refused, None) is not None:
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", late)
    assert database.run("SELECT 1")["rows"] == [[1]]
    assert next(refused, None) is None
