"""Pieces of idle time: columns of them, how they are cut at the borders of a thread's line, and joined.

Pieces are made in the order of their gaps, and stay in it: millions of them are never sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kinetoscope.analyses.idle_causes_host import Line
from kinetoscope.analyses.idle_causes_names import Cause, State
from kinetoscope.trace import Bool, Int32, Int64, UInt8

_S = TypeVar("_S", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Parts of gaps, each with one cause, in order of gap and time.

    ``gap`` indexes the gaps; ``row`` is the slice that names the cause, or -1.
    """

    gap: Int64
    start_ns: Int64
    end_ns: Int64
    cause: UInt8
    row: Int32

    def __len__(self) -> int:
        return len(self.gap)

    def where(self, keep: Bool | Int64 | slice) -> Pieces:
        """Some of the pieces."""
        return Pieces(
            self.gap[keep], self.start_ns[keep], self.end_ns[keep], self.cause[keep], self.row[keep]
        )


def unknown_pieces(gap: Int64, start_ns: Int64, end_ns: Int64) -> Pieces:
    """Pieces about which nothing is known."""
    cause = np.full(len(gap), Cause.UNKNOWN, np.uint8)
    return Pieces(gap, start_ns, end_ns, cause, np.full(len(gap), -1, np.int32))


def joined(parts: Sequence[Pieces]) -> Pieces:
    """All pieces of the parts (at least one), part after part."""
    return Pieces(
        np.concatenate([part.gap for part in parts]),
        np.concatenate([part.start_ns for part in parts]),
        np.concatenate([part.end_ns for part in parts]),
        np.concatenate([part.cause for part in parts]),
        np.concatenate([part.row for part in parts]),
    )


def neighbours_joined(pieces: Pieces) -> Pieces:
    """The pieces, where neighbours in one gap that name the same cause and row are one: a launch goes on
    when its call has returned."""
    if not len(pieces):
        return pieces
    changes = pieces.gap[1:] != pieces.gap[:-1]
    changes |= pieces.cause[1:] != pieces.cause[:-1]
    changes |= pieces.row[1:] != pieces.row[:-1]
    first = np.flatnonzero(np.append(True, changes))
    last = np.append(first[1:], len(pieces)) - 1
    return replace(pieces.where(first), end_ns=pieces.end_ns[last])


def ranges(first: Int64, count: Int64) -> Int64:
    """The numbers ``first``, ``first + 1``, ...: so many as ``count`` says, range after range."""
    before = np.cumsum(count) - count
    return np.repeat(first - before, count) + np.arange(int(count.sum()))


def inserted(column: npt.NDArray[_S], where: Int64, values: npt.NDArray[_S]) -> npt.NDArray[_S]:
    """The column with each value put before the entry that has the number ``where`` (ascending).

    As `numpy.insert`, but much faster where few are put into many.
    """
    if len(where) * 64 > len(column):
        return np.insert(column, where, values)
    parts = np.split(column, where)
    ones = np.split(values, len(values)) if len(values) else []
    return np.concatenate([part for pair in zip(parts, [*ones, values[:0]], strict=True) for part in pair])


def with_borders(line: Line, at_ns: Int64) -> Line:
    """The line with a border at each of these times (ascending), where there was none; it says the same."""
    where = np.searchsorted(line.at_ns, at_ns)
    new = where == np.searchsorted(line.at_ns, at_ns, side="right")
    where, at_ns = where[new], at_ns[new]
    before = np.zeros(len(where), np.uint8)  # of all that the thread did: `State.NOTHING`
    old = (before, before + np.uint8(Cause.PYTHON), np.full(len(where), -1, np.int32))
    if len(line.at_ns):
        at = np.maximum(where - 1, 0)
        values = (line.state[at], line.cause[at], line.row[at])
        state, cause, row = (np.where(where > 0, *pair) for pair in zip(values, old, strict=True))
    else:
        state, cause, row = old
    return Line(
        line.track,
        inserted(line.at_ns, where, at_ns),
        inserted(line.state, where, state),
        inserted(line.cause, where, cause),
        inserted(line.row, where, row),
    )


def one_after_another(parts: tuple[Pieces, ...], gaps: int) -> Pieces:
    """The pieces of all parts by gap; within a gap, those of the first part come first, and so on.

    Each part is in order of its gaps.
    """
    counts = [np.bincount(part.gap, minlength=gaps) for part in parts]
    sums = np.add.reduce(counts)
    before = np.cumsum(sums) - sums
    size = sum(len(part) for part in parts)
    found = Pieces(
        np.repeat(np.arange(gaps), sums),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.uint8),
        np.empty(size, np.int32),
    )
    for part, count in zip(parts, counts, strict=True):
        at = np.arange(len(part)) + (before - (np.cumsum(count) - count))[part.gap]
        found.start_ns[at], found.end_ns[at] = part.start_ns, part.end_ns
        found.cause[at], found.row[at] = part.cause, part.row
        before += count
    return found


@dataclass(frozen=True, eq=False)
class Cuts:
    """Pieces cut in parts: ``count`` parts of each piece ``of``, and which of the parts tell nothing."""

    of: Int64
    count: Int64
    parts: Pieces
    is_quiet: Bool


def cut(host: Pieces, of: Int64, line: Line) -> Cuts:
    """Some of the pieces cut where the thread changes its state, each part with the cause of that state."""
    pieces = host.where(of)
    if not len(line.at_ns):
        return Cuts(of, np.ones(len(of), np.int64), pieces, np.ones(len(of), np.bool_))
    first = np.searchsorted(line.at_ns, pieces.start_ns, side="right") - 1
    count = np.searchsorted(line.at_ns, pieces.end_ns, side="left") - first
    index = ranges(first, count)
    at = np.maximum(index, 0)
    begin, stop = line.at_ns[at], line.at_ns[np.minimum(index + 1, len(line.at_ns) - 1)]
    state, cause, row = line.state[at], line.cause[at], line.row[at]
    ends = np.cumsum(count)
    heads, tails = ends - count, ends - 1
    before = heads[first < 0]  # before the thread did anything
    state[before], cause[before], row[before] = State.NOTHING, Cause.PYTHON, -1
    begin[heads], stop[tails] = pieces.start_ns, pieces.end_ns
    return Cuts(
        of, count, Pieces(np.repeat(pieces.gap, count), begin, stop, cause, row), state == State.NOTHING
    )


def refined(host: Pieces, track: Int64, cuts: list[Cuts]) -> tuple[Pieces, Int64, Int64]:
    """The pieces, each replaced by its parts, with the track of each, and those that tell nothing yet."""
    count = np.ones(len(host), np.int64)
    whole = np.ones(len(host), np.bool_)
    for cut in cuts:
        count[cut.of], whole[cut.of] = cut.count, False
    first = np.cumsum(count) - count
    size = int(count.sum())
    found = Pieces(
        np.repeat(host.gap, count),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.uint8),
        np.empty(size, np.int32),
    )
    kept = np.flatnonzero(whole)
    quiet = [np.empty(0, np.int64)]
    places = [(first[kept], host.where(kept))]
    for cut in cuts:
        at = ranges(first[cut.of], cut.count)
        places.append((at, cut.parts))
        quiet.append(at[cut.is_quiet])
    for at, parts in places:
        found.start_ns[at], found.end_ns[at] = parts.start_ns, parts.end_ns
        found.cause[at], found.row[at] = parts.cause, parts.row
    return found, np.repeat(track, count), np.concatenate(quiet)
