"""The benchmark runs, its copies are good traces, and memory is that of every process started."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import kinetoscope

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import ingest  # noqa: E402
import measure  # noqa: E402
import replicate  # noqa: E402


@pytest.fixture(scope="module")
def source() -> replicate.Source:
    return replicate.read(ingest.SAMPLE)


def test_one_copy_is_the_trace_itself(source: replicate.Source, tmp_path: Path) -> None:
    replicate.write(source, tmp_path / "copy.json", 1)
    before, after = (
        kinetoscope.report(path, use_store=False).to_dict()
        for path in (ingest.SAMPLE, tmp_path / "copy.json")
    )
    for report in (before, after):
        del report["trace"]["path"]
    assert after == before


@pytest.mark.parametrize("layout", ["profiler", "line"])
def test_copies_multiply_what_is_counted(
    source: replicate.Source, tmp_path: Path, layout: replicate.Layout
) -> None:
    path = tmp_path / "copies.json"
    size = replicate.write(source, path, 5, layout)
    assert size == path.stat().st_size
    assert (path.read_bytes().count(b"\n") == 0) is (layout == "line")
    one, five = (kinetoscope.report(file, use_store=False) for file in (ingest.SAMPLE, path))
    assert five.trace.events == source.events_in(5)
    assert five.launches.linked == 5 * one.launches.linked
    assert five.launches.unlinked == 0
    assert five.device_time[0].busy_ns == 5 * one.device_time[0].busy_ns
    assert five.autograd.pairs == 5 * one.autograd.pairs
    assert [(r.id, r.calls, r.device_ns) for r in five.regions] == [
        (r.id, 5 * r.calls, 5 * r.device_ns) for r in one.regions
    ]


def test_times_are_moved_exactly(tmp_path: Path) -> None:
    events = [{"ph": "X", "name": "100%", "pid": 1, "tid": 1, "ts": 1.5, "dur": 0.25}]
    path = tmp_path / "small.json"
    text = json.dumps({"traceEvents": events}).replace("1.5", "1700000000000000.123")
    path.write_text(text)
    replicate.write(replicate.read(path), tmp_path / "out.json", 3)
    moved = (tmp_path / "out.json").read_text()
    assert json.loads(moved)["traceEvents"][2]["name"] == "100%"
    for start in ("1700000000000000.123", "1700000000001000.373", "1700000000002000.623"):
        assert f'"ts": {start}, ' in moved


def test_a_size_is_met(source: replicate.Source, tmp_path: Path) -> None:
    copies = replicate.copies_for(source, 2_000_000, tmp_path / "scratch")
    assert not (tmp_path / "scratch").exists()
    assert replicate.write(source, tmp_path / "out", copies) == pytest.approx(2_000_000, rel=0.1)
    assert replicate.size_of("1.14GB") == 1_140_000_000
    assert replicate.size_of("20m") == 20_000_000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_memory_of_a_child_counts_too() -> None:
    child = "x = bytearray(80 << 20); import time; time.sleep(0.3)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    done = measure.run([sys.executable, "-c", parent])
    assert done.status == 0
    assert done.seconds > 0.3
    assert done.anonymous_bytes is not None
    assert done.resident_bytes is not None
    assert 80 << 20 < done.anonymous_bytes < 200 << 20
    assert done.resident_bytes > done.anonymous_bytes


def test_a_quick_run_writes_its_table_and_leaves_nothing(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n" + "".join(ingest._MARKS) + "after\n")
    work = tmp_path / "work"
    work.mkdir()
    command = [sys.executable, str(ROOT / "benchmarks" / "ingest.py"), "--quick", "--size", "1"]
    done = subprocess.run(
        [*command, "--directory", str(work), "--table", str(page)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    for name in ("whole report", "from the store", "on one line", "as gzip", "twice the file", "json.loads"):
        assert name in text, name
    assert list(work.iterdir()) == []
