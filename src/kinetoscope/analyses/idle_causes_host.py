"""What each CPU thread was doing at any time: a line of states without holes or overlaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.analyses.breaks import Nesting
from kinetoscope.analyses.idle_causes_names import (
    CAUSE_OF_STATE,
    Cause,
    Kind,
    Name,
    State,
    kinds_of_names,
    transitions,
)
from kinetoscope.link import Links
from kinetoscope.link.ancestors import nearest_around
from kinetoscope.trace import Bool, Category, Int32, Int64, UInt8

_NEVER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, eq=False)
class Line:
    """The states of one thread over time.

    Attributes:
        track: the thread.
        at_ns: when the state changes, ascending; before the first it is `State.NOTHING`.
        state: the state from then on.
        cause: the cause that stands for it.
        row: the slice that says so, -1 for none.
    """

    track: int
    at_ns: Int64
    state: UInt8
    cause: UInt8
    row: Int32


@dataclass(frozen=True, eq=False)
class HostStates:
    """What all slices of CPU threads say, and from that the lines of single threads.

    ``kind`` has one `Kind` a slice. The others have one entry a region call: when compiled code in it
    had ended for the first time, and when the last one began.
    """

    links: Links
    has_graphs: bool
    kind: UInt8
    first_graph_end_ns: Int64
    last_graph_start_ns: Int64

    def line(self, track: int) -> Line:
        """The line of one thread."""
        c = self.links.trace.columns
        about = self.links.trace.track_list[track]
        rows = slice(about.first, about.last)
        tells = _tells(c.category[rows]) & c.is_valid[rows]
        parent = c.parent[rows] - np.int32(about.first)
        state, end = self._inside(rows, tells, parent)
        outer = np.where(c.parent[rows] >= 0, state[np.maximum(parent, 0)], np.uint8(State.NOTHING))
        start = c.start_ns[rows]
        # Only where the state changes is there a border. A call stays apart from its neighbours.
        here = np.flatnonzero(tells & (state != outer) & (end > start))
        start, end, outer, own = start[here], end[here], outer[here], state[here]
        around = np.where(outer == State.NOTHING, -1, c.parent[rows][here])
        depth = c.depth[rows][here].astype(np.int64)
        deepest = int(depth.max()) + 1 if len(depth) else 1
        # At one time: ends from the inside out, then starts from the outside in.
        rank = np.concatenate((deepest - depth, deepest + 1 + depth))
        at = np.concatenate((end, start))
        low = int(at.min()) if len(at) else 0
        width = 2 * deepest + 3
        if len(at) and (int(at.max()) - low) < 2**62 // width:
            order = np.argsort((at - low) * width + rank, kind="stable")
        else:
            order = np.lexsort((rank, at))
        at = at[order]
        last = np.ones(len(at), np.bool_)  # of several changes at once the last one stands
        last[:-1] = at[1:] != at[:-1]
        at, order = at[last], order[last]
        changed = np.concatenate((outer, own))[order]
        row = np.concatenate((around, (here + about.first).astype(np.int32)))[order]
        cause = CAUSE_OF_STATE[changed]
        broken = np.flatnonzero(changed == State.BROKEN)
        if len(broken):
            calls = self.links.regions.calls
            call = calls.cover.innermost(np.full(len(broken), track), at[broken])
            cause[broken[(call >= 0) & (at[broken] >= self.first_graph_end_ns[call])]] = Cause.BREAK
        # between the parts in which a piece is divided anyway, it is the way from one to the next
        continued = np.flatnonzero(changed == State.CONTINUED)
        if len(continued):
            calls = self.links.regions.calls
            call = calls.cover.innermost(np.full(len(continued), track), at[continued])
            between = (call >= 0) & (at[continued] >= self.first_graph_end_ns[call])
            between &= at[continued] < self.last_graph_start_ns[call]
            cause[continued[between]] = Cause.WRAPPER
        return Line(track, at, changed, cause, row)

    def _inside(self, rows: slice, tells: Bool, parent: Int32) -> tuple[UInt8, Int64]:
        """The state inside each slice of a thread, and its end, cut where the slice around it ends."""
        c = self.links.trace.columns
        kind, depth, end = self.kind[rows], c.depth[rows], c.end_ns[rows]
        table = transitions(self.has_graphs)
        states = table.shape[1]
        state = np.zeros(len(kind), np.uint8)
        crosses = bool((end > end[np.maximum(parent, 0)])[c.parent[rows] >= 0].any())
        if crosses:  # slices that cross do not nest
            end = end.copy()
        telling = np.flatnonzero(tells)
        order = telling[np.argsort(depth[telling], kind="stable")]
        bounds = np.flatnonzero(np.diff(depth[order])) + 1
        for level, some in enumerate(np.split(order, bounds)):  # parents before children
            if level == 0:
                state[some] = table[kind[some], State.NOTHING]
                continue
            around = parent[some]
            key = kind[some].astype(np.uint16) * np.uint16(states)
            key += state[around]
            state[some] = table.ravel()[key]
            if crosses:
                end[some] = np.minimum(end[some], end[around])
        return state, end


def host_states(links: Links) -> HostStates:
    """What every slice of ``links``' trace says."""
    has_graphs = len(links.regions.graphs) > 0
    kind = _kinds(links, has_graphs)
    first_graph_end, last_graph_start = _graph_times(links)
    _name_waits_behind_collectives(links, kind)
    if has_graphs:
        _name_parts_of_regions(links, kind, first_graph_end)
    _name_entries(links, kind, first_graph_end, last_graph_start)
    return HostStates(links, has_graphs, kind, first_graph_end, last_graph_start)


#: categories that nest among themselves on a CPU thread: operators, annotations, calls
_TELLING = (Category.OTHER, Category.CPU_OP, Category.USER_ANNOTATION, Category.RUNTIME, Category.DRIVER)


def _tells(category: UInt8) -> Bool:
    found: Bool = category == _TELLING[0]
    for one in _TELLING[1:]:
        found |= category == one
    return found


def _kinds(links: Links, has_graphs: bool) -> UInt8:
    """`Kind` of every slice."""
    c, names = links.trace.columns, links.trace.names
    as_slice, as_call, bits = kinds_of_names(names, links.marks, has_graphs)
    # an annotation says only what PyTorch's own ones say: those that are no operators
    as_annotation = np.where(as_slice == Kind.OPERATOR, np.uint8(Kind.SILENT), as_slice)
    tables = {Category.CPU_OP: as_slice, Category.RUNTIME: as_call, Category.DRIVER: as_call}
    silent = np.zeros(len(names), np.uint8)
    table = np.concatenate(
        [tables.get(one, as_annotation) if one in _TELLING else silent for one in Category]
    )
    kind: UInt8 = table[
        (np.arange(len(Category), dtype=np.uint32) * np.uint32(len(names)))[c.category] + c.name
    ]
    _name_copies(links, kind, bits)
    _name_broken_regions(links, kind)
    return kind


def _name_copies(links: Links, kind: UInt8, bits: UInt8) -> None:
    """Which memory calls move data between host and device, and which waits belong to such a copy.

    A copy from the host is a copy. One to the host is, too, where an operator that copies asked for
    it; elsewhere (``item``, ``nonzero``, a condition) the CPU waits for a value: a synchronisation.
    """
    c, names = links.trace.columns, links.trace.names
    is_op = c.category == Category.CPU_OP

    def is_copy_op(rows: Int64) -> Bool:
        """Whether the operator in each row, if there is one, copies."""
        found: Bool = (rows >= 0) & ((bits[c.name[np.maximum(rows, 0)]] & Name.COPIES) != 0)
        return found

    memcpy = np.flatnonzero(((bits & Name.CALL_MEMCPY) != 0)[c.name] & c.is_call)
    from_host = names.where(lambda name: "HtoD" in name)
    to_host = names.where(lambda name: "DtoH" in name)
    launches = links.launches
    device = launches.device_rows
    linked = np.flatnonzero(launches.is_linked & (c.category[device] == Category.MEMCPY))
    direction = np.zeros(len(c), np.uint8)
    row = launches.launch_row[linked]
    direction[row[from_host[c.name[device[linked]]]]] = 1
    direction[row[to_host[c.name[device[linked]]]]] = 2
    kind[memcpy[direction[memcpy] == 1]] = Kind.COPY
    back = memcpy[direction[memcpy] == 2]
    kind[back] = np.where(is_copy_op(nearest_around(c.parent, back, is_op)), Kind.COPY, Kind.SYNC)
    waits = np.flatnonzero((kind == Kind.SYNC) & c.is_call)
    waits = waits[direction[waits] == 0]
    kind[waits[is_copy_op(nearest_around(c.parent, waits, is_op))]] = Kind.COPY


def _name_broken_regions(links: Links, kind: UInt8) -> None:
    calls = links.regions.calls
    if not len(calls):
        return
    behind = Nesting(links).continuations
    kind[calls.rows[calls.parent[behind]]] = Kind.BROKEN
    kind[calls.rows[behind]] = Kind.CONTINUED


def _name_entries(links: Links, kind: UInt8, first_graph_end_ns: Int64, last_graph_start_ns: Int64) -> None:
    """Wrappers behind a break that are not there because of it: the way into what is compiled first of all in
    the outermost region, and into further parts of a piece that is divided anyway (by DDP's buckets)."""
    regions, nesting = links.regions, Nesting(links)
    calls = regions.calls
    if not len(calls) or not len(nesting.continuations):
        return
    again = np.zeros(len(calls), np.bool_)
    for inner in (regions.graphs, regions.forwards):
        again[calls.at_rows(inner.rows[nesting.entered_again(inner)])] = True
    behind = np.zeros(len(calls), np.bool_)
    behind[nesting.continuations] = True
    rows = np.flatnonzero((kind == Kind.FUNCTION) | (kind == Kind.PART))
    around = calls.at_rows(rows)
    rows, around = rows[around >= 0], around[around >= 0]
    start = links.trace.columns.start_ns[rows]
    further = (start >= first_graph_end_ns[around]) & (start < last_graph_start_ns[around])
    own = behind[around] & (further | ~again[around])
    kind[rows[own]] = Kind.ENTRY


def _name_waits_behind_collectives(links: Links, kind: UInt8) -> None:
    """A wait in no operator that directly follows a collective is the collective's.

    ``work.wait()`` runs in Python after the operator has closed. Directly: the thread has done nothing in
    between that says something.
    """
    c = links.trace.columns
    is_collective = kind == Kind.COLLECTIVE
    if not is_collective.any():
        return
    waits = np.flatnonzero((kind == Kind.SYNC) & c.is_call)
    waits = waits[nearest_around(c.parent, waits, kind == Kind.OPERATOR) < 0]
    telling = np.flatnonzero((kind != Kind.SILENT) & c.is_valid)
    at = np.searchsorted(telling, waits) - 1
    waits, before = waits[at >= 0], telling[at[at >= 0]]  # slices are in order of track, then start
    follows = is_collective[before] | (nearest_around(c.parent, before, is_collective) >= 0)
    kind[waits[follows & (c.track[before] == c.track[waits])]] = Kind.COLLECTIVE


def _name_parts_of_regions(links: Links, kind: UInt8, first_graph_end_ns: Int64) -> None:
    """Operators directly in a region, outside its compiled code, are part of the way in and out of it.

    Not behind the first graph of a region in which another one runs: between them the program's own
    code runs. Nor in a region without compiled code, whose backend runs its operators one by one.
    """
    calls = links.regions.calls
    if not len(calls):
        return
    c = links.trace.columns
    until = np.full(len(calls), _NEVER, np.int64)
    until[first_graph_end_ns <= calls.start_ns] = 0
    divided = calls.parent[calls.parent >= 0]
    until[divided] = first_graph_end_ns[divided]
    is_inside = np.zeros(len(kind), np.bool_)  # directly in it is what has such a slice as its parent
    is_inside[calls.rows] = True
    notes = np.flatnonzero((kind == Kind.SILENT) & (c.category == Category.USER_ANNOTATION))
    around = nearest_around(c.parent, notes, kind != Kind.SILENT)
    is_inside[notes[(around >= 0) & is_inside[around]]] = True
    rows = np.flatnonzero(kind == Kind.OPERATOR)
    rows = rows[is_inside[c.parent[rows]]]
    rows = rows[c.parent[rows] >= 0]
    kind[rows[c.start_ns[rows] < until[calls.at_rows(rows)]]] = Kind.PART


def _graph_times(links: Links) -> tuple[Int64, Int64]:
    """Per region call: end of the first compiled code directly inside, and start of the last; its start where
    there is none."""
    regions = links.regions
    calls = regions.calls
    end = np.full(len(calls), _NEVER, np.int64)
    start: Int64 = calls.start_ns.copy() if len(calls) else np.empty(0, np.int64)
    for inner in (regions.graphs, regions.forwards):
        around = calls.at_rows(inner.rows)
        inside = around >= 0
        np.minimum.at(end, around[inside], inner.end_ns[inside])
        np.maximum.at(start, around[inside], inner.start_ns[inside])
    return np.where(end == _NEVER, calls.start_ns, end), start
