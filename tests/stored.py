"""Traces for the store, and looks at what it holds."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinetoscope import ingest
from kinetoscope.ingest import store
from kinetoscope.ingest.store import Before, Store
from kinetoscope.trace import Trace

SOURCE = Path(__file__).parents[1] / "src"

posix = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")


def document(seed: int = 1, events: int = 400) -> bytes:
    """Events of every kind; the same length for every seed of one digit."""
    made: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}},
        {
            "ph": "M",
            "name": "process_sort_index",
            "pid": 2**70,
            "tid": 0,
            "ts": 0,
            "args": {"sort_index": 2**70},
        },
        {"ph": "X", "cat": "cpu_op", "name": "odd", "pid": 2**70, "tid": "é", "ts": 1, "dur": -1},
    ]
    for i in range(events):
        common = {"pid": 1, "tid": i % 3, "ts": i + 0.125}
        if i % 5 == 3:
            made.append({"ph": "s", "cat": "ac2g", "name": "ac2g", "id": i, **common})
        elif i % 11 == 0:
            made.append({"ph": "i", "name": "[memory]", **common, "args": {"Bytes": i}})
        elif i % 13 == 0:
            made.append({"ph": "C", "name": "gpu", **common, "args": {"load": i / 7}})
        else:
            name = f"aten::op{seed}{i % 40}"
            made.append({"ph": "X", "cat": "cpu_op", "name": name, "dur": 2.5, **common, "args": {"n": i}})
    header = {"schemaVersion": 1, "big": 2**80, "odd": float("nan"), "half": "\ud800"}
    return json.dumps({**header, "traceEvents": made, "traceName": "x"}).encode()


def settle(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the file had been written long ago."""
    monkeypatch.setattr(store, "_RACY_NS", 0)


def assert_same(one: Trace, other: Trace) -> None:
    for table in ("columns", "flow_columns", "instants", "counters"):
        mine, its = getattr(one, table), getattr(other, table)
        for field in fields(mine):
            np.testing.assert_array_equal(getattr(mine, field.name), getattr(its, field.name))
            assert getattr(mine, field.name).dtype == getattr(its, field.name).dtype
            assert not getattr(its, field.name).flags.writeable
    assert list(one.names) == list(other.names)
    assert list(one.cats) == list(other.cats)
    assert one.track_list == other.track_list
    assert one.origin_ns == other.origin_ns
    assert repr(one.info) == repr(other.info)  # NaN is not equal to itself
    everything = range(one.info.events)
    assert one.args_source(everything) == other.args_source(everything)


def stores(cache: Path) -> list[Path]:
    return sorted(cache.glob("*.store"))


def saved(path: Path, cache: Path) -> None:
    """Save, letting errors out."""
    before = Before.of(path)
    reading, ends_early = ingest._read(ingest.find_sources(str(path))[0], None)
    Store(cache).save(path, None, before, reading, ends_early)
