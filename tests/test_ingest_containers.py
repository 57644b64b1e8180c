"""Containers: content decides, every rank is found, and whatever is wrong is said in one printable line."""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from container_files import DOC, all_of, document, error_of, tarred, write, zipped
from kinetoscope.errors import InputError, KinetoscopeError, NotATraceError
from kinetoscope.ingest import load


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("plain.json", DOC),
        ("plain.gz", DOC),
        ("no-ending", DOC),
        ("with space\nand line.json", DOC),
        ("bom.json", b"\xef\xbb\xbf" + DOC),
        ("trace.json.gz", gzip.compress(DOC)),
        ("gzip.json", gzip.compress(DOC)),
        ("twice.json.gz", gzip.compress(gzip.compress(DOC))),
        ("members.gz", b"".join(gzip.compress(DOC[i : i + 37]) for i in range(0, len(DOC), 37))),
        ("zeros-and-members.gz", gzip.compress(DOC[:50]) + bytes(700) + gzip.compress(DOC[50:])),
        ("trailing-zeros.gz", gzip.compress(DOC) + bytes(200_000)),
        ("trailing-garbage.gz", gzip.compress(DOC) + b"garbage"),
        ("one-byte-more.gz", gzip.compress(DOC) + b"\x1f"),
        ("one.zip", zipped({"a.json": DOC})),
        ("zip.json", zipped({"a.json": DOC}, zipfile.ZIP_STORED)),
        ("lzma.zip", zipped({"a.json": DOC}, zipfile.ZIP_LZMA)),
        ("gz.zip", zipped({"a.json.gz": gzip.compress(DOC)})),
        ("junk.zip", zipped({"__MACOSX/._a.json": DOC, "d/": b"", "d/a.json": DOC, ".b.json": DOC})),
        ("others.zip", zipped({"manifest.json": b'{"a": 1}', "list.json": b"[1]", "run.py": b"x", "t": DOC})),
        ("one.tar", tarred({"d/a.json": DOC, "d/facts.json": b"{}"})),
        ("one.tar.gz", tarred({"a.json.gz": gzip.compress(DOC), "log.txt": b"I0101 {"}, "w:gz")),
        ("tar.json", gzip.compress(tarred({"a.json": DOC}))),
    ],
)
def test_content_decides(tmp_path: Path, name: str, data: bytes) -> None:
    (trace,) = all_of(write(tmp_path / name, data))
    assert trace.info.complete
    assert trace.info.events == 3
    assert not trace.warnings
    assert trace.name_of(2) == "aten::op2"
    assert trace.args_source([0, 2])[1]["name"] == "aten::op2"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "0 bytes"),
        (b"\xef\xbb\xbf", "empty"),
        (b"  \n", "empty"),
        (DOC.decode().encode("utf-16"), "UTF-16"),
        (DOC.decode().encode("utf-16-le"), "UTF-16"),
        (DOC.decode().encode("utf-32"), "UTF-16 or UTF-32"),
        (b"BZh91AY&SY", "bzip2"),
        (b"\x28\xb5\x2f\xfd123456", "zstd"),
        (gzip.compress(b"\x28\xb5\x2f\xfd123456"), "zstd"),
        (zipped({"a.json": DOC.decode().encode("utf-16")}), "UTF-16"),
        (b"\x1f\x8b", "gzip data ends early before any text"),
        (b"\x1f\x8bgarbage", "gzip"),
        (gzip.compress(b""), "empty"),
        (b"PK\x03\x04garbage", "zip"),
        (zipped({}), "damaged zip|starts with"),
        (zipped({"a.txt": b"hello"}), "starts with 'hello'"),
        (zipped({"a.txt": b"hello", "b.py": b"x"}), "none of its 2 files"),
        (tarred({"a": b"x", "b": b"y"}), "none of its 2 files"),
        (os.urandom(2000), "trace"),
        (b"<html>not found</html>", "starts with '<html>not fo'"),
        (b'{"nodes": [], "schema": "1.1.1-chakra.0.0.4"}', "execution trace"),
    ],
)
def test_refused_in_one_line(tmp_path: Path, data: bytes, words: str) -> None:
    import re

    path = write(tmp_path / "t\x1b[31m\n.json", data)
    line = error_of(path)
    assert re.search(words, line), line
    assert "t\\x1b[31m\\n.json" in line


def test_encrypted_and_unknown_packing_of_zip(tmp_path: Path) -> None:
    data = bytearray(zipped({"a.json": DOC}))
    for at in (6, data.index(b"PK\x01\x02") + 8):
        data[at] |= 1
    assert "encrypted" in error_of(write(tmp_path / "e.zip", bytes(data)))
    data = bytearray(zipped({"a.json": DOC}))
    for at in (8, data.index(b"PK\x01\x02") + 10):
        data[at] = 9
    assert "compression" in error_of(write(tmp_path / "m.zip", bytes(data)))


@pytest.mark.parametrize(
    "second", [DOC, document(1), b"[" + DOC[DOC.index(b'{"ph') :].split(b"}")[0] + b"}]"]
)
@pytest.mark.parametrize("between", [b"", b"\n"])
def test_two_documents_are_refused(tmp_path: Path, second: bytes, between: bytes) -> None:
    for name, data in (
        ("plain.json", DOC + between + second),
        ("one-member.gz", gzip.compress(DOC + between + second)),
        ("members.gz", gzip.compress(DOC) + gzip.compress(between + second)),
    ):
        line = error_of(write(tmp_path / name, data))
        assert "two documents" in line
        at = len(DOC + between)
        assert f"head -c {at} " in line
        assert f"tail -c +{at + 1} " in line


def test_two_documents_beyond_the_first_chunk(tmp_path: Path) -> None:
    devices = [{"id": i, "name": "x" * 50} for i in range(40)]
    big = document(30_000, deviceProperties=devices)
    line = error_of(write(tmp_path / "big.json", big + big))
    assert f"byte {len(big)} " in line


def test_text_that_looks_like_two_documents_is_read(tmp_path: Path) -> None:
    name = 'a"}]}{"traceEvents":[{"ph":"X","name":"b'
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    broken = json.dumps([event, event]).replace('"dur": 1}]', '"dur": nan}]')
    trace = load(write(tmp_path / "t.json", broken.encode()), use_store=False)
    assert [trace.name_of(i) for i in range(2)] == [name, name]


@pytest.mark.parametrize("pack", [zipped, tarred, lambda members: tarred(members, "w:gz")])
def test_ranks_of_an_archive_stay_apart(tmp_path: Path, pack: Callable[[dict[str, bytes]], bytes]) -> None:
    data = pack(
        {"b/r1.json": document(2, 1), "notes.txt": b"x", "a/r0.json.gz": gzip.compress(document(3, 0))}
    )
    path = write(tmp_path / "job", data)
    traces = all_of(path)
    assert [(t.info.path, t.info.rank, t.info.events) for t in traces] == [
        (f"{path}:b/r1.json", 1, 2),
        (f"{path}:a/r0.json.gz", 0, 3),
    ]
    with pytest.raises(InputError, match="holds 2 traces"):
        load(path, use_store=False)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_in_an_archive(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.json", document(2))
        archive.writestr("a.json", document(5))
    traces = all_of(write(tmp_path / "z", out.getvalue()))
    assert [(trace.info.events, trace.info.path[-8:]) for trace in traces] == [
        (2, "z:a.json"),
        (5, "a.json#2"),
    ]


def test_text_much_longer_than_its_gzip(tmp_path: Path) -> None:
    padded = DOC.replace(b'"traceName"', b" " * 30_000_000 + b'"traceName"')
    (trace,) = all_of(write(tmp_path / "t.gz", gzip.compress(padded, 1)))
    assert trace.info.complete
    assert trace.info.header["traceName"] == "x"


def test_directory_of_ranks(tmp_path: Path) -> None:
    write(tmp_path / "rank1.json.gz", gzip.compress(document(2, 1)))
    write(tmp_path / "rank0.json", document(3, 0))
    write(tmp_path / "config.json", b'{"model": [1, 2]}')
    write(tmp_path / "big.json", b'{"weights": [' + b"1, " * 50_000 + b"1]}")
    write(tmp_path / "events.json", b'[{"name": "not an event"}]')
    write(tmp_path / "train.py", b"import torch")
    write(tmp_path / "code.zip", zipped({"a.py": b"x", "b.py": b"y"}))
    write(tmp_path / ".rank9.json.swp", document())
    write(tmp_path / "empty.lock", b"")
    (tmp_path / "logs").mkdir()
    if os.name == "posix":
        (tmp_path / "latest.json").symlink_to("rank0.json")
        (tmp_path / "gone.json").symlink_to("nothing")
        os.mkfifo(tmp_path / "pipe.json")
    traces = all_of(str(tmp_path))
    assert [trace.info.rank for trace in traces] in ([0, 1], [1, 0])
    assert len(traces) == 2
    write(tmp_path / "rank2.json", b"")
    assert "rank2.json is empty" in error_of(str(tmp_path))


def test_directory_without_traces(tmp_path: Path) -> None:
    assert "it has no files" in error_of(str(tmp_path))
    (tmp_path / "runs").mkdir()
    assert "give one of the directories in it" in error_of(str(tmp_path))
    write(tmp_path / "a.json", b"{}")
    assert "JSON without 'traceEvents'" in error_of(str(tmp_path))
    write(tmp_path / "b.txt", b"hello")
    assert "none of its 2 files" in error_of(str(tmp_path))


def test_capture_directory_is_one_trace(tmp_path: Path) -> None:
    manifest = {"schema": "kinetoscope.capture/1", "files": {"trace": "trace.json.gz"}}
    write(tmp_path / "manifest.json", json.dumps(manifest).encode())
    write(tmp_path / "trace.json.gz", gzip.compress(document(5)))
    write(tmp_path / "trace.program-1.json.gz", gzip.compress(document(2)))
    write(tmp_path / "counters.json", b"{}")
    (tmp_path / "compile_log").mkdir()
    (trace,) = all_of(str(tmp_path))
    assert trace.info.events == 5
    (tmp_path / "trace.json.gz").unlink()
    assert "has no trace" in error_of(str(tmp_path))


def test_capture_directory_of_ranks(tmp_path: Path) -> None:
    for rank in (0, 1):
        manifest = {"schema": "kinetoscope.capture/1", "files": {"trace": f"../trace.rank{rank}.json.gz"}}
        write(tmp_path / f"manifest.rank{rank}.json", json.dumps(manifest).encode())
        write(tmp_path / f"trace.rank{rank}.json.gz", gzip.compress(document(2 + rank, rank)))
    assert [(t.info.rank, t.info.events) for t in all_of(str(tmp_path))] == [(0, 2), (1, 3)]


def test_kinds_of_errors(tmp_path: Path) -> None:
    assert issubclass(NotATraceError, InputError)
    assert issubclass(InputError, KinetoscopeError)
    with pytest.raises(NotATraceError):
        load(write(tmp_path / "x", b"{}"), use_store=False)
