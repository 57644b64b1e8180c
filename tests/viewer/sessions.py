"""Sessions without a server, and the bytes of a viewport in words."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kinetoscope.ingest.capture_directory import LogShelf, find_inputs
from kinetoscope.viewer.session import Session

TRACES = Path(__file__).parents[1] / "traces"
SAMPLE = Path(__file__).parents[2] / "samples" / "graph_breaks"
CAPTURES = ("seed_breaks", "gpt_decode", "user_triton")
Open = Callable[[str], Session]


def written(tmp_path: Path, *events: dict[str, Any]) -> Session:
    path = tmp_path / "small.json"
    path.write_text(json.dumps({"traceEvents": list(events)}))
    session = Session(find_inputs([str(path)])[0], LogShelf())
    session.run()
    return session


def event(
    name: str, start: float, dur: float, cat: str = "cpu_op", tid: int = 1, **args: Any
) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": dur, "args": args}


def decoded(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    (length,) = struct.unpack_from("<I", data)
    header = json.loads(data[4 : 4 + length])
    at, n = 4 + length, header["pieces"]
    columns = {}
    for name, dtype in (
        ("x0", "<f4"),
        ("x1", "<f4"),
        ("count", "<u4"),
        ("row", "<u4"),
        ("name", "<u4"),
        ("busy", "u1"),
        ("meaning", "u1"),
        ("hit", "u1"),
    ):
        columns[name] = np.frombuffer(data, dtype, n, at)
        at += -(-n * np.dtype(dtype).itemsize // 4) * 4
    assert at == len(data)
    return header, columns
