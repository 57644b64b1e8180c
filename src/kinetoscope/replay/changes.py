"""Changes of a model: what would be different if something were removed or made faster.

Each takes a model in unprofiled time and gives a changed one. None of them invents a gain: what is
not recorded, or cannot be known, is an assumption, and is said with the prediction.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from kinetoscope.analyses.idle_causes_names import Cause
from kinetoscope.analyses.kernels import number_of
from kinetoscope.link.ancestors import nearest_around
from kinetoscope.link.names import Mark, marked
from kinetoscope.link.regions import Calls, find_calls
from kinetoscope.replay.constants import BEST, Constants
from kinetoscope.replay.merging import LaunchItems, merged
from kinetoscope.replay.model import Item, Model
from kinetoscope.replay.waiting import causes_at
from kinetoscope.trace import Category, Int64

#: a check of guards this long has read so much memory that nothing else is left in the caches of a core
EVICTS_NS = 60_000
#: host time in which a CPU computes
_ON_CPU = (Cause.PYTHON, Cause.EAGER, Cause.GRAPH, Cause.WRAPPER, Cause.BREAK, Cause.LAUNCH)


def no_sync(model: Model, constants: Constants = BEST) -> Model:
    """Without waits for the device that the program asked for (``item``, ``synchronize``)."""
    return _without_waits(model, Cause.SYNC, constants)


def rows_of(model: Model, *causes: Cause) -> Int64:
    """Slices that stand for these causes in the window, waits included."""
    host, waits = model.host, model.waits
    found = np.concatenate((host.row[np.isin(host.cause, causes)], waits.row[np.isin(waits.cause, causes)]))
    return np.unique(found[found >= 0])


def wait_rows(model: Model, cause: Cause) -> Int64:
    """Calls that wait for the device, or take host time, with this cause: what a change takes away.

    Copies that nobody waits for are among those of `Cause.COPY`.
    """
    rows = rows_of(model, cause)
    return np.union1d(rows, model.blocks.row[copy_blocks(model)]) if cause is Cause.COPY else rows


def operators_of(model: Model, rows: Int64) -> Int64:
    """The operators that make these calls, or else the calls: a copy, and the wait for it, are one."""
    c = model.links.trace.columns
    around = nearest_around(c.parent, rows, c.category == Category.CPU_OP)
    return np.unique(np.where(around >= 0, around, rows))


def no_copies(model: Model, constants: Constants = BEST) -> Model:
    """Copies between host and device beside everything else: nobody waits for them, and memory is pinned."""
    changed = _without_waits(model, Cause.COPY, constants)
    copies = copy_blocks(model)
    if not len(copies):
        return changed
    changed = changed.with_events(_as_pinned(changed, copies, constants))
    blocks = changed.blocks
    stream, behind = blocks.stream.copy(), blocks.behind.copy()
    aside = int(stream.max()) + 1
    stream[copies], behind[copies] = aside, -1
    behind[np.isin(behind, copies)] = -1
    return replace(changed, blocks=replace(blocks, stream=stream, behind=behind), aside=aside)


def _as_pinned(model: Model, copies: Int64, constants: Constants) -> Int64:
    """Durations of device events with these copies, if of pageable memory, at the speed of pinned memory."""
    row, dur = model.events.row, model.events.dur_ns
    slow = model.is_pageable_copy() & np.isin(model.events.block, copies)
    if not slow.any():
        return dur
    size = np.array([number_of(args.get("bytes")) or 0 for args in model.links.trace.args_of(row[slow])])
    taken = np.rint(size / constants.pinned_bytes_per_ns).astype(np.int64)
    found: Int64 = dur.copy()
    # what says no size stays as it is
    found[slow] = np.where(taken > 0, np.minimum(dur[slow], taken), dur[slow])
    return found


def copy_blocks(model: Model) -> Int64:
    """Blocks that copy between host and device, but for values that the program reads back and waits for."""
    trace = model.links.trace
    crosses = trace.names.where(lambda name: "HtoD" in name or "DtoH" in name)
    rows = model.events.row
    mine = crosses[trace.columns.name[rows]] & (trace.columns.category[rows] == Category.MEMCPY)
    block = np.unique(model.events.block[mine])
    found: Int64 = block[causes_at(model.links, model.blocks.row[block]) != Cause.SYNC]
    return found


def _without_waits(model: Model, cause: Cause, constants: Constants) -> Model:
    """Without waits of this cause. Calls that waited for nothing the replay knows of are host time."""
    waits, items = model.waits, model.items
    gone = waits.cause == cause
    is_wait = items.kind == Item.WAIT
    keep = ~is_wait
    keep[is_wait] = ~gone[items.argument[is_wait]]
    mine = model.host.cause == cause
    first = np.flatnonzero(mine & np.append(True, np.diff(model.host.row) != 0)[: len(mine)])
    host = np.where(mine, 0, model.host.dur_ns)
    host[first] = np.minimum(model.host.dur_ns[first], constants.async_ns)
    # a call that launched the copy it waited for is still made
    made = np.isin(model.host.row[first], waits.row[gone & (waits.scope <= -2)])
    host[first[made]] = constants.async_ns
    return replace(model.with_host(host), items=items.where(keep))


def no_allocations(model: Model) -> Model:
    """Nothing asks the driver for memory or gives it back, which would wait for the device."""
    return _without_waits(model, Cause.ALLOC, replace(BEST, async_ns=0))


def no_data_wait(model: Model) -> Model:
    """The next batch is always there."""
    return _without_waits(model, Cause.DATA, replace(BEST, async_ns=0))


def cause_ns(model: Model, cause: Cause) -> int:
    """Host time of the window with this cause, waits left out."""
    return int(model.host.dur_ns[model.host.cause == cause].sum())


def no_guards(model: Model, constants: Constants = BEST) -> Model:
    """Without guard checks, and without the cold caches that long ones leave to what follows them.

    A check reads every object that is guarded. What follows runs with cold caches, for as long as the check
    took at most: where this was measured (``benchmarks/guards.py``) half of its time is due to them after
    checks of 60 us and more, and less after shorter ones.
    """
    dur, cause = model.host.dur_ns.copy(), model.host.cause
    is_check = cause == Cause.GUARD
    change = np.flatnonzero(np.diff(is_check.astype(np.int8), prepend=0, append=0))
    begins, ends = change[::2], change[1::2]
    can_be_cold = np.isin(cause, _ON_CPU)
    for begin, end, until in zip(begins, ends, np.append(begins[1:], len(dur)), strict=True):
        check_ns = int(dur[begin:end].sum())
        after = np.arange(end, until)[can_be_cold[end:until]]
        passed = np.minimum(np.cumsum(dur[after]), check_ns)
        cold_ns = np.diff(passed, prepend=0)
        share = constants.cold_share * min(1.0, check_ns / EVICTS_NS)
        dur[after] -= np.rint(share * cold_ns).astype(np.int64)
    return model.with_host(np.where(is_check, 0, dur))


def no_compile(model: Model) -> Model:
    """Nothing is compiled in the window; what ran meanwhile on the device (autotuning) is gone too."""
    changed = _without_waits(model, Cause.COMPILE, replace(BEST, async_ns=0))
    launches = model.links.launches
    compiling = launches.call_rows[model.links.compiles.covers_call]
    inside = np.isin(model.blocks.row, compiling)
    if not inside.any():
        return changed
    keep = changed.items.kind != Item.LAUNCH
    keep |= ~inside[np.where(keep, 0, changed.items.argument)]
    return replace(changed, items=changed.items.where(keep))


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
    launches = LaunchItems.of(model, steps)
    keep = np.ones(len(items), np.bool_)
    target = np.arange(len(model.blocks))
    device = model.events.dur_ns.copy()
    for call in range(len(steps)):
        first, last = np.searchsorted(model.host.recorded_ns, [steps.start_ns[call], steps.end_ns[call]])
        inside = launches.of_this(call, first, last)
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
    return merged(changed, target, 0)


def optimizer_steps(model: Model) -> Calls:
    """Eager optimizer steps of the window that launch more than a fused one would, and are not fused yet."""
    links = model.links
    c = links.trace.columns
    low, high = model.window_ns
    inside_window = (c.start_ns >= low) & (c.end_ns <= high)
    wanted = marked(links.marks, c.name, Mark.OPTIMIZER) & c.is_cpu & c.is_valid & inside_window
    every = find_calls(links.trace, np.flatnonzero(wanted), str)
    found = find_calls(links.trace, every.rows[every.parent < 0], str)
    if not len(found):
        return found
    is_fused = links.trace.names.where(_is_fused)[c.name] & c.is_cpu & c.is_valid
    launched = LaunchItems.of(model, found).of_call
    keep = np.bincount(launched[launched >= 0], minlength=len(found)) > 1
    for rows in (links.regions.calls.rows, np.flatnonzero(is_fused)):
        inside = found.at_rows(rows)
        keep[inside[inside >= 0]] = False
    return find_calls(links.trace, found.rows[keep], str)


def _is_fused(name: str) -> bool:
    """Whether this is torch's operator of a fused optimizer, or the step of one that is fused by itself."""
    return bool(re.match(r"aten::_fused_\w+_$|Optimizer\.step#\w*Fused", name))
