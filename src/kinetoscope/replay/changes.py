"""Changes of a model: what would be different if something were removed or made faster.

Each takes a model in unprofiled time and gives a changed one. None of them invents a gain: what is
not recorded, or cannot be known, is an assumption, and is said with the prediction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from kinetoscope.analyses.breaks import Nesting
from kinetoscope.analyses.idle_causes_names import Cause
from kinetoscope.analyses.kernels import number_of
from kinetoscope.link import Links
from kinetoscope.link.names import Mark, marked
from kinetoscope.link.regions import Calls, find_calls
from kinetoscope.replay.model import Events, Item, Items, Model, lengths_of_blocks
from kinetoscope.trace import Bool, Category, Flag, Int64


@dataclass(frozen=True)
class Constants:
    """What a trace without the change cannot show. Times in ns without a profiler.

    Attributes:
        graph_host_ns: host time of one call of a graph that is replayed as a CUDA graph.
        gradient_ns: of that, for each gradient that is accumulated after a backward.
        node_gap_ns: between the kernels of a CUDA graph.
        async_ns: host time of a call that no longer waits.
        fused_share: device time of a fused optimizer over that of the one there is.
        pinned_bytes_per_ns: speed of a copy between the device and pinned memory.
    """

    graph_host_ns: int = 50_000
    gradient_ns: int = 3_000
    node_gap_ns: int = 200
    async_ns: int = 3_000
    fused_share: float = 0.4
    pinned_bytes_per_ns: float = 25.0


#: the best guess, and what is at least and at most to be expected
BEST = Constants()
LEAST = Constants(
    graph_host_ns=25_000,
    gradient_ns=1_500,
    node_gap_ns=100,
    async_ns=1_000,
    fused_share=0.2,
    pinned_bytes_per_ns=50.0,
)
MOST = Constants(
    graph_host_ns=100_000,
    gradient_ns=5_000,
    node_gap_ns=600,
    async_ns=8_000,
    fused_share=0.9,
    pinned_bytes_per_ns=12.0,
)


def cuda_graphs(model: Model, constants: Constants = BEST) -> Model:
    """Every compiled graph that can be is one CUDA-graph launch."""
    calls = graph_calls(model)
    if not len(calls):
        return model
    graphs = model.links.regions.graphs
    dur = model.host.dur_ns.copy()
    items, blocks = model.items, model.blocks
    launches = _LaunchItems.of(items)
    keep = np.ones(len(items), np.bool_)
    after = items.after.copy()
    target = np.arange(len(blocks))
    gradients = _gradients_after(model, calls)
    for call, accumulated in zip(calls.tolist(), gradients.tolist(), strict=True):
        first, last = np.searchsorted(model.host.recorded_ns, [graphs.start_ns[call], graphs.end_ns[call]])
        inside = launches.between(first, last)
        if not len(inside) or last <= first:
            continue
        dur[first:last] = 0
        dur[first] = constants.graph_host_ns + accumulated * constants.gradient_ns
        after[inside[0]] = last
        keep[inside[1:]] = False
        target[items.argument[inside]] = items.argument[inside[0]]
    # the launch moved to the end of its call, behind events that stood inside
    order = np.argsort(after[keep], kind="stable")
    moved = replace(items, after=after).where(np.flatnonzero(keep)[order])
    return _merged(replace(model.with_host(dur), items=moved), target, constants.node_gap_ns)


@dataclass(frozen=True, eq=False)
class _LaunchItems:
    """Numbers of the launches among items, and how many segments come before each."""

    number: Int64
    after: Int64

    @classmethod
    def of(cls, items: Items) -> _LaunchItems:
        number = np.flatnonzero(items.kind == Item.LAUNCH)
        return cls(number, items.after[number])

    def between(self, first: int, last: int) -> Int64:
        """Launches after segment ``first`` has begun, until ``last`` begins."""
        return self.number[slice(*np.searchsorted(self.after, [first, last], side="right"))]


def graph_calls(model: Model) -> Int64:
    """Compiled graphs of the window that could be CUDA graphs: they launch, do not wait, and are none."""
    graphs = model.links.regions.graphs
    low, high = _window(model)
    mine = np.flatnonzero((graphs.start_ns >= low) & (graphs.end_ns <= high))
    if not len(mine):
        return mine
    bad = model.links.once(_graphs_with_collectives).copy()
    for rows in (model.links.launches.graph_rows, model.waits.row):
        at = graphs.at_rows(rows) if len(rows) else rows
        bad[at[at >= 0]] = True
    found: Int64 = mine[~bad[mine]]
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


def _merged(model: Model, target: Int64, gap_ns: int) -> Model:
    """Blocks joined into the block that ``target`` names, with this gap between them."""
    events = model.events
    block = target[events.block]
    was_first = np.append(True, np.diff(events.block) != 0)[: len(block)]
    gap = np.where(was_first & (block != events.block), gap_ns, events.gap_ns)
    order = np.argsort(block, kind="stable")
    joined = Events(block[order], events.row[order], events.dur_ns[order], gap[order])
    blocks = replace(model.blocks, length_ns=lengths_of_blocks(joined, len(model.blocks)))
    return replace(model, events=joined, blocks=blocks)


def no_breaks(model: Model) -> Model:
    """Without graph breaks: guards, wrappers and bytecode between the pieces are gone, and the pieces are
    entered and left once."""
    return model.with_host(_without_breaks(model))


def break_ns(model: Model) -> int:
    """Host time of the window that is there because of breaks."""
    return int((model.host.dur_ns - _without_breaks(model)).sum())


def _without_breaks(model: Model) -> Int64:
    """Host times without what is there because of breaks."""
    backwards = _backwards_behind_breaks(model)
    dur = np.where(_because_of_breaks(model, backwards), 0, model.host.dur_ns)
    regions = model.links.regions
    graphs = regions.graphs
    behind = np.isin(regions.calls.at_rows(graphs.rows), Nesting(model.links).continuations)
    behind |= np.isin(regions.backwards.at_rows(graphs.rows), backwards)
    low, high = _window(model)
    launches = _LaunchItems.of(model.items)
    for call in np.flatnonzero(behind & (graphs.start_ns >= low) & (graphs.end_ns <= high)).tolist():
        first, last = np.searchsorted(model.host.recorded_ns, [graphs.start_ns[call], graphs.end_ns[call]])
        at = model.items.after[launches.between(first, last)]
        if not len(at):
            continue
        # what leads up to the first launch is in part what leads up to any launch, and in part the entry
        before = int(dur[first : at[0]].sum())
        usual = float(np.median([dur[i:j].sum() for i, j in pairwise(at.tolist())])) if len(at) > 1 else 0.0
        kept = min(1.0, usual / before) if before and usual else 1.0
        dur[first : at[0]] = np.rint(dur[first : at[0]] * kept)
        dur[at[-1] : last] = 0
    return dur


def _because_of_breaks(model: Model, backwards: Int64) -> Bool:
    gone: Bool = model.host.cause == Cause.BREAK
    wrapper = model.host.cause == Cause.WRAPPER
    if len(backwards):
        rows = np.maximum(model.host.row, 0)
        owner = model.links.regions.backwards.at_rows(rows)
        gone |= wrapper & (model.host.row >= 0) & np.isin(owner, backwards)
    return gone


def _backwards_behind_breaks(model: Model) -> Int64:
    """Backwards whose forward is in a continuation: one piece would have only one backward."""
    links = model.links
    pairs, calls = links.pairs, links.regions.calls
    behind = np.zeros(len(calls) + 1, np.bool_)
    behind[Nesting(links).continuations] = True
    region = (
        calls.at_rows(links.regions.forwards.rows[pairs.forward]) if len(pairs.forward) else pairs.forward
    )
    found: Int64 = pairs.backward[behind[region] & (region >= 0)]
    return found


def no_sync(model: Model, constants: Constants = BEST) -> Model:
    """Without waits for the device that the program asked for (``item``, ``synchronize``)."""
    return _without_waits(model, model.waits.cause == Cause.SYNC, Cause.SYNC, constants)


def sync_count(model: Model) -> int:
    """Waits for the device that the program asked for."""
    return int((model.waits.cause == Cause.SYNC).sum())


def no_copies(model: Model, constants: Constants = BEST) -> Model:
    """Copies between host and device beside everything else: nobody waits for them, and memory is pinned."""
    changed = _without_waits(model, model.waits.cause == Cause.COPY, Cause.COPY, constants)
    copies = copy_blocks(model)
    if not len(copies):
        return changed
    changed = changed.with_events(_as_pinned(changed, constants))
    stream = changed.blocks.stream.copy()
    aside = int(stream.max()) + 1
    stream[copies] = aside
    return replace(changed, blocks=replace(changed.blocks, stream=stream), aside=aside)


def _as_pinned(model: Model, constants: Constants) -> Int64:
    """Durations of device events with copies of pageable memory at the speed of pinned memory."""
    c, names = model.links.trace.columns, model.links.trace.names
    row, dur = model.events.row, model.events.dur_ns
    slow = names.where(lambda name: "Pageable" in name)[c.name[row]] & (c.category[row] == Category.MEMCPY)
    if not slow.any():
        return dur
    size = np.array([number_of(args.get("bytes")) or 0 for args in model.links.trace.args_of(row[slow])])
    taken = np.rint(size / constants.pinned_bytes_per_ns).astype(np.int64)
    found: Int64 = dur.copy()
    # what says no size stays as it is
    found[slow] = np.where(taken > 0, np.minimum(dur[slow], taken), dur[slow])
    return found


def copy_blocks(model: Model) -> Int64:
    """Blocks that copy between host and device."""
    trace = model.links.trace
    crosses = trace.names.where(lambda name: "HtoD" in name or "DtoH" in name)
    rows = model.events.row
    mine = crosses[trace.columns.name[rows]] & (trace.columns.category[rows] == Category.MEMCPY)
    return np.unique(model.events.block[mine])


def _without_waits(model: Model, gone: Bool, cause: Cause, constants: Constants) -> Model:
    is_wait = model.items.kind == Item.WAIT
    keep = ~is_wait
    keep[is_wait] = ~gone[model.items.argument[is_wait]]
    # calls that waited for nothing the replay knows of are host time
    host = np.where(model.host.cause == cause, 0, model.host.dur_ns)
    first = np.flatnonzero((model.host.cause == cause) & np.append(True, np.diff(model.host.row) != 0))
    host[first] = np.minimum(model.host.dur_ns[first], constants.async_ns)
    return replace(model.with_host(host), items=model.items.where(keep))


def no_allocations(model: Model) -> Model:
    """Nothing asks the driver for memory or gives it back, which would wait for the device."""
    gone = model.waits.cause == Cause.ALLOC
    return _without_waits(model, gone, Cause.ALLOC, replace(BEST, async_ns=0))


def cause_ns(model: Model, cause: Cause) -> int:
    """Host time of the window with this cause, waits left out."""
    return int(model.host.dur_ns[model.host.cause == cause].sum())


def without(model: Model, *causes: Cause) -> Model:
    """Without the host time of these causes."""
    gone = np.isin(model.host.cause, causes)
    return model.with_host(np.where(gone, 0, model.host.dur_ns))


def no_compile(model: Model) -> Model:
    """Nothing is compiled in the window; what ran meanwhile on the device (autotuning) is gone too."""
    changed = without(model, Cause.COMPILE)
    launches = model.links.launches
    compiling = launches.call_rows[model.links.compiles.covers_call]
    inside = np.isin(model.blocks.row, compiling)
    if not inside.any():
        return changed
    keep = model.items.kind != Item.LAUNCH
    keep |= ~inside[np.where(keep, 0, model.items.argument)]
    return replace(changed, items=model.items.where(keep))


def kernel(model: Model, pattern: str, factor: float) -> Model:
    """Kernels whose names match take their time divided by ``factor``."""
    regex = re.compile(pattern)
    trace = model.links.trace
    mine = trace.names.where(regex.search)[trace.columns.name[model.events.row]]
    dur = model.events.dur_ns
    return model.with_events(np.where(mine, np.rint(dur / factor), dur).astype(np.int64))


def fused_optimizer(model: Model, constants: Constants = BEST) -> Model:
    """Each optimizer step is one launch: what comes before its first launch, and a fused kernel."""
    steps = optimizer_steps(model)
    dur = model.host.dur_ns.copy()
    items = model.items
    launches = _LaunchItems.of(items)
    keep = np.ones(len(items), np.bool_)
    target = np.arange(len(model.blocks))
    device = model.events.dur_ns.copy()
    for call in range(len(steps)):
        first, last = np.searchsorted(model.host.recorded_ns, [steps.start_ns[call], steps.end_ns[call]])
        inside = launches.between(first, last)
        if len(inside) < 2:
            continue
        launched = int(items.after[inside[0]])
        dur[launched:last] = 0
        keep[inside[1:]] = False
        mine = items.argument[inside]
        target[mine] = mine[0]
        events = np.isin(model.events.block, mine)
        device[events] = np.rint(device[events] * constants.fused_share).astype(np.int64)
    changed = replace(model.with_host(dur).with_events(device), items=items.where(keep))
    return _merged(changed, target, 0)


def optimizer_steps(model: Model) -> Calls:
    """Eager optimizer steps of the window that launch more than a fused one would."""
    links = model.links
    c = links.trace.columns
    low, high = _window(model)
    inside_window = (c.start_ns >= low) & (c.end_ns <= high)
    wanted = marked(links.marks, c.name, Mark.OPTIMIZER) & c.is_cpu & c.is_valid & inside_window
    found = find_calls(links.trace, np.flatnonzero(wanted), str)
    regions = links.regions.calls
    compiled = np.zeros(len(found), np.bool_)
    inside = found.at_rows(regions.rows) if len(found) else np.empty(0, np.int64)
    compiled[inside[inside >= 0]] = True
    keep = np.flatnonzero((found.parent < 0) & ~compiled)
    return find_calls(links.trace, found.rows[keep], str)


def _window(model: Model) -> tuple[int, int]:
    found = model.links.steps
    return int(found.start_ns[model.first_step]), int(found.end_ns[model.last_step])
