"""Containers: content decides, every rank is found, and whatever is wrong is said in one printable line."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import random
import socket
import stat
import subprocess
import sys
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.errors import InputError, KinetoscopeError, NotATraceError
from kinetoscope.ingest import find_sources, load, load_source
from kinetoscope.ingest.text import EndsEarlyError
from kinetoscope.ingest.unpack import gunzip
from kinetoscope.trace import Trace

posix = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")


def document(events: int = 3, rank: int | None = None, **header: Any) -> bytes:
    about = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 2}}
    listed = [
        {"ph": "X", "cat": "cpu_op", "name": f"aten::op{i}", "pid": 1, "tid": 1, "ts": i * 10, "dur": 3}
        for i in range(events)
    ]
    return json.dumps(
        {"schemaVersion": 1, **about, **header, "traceEvents": listed, "traceName": "x"}
    ).encode()


def write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred(members: dict[str, bytes], mode: str = "w") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def all_of(path: str) -> list[Trace]:
    return [load_source(source, use_store=False) for source in find_sources(path)]


def error_of(path: str) -> str:
    """The one line that reading it gives."""
    with pytest.raises(InputError) as caught:
        all_of(path)
    line = str(caught.value)
    assert line.isprintable(), line
    return line


DOC = document()


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


def noisy(events: int = 4000) -> bytes:
    rng = random.Random(3)
    return json.dumps(
        {
            "traceEvents": [
                {"ph": "X", "cat": "cpu_op", "name": f"{rng.random()}", "pid": 1, "tid": 1, "ts": i, "dur": 1}
                for i in range(events)
            ]
        }
    ).encode()


NOISY = noisy()
#: damaged text is slow to mend
SHORT = noisy(900)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("gz", gzip.compress(NOISY)),
        ("zip", zipped({"a.json": NOISY, "b.json": DOC})),
        ("stored.zip", zipped({"a.json": NOISY, "b.json": DOC}, zipfile.ZIP_STORED)),
        ("tar", tarred({"a.json": NOISY, "b.json": DOC})),
        ("tgz", tarred({"a.json": NOISY, "b.json": DOC}, "w:gz")),
    ],
)
def test_cut_anywhere_is_partial_or_refused(tmp_path: Path, name: str, data: bytes) -> None:
    partial = 0
    for cut in [*range(0, 60, 7), *range(60, len(data), len(data) // 12), len(data) - 30]:
        path = write(tmp_path / name, data[:cut])
        try:
            first, *others = all_of(path)
        except InputError as error:
            assert str(path) in str(error)
            assert str(error).isprintable()
            assert cut < len(data) // 6, error  # several events lie before
            continue
        whole = first.info.complete
        partial += not whole
        assert whole == (first.info.events == 4000)
        assert whole or first.warnings[0].code == "truncated"
        assert all(other.info.events <= 3 for other in others)
    assert partial >= 6


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("gz", gzip.compress(SHORT)),
        ("zip", zipped({"a.json": SHORT})),
        ("tgz", tarred({"a.json": SHORT}, "w:gz")),
    ],
)
def test_damage_anywhere_is_never_a_crash_nor_silent(tmp_path: Path, name: str, data: bytes) -> None:
    rng = random.Random(1)
    told = 0
    for _ in range(12):
        damaged = bytearray(data)
        at = rng.randrange(len(data) // 20, len(data) - len(data) // 20)
        damaged[at] ^= 1 << rng.randrange(8)
        try:
            traces = all_of(write(tmp_path / name, bytes(damaged)))
        except InputError as error:
            assert str(error).isprintable()
            told += 1
            continue
        told += any(trace.warnings for trace in traces)
    assert told >= (12 if name != "tgz" else 9)  # a tar file has no checksum of its members


def test_a_cut_gzip_gives_all_the_text_that_is_there() -> None:
    data = gzip.compress(b"a" * 300_000 + b"xyz" * 50_000 + bytes(200_000), 9)
    for cut in range(60, len(data) - 8, 11):
        blocks: list[bytes] = []
        with pytest.raises(EndsEarlyError):
            blocks.extend(gunzip(io.BytesIO(data[:cut]), "t"))
        assert b"".join(blocks) == zlib.decompressobj(31).decompress(data[:cut])


def test_a_wrong_checksum_of_a_gzip_is_noticed(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(DOC))
    data[-6] ^= 1
    assert "checksum" in error_of(write(tmp_path / "t.gz", bytes(data)))
    data = bytearray(gzip.compress(NOISY))
    data[-6] ^= 1
    (trace,) = all_of(write(tmp_path / "t.gz", bytes(data)))
    assert not trace.info.complete
    assert trace.info.events > 2000


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


def test_missing_and_odd_names(tmp_path: Path) -> None:
    assert "No such file" in error_of(str(tmp_path / "no\nthing"))
    assert "\\n" in error_of(str(tmp_path / "no\nthing"))
    assert "null byte" in error_of("a\0b")
    assert "No such file" in error_of("")


@posix
def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.json")
    try:
        Path(path).write_bytes(DOC)
    except OSError:
        pytest.skip("the file system takes UTF-8 only")
    assert load(path, use_store=False).info.events == 3
    Path(path).write_bytes(b"hello")
    line = error_of(path)
    assert "caf\\udce9.json" in line
    line.encode()
    member = os.fsdecode(b"caf\xe9.json")
    write(tmp_path / "t.tar", tarred({member: DOC}))
    (trace,) = all_of(str(tmp_path / "t.tar"))
    assert trace.info.events == 3


@posix
def test_what_is_no_file(tmp_path: Path) -> None:
    assert "it is a device" in error_of(os.devnull)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as bound:
        try:
            bound.bind(str(tmp_path / "s"))
        except OSError:
            pytest.skip("the path is too long for a socket")
        assert "it is a socket" in error_of(str(tmp_path / "s"))
    (tmp_path / "loop").symlink_to("loop")
    assert "symbolic links" in error_of(str(tmp_path / "loop"))


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.json", DOC)
    gz = write(tmp_path / "t.json.gz", gzip.compress(DOC))
    sources = [find_sources(path)[0], find_sources(gz)[0]]

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    import builtins

    monkeypatch.setattr(builtins, "open", refuse)
    for named in (path, gz):
        assert error_of(named) == f"cannot read {named}: Permission denied"
    for source in sources:  # it was taken away between finding and reading
        with pytest.raises(InputError, match="Permission denied"):
            load_source(source, use_store=False)


@posix
@pytest.mark.parametrize(
    "data",
    [
        DOC,
        gzip.compress(DOC),
        zipped({"a.json": DOC}),
        tarred({"a.json": DOC}),
        tarred({"a.json": DOC}, "w:gz"),
    ],
)
def test_fifo(tmp_path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert stat.S_ISFIFO(os.stat(fifo).st_mode)
    writer = threading.Thread(target=fifo.write_bytes, args=(data,))
    writer.start()
    (source,) = find_sources(str(fifo))
    writer.join()
    trace = load_source(source)
    assert trace.info.path.startswith(str(fifo))
    assert trace.info.events == 3
    assert trace.args_source([1])[0]["name"] == "aten::op1"  # the pipe is gone, the text is not
    assert len(os.listdir(tmp_path / "tmp")) == 1
    del source, trace
    assert os.listdir(tmp_path / "tmp") == []


READ = """
import sys
from kinetoscope.errors import KinetoscopeError
from kinetoscope.ingest import find_sources, load_source
try:
    for source in find_sources("-"):
        trace = load_source(source)
        print(trace.info.path, trace.info.events, trace.args_source([1])[0]["name"])
except KinetoscopeError as error:
    print(error)
"""


def piped(data: bytes, **options: Any) -> str:
    source = Path(__file__).parents[1] / "src"
    done = subprocess.run(
        [sys.executable, "-c", READ],
        input=data,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(source)},
        timeout=60,
        check=True,
        **options,
    )
    assert done.stderr == b""
    return done.stdout.decode().strip()


def test_standard_input() -> None:
    assert piped(DOC) == "standard input 3 aten::op1"
    assert piped(gzip.compress(DOC)) == "standard input 3 aten::op1"
    assert piped(zipped({"r.json": DOC})) == "standard input:r.json 3 aten::op1"
    assert piped(b"") == "standard input is empty: nothing came through the pipe"
    assert piped(gzip.compress(DOC)[:-20] + b"x" * 30).startswith(("standard input", "cannot read standard"))
    assert "starts with 'hellohello" in piped(b"hello" * 1000)


@posix
def test_endless_standard_input_is_refused_at_once() -> None:
    source = Path(__file__).parents[1] / "src"
    with subprocess.Popen(
        [sys.executable, "-c", READ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(source)},
    ) as process:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            while process.poll() is None:
                process.stdin.write(b"y\n" * 4096)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        assert process.stdout is not None
        assert b"not a trace" in process.stdout.read()


def test_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert error_of("-") == "cannot read standard input: it is closed"


def test_a_full_disk_while_a_pipe_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(DOC)))
    assert error_of("-") == "cannot read standard input: No space left on device"
    assert os.listdir(tmp_path) == []


def test_kinds_of_errors(tmp_path: Path) -> None:
    assert issubclass(NotATraceError, InputError)
    assert issubclass(InputError, KinetoscopeError)
    with pytest.raises(NotATraceError):
        load(write(tmp_path / "x", b"{}"), use_store=False)
