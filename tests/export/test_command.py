"""``kinetoscope export`` in the shell."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from export.test_chrome import SAMPLE, TRACES, events
from kinetoscope.__main__ import main
from kinetoscope.ingest import load
from kinetoscope.reporting import report_of


def test_the_command_writes_packed_and_plain(tmp_path: Path) -> None:
    trace = str(TRACES / "seed_breaks.trace.json.gz")
    plain, packed = tmp_path / "a.json", tmp_path / "a.json.gz"
    assert main(["export", trace, "--to", "chrome", "-o", str(plain)]) == 0
    assert main(["export", trace, "-o", str(packed)]) == 0
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()


def test_the_command_writes_tables(tmp_path: Path) -> None:
    path = TRACES / "seed_breaks.trace.json.gz"
    assert main(["export", str(path), "--to", "parquet", "-o", str(tmp_path / "tables")]) == 0
    trace = load(path)
    for name in ("slices", "flows", "tracks"):
        assert pl.read_parquet(tmp_path / "tables" / f"{name}.parquet").equals(getattr(trace, name))


@pytest.mark.parametrize("to", ["chrome", "parquet"])
def test_the_command_takes_a_window(tmp_path: Path, to: str) -> None:
    path = str(TRACES / "seed_breaks.trace.json.gz")
    out = tmp_path / "out.json"
    assert main(["export", path, "--steps", "1..1", "--to", to, "-o", str(out)]) == 0
    spans = report_of(load(path)).steps.list[1]
    if to == "parquet":
        found = pl.read_parquet(out / "slices.parquet").filter(pl.col("category") == "cpu_op")
        starts = found["start_ns"].to_list()
        assert spans.start_ns <= min(starts) <= max(starts) < spans.start_ns + spans.dur_ns
    else:
        steps = [event["args"]["index"] for event in events(out) if event["name"].startswith("step ")]
        assert steps == [1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.json", "-o", "x.json"], "nothing.json"),
        (
            [str(TRACES / "seed_breaks.trace.json.gz"), "-o", "/nowhere/x.json"],
            "cannot write /nowhere/x.json",
        ),
        ([str(TRACES / "seed_breaks.trace.json.gz"), "-o", "x", "--steps", "90"], "--steps"),
        ([str(TRACES / "seed_breaks.trace.json.gz")], "--output"),
        ([str(TRACES), "-o", "x.json"], "holds"),
        (["x.json", "-o", "y", "--to", "perfetto"], "--to chrome is JSON, which Perfetto opens"),
        (["x.json", "-o", "y", "--to", "csv"], "--to csv: there is chrome and parquet"),
        ([str(TRACES / "seed_breaks.trace.json.gz"), "-o", "/dev/null/x", "--to", "parquet"], "cannot write"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["export", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1


def test_the_input_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes((TRACES / "seed_breaks.trace.json.gz").read_bytes())
    assert main(["export", str(path), "-o", str(path)]) == 2
    assert "overwrite the input" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["export"], ["export", "--to", "parquet"], ["report"], ["whatif", "--no-breaks"]]
)
@pytest.mark.parametrize("inside", ["trace.json.gz", "compile_log"])
def test_nothing_of_a_capture_is_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], inside: str
) -> None:
    capture = tmp_path / "capture"
    shutil.copytree(SAMPLE, capture)
    target = capture / inside
    if target.is_dir():
        target = next(iter(target.iterdir()))
    before = target.read_bytes()
    assert main([*command, str(capture), "-o", str(target)]) == 2
    assert "overwrite the input" in capsys.readouterr().err
    assert target.read_bytes() == before
    report = capture / "report.json"
    for _ in range(2):  # what is not read may be replaced
        assert main(["report", str(capture), "-o", str(report)]) == 0


def cut(tmp_path: Path) -> Path:
    """Two thirds of a trace's text."""
    text = gzip.decompress((TRACES / "seed_breaks.trace.json.gz").read_bytes())
    path = tmp_path / "cut.json"
    path.write_bytes(text[: len(text) * 2 // 3])
    return path


@pytest.mark.parametrize("window", [[], ["--window", "1000000..4000000"]])
def test_an_export_of_a_cut_trace_is_a_cut_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], window: list[str]
) -> None:
    path, out = cut(tmp_path), tmp_path / "out.json"
    assert main(["export", str(path), "-o", str(out), *window]) == 0
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "cut.json: the end of this trace is missing" in said
    assert json.loads(out.read_text())["inputComplete"] is False
    ours = [event for event in events(out) if event.get("cat") == "kinetoscope"]
    assert [event["name"] for event in ours if "the end of the file is missing" in event["name"]]
    again = load(out)
    assert not again.info.complete
    assert again.info.warnings[0].code == "truncated"
    assert "exported from a trace whose end is missing" in again.info.warnings[0].message
    # and so is an export of the export
    third = tmp_path / "third.json"
    assert main(["export", str(out), "-o", str(third)]) == 0
    assert not load(third).info.complete


def test_tables_of_a_cut_trace_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(cut(tmp_path)), "--to", "parquet", "-o", str(tmp_path / "tables")]) == 0
    assert "the end of this trace is missing" in capsys.readouterr().err
    for name in ("slices", "flows", "tracks"):
        about = pl.read_parquet_metadata(tmp_path / "tables" / f"{name}.parquet")
        assert about["inputComplete"] == "false"


def test_an_export_of_a_whole_trace_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = TRACES / "seed_breaks.trace.json.gz", tmp_path / "out.json"
    assert main(["export", str(path), "-o", str(out)]) == 0
    assert capsys.readouterr().err == ""
    assert "inputComplete" not in json.loads(out.read_text())
    assert load(out).info.complete
