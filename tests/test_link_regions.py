"""Compiled regions: who is inside whom, and where device work was launched from."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from helpers import call, event, kernel, launched, links_of, op, region, shipped
from kinetoscope.link.intervals import Cover, gaps_between, merged, union_by_group, union_ns


def array(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_union_and_gaps() -> None:
    start, end = array(0, 5, 30, 20), array(10, 12, 31, 20)
    assert union_ns(start, end) == 13
    # the one without length divides the hole
    assert [side.tolist() for side in gaps_between(start, end)] == [[12, 20], [20, 30], [2, 3]]
    assert [side.tolist() for side in merged(start, end)] == [[0, 30], [12, 31]]
    empty = array()
    assert union_ns(empty, empty) == 0
    assert len(gaps_between(empty, empty)[0]) == len(merged(empty, empty)[0]) == 0


def test_union_by_group() -> None:
    group, start, end = array(1, 0, 1, 0), array(0, 2, 5, 1), array(10, 4, 20, 3)
    assert union_by_group(group, start, end, 3).tolist() == [3, 20, 0]
    far = 2**61
    assert union_by_group(array(0, 1), array(0, far), array(1, far + 5), 2).tolist() == [1, 5]


def test_innermost_equals_the_plain_rule() -> None:
    """The innermost is the latest start, then the shortest, then the first given: see the reference."""
    random = np.random.default_rng(1)
    for size in (1, 2, 5, 20):
        for _ in range(60):
            lane = random.integers(0, 2, size)
            start = random.integers(0, 15, size)
            end = start + random.integers(0, 8, size)
            cover = Cover.of(lane, start, end)
            for track in (0, 1, 2):
                for time in range(-1, 25):
                    inside = [
                        number
                        for number in range(size)
                        if lane[number] == track and start[number] <= time < end[number]
                    ]
                    right = max(inside, key=lambda n: (start[n], -end[n])) if inside else -1
                    assert cover.innermost(array(track), array(time)).tolist() == [right]


def test_innermost_with_times_too_far_apart_for_one_key() -> None:
    cover = Cover.of(array(3, 3), array(0, 2**61), array(10, 2**61 + 10))
    times = array(-5, 5, 10, 2**61 + 3, 2**61 + 11)
    assert cover.innermost(np.full(5, 3), times).tolist() == [-1, 0, -1, 1, -1]


def test_nesting_and_self_time(tmp_path: Path) -> None:
    found = links_of(
        tmp_path, [region("0/0", 0, 100), region("1/0", 10, 30), region("2/0", 20, 5), region("1/0", 200, 7)]
    ).regions
    calls = found.calls
    assert [found.ids[label] for label in calls.label] == ["0/0", "1/0", "2/0", "1/0"]
    assert calls.parent.tolist() == [-1, 0, 1, -1]
    assert calls.self_ns.tolist() == [70_000, 25_000, 5_000, 7_000]
    assert calls.outermost.tolist() == [0, 3]


def test_device_time_belongs_to_the_innermost_region_of_the_launch(tmp_path: Path) -> None:
    found = links_of(
        tmp_path,
        [
            region("0/0", 0, 100),
            region("1/0", 10, 30),
            call(1, 5),
            call(2, 10),  # where 1/0 starts: inside it
            call(3, 40),  # where 1/0 ends: no longer inside
            call(4, 100),  # where 0/0 ends
            call(5, 20, tid=2),  # another thread
            *(kernel(number, 1000 * number, number, name=f"k{number}") for number in range(1, 6)),
            kernel(99, 15, 50, name="ran inside, launched elsewhere"),
        ],
    ).regions
    assert found.device_ns.tolist() == [4_000, 2_000]
    assert found.call_of_device.tolist() == [-1, 0, 1, 0, -1, -1]


def test_crossing_regions(tmp_path: Path) -> None:
    found = links_of(
        tmp_path,
        [
            region("0/0", 0, 10),
            region("1/0", 5, 10),
            call(1, 12),
            kernel(1, 20, 3),
            call(2, 4),
            kernel(2, 30, 1),
        ],
    ).regions
    assert found.calls.parent.tolist() == [-1, 0]
    assert found.device_ns.tolist() == [1_000, 3_000]


def test_zero_length_region_holds_nothing(tmp_path: Path) -> None:
    found = links_of(tmp_path, [region("0/0", 5, 0), call(1, 5), kernel(1, 20, 3)]).regions
    assert found.device_ns.tolist() == [0]


def test_names_and_look_alikes(tmp_path: Path) -> None:
    found = links_of(
        tmp_path,
        [
            op("Torch-Compiled Region", 0, 10),
            region("Unknown", 20, 10),
            region("!0/1/0", 40, 10),
            event("gpu_user_annotation", "Torch-Compiled Region: 0/0", 0, 10, pid=0, tid=7),
            event("user_annotation", "## Call CompiledFxGraph abc ##", 41, 5),
            event("gpu_user_annotation", "## Call CompiledFxGraph abc ##", 41, 5, pid=0, tid=7),
            op("TorchDynamo Cache Lookup", 60, 1),
            op("Pregraph bytecode", 61, 1),
            op("AOTDispatcher Runtime Wrapper Prologue", 62, 1),
        ],
    ).regions
    assert found.ids == ("", "Unknown", "!0/1/0")
    assert found.graphs.labels == ("abc",)
    assert (len(found.graphs), len(found.lookups), len(found.pregraphs), len(found.prologues)) == (1, 1, 1, 1)


def test_region_of_every_row(tmp_path: Path) -> None:
    links = links_of(
        tmp_path, [region("0/0", 5, 50), *launched(1, ["a", "b"], 0, 30), op("late", 80, 5, tid=2)]
    )
    of_row = {
        links.trace.name_of(row): int(number)
        for row, number in enumerate(links.regions.region_call_of_row.tolist())
        if not links.trace.columns.is_call[row]
    }
    assert of_row == {
        "Torch-Compiled Region: 0/0": 0,
        "aten::a": -1,
        "aten::b": 0,
        "late": -1,
        "a": -1,
        "b": -1,
    }


def test_breaks_nest_and_backward_is_outside() -> None:
    found = shipped("seed_breaks").regions
    assert len(found.calls) == 12
    assert len(found.calls.outermost) == 3
    assert len(found.forwards) == len(found.backwards) == 12
    backward = found.backward_of_device >= 0
    assert (found.call_of_device[backward] < 0).all()
    assert (found.graph_of_device[backward] >= 0).sum() == backward.sum() - 3  # three copies of the wrapper
    assert found.forwards_per_call.tolist() == [1] * 12
