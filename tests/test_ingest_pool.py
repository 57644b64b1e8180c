"""Decoding on every core: the same trace as in one process, and nothing left behind whatever happens."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import HAS_SHARED, NO_SHARED, SHARED
from kinetoscope.errors import InternalError
from kinetoscope.ingest import find_sources, load, load_source, pool, reader
from kinetoscope.ingest.reader import Piece
from kinetoscope.ingest.text import FileText, StreamText
from kinetoscope.ingest.worker import pack, unpack
from kinetoscope.trace import Trace

posix = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")
SOURCE = Path(__file__).parents[1] / "src"


def generated(events: int = 6000) -> bytes:
    """Events of every kind, odd values among them."""
    rng = random.Random(5)
    made: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}},
        {
            "ph": "M",
            "name": "process_sort_index",
            "pid": 2**70,
            "tid": 0,
            "ts": 0,
            "args": {"sort_index": 2**70},
        },
    ]
    for i in range(events):
        common = {
            "pid": rng.choice([1, 2, "Spans", 2**63]),
            "tid": rng.choice([1, 2**40, "stream 7"]),
            "ts": i + 0.125,
        }
        if i % 7 == 3:
            made.append({"ph": "s", "cat": "ac2g", "name": "ac2g", "id": i, **common})
        elif i % 31 == 0:
            made.append(
                {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", **common, "args": {"Bytes": i}}
            )
        elif i % 37 == 0:
            made.append({"ph": "C", "name": "gpu", **common, "args": {"load": i / 7, "huge": 2**80}})
        else:
            args = {"External id": i, "text": 'a},{"ph":"X"' * (i % 3)}
            name = f"aten::op{rng.randrange(200)} \u2713"
            made.append(
                {"ph": "X", "cat": "cpu_op", "name": name, "dur": rng.random() * 50, **common, "args": args}
            )
    return json.dumps(
        {"schemaVersion": 1, "traceEvents": made, "traceName": "x"}, ensure_ascii=False
    ).encode()


@pytest.fixture(scope="module")
def text() -> bytes:
    return generated()


@pytest.fixture
def on_two_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A pool of two for texts of any length; gives the ids of its processes, all gone at the end."""
    started: list[int] = []
    start = pool._start

    def counted(descriptor: int | None) -> subprocess.Popen[bytes]:
        process = start(descriptor)
        started.append(process.pid)
        return process

    monkeypatch.setattr(pool, "_start", counted)
    monkeypatch.setattr(pool, "_WORTHWHILE_BYTES", 1)
    monkeypatch.setattr(reader, "CHUNK_BYTES", 40_000)
    monkeypatch.setattr(reader, "_WINDOW_BYTES", 2000)
    monkeypatch.setenv("KINETOSCOPE_PROCESSES", "2")
    yield started
    assert not [pid for pid in started if is_alive(pid)]
    assert not [t for t in threading.enumerate() if t.name.startswith("kinetoscope")]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def in_one_process(path: str) -> Trace:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KINETOSCOPE_PROCESSES", "1")
        return load(path, use_store=False)


def assert_same(one: Trace, other: Trace) -> None:
    for table in ("columns", "flow_columns", "instants", "counters"):
        mine, its = getattr(one, table), getattr(other, table)
        for field in fields(mine):
            np.testing.assert_array_equal(getattr(mine, field.name), getattr(its, field.name))
            assert getattr(mine, field.name).dtype == getattr(its, field.name).dtype
    assert list(one.names) == list(other.names)
    assert list(one.cats) == list(other.cats)
    assert one.track_list == other.track_list
    assert one.origin_ns == other.origin_ns
    assert one.info == other.info


@pytest.mark.parametrize("packed", [False, True])
def test_the_same_as_in_one_process(
    tmp_path: Path, text: bytes, on_two_cores: list[int], packed: bool
) -> None:
    path = tmp_path / "t"
    path.write_bytes(gzip.compress(text) if packed else text)
    trace = load(str(path), use_store=False)
    assert len(on_two_cores) == 2
    assert trace.info.complete
    assert trace.info.events == 6002
    assert any(track.pid == 2**70 or track.pid == 2**63 for track in trace.track_list)
    assert_same(trace, in_one_process(str(path)))


@pytest.mark.parametrize("packed", [False, True])
def test_broken_text_gives_the_same_on_every_core(
    tmp_path: Path, text: bytes, on_two_cores: list[int], packed: bool
) -> None:
    broken = bytearray(text)
    rng = random.Random(2)
    for _ in range(12):
        broken[rng.randrange(2000, len(broken))] = 0x22
    path = tmp_path / "t"
    path.write_bytes(gzip.compress(broken) if packed else broken)
    trace = load(str(path), use_store=False)
    assert trace.warnings
    assert_same(trace, in_one_process(str(path)))


def test_a_text_that_turns_out_long_moves_to_the_other_cores(
    tmp_path: Path, text: bytes, on_two_cores: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_WORTHWHILE_BYTES", len(text) // 2)
    with contextlib.closing(StreamText(lambda: iter([text]))) as stream:
        assert stream.expected_bytes == 0
        found = reader.read_document(stream, pool.decoder_for(0))
    assert len(on_two_cores) == 2
    assert found.body.events == 6002
    on_two_cores.clear()
    monkeypatch.setattr(pool, "_WORTHWHILE_BYTES", len(text) + 1)
    path = tmp_path / "t"
    path.write_bytes(text)
    load(str(path), use_store=False)
    assert not on_two_cores


@pytest.mark.skipif(not HAS_SHARED, reason=NO_SHARED)
def test_a_large_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = SHARED / "traces/gpu/big/trace.json.gz"
    monkeypatch.setenv("KINETOSCOPE_PROCESSES", "2")
    assert_same(load_source(find_sources(str(packed))[0], use_store=False), in_one_process(str(packed)))


@posix
def test_a_dead_worker_is_one_clear_error(
    tmp_path: Path, text: bytes, on_two_cores: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(text)
    taken = 0

    def kill_one(done: int, total: int | None) -> None:
        nonlocal taken
        taken += 1
        if taken == 2:
            os.kill(on_two_cores[0], signal.SIGKILL)

    with pytest.raises(InternalError) as caught:
        load(str(path), progress=kill_one, use_store=False)
    line = str(caught.value)
    assert line.startswith(f"{path}: a decoding process died (status -9) at byte ")
    assert "KINETOSCOPE_PROCESSES=1" in line
    assert line.isprintable()


def test_an_error_in_a_worker_is_told(
    tmp_path: Path, text: bytes, on_two_cores: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from kinetoscope.ingest import worker

    class Broken(Exception):
        pass

    def broken(data: bytes) -> Any:
        raise Broken("no such luck")

    monkeypatch.setattr(worker, "decode_mended", broken)
    with pytest.raises(InternalError, match=r"decoding failed \(Broken: no such luck\)"):
        unpack(worker._answer(b"{}"))


def test_no_more_processes_allowed(
    tmp_path: Path, text: bytes, on_two_cores: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(text)
    start = pool._start
    for allowed in (0, 1):
        left = [allowed]

        def limited(descriptor: int | None, left: list[int] = left) -> subprocess.Popen[bytes]:
            if not left[0]:
                raise BlockingIOError(11, "Resource temporarily unavailable")
            left[0] -= 1
            return start(descriptor)

        monkeypatch.setattr(pool, "_start", limited)
        assert load(str(path), use_store=False).info.events == 6002


def test_a_consumer_that_stops_early(tmp_path: Path, text: bytes, on_two_cores: list[int]) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(text)

    class Enough(Exception):
        pass

    def stop(done: int, total: int | None) -> None:
        raise Enough

    with pytest.raises(Enough) as caught:
        load(str(path), progress=stop, use_store=False)
    assert not [pid for pid in on_two_cores if is_alive(pid)]  # although the traceback still holds the frames
    del caught


def test_pieces_come_in_order_and_a_bounded_number_ahead(
    tmp_path: Path, text: bytes, on_two_cores: list[int]
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(text)
    asked = 0

    def pieces() -> Iterator[Piece]:
        nonlocal asked
        for number in range(60):
            asked += 1
            yield Piece(number * 10, 10)

    with (
        contextlib.closing(FileText(path)) as plain,
        contextlib.closing(pool.decoder_for(len(text))(plain, pieces())) as decoded,
    ):
        for number, (piece, _) in enumerate(decoded):
            assert piece.offset == number * 10
            assert asked <= number + 8


@pytest.mark.parametrize(("asked", "count"), [("1", 1), ("7", 7)])
def test_processes_can_be_chosen(monkeypatch: pytest.MonkeyPatch, asked: str, count: int) -> None:
    monkeypatch.setenv("KINETOSCOPE_PROCESSES", asked)
    assert pool.cores() == count


@pytest.mark.parametrize("asked", ["", "0", "-1", "many", "²"])
def test_a_senseless_choice_of_processes_is_ignored(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    monkeypatch.delenv("KINETOSCOPE_PROCESSES", raising=False)
    default = pool.cores()
    monkeypatch.setenv("KINETOSCOPE_PROCESSES", asked)
    assert pool.cores() == default >= 1


def test_columns_survive_the_way_between_processes() -> None:
    from kinetoscope.ingest.events import decode

    columns = decode(generated(60).split(b'"traceEvents": [', 1)[1].rsplit(b"]", 1)[0])
    found = unpack(pack(columns))
    assert found is not None
    assert list(found.tracks) == list(columns.tracks)
    assert list(found.extra) == list(columns.extra)
    assert found.notes == columns.notes
    assert unpack(pack(None)) is None


SLOW = """
import sys, time
from kinetoscope.__main__ import main
from kinetoscope.ingest import pool, reader
pool._WORTHWHILE_BYTES = 1
reader.CHUNK_BYTES, reader._WINDOW_BYTES = 40_000, 2000
take = reader._Run.take
def slow(self, piece, columns):
    take(self, piece, columns)
    print("taken", file=sys.stderr, flush=True)
    time.sleep(0.05)
reader._Run.take = slow
sys.exit(main(["report", sys.argv[1]]))
"""


def marked(mark: int) -> list[int]:
    """Processes that a test started, and those that these started: by a mark in their environment."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with contextlib.suppress(OSError):
                if f"KINETOSCOPE_TEST={mark}".encode() in Path(f"/proc/{entry}/environ").read_bytes():
                    found.append(int(entry))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_leaves_no_process(tmp_path: Path, text: bytes, number: signal.Signals) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(text)
    mark = random.randrange(10**9)
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(path)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        env={
            **os.environ,
            "PYTHONPATH": str(SOURCE),
            "KINETOSCOPE_PROCESSES": "2",
            "KINETOSCOPE_TEST": str(mark),
        },
    )
    assert process.stderr is not None
    assert process.stderr.readline() == b"taken\n"
    assert len(marked(mark)) == 3
    os.killpg(process.pid, number)
    rest = process.stderr.read().replace(b"taken\n", b"")
    process.stderr.close()
    status = process.wait(20)
    if number == signal.SIGINT:
        assert status == 130
        assert b"Traceback" not in rest
    else:
        assert status == -number
    deadline = time.monotonic() + 10
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert marked(mark) == []
