"""Finds the period of a sequence that mostly repeats: steps where no marker tells them.

The idea: in a loop some symbol occurs exactly once a turn. Symbols are tried from the rarest
on, so that the longest period wins: three forward passes of twelve layers are three turns, not
thirty-six. A symbol is accepted when its occurrences are evenly spaced, what lies between them
is much the same each time, and the turns make up most of the sequence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.trace import Int64

#: spacing of turns, in symbols, may differ by this share of the usual one
_UNEVEN = 0.1
#: two turns are alike when they have this share of their symbols in common
_ALIKE = 0.85
#: "most turns" are this share of them
_MOST = 0.8
#: no more symbols than this are tried: every try looks at the whole sequence
_TRIES = 48
_TRIES_EACH = 3  # of those that occur equally often


@dataclass(frozen=True, eq=False)
class Repetition:
    """Turns of a sequence.

    Attributes:
        starts: index at which each turn starts, ascending.
        end: index after the last turn.
        length: usual length of a turn.
        is_last_complete: False where the sequence ends before the last turn does.
    """

    starts: Int64
    end: int
    length: int
    is_last_complete: bool

    def __len__(self) -> int:
        return len(self.starts)


def find_repetition(
    symbols: Int64, *, least: int, shortest: int, distinct: int, covered: float
) -> Repetition | None:
    """The turns of ``symbols``, or None where it does not repeat.

    Args:
        symbols: numbers that stand for what happened, in order.
        least: how many whole turns there must be.
        shortest: how many symbols a turn must have.
        distinct: how many different symbols a turn must have.
        covered: share of the sequence that the turns must make up.
    """
    count = len(symbols)
    if count < least * max(shortest, 1):
        return None
    kinds, first, symbols, occurrences = np.unique(
        symbols, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(symbols, kind="stable")
    bounds = np.append(0, np.cumsum(occurrences))
    tried = 0
    tried_at: dict[int, int] = {}  # by number of occurrences
    # rarest first; among equals the one that occurs first, as it is likely to open the turn
    for symbol in np.lexsort((first, occurrences)).tolist():
        often = int(occurrences[symbol])
        if often < least or often * shortest > count or tried_at.get(often, 0) == _TRIES_EACH:
            continue
        if tried == _TRIES:
            break
        tried += 1
        tried_at[often] = tried_at.get(often, 0) + 1
        at = order[bounds[symbol] : bounds[symbol + 1]]
        found = _turns(symbols, at, least, max(shortest, 1))
        if found is None or found.end - int(found.starts[0]) < covered * count:
            continue
        if _are_alike(symbols, found, len(kinds), distinct):
            return found
    return None


def _turns(symbols: Int64, at: Int64, least: int, shortest: int) -> Repetition | None:
    """The evenly spaced turns that the occurrences ``at`` of one symbol mark, or None."""
    gaps = np.diff(at)
    length = int(np.median(gaps)) if len(gaps) else 0
    if length < shortest:
        return None
    first, last = _longest_run(np.abs(gaps - length) <= _UNEVEN * length)
    starts = _back_to_opening(symbols, at[first : last + 1])
    # The loop may have been cut short: what follows the last turn can open one more.
    end = int(starts[-1]) + length
    rest = symbols[end : end + length]
    if len(rest) and np.array_equal(rest, symbols[int(starts[0]) :][: len(rest)]):
        starts = np.append(starts, end)
        end += length
    is_last_complete = len(symbols) - int(starts[-1]) >= (1 - _UNEVEN) * length
    if len(starts) - (not is_last_complete) < least:
        return None
    return Repetition(starts, min(end, len(symbols)), length, is_last_complete)


def _longest_run(good: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[int, int]:
    """First and last index of the points on both sides of the longest run of good gaps."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], good.astype(np.int8), [0]))))
    if len(edges) == 0:
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    longest = int(np.argmax(lengths))
    return int(edges[2 * longest]), int(edges[2 * longest + 1])


def _back_to_opening(symbols: Int64, starts: Int64) -> Int64:
    """Move all starts back together as long as the same symbol precedes most of them.

    The symbol that marked the turns need not be their first.
    """
    reach = int(starts[0])
    if len(starts) > 1:
        reach = min(reach, int(np.diff(starts).min()) - 1)
    if reach <= 0:
        return starts
    back = np.arange(1, reach + 1)
    opening = symbols[starts[0] - back]
    agreeing = np.zeros(reach, np.int64)
    for start in starts[1:]:
        agreeing += symbols[start - back] == opening
    differs = np.flatnonzero(agreeing < _MOST * (len(starts) - 1))
    shift = int(differs[0]) if len(differs) else reach
    return starts - shift


def _are_alike(symbols: Int64, found: Repetition, kinds: int, distinct: int) -> bool:
    """Whether the whole turns hold much the same symbols, of enough different kinds."""
    turns = len(found) if found.is_last_complete else len(found) - 1
    first = int(found.starts[0])
    last = found.end if found.is_last_complete else int(found.starts[-1])
    inside = symbols[first:last]
    turn = np.searchsorted(found.starts, np.arange(first, last), side="right") - 1
    keys, amounts = np.unique(turn * kinds + inside, return_counts=True)
    of_turn, symbol = np.divmod(keys, kinds)
    usual = np.rint(np.bincount(symbol, amounts, kinds) / turns)
    if int((usual > 0).sum()) < distinct:
        return False
    shared = np.bincount(of_turn, np.minimum(amounts, usual[symbol]), turns)
    longer = np.maximum(np.bincount(of_turn, amounts, turns), usual.sum())
    return float((shared >= _ALIKE * longer).mean()) >= _MOST
