"""The change "CUDA graphs": each call of a compiled graph is one launch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kinetoscope.analyses.idle_causes_names import Cause
from kinetoscope.link import Links
from kinetoscope.link.names import Mark, marked
from kinetoscope.replay.breaks import graphs_behind_breaks
from kinetoscope.replay.constants import BEST, Constants
from kinetoscope.replay.merging import LaunchItems, merged
from kinetoscope.replay.model import Item, Model
from kinetoscope.trace import Bool, Category, Flag, Int64


def cuda_graphs(model: Model, constants: Constants = BEST) -> Model:
    """Every compiled graph that can be is one CUDA-graph launch.

    Where breaks are gone, the pieces of a function are one graph and cost as much host time as one.
    """
    calls = graph_calls(model)
    if not len(calls):
        return model
    graphs = model.links.regions.graphs
    dur, cause = model.host.dur_ns.copy(), model.host.cause.copy()
    items = model.items
    launches = LaunchItems.of(model, graphs)
    keep = np.ones(len(items), np.bool_)
    after = items.after.copy()
    target = np.arange(len(model.blocks))
    cost = constants.graph_host_ns + _gradients_after(model, calls) * constants.gradient_ns
    if not model.has_breaks:
        continued = np.isin(calls, graphs_behind_breaks(model.links)) & np.isin(calls - 1, calls)
        cost = cost - np.where(continued, constants.graph_host_ns, 0)
    for call, host_ns in zip(calls.tolist(), cost.tolist(), strict=True):
        first, last = np.searchsorted(model.host.recorded_ns, [graphs.start_ns[call], graphs.end_ns[call]])
        inside = launches.of_this(call, first, last)
        if not len(inside) or last <= first:
            continue
        dur[first:last] = 0
        dur[first] = host_ns
        cause[first:last] = Cause.GRAPH
        after[inside[0]] = last
        keep[inside[1:]] = False
        target[items.argument[inside]] = items.argument[inside[0]]
    # the launch moved to the end of its call, behind events that stood inside
    order = np.argsort(after[keep], kind="stable")
    moved = replace(items, after=after).where(np.flatnonzero(keep)[order])
    host = replace(model.host, dur_ns=dur, cause=cause)
    return merged(replace(model, host=host, items=moved), target, constants.node_gap_ns)


def graph_calls(model: Model) -> Int64:
    """Compiled graphs of the window that could be CUDA graphs.

    They launch, and do not wait; they neither talk to other devices nor to the host; and they are none yet.
    """
    graphs = model.links.regions.graphs
    low, high = model.window_ns
    mine = np.flatnonzero((graphs.start_ns >= low) & (graphs.end_ns <= high))
    if not len(mine):
        return mine
    waits = model.waits.row[model.items.argument[model.items.kind == Item.WAIT]]
    launched = LaunchItems.of(model, graphs).of_call
    good = np.zeros(len(graphs), np.bool_)
    good[launched[launched >= 0]] = True
    good &= ~model.links.once(_graphs_with_collectives)
    for rows in (model.links.launches.graph_rows, waits, model.blocks.row[_copies_in_line(model)]):
        at = graphs.at_rows(rows) if len(rows) else rows
        good[at[at >= 0]] = False
    found: Int64 = mine[good[mine]]
    return found


def _copies_in_line(model: Model) -> Int64:
    """Blocks that copy between host and device, and do not run ahead aside."""
    trace, events = model.links.trace, model.events
    crosses = trace.names.where(lambda name: "HtoD" in name or "DtoH" in name)[trace.columns.name[events.row]]
    block = np.unique(events.block[crosses & (trace.columns.category[events.row] == Category.MEMCPY)])
    found: Int64 = block[model.blocks.stream[block] != model.aside]
    return found


def _graphs_with_collectives(links: Links) -> Bool:
    """Per graph call: whether it launches something that talks to other devices."""
    c, device = links.trace.columns, links.launches.device_rows
    collective = marked(links.marks, c.name[device], Mark.COLLECTIVE) | (
        (c.flags[device] & Flag.COLLECTIVE) != 0
    )
    found = np.zeros(len(links.regions.graphs), np.bool_)
    of = links.regions.graph_of_device
    found[of[collective & (of >= 0)]] = True
    return found


def _gradients_after(model: Model, calls: Int64) -> Int64:
    """Gradients accumulated after each graph call and before the next on its thread."""
    return model.links.once(_gradients)[calls]


def _gradients(links: Links) -> Int64:
    c, names = links.trace.columns, links.trace.names
    graphs = links.regions.graphs
    wanted = names.where(lambda name: name == "torch::autograd::AccumulateGrad")
    rows = np.flatnonzero(wanted[c.name] & (c.category == Category.CPU_OP))
    count = np.zeros(len(graphs), np.int64)
    # rows are ordered by thread and time, as the graph calls are
    before = np.searchsorted(graphs.rows, rows) - 1
    same = (before >= 0) & (graphs.track[np.maximum(before, 0)] == c.track[rows])
    np.add.at(count, before[same], 1)
    return count
