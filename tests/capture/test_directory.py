import gzip
import json
from pathlib import Path

import pytest

from kinetoscope.capturing.directory import CaptureDirectory, json_safe
from kinetoscope.errors import CaptureError


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    directory = CaptureDirectory(tmp_path)
    directory.write_json("manifest", {"a": 1})

    def fail() -> None:
        with directory.writing(directory.file("manifest", ".json")) as stream:
            stream.write(b"{")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert json.loads((tmp_path / "manifest.json").read_text()) == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_ranks_have_names_of_their_own(tmp_path: Path) -> None:
    assert CaptureDirectory(tmp_path, 3).file("trace", ".json.gz").name == "trace.rank3.json.gz"


def test_preparing_removes_what_an_earlier_capture_left(tmp_path: Path) -> None:
    directory = CaptureDirectory(tmp_path)
    directory.prepare()
    kept = ["notes.md", "trace.rank1.json.gz"]
    for name in (
        "manifest.json",
        "trace.json.gz",
        "trace.program-2.json.gz",
        ".trace.7.json.tmp",
        "compile_log/x.log",
        *kept,
    ):
        (tmp_path / name).write_text("")
    directory.prepare()
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == kept


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match="choose another with -o"):
        CaptureDirectory(tmp_path / "file" / "capture").prepare()


@pytest.mark.parametrize("packed", [False, True])
def test_traces_are_packed_and_their_events_counted(tmp_path: Path, packed: bool) -> None:
    # Larger than a chunk, so that the chunks' edges fall into events.
    text = json.dumps({"traceEvents": [{"ph": "X", "name": "n" * (i % 97)} for i in range(40_000)]})
    raw = tmp_path / "raw"
    raw.write_bytes(
        gzip.compress(text.replace(" ", "").encode()) if packed else text.replace(" ", "").encode()
    )
    path, events = CaptureDirectory(tmp_path).take_trace(raw, "trace")
    assert events == 40_000
    assert not raw.exists()
    assert len(json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]) == 40_000


def test_json_is_strict() -> None:
    assert json_safe({1: [float("nan"), float("inf"), 1.5, {2}], "p": Path("a")}) == {
        "1": [None, None, 1.5, [2]],
        "p": "a",
    }
