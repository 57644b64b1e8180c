"""Kernels counted by who wrote them, by what they compute, and the most costly ones by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinetoscope.analyses.origins import KINDS, ORIGINS, Work, find_work
from kinetoscope.link import Links
from kinetoscope.schema import Kernels, KindShare, OriginShare, TopKernel
from kinetoscope.trace import Bool, Category, Int64

TOP = 30
# The size of a copy stands only in its args, and each has its own: beyond so many runs it is left open.
_COPIES_READ = 64


def kernels(links: Links, work: Work | None = None, top: int = TOP) -> Kernels | None:
    """Kernels of the trace; None where the device's side was not recorded, or where there is nothing to ask.

    On a CPU-only trace the kernels are generated C++ kernels and working operators.
    """
    trace = links.trace
    if not links.launches.are_device_events_recorded:
        return None
    work = find_work(links) if work is None else work
    if not len(work.rows) and not (trace.columns.category == Category.CPU_OP).any():
        return None
    valid = trace.columns.is_valid[work.rows]
    is_kernel = valid & work.is_kernel
    dur_ns = work.dur_ns
    total_ns = int(dur_ns[is_kernel].sum())
    # Copies and fills come on top of the kernels: theirs is a share of both, so that no share is over 1.
    with_memory_ns = int(dur_ns[valid].sum())
    whole = [with_memory_ns if origin == "memory" else total_ns for origin in ORIGINS]
    communicates = is_kernel & (work.kind == KINDS.index("communication"))
    communication_ns = _sums(work.origin[communicates], dur_ns[communicates], len(ORIGINS))
    return Kernels(
        count=int(is_kernel.sum()),
        total_ns=total_ns,
        graph_replay_ns=int(dur_ns[is_kernel & work.is_replay].sum()),
        by_origin=[
            OriginShare(
                origin=ORIGINS[n],
                count=count,
                total_ns=ns,
                share=_share(ns, whole[n]),
                communication_ns=int(communication_ns[n]),
            )
            for n, count, ns in _tally(work.origin[valid], dur_ns[valid], len(ORIGINS))
        ],
        by_kind=[
            KindShare(kind=KINDS[n], count=count, total_ns=ns, share=_share(ns, total_ns))
            for n, count, ns in _tally(work.kind[is_kernel], dur_ns[is_kernel], len(KINDS))
        ],
        top=_top(work, valid, whole, top),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _tally(group: Any, dur_ns: Int64, groups: int) -> list[tuple[int, int, int]]:
    """Number, count and sum of each group that has any, most costly first."""
    counts = np.bincount(group, minlength=groups)
    totals = _sums(group, dur_ns, groups)
    order = np.lexsort((-counts, -totals))
    return [(int(n), int(counts[n]), int(totals[n])) for n in order if counts[n]]


def _sums(group: Any, values: Int64, groups: int) -> Int64:
    # exact: sums of nanoseconds stay below 2**53
    return np.bincount(group, weights=values, minlength=groups).astype(np.int64)


def _top(work: Work, valid: Bool, whole: Sequence[int], limit: int) -> list[TopKernel]:
    trace = work.links.trace
    rows = np.flatnonzero(valid)
    # a name is split by origin too: an eager add and one inside a graph are two things to fix
    key = trace.columns.name[work.rows[rows]].astype(np.int64) * (2 * len(ORIGINS))
    key += work.origin[rows] * 2 + work.is_replay[rows]
    space = len(trace.names) * 2 * len(ORIGINS)  # counted, not sorted: there are far fewer names than kernels
    counts, totals = np.bincount(key, minlength=space), _sums(key, work.dur_ns[rows], space)
    seen = np.flatnonzero(counts)
    order = seen[np.lexsort((-counts[seen], -totals[seen]))][:limit]
    members = [rows[key == number] for number in order]
    sizes = _sizes(work, members)
    entries = []
    for at, number in enumerate(order):
        mine = members[at]
        one, count, total = int(mine[0]), int(counts[number]), int(totals[number])
        size, flops = sizes[at]
        entries.append(
            TopKernel(
                name=trace.name_of(int(work.rows[one])),
                origin=ORIGINS[work.origin[one]],
                kind=KINDS[work.kind[one]],
                count=count,
                total_ns=total,
                mean_ns=round(total / count),
                share=_share(total, whole[work.origin[one]]),
                in_graph_replay=bool(work.is_replay[one]),
                region=_region(work, mine),
                op=_operator(work, mine),
                bytes=size,
                flops=flops,
                gb_per_s=_rate(size, total, count),
                tflop_per_s=_rate(flops, total * 1000, count),
            )
        )
    return entries


def _rate(amount: int | None, total: int, count: int) -> float | None:
    return None if amount is None or total <= 0 else amount * count / total


def _region(work: Work, members: Int64) -> str | None:
    """Id of the region in which most of these ran; None where most ran in none."""
    calls = work.links.regions.calls
    call = work.region_call[members]
    if len(calls) == 0:
        return None
    most = _most(np.where(call >= 0, calls.label[np.maximum(call, 0)], -1))
    return None if most < 0 else calls.labels[most]


def _operator(work: Work, members: Int64) -> str | None:
    """Name of the operator that launched most of these (a CPU operator itself has none)."""
    if not work.on_device:
        return None
    trace = work.links.trace
    row = work.operator_row[members]
    most = _most(np.where(row >= 0, trace.columns.name[np.maximum(row, 0)].astype(np.int64), -1))
    return None if most < 0 else str(trace.names[most])


def _most(values: Int64) -> int:
    """The most frequent of these numbers, which are -1 or more."""
    return int(np.argmax(np.bincount(values + 1))) - 1


def _sizes(work: Work, members: Sequence[Int64]) -> list[tuple[int | None, int | None]]:
    """Bytes and floating-point operations of one run (copies: the mean), where the args tell.

    Args are read from the file, and of a compressed one that means unpacking it up to there: so no more
    are asked for than can tell something, and those that stand first.
    """
    c = work.links.trace.columns
    nothing = np.empty(0, np.int64)
    if not work.on_device:
        return [(None, None)] * len(members)
    by_triton = work.of("inductor_triton", "user_triton", "autotune")
    launched_by, copies = [], []
    for mine in members:
        is_kernel = c.category[work.rows[mine[0]]] == Category.KERNEL
        ops = work.operator_row[mine] if is_kernel and by_triton[mine[0]] else nothing
        ops = ops[ops >= 0]
        launched_by.append(ops[[np.argmin(c.event[ops])]] if len(ops) else nothing)
        copies.append(nothing if is_kernel or len(mine) > _COPIES_READ else work.rows[mine])
    estimates = [_estimate(args) for args in _args_of_launches(work, launched_by)]
    copied = [_copied(args) for args in _args_of_all(work, copies)]
    return [
        (size if size is not None else estimate[0], estimate[1])
        for size, estimate in zip(copied, estimates, strict=True)
    ]


def _args_of_launches(work: Work, rows: Sequence[Int64]) -> list[list[dict[str, Any]]]:
    """Args of launching operators; where the first has no estimates, none was written for any."""
    trace = work.links.trace
    every = np.concatenate(rows) if rows else np.empty(0, np.int64)
    if len(every):
        first = trace.args(int(every[np.argmin(trace.columns.event[every])]))
        if "kernel_num_gb" in first or "kernel_flop" in first:
            return _args_of_all(work, rows)
    return [[] for _ in rows]


def _args_of_all(work: Work, rows: Sequence[Int64]) -> list[list[dict[str, Any]]]:
    trace = work.links.trace
    every = np.concatenate(rows) if rows else np.empty(0, np.int64)
    args = iter(trace.args_of(every) if len(every) else [])
    return [[next(args) for _ in range(len(mine))] for mine in rows]


def _estimate(args: Sequence[Mapping[str, Any]]) -> tuple[int | None, int | None]:
    """What Inductor wrote beside the launch of a kernel."""
    if not args:
        return None, None
    gigabytes, flops = number_of(args[0].get("kernel_num_gb")), number_of(args[0].get("kernel_flop"))
    return (
        round(gigabytes * 1e9) if gigabytes else None,
        round(flops) if flops else None,
    )


def _copied(args: Sequence[Mapping[str, Any]]) -> int | None:
    sizes = [number_of(each.get("bytes")) for each in args]
    known = [size for size in sizes if size is not None]
    return round(sum(known) / len(known)) if known and len(known) == len(sizes) else None


def number_of(value: Any) -> float | None:
    """A positive finite number, however it was written."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if 0 < number < float("inf") else None
