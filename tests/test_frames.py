"""Columns as Polars frames: the same values, names as strings, what is not given as null."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kinetoscope.ingest import load
from kinetoscope.trace import Trace

EVENTS: list[dict[str, Any]] = [
    {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "ts": 0, "args": {"name": "python"}},
    {"ph": "M", "name": "thread_name", "pid": 7, "tid": 2**40, "ts": 0, "args": {"name": "main"}},
    {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "ts": 0, "args": {"labels": "GPU 0"}},
    {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mm",
        "pid": 7,
        "tid": 2**40,
        "ts": 10,
        "dur": 9,
        "args": {"External id": 3},
    },
    {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": "cudaLaunchKernel",
        "pid": 7,
        "tid": 2**40,
        "ts": 11,
        "dur": 1,
        "args": {"correlation": 5},
    },
    {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 5, "pid": 7, "tid": 2**40, "ts": 11},
    {"ph": "t", "cat": "ac2g", "name": "ac2g", "id": 5, "pid": 7, "tid": 2**40, "ts": 11.5},
    {
        "ph": "X",
        "cat": "kernel",
        "name": "gemm \u2713",
        "pid": 0,
        "tid": "stream 7",
        "ts": 13,
        "dur": 4,
        "args": {"correlation": 5, "device": 0, "stream": 7},
    },
    {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 5, "pid": 0, "tid": "stream 7", "ts": 13},
    {
        "ph": "X",
        "cat": "kernel",
        "name": "bad",
        "pid": 0,
        "tid": "stream 7",
        "ts": 18,
        "dur": -1,
        "args": {"device": 0, "stream": 7, "Collective name": "allreduce"},
    },
]


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return of(tmp_path, EVENTS)


def of(tmp_path: Path, events: list[dict[str, Any]]) -> Trace:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return load(str(path), use_store=False)


def test_slices(trace: Trace) -> None:
    rows = {row["name"]: row for row in trace.slices.to_dicts()}
    assert list(rows) == ["aten::mm", "cudaLaunchKernel", "gemm \u2713", "bad"]
    assert rows["aten::mm"] == {
        "start_ns": 0,
        "dur_ns": 9000,
        "name": "aten::mm",
        "cat": "cpu_op",
        "category": "cpu_op",
        "track": 0,
        "depth": 0,
        "parent": None,
        "correlation": None,
        "external_id": 3,
        "sequence": None,
        "device": None,
        "stream": None,
        "event": 3,
        "invalid_time": False,
        "clipped": False,
        "collective": False,
    }
    launch = rows["cudaLaunchKernel"]
    assert (launch["category"], launch["parent"], launch["depth"], launch["correlation"]) == (
        "runtime",
        0,
        1,
        5,
    )
    kernel = rows["gemm \u2713"]
    assert (kernel["start_ns"], kernel["device"], kernel["stream"], kernel["event"]) == (3000, 0, 7, 7)
    bad = rows["bad"]
    assert (bad["dur_ns"], bad["invalid_time"], bad["collective"]) == (0, True, True)


def test_flows(trace: Trace) -> None:
    assert trace.flows.select("id", "time_ns", "phase", "cat", "event").rows() == [
        (5, 1000, "s", "ac2g", 5),
        (5, 1500, "t", "ac2g", 6),
        (5, 3000, "f", "ac2g", 8),
    ]


def test_tracks(trace: Trace) -> None:
    found = {(row["pid"], row["tid"]): row for row in trace.tracks.to_dicts()}
    assert found["7", str(2**40)] == {
        "pid": "7",
        "tid": str(2**40),
        "process_name": "python",
        "thread_name": "main",
        "labels": None,
        "slices": 2,
    }
    assert found["0", "stream 7"]["slices"] == 2
    assert found["0", "stream 7"]["labels"] == "GPU 0"
    # a slice's track is a row of this frame
    tids = trace.tracks["tid"].to_list()
    assert [tids[row] for row in trace.slices["track"].to_list()] == [str(2**40)] * 2 + ["stream 7"] * 2


def test_the_same_values_as_the_columns(trace: Trace) -> None:
    frame = trace.slices
    assert frame["start_ns"].to_list() == trace.columns.start_ns.tolist()
    assert [trace.name_of(row) for row in range(4)] == frame["name"].to_list()
    assert frame["name"].dtype == pl.String
    assert frame["parent"].dtype == pl.Int32
    assert trace.slices is frame


def test_a_trace_without_flows(tmp_path: Path) -> None:
    trace = of(tmp_path, [EVENTS[3]])
    assert trace.flows.height == 0
    assert trace.flows.schema["phase"] == pl.String
    assert trace.slices.height == trace.tracks.height == 1
    assert trace.slices["device"].to_list() == [None]
    assert trace.slices["device"].dtype == pl.Int64


def test_a_trace_without_slices(tmp_path: Path) -> None:
    trace = of(tmp_path, [EVENTS[5]])
    assert trace.slices.height == 0
    assert trace.slices.schema["name"] == pl.String
    assert trace.flows.height == 1
    assert trace.span_ns == 0


def test_names_that_frames_do_not_know(tmp_path: Path) -> None:
    """Halves of characters and zeros have no place in Arrow: they were replaced or kept on the way in."""
    broken = {
        "ph": "X",
        "cat": "cpu_op",
        "name": "half \ud800 zero \0",
        "pid": 1,
        "tid": 1,
        "ts": 1,
        "dur": 1,
    }
    trace = of(tmp_path, [broken])
    assert trace.slices["name"].to_list() == ["half \ufffd zero \0"]


def test_filters_read_as_one_would_write_them(trace: Trace) -> None:
    kernels = trace.slices.filter((pl.col("category") == "kernel") & ~pl.col("invalid_time"))
    assert kernels["dur_ns"].sum() == 4000
