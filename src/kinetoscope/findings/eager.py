"""Findings about device work that Inductor did not generate: eager kernels and fall-backs."""

from __future__ import annotations

import numpy as np

from kinetoscope.analyses.wording import counted, duration, listed
from kinetoscope.findings.facts import Facts
from kinetoscope.link.ancestors import nearest_around
from kinetoscope.link.names import Mark, marked
from kinetoscope.schema import Finding
from kinetoscope.trace import Bool, Int64

# Less than this share of the work is not worth a line.
_LITTLE = 0.01
_ACCUMULATE, _OPTIMIZER, _ELSEWHERE = range(3)
_PLACES = {
    _ACCUMULATE: "storing or adding gradients (AccumulateGrad)",
    _OPTIMIZER: "in optimizer steps",
    _ELSEWHERE: "in code outside compiled functions",
}
_FIXES = {
    _ACCUMULATE: "optimizer.zero_grad(set_to_none=True) before each backward lets gradients be stored"
    " instead of added.",
    _OPTIMIZER: "Compile the optimizer step (torch.compile(optimizer.step)) or use the optimizer's"
    " fused=True.",
    _ELSEWHERE: "Move the operators named above into a compiled function (the loss, pre- and"
    " post-processing).",
}


def eager_kernels(facts: Facts) -> list[Finding]:
    """Eager work in a program that also runs compiled code."""
    work = facts.work
    if facts.compiled.verdict not in ("yes", "partly") or facts.kernels is None:
        return []
    eager = work.of("eager") & ~work.is_communication & facts.in_steps
    total = int(work.dur_ns[eager].sum())
    counts = work.is_kernel & ~work.is_communication & ~work.in_phase & facts.in_steps
    whole = int(work.dur_ns[counts].sum())
    if not total or total < _LITTLE * whole:
        return []
    place = _place_of(facts, eager)
    sentences, fixes = [], []
    for number in np.argsort([-int(work.dur_ns[eager][place == n].sum()) for n in _PLACES]).tolist():
        here = np.flatnonzero(eager)[place == number]
        if not len(here):
            continue
        spent = int(work.dur_ns[here].sum())
        sentences.append(f"{len(here):,} ({duration(spent)}) {_PLACES[number]}: {_operators(facts, here)}.")
        fixes.append(_FIXES[number])
    where, what = ("device", "kernel") if work.on_device else ("CPU", "operator")
    return [
        facts.finding(
            "eager-kernels",
            f"{counted(int(eager.sum()), what)} ran eagerly",
            f"Eager {what}s take {facts.a_step(total)} of {where} time. " + " ".join(sentences),
            " ".join(fixes),
            total_ns=total,
            rows=work.rows[eager],
        )
    ]


def fallback_op(facts: Facts) -> list[Finding]:
    """Operators inside compiled graphs for which no kernel was generated."""
    work = facts.work
    fallback = np.flatnonzero(work.of("compiled_fallback") & facts.in_steps)
    if not len(fallback):
        return []
    total = int(work.dur_ns[fallback].sum())
    by_wrapper = int((~work.in_graph[fallback]).sum())
    names = _operators(facts, fallback)
    detail = [f"{names}: {facts.a_step(total)}."]
    fixes = []
    if by_wrapper:
        detail.append(
            f"{counted(by_wrapper, 'is a copy', 'are copies')} that the code around a graph makes, mostly"
            " to bring"
            " gradients into the layout it was compiled for."
        )
        fixes.append("A copy of a gradient goes away when the loss hands a contiguous one to the backward.")
    if by_wrapper < len(fallback) and not (len(facts.links.regions.graphs) or facts.code.generated.any()):
        detail.append(
            "No graph or kernel of Inductor's ran: another backend calls these operators as they are, and"
            " nothing is fused."
        )
        fixes.append('Compile without backend="eager" or "aot_eager", which are for finding errors.')
    elif by_wrapper < len(fallback):
        detail.append("Inductor calls these operators as they are, so nothing is fused with them.")
        fixes.append(
            "Write the operator with ones that Inductor generates code for, or register a lowering for"
            " your own."
        )
    if "_foreach_copy_" in names:
        detail.append("aten::_foreach_copy_ brings inputs to where a CUDA graph expects them.")
    what = "kernel" if work.on_device else "operator"
    return [
        facts.finding(
            "fallback-op",
            f"{counted(len(fallback), what)} in compiled code fell back to PyTorch's own",
            " ".join(detail),
            " ".join(fixes),
            total_ns=total,
            rows=work.rows[fallback],
        )
    ]


def _place_of(facts: Facts, pieces: Bool) -> Int64:
    """Where eager work was asked for: gradient accumulation, optimizer, elsewhere."""
    links, c = facts.links, facts.trace.columns
    launched_from = facts.work.launched_from[pieces]
    accumulates = facts.trace.names.where(lambda name: name == "torch::autograd::AccumulateGrad")[c.name]
    optimizer = marked(links.marks, c.name, Mark.OPTIMIZER)
    found = nearest_around(c.parent, launched_from, accumulates | optimizer)
    is_optimizer = optimizer[np.maximum(found, 0)]
    return np.where(found < 0, _ELSEWHERE, np.where(is_optimizer, _OPTIMIZER, _ACCUMULATE))


def _operators(facts: Facts, pieces: Int64) -> str:
    """The operators that took most of the time, with how much."""
    work, trace = facts.work, facts.trace
    rows = work.operator_row[pieces]
    name = trace.columns.name[np.where(rows >= 0, rows, work.rows[pieces])]
    counts, totals = np.bincount(name), np.bincount(name, weights=work.dur_ns[pieces])
    seen = np.flatnonzero(counts)
    order = seen[np.argsort(-totals[seen], kind="stable")]
    return listed([_short(trace.names[number]) for number in order.tolist()])


def _short(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:57]}..."


ALL = (eager_kernels, fallback_op)
