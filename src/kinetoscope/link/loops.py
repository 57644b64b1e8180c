"""Steps of programs without any marker: a repeating sequence of compiled regions, or of launches.

Both ask `kinetoscope.link.repetition`; what is decided here is what counts as a symbol, and
when a repetition is no loop of steps: a single pass through twelve equal layers repeats as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.link.compiles import Compiles
from kinetoscope.link.regions import Regions
from kinetoscope.link.repetition import Repetition, find_repetition
from kinetoscope.trace import Category, Int64, Trace

#: a repetition of launches is taken for steps from this many turns and launches a turn on
_LEAST_TURNS, _SHORTEST_TURN = 3, 4
#: a last turn with so many times the launches of any other was no turn
_TOO_MUCH = 3
#: ids that do not tell one region from another
_NO_IDS = frozenset({"", "Unknown"})


@dataclass(frozen=True, eq=False)
class Loop:
    """Turns of a loop: start of each, the end of the last, and whether the last is whole."""

    start_ns: Int64
    end_ns: int
    is_last_complete: bool


def loop_of_regions(trace: Trace, regions: Regions, compiles: Compiles) -> Loop | None:
    """The loop that the top-level region calls show, on whatever threads."""
    calls = regions.calls
    top = calls.outermost
    if len(compiles.phases):
        top = top[compiles.phases.at_rows(calls.rows[top]) < 0]
    if len(top) < 2:
        return None
    top = top[np.argsort(calls.start_ns[top], kind="stable")]
    symbols = _region_symbols(regions, top)
    turns = _from_the_first(symbols, covered=0.8) or _runs(symbols) or _from_the_first(symbols, covered=0.6)
    if turns is None and len(compiles.phases):
        # Something was compiled again meanwhile: the same frame continues under another id.
        turns = _from_the_first(_frame_symbols(regions, top), covered=0.6)
    if turns is None:
        return None
    start = calls.start_ns[top]
    after = int(start[turns.end]) if turns.end < len(top) else None
    last = int(start[turns.starts[-1]])
    own_end = int(calls.end_ns[top[int(turns.starts[-1]) : turns.end]].max())
    end = _end_of_work(trace, last, own_end, after)
    launched = np.searchsorted(np.sort(regions.launches.call_start_ns), np.append(start[turns.starts], end))
    each = np.diff(launched)
    if each[-1] > _TOO_MUCH * max(int(each[:-1].max()), 1):  # most of the work comes after the loop
        return None
    return Loop(start[turns.starts], end, turns.is_last_complete)


def _from_the_first(symbols: Int64, covered: float) -> Repetition | None:
    """A repetition that begins with the first region.

    A different first region is more likely one pass through a model whose layers are compiled one
    by one (the first layer, then the others with ids of their own) than a step unlike the others.
    """
    found = find_repetition(symbols, least=2, shortest=1, distinct=1, covered=covered)
    return found if found is not None and found.starts[0] == 0 else None


def _runs(symbols: Int64) -> Repetition | None:
    """Every call is a turn where each region is called at least three times in a row."""
    borders = np.flatnonzero(np.diff(symbols)) + 1
    lengths = np.diff(np.concatenate(([0], borders, [len(symbols)])))
    if lengths.min() < 3:
        return None
    return Repetition(np.arange(len(symbols)), len(symbols), 1, True)


def _region_symbols(regions: Regions, top: Int64) -> Int64:
    """Regions by id; those without one also by how many graphs and functions they hold."""
    calls = regions.calls
    label = calls.label[top]
    nameless = np.array([text in _NO_IDS for text in calls.labels], np.bool_)[label]
    if not nameless.any():
        return label
    launched = regions.call_of_device
    inside = launched >= 0
    amount = np.bincount(launched[inside], minlength=len(calls))
    first = np.zeros(len(calls), np.int64)
    names = regions.trace.columns.name[regions.launches.device_rows[inside]]
    first[launched[inside][::-1]] = names[::-1]  # the first event of a call is written last and stays
    described = label + len(calls.labels) * (first[top] + (int(first.max()) + 1) * amount[top])
    symbols: Int64 = np.where(nameless, described, label)
    return symbols


def _frame_symbols(regions: Regions, top: Int64) -> Int64:
    """Regions by frame: the id without its last part, which counts compilations of the frame."""
    numbers: dict[str, int] = {}
    frames = (text.rpartition("/")[0] or text for text in regions.calls.labels)
    by_label = np.array([numbers.setdefault(frame, len(numbers)) for frame in frames], np.int64)
    found: Int64 = by_label[regions.calls.label[top]]
    return found


def loop_of_launches(trace: Trace, regions: Regions, compiles: Compiles) -> Loop | None:
    """The loop that the kernels and graphs show, in the order in which they were launched."""
    launches = regions.launches
    c = trace.columns
    calls = np.flatnonzero((launches.events_per_call > 0) & ~compiles.covers_call)
    first_event = np.full(len(launches.call_rows), -1, np.int64)
    linked = np.flatnonzero(launches.call_of >= 0)[::-1]
    first_event[launches.call_of[linked]] = launches.device_rows[linked]
    # copies come and go with logging; kernels make the pattern
    calls = calls[c.category[first_event[calls]] == Category.KERNEL]
    calls = calls[np.argsort(launches.call_start_ns[calls], kind="stable")]
    if len(calls) < _LEAST_TURNS * _SHORTEST_TURN:
        return None
    symbols = c.name[first_event[calls]].astype(np.int64)
    # a graph is told by its first kernel and its size
    size = np.where(launches.is_graph_call[calls], launches.events_per_call[calls], 0)
    symbols += len(trace.names) * size
    turns = find_repetition(symbols, least=_LEAST_TURNS, shortest=_SHORTEST_TURN, distinct=2, covered=0.6)
    if turns is None or _is_inside_one_pass(turns, len(symbols)):
        return None
    rows = launches.call_rows[calls]
    roots = _roots(trace, rows[turns.starts])
    before = _roots(trace, rows[np.maximum(turns.starts - 1, 0)])
    if (roots[1:] == before[1:]).any():  # what repeats goes on inside one operator
        return None
    start = np.minimum(c.start_ns[roots], launches.call_start_ns[calls[turns.starts]])
    top = np.sort(regions.calls.start_ns[regions.calls.outermost])
    if len(top) and (np.diff(np.searchsorted(top, start)) == 0).any():
        return None  # parts of one call of a compiled function, and its backward
    after = None
    if turns.end < len(calls):
        after = int(c.start_ns[_roots(trace, rows[turns.end : turns.end + 1])[0]])
    last = rows[int(turns.starts[-1]) : turns.end]
    own_end = int(c.end_ns[_roots(trace, last)].max())
    return Loop(start, _end_of_work(trace, int(start[-1]), own_end, after), turns.is_last_complete)


def _is_inside_one_pass(turns: Repetition, count: int) -> bool:
    """Whether a little comes before and a little after the turns, as around the layers of a model."""
    lead, tail = int(turns.starts[0]), count - turns.end
    return 0 < lead < turns.length / 2 and 0 < tail < turns.length / 2


def _roots(trace: Trace, rows: Int64) -> Int64:
    """The outermost slice around each row that is no annotation: the row itself where nothing is."""
    c = trace.columns
    root: Int64 = rows.copy()
    above = c.parent[root].astype(np.int64)
    open_ = np.arange(len(rows))
    while len(open_):
        row = above[open_]
        open_, row = open_[row >= 0], row[row >= 0]
        better = c.category[row] != Category.USER_ANNOTATION
        root[open_[better]] = row[better]
        above[open_] = c.parent[row]
    return root


def _end_of_work(trace: Trace, start_ns: int, own_end_ns: int, limit_ns: int | None) -> int:
    """End of the last turn: of the last operator after its start, on any thread.

    Waiting for the device when all is done is no part of it. ``limit_ns``: start of what comes next.
    """
    c = trace.columns
    ops = (c.category == Category.CPU_OP) & (c.start_ns >= start_ns)
    if limit_ns is not None:
        ops &= c.start_ns < limit_ns
    end = int(c.end_ns[ops].max()) if ops.any() else own_end_ns
    end = max(end, own_end_ns)
    return end if limit_ns is None else max(start_ns, min(end, limit_ns))
