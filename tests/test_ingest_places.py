"""Where an input is: odd names, pipes, standard input, and what cannot be opened."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from container_files import DOC, all_of, error_of, posix, tarred, write, zipped
from kinetoscope.errors import InputError
from kinetoscope.ingest import find_sources, load, load_source


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
