"""Pairs of compiled forward and backward, and compile phases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers import call, flow, kernel, links_of, note, op, region, shared_trace, shipped


def forward(start_us: float, sequence: int, **args: Any) -> dict[str, Any]:
    return op("CompiledFunction", start_us, 10, sequence_number=sequence, **args)


def backward(start_us: float, sequence: int) -> dict[str, Any]:
    return op("CompiledFunctionBackward", start_us, 10, tid=2, sequence_number=sequence)


def test_by_sequence_number(tmp_path: Path) -> None:
    pairs = links_of(
        tmp_path,
        [
            region("0/0", 0, 40),
            forward(5, 1),
            forward(20, 2),
            forward(60, 3),
            backward(100, 2),
            backward(120, 1),
            backward(140, 9),
            call(1, 125, tid=2),
            kernel(1, 200, 6),
        ],
    ).pairs
    assert pairs.forward.tolist() == [0, 1]
    assert pairs.backward.tolist() == [1, 0]
    assert not pairs.by_flow.any()
    assert (pairs.unpaired_forwards.tolist(), pairs.unpaired_backwards.tolist()) == ([2], [2])
    assert pairs.device_ns_of_backwards.tolist() == [0, 6_000, 0]
    assert pairs.region_of_forward.tolist() == [0, 0]


def test_arrows_decide_where_numbers_are_the_same(tmp_path: Path) -> None:
    """Sequence numbers count per thread, so two threads can use the same."""
    pairs = links_of(
        tmp_path,
        [
            forward(0, 1),
            op("CompiledFunction", 0, 10, tid=3, sequence_number=1),
            backward(100, 1),
            backward(120, 1),
            flow("s", 1, 0, cat="fwdbwd", tid=1),
            flow("f", 1, 120, cat="fwdbwd", tid=2),
            flow("s", 2, 0, cat="fwdbwd", tid=3),
            flow("f", 2, 100, cat="fwdbwd", tid=2),
        ],
    ).pairs
    assert pairs.by_flow.all()
    assert sorted(zip(pairs.forward.tolist(), pairs.backward.tolist(), strict=True)) in (
        [(0, 0), (1, 1)],
        [(0, 1), (1, 0)],
    )
    calls = pairs.regions.forwards
    joined = {
        int(calls.trace.track_list[int(calls.track[f])].tid): int(pairs.regions.backwards.start_ns[b])
        for f, b in zip(pairs.forward, pairs.backward, strict=True)
    }
    assert joined == {1: 120_000, 3: 100_000}


def test_second_backward_through_a_forward_is_not_unpaired(tmp_path: Path) -> None:
    pairs = links_of(tmp_path, [forward(0, 1), backward(50, 1), backward(90, 1)]).pairs
    assert len(pairs) == 1
    assert len(pairs.unpaired_backwards) == 0


def test_nothing_to_pair(tmp_path: Path) -> None:
    assert len(links_of(tmp_path, [op("aten::add", 0, 5), flow("s", 1, 0, cat="fwdbwd")]).pairs) == 0


def test_seed_breaks_pairs_by_arrow() -> None:
    pairs = shipped("seed_breaks").pairs
    assert len(pairs) == int(pairs.by_flow.sum()) == 12


def test_phases_are_a_union(tmp_path: Path) -> None:
    compiles = links_of(
        tmp_path,
        [
            note("outer (dynamo_timed)", 0, 100),
            note("inner (dynamo_timed)", 10, 50),
            note("other thread (dynamo_timed)", 50, 100, tid=2),
            note("lone_data: compile_id=9/9", 300, 40),
            op("aten::empty", 20, 5),
            call(1, 70),
            kernel(1, 400, 5),
            call(2, 200),
            kernel(2, 500, 5),
        ],
    ).compiles
    assert compiles.total_ns == 150_000
    assert len(compiles.entries) == 2
    assert compiles.covers_call.tolist() == [True, False]
    c = compiles.trace.columns
    covered = {compiles.trace.name_of(row) for row in compiles.covers_row.nonzero()[0].tolist()}
    assert "aten::empty" in covered
    assert not compiles.covers_row[c.is_device].any()


def test_compile_ids_come_from_markers(tmp_path: Path) -> None:
    compiles = links_of(
        tmp_path,
        [
            note("a (dynamo_timed)", 0, 10),  # no marker before or inside
            note("f_data: fn_name=g, compile_id=0/0", 20, 5),
            note("f (dynamo_timed)", 30, 50),
            note("h_data: compile_id=7/7", 40, 5),  # inside: the one before decides
            note("h (dynamo_timed)", 50, 20),
            note("b (dynamo_timed)", 100, 50),
            note("c_data: compile_id=1/0", 110, 5),  # the first inside
            note("d (dynamo_timed)", 200, 10),  # the marker of b is not d's
        ],
    ).compiles
    found = {
        compiles.phases.labels[label]: compiles.ids[number] if number >= 0 else None
        for label, number in zip(compiles.phases.label, compiles.compile_id.tolist(), strict=True)
    }
    assert found == {"a": None, "f": "0/0", "h": "0/0", "b": "1/0", "d": None}


def test_seed_compile() -> None:
    compiles = shared_trace("traces/gpu/seed_compile/trace.json.gz").compiles
    assert compiles.total_ns // 1_000_000 == 22_123
    assert set(compiles.ids) == {"0/0", "1/0"}
