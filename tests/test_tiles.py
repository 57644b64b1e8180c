"""Level of detail against a plain scan: every slice and gap of at least a pixel is there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinetoscope.ingest import load
from kinetoscope.trace import Int64
from kinetoscope.viewer import lanes as lanes_module
from kinetoscope.viewer import pyramid as pyramid_module
from kinetoscope.viewer.lanes import Lanes, arrange, single_lanes
from kinetoscope.viewer.tiles import Pieces, query

TRACES = Path(__file__).parent / "traces"
CAPTURES = ("seed_breaks", "gpt_decode", "user_triton")


def check(lanes: Lanes, wanted: Int64, begin: float, end: float, pixel: float, pieces: Pieces) -> None:
    """The promise, slice by slice."""
    assert (np.diff(pieces.first) > 0).all()
    for lane in wanted.tolist():
        first, last = lanes.bounds(lane)
        mine = pieces.lane == lane
        starts, ends = lanes.start_ns[pieces.first[mine]], lanes.end_ns[pieces.last[mine]]
        covered = np.zeros(last - first, np.bool_)
        for one, other, longest, busy in zip(
            pieces.first[mine].tolist(),
            pieces.last[mine].tolist(),
            pieces.longest[mine].tolist(),
            pieces.busy_ns[mine].tolist(),
            strict=True,
        ):
            assert first <= one <= longest <= other < last
            assert not covered[one - first : other + 1 - first].any(), "a slice is drawn twice"
            covered[one - first : other + 1 - first] = True
            durations = lanes.end_ns[one : other + 1] - lanes.start_ns[one : other + 1]
            assert busy == durations.sum()
            assert lanes.end_ns[longest] - lanes.start_ns[longest] == durations.max()
        for at in range(first, last):
            start, finish = int(lanes.start_ns[at]), int(lanes.end_ns[at])
            if finish >= begin and start <= end:
                assert covered[at - first], "a slice in view is in no piece"
                if finish - start >= pixel:
                    alone = (pieces.first[mine] == at) & (pieces.last[mine] == at)
                    assert alone.sum() == 1, "a visible slice has no piece of its own"
            if at + 1 < last:
                opens, closes = finish, int(lanes.start_ns[at + 1])
                if closes - opens >= pixel and opens < end and closes > begin:
                    hidden = (starts < closes) & (ends > opens)
                    assert not hidden.any(), "a visible gap is painted over"


def built(lengths: list[list[tuple[int, int]]]) -> Lanes:
    """Lanes of (gap before, duration) pairs."""
    groups = []
    for pairs in lengths:
        gaps = np.array([gap for gap, _ in pairs], np.int64)
        durations = np.array([dur for _, dur in pairs], np.int64)
        end = np.cumsum(gaps + durations)
        groups.append((end - durations, end))
    return single_lanes(groups)


_size = st.one_of(st.integers(0, 3), st.integers(0, 200), st.integers(0, 20_000))
_lanes = st.lists(st.lists(st.tuples(_size, _size), max_size=80), min_size=1, max_size=5)


@settings(max_examples=150, deadline=None)
@given(_lanes, st.floats(0, 1), st.floats(0.0005, 1), st.floats(0.3, 3000), st.integers(1, 6))
def test_nothing_of_a_pixel_is_lost(
    lengths: list[list[tuple[int, int]]], at: float, width: float, pixel: float, repeat: int
) -> None:
    lanes = built([pairs * repeat for pairs in lengths])
    reach = int(lanes.end_ns.max()) if len(lanes.end_ns) else 1
    begin, end = at * reach, at * reach + max(1.0, width * reach)
    wanted = np.flatnonzero(np.diff(lanes.offset) >= 0)
    pieces = query(pyramid_module.build(lanes), wanted, begin, end, pixel)
    check(lanes, wanted, begin, end, pixel, pieces)


def test_a_visible_gap_at_a_border_of_blocks() -> None:
    fan = pyramid_module.FAN_OUT
    pairs = [(1, 1)] * (fan**3 + 5)
    for position in (fan, fan * fan, fan * fan + 1, fan**3, fan**3 + 4):
        pairs[position] = (5000, 1)
    lanes = built([pairs])
    wanted = np.array([0])
    pieces = query(pyramid_module.build(lanes), wanted, 0, float(lanes.end_ns.max()), 4096.0)
    check(lanes, wanted, 0, float(lanes.end_ns.max()), 4096.0, pieces)
    assert len(pieces) < 40


def test_work_follows_pixels_and_not_slices() -> None:
    rng = np.random.default_rng(1)
    count = 300_000
    dur = rng.integers(1, 50, count)
    end = np.cumsum(dur + rng.integers(0, 50, count))
    lanes = single_lanes([(end - dur, end)])
    pieces = query(pyramid_module.build(lanes), np.array([0]), 0, float(end[-1]), float(end[-1]) / 1000)
    assert len(pieces) <= 2000
    assert pieces.count.sum() == count
    assert pieces.busy_ns.sum() == dur.sum()


def test_lanes_without_slices_and_no_lanes() -> None:
    lanes = single_lanes([(np.empty(0, np.int64), np.empty(0, np.int64))])
    assert len(query(pyramid_module.build(lanes), np.array([0]), 0, 10, 1)) == 0
    nothing = single_lanes([])
    assert len(query(pyramid_module.build(nothing), np.empty(0, np.int64), 0, 10, 1)) == 0


def test_crossing_slices_get_lanes_of_their_own() -> None:
    start = np.array([0, 10, 20, 30, 200], np.int64)
    end = np.array([100, 40, 120, 35, 210], np.int64)
    packed = lanes_module._repacked(start, end, np.array([0, 1, 1, 1, 0], np.int64))
    for depth in np.unique(packed):
        mine = packed == depth
        assert (start[mine][1:] >= end[mine][:-1]).all()
    assert packed[0] == 0
    assert packed[4] == 0


@pytest.mark.parametrize("name", CAPTURES)
def test_two_hundred_windows_of_a_capture(name: str) -> None:
    trace = load(str(TRACES / f"{name}.trace.json.gz"))
    lanes, strips = arrange(trace)
    assert len(lanes.row) == len(np.unique(lanes.row))
    assert len(lanes.row) + 1 >= len(trace.columns)  # all but the profiler's own row
    assert sum(strip.slices for strip in strips) == len(lanes.row)
    for lane in range(len(lanes)):
        first, last = lanes.bounds(lane)
        assert (lanes.start_ns[first + 1 : last] >= lanes.end_ns[first : last - 1]).all()
    pyramid = pyramid_module.build(lanes)
    low, high = int(lanes.start_ns.min()), int(lanes.end_ns.max())
    rng = np.random.default_rng(7)
    wanted = np.arange(len(lanes))
    for _ in range(200):
        width = (high - low) * 10 ** rng.uniform(-5, 0.1)
        begin = low + rng.uniform(-0.05, 1.0) * (high - low)
        pixel = width / float(rng.integers(50, 3000))
        check(lanes, wanted, begin, begin + width, pixel, query(pyramid, wanted, begin, begin + width, pixel))


def test_the_slice_at_a_time() -> None:
    lanes = built([[(10, 5), (5, 100)]])
    assert lanes.at(0, 12) == 0
    assert lanes.at(0, 17) is None
    assert lanes.at(0, 17, within_ns=2) == 0
    assert lanes.at(0, 60) == 1
    assert lanes.at(0, 1000, within_ns=3) is None
