"""Traces of a few events, written by hand: each test says exactly what happened, in microseconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kinetoscope
from kinetoscope.link import Links, link

SHARED = Path(__file__).resolve().parents[1].parent / "shared"
GRAPH = "## Call CompiledFxGraph fkey ##"


def op(name: str, start: float, dur: float, cat: str = "cpu_op", tid: int = 1, **args: Any) -> dict[str, Any]:
    """An event on a CPU thread."""
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 10,
        "tid": tid,
        "ts": start,
        "dur": dur,
        "args": args,
    }


def region(id: str, start: float, dur: float, tid: int = 1) -> dict[str, Any]:
    """A call of a compiled region."""
    return op(f"Torch-Compiled Region: {id}", start, dur, tid=tid)


def launch(
    correlation: int, start: float, dur: float = 1, name: str = "cudaLaunchKernel", tid: int = 1
) -> dict[str, Any]:
    """A call that launches."""
    cat = "cuda_driver" if name.startswith("cu") and not name.startswith("cuda") else "cuda_runtime"
    return op(name, start, dur, cat, tid, correlation=correlation)


def kernel(
    name: str, correlation: int, start: float, dur: float, cat: str = "kernel", **args: Any
) -> dict[str, Any]:
    """Device work."""
    where = {"device": 0, "stream": 7, "correlation": correlation, **args}
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": start, "dur": dur, "args": where}


def steps(count: int, length: float) -> list[dict[str, Any]]:
    """Steps one after the other, from 0."""
    return [op(f"ProfilerStep#{n}", n * length, length, "user_annotation") for n in range(count)]


def links_of(tmp_path: Path, *events: dict[str, Any] | list[dict[str, Any]], **header: Any) -> Links:
    """The links of a trace of these events."""
    flat = [one for event in events for one in (event if isinstance(event, list) else [event])]
    path = tmp_path / "small.json"
    path.write_text(json.dumps({"schemaVersion": 1, **header, "traceEvents": flat}))
    return link(kinetoscope.load(str(path)))


def links_of_shared(name: str) -> Links:
    """The links of a file below the shared folder; the test skips where it is not there."""
    import pytest

    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs {name} of the shared traces, which are not here")
    return link(kinetoscope.load(str(path)))
