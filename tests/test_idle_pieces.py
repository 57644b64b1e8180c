"""Pieces of idle time: putting columns together."""

from __future__ import annotations

import numpy as np
import pytest

from kinetoscope.analyses.idle_causes_host import Line
from kinetoscope.analyses.idle_causes_names import Cause, State
from kinetoscope.analyses.idle_pieces import (
    Pieces,
    cut,
    inserted,
    neighbours_joined,
    one_after_another,
    ranges,
    refined,
)


def pieces(*rows: tuple[int, int, int, int, int]) -> Pieces:
    """Of gap, start, end, cause, row."""
    gap, start, end, cause, row = np.array(rows, np.int64).reshape(-1, 5).T
    return Pieces(gap, start, end, cause.astype(np.uint8), row.astype(np.int32))


def rows(found: Pieces) -> list[tuple[int, ...]]:
    columns = (found.gap, found.start_ns, found.end_ns, found.cause, found.row)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("length", [0, 1, 5, 1000])
@pytest.mark.parametrize("where", [[], [0], [0, 0], [1, 1], [0, 1, 1]])
def test_inserted_as_numpy_does(length: int, where: list[int]) -> None:
    column = np.arange(length)
    at = np.array([min(one, length) for one in where], np.int64)
    values = -1 - np.arange(len(at))
    assert inserted(column, at, values).tolist() == np.insert(column, at, values).tolist()


def test_ranges() -> None:
    found = ranges(np.array([5, 9, 2]), np.array([2, 0, 3]))
    assert found.tolist() == [5, 6, 2, 3, 4]


def test_parts_of_a_gap_follow_each_other() -> None:
    first = pieces((0, 10, 12, 1, 5), (2, 30, 33, 1, 6), (2, 33, 35, 2, 7))
    then = pieces((0, 12, 15, 8, 5), (1, 20, 25, 8, 9))
    assert rows(one_after_another((first, then), 3)) == [
        (0, 10, 12, 1, 5),
        (0, 12, 15, 8, 5),
        (1, 20, 25, 8, 9),
        (2, 30, 33, 1, 6),
        (2, 33, 35, 2, 7),
    ]


def test_neighbours_that_say_the_same_are_one() -> None:
    found = pieces(
        (0, 10, 12, 7, 5),
        (0, 12, 15, 7, 5),
        (0, 15, 16, 7, 5),
        (0, 16, 18, 7, 6),  # another row
        (0, 18, 19, 2, 6),  # another cause
        (1, 30, 31, 2, 6),  # another gap
        (1, 31, 32, 2, 6),
    )
    assert rows(neighbours_joined(found)) == [
        (0, 10, 16, 7, 5),
        (0, 16, 18, 7, 6),
        (0, 18, 19, 2, 6),
        (1, 30, 32, 2, 6),
    ]
    assert rows(neighbours_joined(pieces())) == []


def test_cut_where_the_thread_changes_its_state() -> None:
    line = Line(
        3,
        np.array([100, 110, 130]),
        np.array([State.EAGER, State.NOTHING, State.SYNC], np.uint8),
        np.array([Cause.EAGER, Cause.PYTHON, Cause.SYNC], np.uint8),
        np.array([41, -1, 43], np.int32),
    )
    host = pieces(
        (7, 95, 115, Cause.PYTHON, -1), (8, 120, 125, Cause.PYTHON, -1), (9, 128, 140, Cause.PYTHON, -1)
    )
    found, track, quiet = refined(host, np.array([3, 3, 4]), [cut(host, np.array([0, 2]), line)])
    assert rows(found) == [
        (7, 95, 100, Cause.PYTHON, -1),  # before the thread did anything
        (7, 100, 110, Cause.EAGER, 41),
        (7, 110, 115, Cause.PYTHON, -1),
        (8, 120, 125, Cause.PYTHON, -1),  # not asked for: left as it was
        (9, 128, 130, Cause.PYTHON, -1),
        (9, 130, 140, Cause.SYNC, 43),
    ]
    assert track.tolist() == [3, 3, 3, 3, 4, 4]
    assert sorted(quiet.tolist()) == [0, 2, 4]
