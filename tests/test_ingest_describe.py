"""What is said of a trace: its device, its rank, and warnings that a person understands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.errors import NotATraceError
from kinetoscope.ingest import load
from kinetoscope.trace import Info


def info_of(
    tmp_path: Path, *events: dict[str, Any] | str, cut: int = 0, name: str = "t.json", **header: Any
) -> Info:
    listed = [
        event
        if isinstance(event, str)
        else json.dumps({"ph": "X", "pid": 1, "tid": 1, "ts": 5, "dur": 2, "name": "x", **event})
        for event in events
    ]
    start = json.dumps({"schemaVersion": 1, **header})[:-1]
    text = f'{start}, "traceEvents": [{", ".join(listed)}]}}'
    path = tmp_path / name
    path.write_text(text[: len(text) - cut])
    return load(str(path), use_store=False).info


OP, KERNEL = {"cat": "cpu_op"}, {"cat": "kernel", "args": {"device": 0, "stream": 7}}
H100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], "cuda_runtime_version": 12060}


@pytest.mark.parametrize(
    ("events", "header", "kind"),
    [
        ([OP], {}, "cpu"),
        ([OP], {"deviceProperties": []}, "cpu"),
        ([OP], H100, "cpu"),  # there is a GPU, and nothing of it was used
        ([OP, KERNEL], H100, "cuda"),
        ([OP, KERNEL], {}, "cuda"),
        ([OP, {"cat": "cuda_runtime", "name": "cudaLaunchKernel"}], {}, "cuda"),
        ([KERNEL, {"cat": "cuda_runtime", "name": "hipLaunchKernel"}], H100, "rocm"),
        ([OP], {"hip_runtime_version": 60443483}, "rocm"),
        ([OP, {"cat": "xpu_runtime", "name": "urEnqueueKernelLaunch"}, KERNEL], {}, "xpu"),
        ([OP, {"cat": "mtia_runtime", "name": "launch"}], {}, "mtia"),
        ([{"cat": "user_annotation"}], {}, None),
    ],
)
def test_device_kind(tmp_path: Path, events: list[Any], header: dict[str, Any], kind: str | None) -> None:
    assert info_of(tmp_path, *events, **header).device_kind == kind


def test_device_kind_of_a_cut_file_is_not_guessed(tmp_path: Path) -> None:
    assert info_of(tmp_path, OP, OP, KERNEL, cut=30, **H100).device_kind is None
    assert info_of(tmp_path, OP, OP, OP, cut=30).device_kind == "cpu"


@pytest.mark.parametrize(
    ("name", "about", "rank"),
    [
        ("trace-rank3.json", None, 3),
        ("worker12_step.json", None, 12),
        ("RANK_0.json", None, 0),
        ("trace-rank3.json", {"rank": 5, "world_size": 8}, 5),
        ("trace-rank3.json", {"rank": -1}, 3),
        ("trace.json", {"rank": True, "world_size": True}, None),
        ("frank1.json", None, None),
        ("rank12345678901.json", None, None),
    ],
)
def test_rank(tmp_path: Path, name: str, about: Any, rank: int | None) -> None:
    header = {} if about is None else {"distributedInfo": about}
    info = info_of(tmp_path, OP, name=name, **header)
    assert info.rank == rank
    from_name = [warning.message for warning in info.warnings if warning.code == "rank-from-name"]
    assert bool(from_name) == (rank is not None and (about is None or about["rank"] != rank))
    assert not from_name or f"rank {rank} was taken from the file's name" in from_name[0]


def test_warnings(tmp_path: Path) -> None:
    info = info_of(
        tmp_path, OP, "7", '"no"', '{"ph": "\\nB"}', '{"ph": "X", "cat": "cpu_op", "ts": "?"}', "{}"
    )
    found = {warning.code: (warning.message, warning.count) for warning in info.warnings}
    assert found == {
        "not-an-object": ("entries among the events are no events, and were left out", 2),
        "phase-unknown": ("events of phase '\\nB', of which no use is made, were left out", 1),
        "no-timestamp": ("events without a readable time were left out", 1),
        "phase-missing": ("entries among the events do not say what they are (no ph), and were left out", 1),
        "string-timestamp": ("times are written as strings; they were read as numbers, to the last digit", 1),
    }
    assert all(warning.message.isprintable() for warning in info.warnings)


@pytest.mark.parametrize("last", ["{}", "7", "[]", '{"odd": "}, {"}', "null", '{"z": 1}, {}'])
def test_whatever_comes_last_is_not_the_end_of_a_cut_file(tmp_path: Path, last: str) -> None:
    info = info_of(tmp_path, OP, OP, last)
    assert info.complete
    assert info.complete_events == 2
    assert info.events == 3 + last.count(", {}")


def test_an_event_nested_too_deep_is_lost_alone(tmp_path: Path) -> None:
    deep = '{"ph": "X", "cat": "cpu_op", "ts": 1, "args": {"a": %s}}' % ("[" * 100_000 + "]" * 100_000)
    info = info_of(tmp_path, OP, deep, OP)
    assert info.complete_events == 2
    assert [(warning.code, warning.count) for warning in info.warnings] == [("event-lost", 1)]


def test_partial_says_why(tmp_path: Path) -> None:
    (warning,) = info_of(tmp_path, OP, OP, cut=20).warnings
    assert warning.message == (
        "PARTIAL: the end of the file is missing or damaged; the report covers what came before"
    )


def test_other_traces_are_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    event = {"ph": "X", "cat": "a\nb" + "c" * 99, "name": "x", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    path.write_text(json.dumps({"traceEvents": [event]}))
    with pytest.raises(NotATraceError) as caught:
        load(str(path), use_store=False)
    assert str(caught.value).isprintable()
    assert "a\\nbccc" in str(caught.value)
    path.write_text(json.dumps({"traceEvents": [event], "metadata": {"highres-ticks": True}}))
    with pytest.raises(NotATraceError, match="JAX/XLA"):
        load(str(path), use_store=False)
