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
from kinetoscope.trace import Bool, Category, Int64, UInt8

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
    row: Int64


@dataclass(frozen=True, eq=False)
class HostStates:
    """States of all slices of CPU threads, and from them the lines of single threads.

    ``state`` and ``end_ns`` have one entry a slice: the state inside it, and its end, cut where the
    slice around it ends (slices that cross do not nest). ``first_graph_end_ns`` has one a region call:
    when compiled code in it had ended for the first time.
    """

    links: Links
    state: UInt8
    end_ns: Int64
    first_graph_end_ns: Int64

    def line(self, track: int) -> Line:
        """The line of one thread."""
        c = self.links.trace.columns
        about = self.links.trace.track_list[track]
        here = np.arange(about.first, about.last)
        here = here[_tells(c.category[here]) & c.is_valid[here]]
        around = c.parent[here].astype(np.int64)
        outer = np.where(around >= 0, self.state[np.maximum(around, 0)], State.NOTHING)
        own = self.state[here]
        # Only where the state changes is there a border. A call stays apart from its neighbours.
        keep = (own != outer) & (self.end_ns[here] > c.start_ns[here])
        here, around, outer, own = here[keep], around[keep], outer[keep], own[keep]
        depth = c.depth[here].astype(np.int64)
        deepest = int(depth.max()) + 1 if len(depth) else 1
        # At one time: ends from the inside out, then starts from the outside in.
        rank = np.concatenate((deepest - depth, deepest + 1 + depth))
        at = np.concatenate((self.end_ns[here], c.start_ns[here]))
        low = int(at.min()) if len(at) else 0
        width = 2 * deepest + 3
        if len(at) and (int(at.max()) - low) < 2**62 // width:
            order = np.argsort((at - low) * width + rank, kind="stable")
        else:
            order = np.lexsort((rank, at))
        state = np.concatenate((outer, own))[order].astype(np.uint8)
        row = np.concatenate((np.where(outer == State.NOTHING, -1, around), here))[order]
        at = at[order]
        last = np.append(at[1:] != at[:-1], True)  # of several changes at once the last one stands
        at, state, row = at[last], state[last], row[last]
        cause = CAUSE_OF_STATE[state]
        broken = np.flatnonzero(state == State.BROKEN)
        if len(broken):
            calls = self.links.regions.calls
            call = calls.cover.innermost(np.full(len(broken), track), at[broken])
            cause[broken[(call >= 0) & (at[broken] >= self.first_graph_end_ns[call])]] = Cause.BREAK
        return Line(track, at, state, cause, row)


def host_states(links: Links) -> HostStates:
    """States of every slice of ``links``' trace."""
    c = links.trace.columns
    regions = links.regions
    has_graphs = len(regions.graphs) > 0
    kind = _kinds(links, has_graphs)
    table = transitions(has_graphs)
    state = np.zeros(len(c), np.uint8)
    end = c.end_ns.copy()
    telling = np.flatnonzero(_tells(c.category) & c.is_valid)
    order = telling[np.argsort(c.depth[telling], kind="stable")]
    depth = c.depth[order]
    bounds = np.flatnonzero(np.diff(depth)) + 1
    for level, rows in enumerate(np.split(order, bounds)):  # parents before children
        if level == 0:
            state[rows] = table[kind[rows], State.NOTHING]
            continue
        around = c.parent[rows]
        state[rows] = table[kind[rows], state[around]]
        end[rows] = np.minimum(end[rows], end[around])
    return HostStates(links, state, end, _first_graph_ends(links))


def _tells(category: UInt8) -> Bool:
    """Categories that nest among themselves on a CPU thread: operators, annotations, calls."""
    table = np.zeros(len(Category), np.bool_)
    table[[Category.OTHER, Category.CPU_OP, Category.USER_ANNOTATION, Category.RUNTIME, Category.DRIVER]] = (
        True
    )
    found: Bool = table[category]
    return found


def _kinds(links: Links, has_graphs: bool) -> UInt8:
    """`Kind` of every slice."""
    c, names = links.trace.columns, links.trace.names
    as_slice, as_call, bits = kinds_of_names(names, links.marks, has_graphs)
    silent_unless = np.zeros(len(Category), np.bool_)
    silent_unless[[Category.CPU_OP]] = True
    kind = as_slice[c.name]
    # an annotation says only what PyTorch's own ones say: those that are no operators
    speaks = silent_unless[c.category] | (kind != Kind.OPERATOR)
    speaks &= _tells(c.category)
    kind[~speaks] = Kind.SILENT
    calls = np.flatnonzero(c.is_call)
    kind[calls] = as_call[c.name[calls]]
    _name_copies(links, kind, calls, bits)
    _name_broken_regions(links, kind)
    return kind


def _name_copies(links: Links, kind: UInt8, calls: Int64, bits: UInt8) -> None:
    """Which memory calls move data between host and device, and which waits belong to such a copy.

    A copy from the host is a copy. One to the host is, too, where an operator that copies asked for
    it; elsewhere (``item``, ``nonzero``, a condition) the CPU waits for a value: a synchronisation.
    """
    c, names = links.trace.columns, links.trace.names
    copies = (bits[c.name] & Name.COPIES) != 0
    is_copy_op = copies & (c.category == Category.CPU_OP)
    memcpy = calls[(bits[c.name[calls]] & Name.CALL_MEMCPY) != 0]
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
    by_copy = nearest_around(c.parent, back, c.category == Category.CPU_OP)
    kind[back] = np.where(is_copy_op[np.maximum(by_copy, 0)] & (by_copy >= 0), Kind.COPY, Kind.SYNC)
    waits = calls[kind[calls] == Kind.SYNC]
    waits = waits[direction[waits] == 0]
    around = nearest_around(c.parent, waits, c.category == Category.CPU_OP)
    kind[waits[(around >= 0) & is_copy_op[np.maximum(around, 0)]]] = Kind.COPY


def _name_broken_regions(links: Links, kind: UInt8) -> None:
    calls = links.regions.calls
    if not len(calls):
        return
    behind = Nesting(links).continuations
    kind[calls.rows[calls.parent[behind]]] = Kind.BROKEN
    kind[calls.rows[behind]] = Kind.CONTINUED


def _first_graph_ends(links: Links) -> Int64:
    """Per region call: end of the first compiled code directly inside; its start where there is none."""
    regions = links.regions
    calls = regions.calls
    found = np.full(len(calls), _NEVER, np.int64)
    for inner in (regions.graphs, regions.forwards):
        around = calls.at_rows(inner.rows)
        inside = around >= 0
        np.minimum.at(found, around[inside], inner.end_ns[inside])
    return np.where(found == _NEVER, calls.start_ns, found)
