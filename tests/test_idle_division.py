"""Whatever a trace holds, its idle time is divided without rest: measured traces, and random ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinetoscope
from helpers import HAS_SHARED, SHARED, TRACES, Event, call, event, kernel, links_of, op
from kinetoscope import analyses
from kinetoscope.analyses.idle import find_gaps
from kinetoscope.analyses.idle_causes import pieces_of_gaps
from kinetoscope.errors import KinetoscopeError
from kinetoscope.link import Links, link

GRAPH = "## Call CompiledFxGraph fkey ##"


def traces() -> list[Path]:
    shipped = sorted((TRACES / "planted").rglob("*.json.gz"))
    if not HAS_SHARED:
        return shipped
    found = sorted([*(SHARED / "traces").rglob("*.json*"), *(SHARED / "cases").glob("*.json*")])
    return shipped + [path for path in found if not path.name.endswith((".reference.json", "facts.json"))]


@pytest.mark.parametrize("path", traces(), ids=lambda path: "/".join(path.parts[-2:]))
def test_every_gap_is_divided_without_rest(path: Path) -> None:
    if "compile_log" in path.parts or path.stat().st_size > 4_000_000:
        pytest.skip("no trace, or a big one")
    try:
        links = link(kinetoscope.load(str(path), use_store=False))
    except KinetoscopeError:
        pytest.skip("cannot be read")
    idle = analyses.idle(links)
    if idle is None:
        return
    assert idle.total_ns == sum(device.idle_ns for device in analyses.device_time(links))
    assert idle.total_ns == sum(cause.total_ns for cause in idle.by_cause)
    check_pieces(links)
    if path.parent.parent.name in ("gpu", "planted"):
        unknown = sum(cause.total_ns for cause in idle.by_cause if cause.cause == "unknown")
        assert unknown <= 0.05 * idle.total_ns


def check_pieces(links: Links) -> None:
    """The pieces of a gap follow each other from its start to its end."""
    gaps = find_gaps(links)
    pieces = pieces_of_gaps(links, gaps.device, gaps.start_ns, gaps.end_ns, gaps.next_row)
    assert (pieces.end_ns > pieces.start_ns).all()
    first = np.append(True, np.diff(pieces.gap) > 0)[: len(pieces)]
    last = np.append(first[1:], True)[: len(pieces)]
    assert pieces.gap[first].tolist() == list(range(len(gaps)))
    assert (pieces.start_ns[first] == gaps.start_ns).all()
    assert (pieces.end_ns[last] == gaps.end_ns).all()
    assert (pieces.start_ns[~first] == pieces.end_ns[np.flatnonzero(~first) - 1]).all()


@pytest.mark.parametrize("seed", range(25))
def test_whatever_threads_and_streams_do_the_pieces_fit(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    names = [
        *("aten::mm", "aten::copy_", "Torch-Compiled Region: 0/0", GRAPH, "TorchDynamo Cache Lookup"),
        *("CompiledFunction", "c10d::allreduce_", "x (dynamo_timed)", "aten::item"),
    ]
    calls = [
        "cudaLaunchKernel",
        "cudaStreamSynchronize",
        "cudaMalloc",
        "cudaMemcpyAsync",
        "cudaStreamWaitEvent",
    ]
    events: list[Event] = []
    for number in range(60):
        at, length, tid = (int(random.integers(high)) for high in (900, 120, 3))
        events.append(op(names[int(random.integers(len(names)))], at, length, tid=tid))
        start = int(random.integers(900))
        name = calls[int(random.integers(len(calls)))]
        events.append(call(number + 1, start, int(random.integers(60)), tid=tid, name=name))
        if random.random() < 0.8:
            where = {"stream": int(random.integers(3)), "device": int(random.integers(2))}
            events.append(kernel(number + 1, start + int(random.integers(-5, 90)), 7, **where))
    events.append(event("overhead", "Buffer Flush", 300, 50, pid=-1, tid=0))
    links = links_of(tmp_path, events)
    idle = analyses.idle(links)
    assert idle is not None
    assert idle.total_ns == sum(cause.total_ns for cause in idle.by_cause)
    assert idle.total_ns == sum(device.idle_ns for device in analyses.device_time(links))
    check_pieces(links)
