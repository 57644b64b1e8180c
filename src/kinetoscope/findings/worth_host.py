"""Findings about a device that waits for the host, with what each fix would save."""

from __future__ import annotations

import numpy as np

from kinetoscope.analyses.idle_causes import describe
from kinetoscope.analyses.idle_causes_names import CAUSES, Cause
from kinetoscope.analyses.wording import duration, listed, percent
from kinetoscope.findings.facts import Facts
from kinetoscope.findings.loading import waits_for_data
from kinetoscope.findings.worth import LITTLE, Worth, said, said_together, worth_of
from kinetoscope.replay.changes import operators_of, wait_rows
from kinetoscope.replay.predict import (
    NO_ALLOCATIONS,
    NO_COPIES,
    NO_DATA_WAIT,
    NO_GUARDS,
    NO_SYNC,
    Change,
)
from kinetoscope.schema import Finding, FindingCode
from kinetoscope.trace import Int64

# What is told of the host's time, in the words of the idle causes; waits have their own findings.
_PACE = (
    Cause.PYTHON,
    Cause.EAGER,
    Cause.GRAPH,
    Cause.WRAPPER,
    Cause.GUARD,
    Cause.BREAK,
    Cause.LAUNCH,
)
#: what takes this share of a step is said to be harmless where it is
_NOTABLE = 0.1
#: so many launches a step are worth being counted
_LAUNCHES = 10
#: causes that have findings of their own
_OWN: dict[Cause, FindingCode] = {
    Cause.GUARD: "guard-overhead",
    Cause.BREAK: "graph-break",
    Cause.DATA: "data-loading",
    Cause.ALLOC: "memory-alloc",
    Cause.SYNC: "sync",
    Cause.COPY: "host-copy",
}
_OTHERS = {
    Cause.PYTHON: "run less Python in a step: compile a larger part of it",
    Cause.EAGER: "compile the eager operators, or use fewer and larger ones",
    Cause.GRAPH: "larger batches give each launch more to do",
    Cause.WRAPPER: "fewer and larger compiled functions: each has a prologue and a wrapper",
    Cause.GUARD: "fewer guards (see guard-overhead)",
    Cause.BREAK: "remove the graph breaks",
    Cause.LAUNCH: "larger batches give each launch more to do",
}


def launch_bound(facts: Facts) -> list[Finding]:
    """The host sets the pace: the device waits for launches."""
    worth = worth_of(facts)
    bound, before = worth.bound, worth.before
    if (
        bound is None
        or before is None
        or bound.verdict not in ("cpu", "mixed")
        or before.best.is_device_bound
    ):
        return []
    assert bound.step_ns is not None
    assert bound.device_ns is not None
    step = before.step_ns
    launches = facts.links.steps.of_call
    count = int(np.median(np.bincount(launches[launches >= 0]))) if (launches >= 0).any() else 0
    # What is compiled meanwhile is no launch overhead, and a single short step tells nothing of a pace.
    if worth.host_ns(Cause.COMPILE) > _NOTABLE * step or (len(facts.links.steps) < 2 and count < _LAUNCHES):
        return []
    graphs = worth.cuda_graphs
    pays = graphs is not None and graphs.verdict != "no gain"
    if bound.verdict == "mixed" and not pays:
        return []
    cost = max(0, step - bound.device_ns)
    calls = facts.links.launches
    # launches of CUDA graphs are what is advised, not what is in the way
    single = calls.call_rows[~calls.is_graph_call]
    by_cause = {cause: worth.host_ns(cause) for cause in _PACE}
    largest = sorted(by_cause, key=lambda cause: -by_cause[cause])[:3]
    parts = listed([f"{CAUSES[cause]} {percent(by_cause[cause] / step)}" for cause in largest], 3)
    late = "" if bound.late_share is None else f" {percent(bound.late_share)} of the launches came late."
    advice = f"{_OTHERS[largest[0]][0].upper()}{_OTHERS[largest[0]][1:]}."
    if pays:
        assert graphs is not None
        fix = (
            'torch.compile(mode="reduce-overhead") puts the kernels of each compiled graph into one launch'
            " (CUDA graphs)."
        )
        told = said(graphs).replace("without it", "with CUDA graphs", 1) + said_together(worth)
    elif len(facts.links.launches.graph_rows):
        fix, told = advice, "CUDA graphs are in use already: what is left is outside of them."
    elif graphs is not None:
        fix, told = advice, "CUDA graphs would gain nothing measurable here."
    else:
        fix, told = advice, ""
    spent = {cause: worth.host_ns(cause) + worth.wait_ns(cause) for cause in _OWN}
    main = max(spent, key=lambda cause: spent[cause])
    is_told_elsewhere = not pays and (spent[main] > cost / 2 or len(facts.links.launches.graph_rows) > 0)
    if not pays and spent[main] > cost / 2:
        fix = f"See {_OWN[main]}: that is most of what the device waits for."
    return [
        worth.finding(
            "launch-bound",
            f"{count:,} launches a step keep the device waiting"
            if count >= _LAUNCHES
            else "The device waits for the host",
            f"A step takes {duration(step)}, the device is busy for {duration(bound.device_ns)}"
            f" ({percent(min(1.0, bound.device_ns / step))}).{late} Of the step, the host spends: {parts}."
            f" {told}".rstrip(),
            fix,
            cost_ns=cost,
            saving=graphs.saving if pays and graphs is not None else None,
            rows=single if len(single) else calls.call_rows,
            severity="info" if is_told_elsewhere else None,
        )
    ]


def guard_overhead(facts: Facts) -> list[Finding]:
    """Guard checks that take a notable part of a step."""
    fix = (
        "Fewer and larger compiled functions, fewer versions of each (recompiles add entries that are checked"
        " in turn), and fewer module attributes for guards to look at: compile the module that is called,"
        " not its parts."
    )
    beyond = "A check that long also leaves cold caches, which slow down what follows it."
    return _host_cause(facts, "guard-overhead", Cause.GUARD, "Guard checks take", fix, NO_GUARDS, beyond)


def data_loading(facts: Facts) -> list[Finding]:
    """Steps wait for the next batch."""
    if worth_of(facts).before is None:
        return waits_for_data(facts)
    fix = "More workers, pin_memory=True, a larger prefetch_factor, or less work for each sample."
    return _host_cause(facts, "data-loading", Cause.DATA, "The data loader takes", fix, NO_DATA_WAIT)


def memory_alloc(facts: Facts) -> list[Finding]:
    """Memory is asked of the driver, or given back, in steps."""
    fix = (
        "Keep sizes the same from step to step and do not call torch.cuda.empty_cache() in the loop;"
        " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True avoids many of these calls."
    )
    return _host_cause(
        facts, "memory-alloc", Cause.ALLOC, "Allocation calls of the driver take", fix, NO_ALLOCATIONS
    )


def sync(facts: Facts) -> list[Finding]:
    """The program waits for the device in its steps."""
    fix = "Read numbers (.item(), .cpu(), print, an if on a tensor) once in many steps, not in each."
    return _waits(facts, "sync", Cause.SYNC, NO_SYNC, ("synchronisation", "synchronisations"), fix)


def host_copy(facts: Facts) -> list[Finding]:
    """Copies between host and device that something waits for."""
    fix = "Pinned memory with non_blocking=True; keep on the device what is used there; create tensors there."
    what = ("copy between host and device", "copies between host and device")
    return _waits(facts, "host-copy", Cause.COPY, NO_COPIES, what, fix)


def _host_cause(
    facts: Facts, code: FindingCode, cause: Cause, title: str, fix: str, change: Change, beyond: str = ""
) -> list[Finding]:
    """``beyond``: why more can go than what it costs."""
    worth = worth_of(facts)
    return _finding(worth, code, title, cause, change, worth.rows(cause), fix, beyond)


def _waits(
    facts: Facts, code: FindingCode, cause: Cause, change: Change, what: tuple[str, str], fix: str
) -> list[Finding]:
    """``what``: one and several of what waits."""
    worth = worth_of(facts)
    if worth.before is None:
        return []
    rows = wait_rows(worth.before.model, cause)
    if not len(rows):
        return []
    count = worth.count(operators_of(worth.before.model, rows))
    title = f"1 {what[0]} a step takes" if count == 1 else f"{count:,} {what[1]} a step take"
    return _finding(worth, code, title, cause, change, rows, fix)


def _finding(
    worth: Worth,
    code: FindingCode,
    title: str,
    cause: Cause,
    change: Change,
    rows: Int64,
    fix: str,
    beyond: str = "",
) -> list[Finding]:
    """One finding; none where neither the fix gains anything nor anybody would wonder about the cost."""
    if worth.before is None:
        return []
    spent = worth.host_ns(cause) + worth.wait_ns(cause)
    if spent < LITTLE * worth.before.step_ns:
        return []
    share = min(1.0, spent / worth.before.step_ns)
    prediction = worth.predict(change)
    saving = None if prediction is None else prediction.saving
    gains = prediction is not None and prediction.verdict != "no gain"
    if not gains and share < _NOTABLE:
        return []
    more = beyond if saving is not None and saving.best > spent else ""
    return [
        worth.finding(
            code,
            f"{title} {duration(spent)} ({percent(share)})",
            " ".join(filter(None, (_places(worth, rows), more, said(prediction)))),
            fix if gains else None,
            cost_ns=spent,
            saving=saving,
            goes_ns=max(spent, worth.most_ns(cause, change)),
            rows=rows,
            severity=None if gains else "info",
        )
    ]


def _places(worth: Worth, rows: Int64) -> str:
    """What the longest of these slices are, most time first."""
    links = worth.facts.links
    c = links.trace.columns
    if not len(rows):
        return ""
    spent: dict[str, int] = {}
    for row in rows[np.argsort(-c.dur_ns[rows], kind="stable")][:500].tolist():
        name = describe(links, row) or ""
        spent[name] = spent.get(name, 0) + int(c.dur_ns[row])
    order = sorted(spent, key=lambda name: -spent[name])
    return f"Most of it: {listed(order, 3)}."


ALL = (launch_bound, sync, host_copy, guard_overhead, data_loading, memory_alloc)
