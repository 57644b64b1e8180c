"""Findings about a device that works: it sets the pace, its kernels are small, its graphs recorded anew."""

from __future__ import annotations

import numpy as np

from kinetoscope.analyses.wording import counted, duration, listed, percent
from kinetoscope.findings.facts import Facts
from kinetoscope.findings.worth import worth_of
from kinetoscope.link.ancestors import nearest_around
from kinetoscope.replay.run import busy_ns
from kinetoscope.schema import Finding
from kinetoscope.trace import Category

#: a kernel this short takes no longer than what starts it
_SMALL_NS = 5_000
_MANY, _SHARE = 20, 0.5
#: where the device sets the pace and is also busy for this share of a step
_BUSY = 0.8
_COMPUTES = (
    "Look at the costliest kernels: lower precision, other algorithms, fewer operations."
    " `kinetoscope kernel` gives the command for a kernel profiler."
)
_COMMUNICATES = (
    "Most of this is communication, in which a device also waits for other ranks: look at all of them"
    " together (`kinetoscope report` on the directory of their traces), send less, or compute meanwhile."
)
_RECORDS = ("cudaStreamBeginCapture", "cudaGraphInstantiate", "hipStreamBeginCapture", "hipGraphInstantiate")


def gpu_bound(facts: Facts) -> list[Finding]:
    """The device sets the pace."""
    worth = worth_of(facts)
    bound, before = worth.bound, worth.before
    if bound is None or before is None or facts.kernels is None:
        return []
    step = before.step_ns
    # of all streams together, as recorded, where that sets the pace
    together = bound.device_ns or 0 if bound.verdict == "gpu" else 0
    busy = min(step, max(busy_ns(before.best.model), together))
    if bound.verdict != "gpu" and not (before.best.is_device_bound and busy >= _BUSY * step):
        return []
    kinds = [
        f"{kind.kind} {percent(kind.share)}"
        for kind in sorted(facts.kernels.by_kind, key=lambda kind: -kind.total_ns)[:3]
    ]
    talks = sum(kind.share for kind in facts.kernels.by_kind if kind.kind == "communication")
    graphs = worth.cuda_graphs
    useless = graphs is not None and graphs.verdict == "no gain"
    told = " CUDA graphs would gain nothing measurable." if useless else ""
    whole = max(1, facts.kernels.all_device_ns)
    top = [f"`{_short(kernel.name)}` {percent(kernel.total_ns / whole)}" for kernel in facts.kernels.top[:3]]
    return [
        worth.finding(
            "gpu-bound",
            f"The device is busy {percent(busy / step)} of a step",
            f"A step takes {duration(step)}; the host needs {duration(bound.host_ns or 0)} of it. Kernel"
            f" time: {listed(kinds, 3)}. Costliest: {listed(top, 3)}.{told}",
            _COMMUNICATES if talks > _SHARE else _COMPUTES,
            cost_ns=None,
            severity="info",
        )
    ]


def small_kernels(facts: Facts) -> list[Finding]:
    """Many kernels that are shorter than their launches."""
    work = facts.work
    if not work.on_device or facts.kernels is None or not facts.steps:
        return []
    mine = np.flatnonzero(work.is_kernel & ~work.is_communication & ~work.in_phase)
    small = mine[work.dur_ns[mine] < _SMALL_NS]
    each = len(small) / facts.steps
    if each < _MANY or len(small) < _SHARE * len(mine):
        return []
    worth = worth_of(facts)
    launches = facts.links.launches
    usual = int(np.median(launches.call_dur_ns)) if len(launches.call_dur_ns) else 0
    return [
        worth.finding(
            "small-kernels",
            f"{each:,.0f} of {len(mine) / facts.steps:,.0f} kernels a step are shorter than"
            f" {duration(_SMALL_NS)}",
            f"They take {duration(int(work.dur_ns[small].sum()) / facts.steps)} a step on the device; one"
            f" launch takes the host {duration(usual)} as recorded, not counting what leads up to it.",
            "Larger batches; compile the whole step, so that more is fused; CUDA graphs, which start all at"
            " once.",
            cost_ns=None,
            severity="info",
            rows=work.rows[small],
        )
    ]


def cuda_graph_rerecord(facts: Facts) -> list[Finding]:
    """CUDA graphs recorded in steps that should only replay them."""
    links = facts.links
    c = links.trace.columns
    wanted = links.trace.names.where(lambda name: name.startswith(_RECORDS))
    rows = np.flatnonzero(wanted[c.name] & c.is_call & c.is_valid)
    rows = rows[links.steps.at(c.start_ns[rows]) >= 0] if len(links.steps) else rows[:0]
    if not len(rows):
        return []
    begins = links.trace.names.where(lambda name: "Instantiate" in name)
    count = int(begins[c.name[rows]].sum()) or len(rows)
    # what held the recording: the compiled graph's call, or the operator around it
    around = nearest_around(c.parent, rows, c.category == Category.CPU_OP)
    held = np.unique(np.where(around >= 0, around, rows))
    total = int(c.dur_ns[held].sum())
    steps = len(np.unique(links.steps.at(c.start_ns[rows])))
    return [
        facts.finding(
            "cuda-graph-rerecord",
            f"{counted(count, 'CUDA graph')} recorded in {counted(steps, 'step')}",
            f"Recording took {facts.a_step(total)}. A graph is recorded anew where an input lies elsewhere"
            " in memory than before, or has another size; or the window holds its first calls.",
            "Keep inputs in the same memory (copy into a fixed buffer) and their sizes constant; warm up"
            " before the profiler starts.",
            total_ns=total,
            rows=held,
        )
    ]


def _short(name: str) -> str:
    return name if len(name) <= 50 else f"{name[:47]}..."


ALL = (gpu_bound, small_kernels, cuda_graph_rerecord)
