"""Depth and parent of slices, beside a walk with a stack that is as plain as the definition."""

from __future__ import annotations

import numpy as np
import pytest

from kinetoscope.ingest import nesting
from kinetoscope.ingest.events import decode


def walked(lane: list[int], start: list[int], end: list[int]) -> tuple[list[int], list[int]]:
    """Depth and parent by the definition: what is open where a slice starts, the last one on top."""
    depths, parents = [], []
    stack: list[int] = []
    for row in range(len(start)):
        stack = [held for held in stack if lane[held] == lane[row] and end[held] > start[row]]
        depths.append(len(stack))
        parents.append(stack[-1] if stack else -1)
        if end[row] > start[row]:
            stack.append(row)
    return depths, parents


@pytest.mark.parametrize("at_once", [1, 4, 1 << 14])
@pytest.mark.parametrize("seed", range(40))
def test_as_a_walk_with_a_stack(monkeypatch: pytest.MonkeyPatch, seed: int, at_once: int) -> None:
    monkeypatch.setattr(nesting, "_AT_ONCE", at_once)
    random = np.random.default_rng(seed)
    for _ in range(20):
        count = int(random.integers(0, 50))
        lane, start = random.integers(0, 3, count), random.integers(0, 40, count)
        end = start + random.integers(0, 12, count) * random.integers(0, 2, count)
        order = np.lexsort((-end, start, lane))
        lane, start, end = lane[order], start[order], end[order]
        depth, parent = nesting.nest(lane, start, end)
        assert (depth.tolist(), parent.tolist()) == walked(lane.tolist(), start.tolist(), end.tolist())


def test_phases_that_are_no_letter() -> None:
    """An event without a phase, and one with two letters: together as long as two events."""
    found = decode(
        b'{"name":"a","ts":1,"dur":1},{"ph":"XX","name":"b","ts":2},'
        b'{"ph":"X","name":"c","ts":3,"dur":1},{"ph":"s","id":1,"ts":4}'
    )
    assert found.slices["event"].tolist() == [2]
    assert found.flows["event"].tolist() == [3]
    assert dict(found.notes) == {"phase-missing": 1, "phase-XX": 1}
