"""Every number that the plain reference computes, on every trace that has one."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kinetoscope
from helpers import HAS_SHARED, NO_SHARED, references
from kinetoscope.analyses.autograd import autograd
from kinetoscope.analyses.device_time import device_time
from kinetoscope.analyses.idle import idle
from kinetoscope.analyses.launches import launches
from kinetoscope.analyses.regions import regions
from kinetoscope.analyses.steps import steps
from kinetoscope.link import Links, link
from kinetoscope.trace import Category

PAIRS = references()
IDS = [f"{path.parent.name}/{path.name}" for path, _ in PAIRS]


@lru_cache(maxsize=2)
def loaded(path: Path, reference: Path) -> tuple[Links, dict[str, Any]]:
    return link(kinetoscope.load(str(path), use_store=False)), json.loads(reference.read_text())


@pytest.fixture(params=PAIRS, ids=IDS, scope="module")
def pair(request: pytest.FixtureRequest) -> tuple[Links, dict[str, Any]]:
    return loaded(*request.param)


def test_all_references_are_here() -> None:
    if not HAS_SHARED:
        pytest.skip(NO_SHARED)
    assert len(PAIRS) == 6 + 57


def test_events(pair: tuple[Links, dict[str, Any]]) -> None:
    links, reference = pair
    info, c = links.trace.info, links.trace.columns
    assert (info.events, info.complete_events) == (reference["events"], reference["complete_events"])
    kernels = c.category == Category.KERNEL
    assert int(kernels.sum()) == reference["kernels"]
    assert int(c.dur_ns[kernels].sum()) == reference["kernel_sum_ns"]


def test_device_time(pair: tuple[Links, dict[str, Any]]) -> None:
    links, reference = pair
    assert [msgspec.to_builtins(one) for one in device_time(links)] == reference["device_time"]


def test_idle(pair: tuple[Links, dict[str, Any]]) -> None:
    links, reference = pair
    found = idle(links)
    if not reference["device_time"]:
        assert found is None
        return
    assert found is not None
    assert found.total_ns == sum(one["idle_ns"] for one in reference["device_time"])
    assert found.gaps == sum(one["gaps"] for one in reference["device_time"])
    assert sum(cause.total_ns for cause in found.by_cause) == found.total_ns


def test_launches(pair: tuple[Links, dict[str, Any]]) -> None:
    links, reference = pair
    found = launches(links)
    assert (found.linked, found.unlinked, found.launched_before_window) == (
        reference["device_events_linked"],
        reference["device_events_unlinked"],
        reference["launched_before_window"],
    )
    assert (found.launch_calls, found.graph_launches) == (
        reference["launch_calls"],
        reference["graph_launches"],
    )
    assert found.device_events_per_graph_launch == reference["device_events_per_graph_launch"]


def test_regions(pair: tuple[Links, dict[str, Any]]) -> None:
    links, reference = pair
    fields = ("calls", "total_ns", "self_ns", "nested_calls", "parents", "device_ns")
    found = {one.id: {field: getattr(one, field) for field in fields} for one in regions(links)}
    assert found == reference["regions"]


def test_compiled_function_pairs(pair: tuple[Links, dict[str, Any]]) -> None:
    links, reference = pair
    assert autograd(links).pairs == reference["compiled_function_pairs"]


def test_steps_of_the_profiler(pair: tuple[Links, dict[str, Any]]) -> None:
    links, reference = pair
    found = steps(links)
    if reference["steps"]:
        assert (found.source, found.count) == ("profiler_step", reference["steps"])
    else:
        assert found.source != "profiler_step"
