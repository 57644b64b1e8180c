"""The wait for the next batch where no device's steps can be replayed, as in a program on the CPU."""

from __future__ import annotations

import numpy as np

from kinetoscope.analyses.steps import usual_steps
from kinetoscope.analyses.wording import counted, duration, percent
from kinetoscope.findings.facts import Facts
from kinetoscope.link.ancestors import nearest_around
from kinetoscope.link.intervals import union_ns
from kinetoscope.schema import Finding
from kinetoscope.trace import Category, Int64

__all__ = ["waits_for_data"]

#: less of a step, or of a recording without steps, is not worth a line
_LITTLE = 0.01
_NEXT = "enumerate(DataLoader)#"
_IN_PROCESS = "_SingleProcessDataLoaderIter"


def waits_for_data(facts: Facts) -> list[Finding]:
    """What the thread of the steps spent in the loader's ``__next__``, as a mean over the usual steps.

    A mean, since workers that are too slow make one step in several wait. Without steps it is the total.
    What a fix saves stays unknown: only steps of a device are replayed.
    """
    rows = _waits(facts)
    total, whole, count = _in_steps(facts, rows)
    if not total or total < _LITTLE * whole:
        return []
    share = total / whole
    of_step = total / count if count else total
    a_step = f" a step ({percent(share)})" if count else f" of the {duration(whole)} recorded"
    c = facts.trace.columns
    names = [facts.trace.names[number] for number in np.unique(c.name[rows]).tolist()]
    in_process = all(_IN_PROCESS in name for name in names)
    longest = duration(int(c.dur_ns[rows].max()))
    how = (
        "It has no workers: batches are made in the program's own thread, and nothing else runs meanwhile."
        if in_process
        else "It has workers, and they are not ahead of the program, or handing over a batch takes that long."
    )
    fix = "num_workers=1 or more makes batches while a step computes; or do less work for each sample."
    if not in_process:
        fix = "More workers, a larger prefetch_factor, or less work for each sample."
    if len(facts.links.launches.call_rows):
        fix += " pin_memory=True makes the copies to the device faster."
    return [
        facts.finding(
            "data-loading",
            f"The data loader takes {duration(of_step)}{a_step}",
            f"The program asked it for {counted(len(rows), 'batch', 'batches')} and waited up to {longest}"
            f" for one. {how} What a fix saves is not known, since only steps of a device are replayed: at"
            " most this time, and less where workers need the cores on which the step computes.",
            fix,
            # over all steps what a usual one takes: the first waits for workers to start
            total_ns=of_step * (facts.steps or 1),
            rows=rows,
        )
    ]


def _waits(facts: Facts) -> Int64:
    """Outermost calls of a loader's ``__next__`` in the threads of the steps, and inside steps.

    A thread that only fetches ahead makes nobody wait.
    """
    links, c = facts.links, facts.trace.columns
    is_cpu = (c.category == Category.CPU_OP) | (c.category == Category.USER_ANNOTATION)
    wanted = links.trace.names.where(lambda name: name.startswith(_NEXT))
    is_next = wanted[c.name] & is_cpu & c.is_valid
    rows = np.flatnonzero(is_next)
    rows = rows[nearest_around(c.parent, rows, is_next) < 0]
    if not len(rows) or not len(links.steps):
        return rows
    # what begins a step is on the thread that takes it; steps of launches alone begin with no such slice
    marks = np.flatnonzero(is_cpu & c.is_valid & np.isin(c.start_ns, links.steps.start_ns))
    if len(marks):
        rows = rows[np.isin(c.track[rows], c.track[marks])]
    return rows[links.steps.at(c.start_ns[rows]) >= 0]


def _in_steps(facts: Facts, rows: Int64) -> tuple[int, int, int]:
    """Time of these waits in the usual steps, the time of those steps, and how many they are.

    Without steps: in all that was recorded, and 0 of them.
    """
    c, found = facts.trace.columns, facts.links.steps
    start, end = c.start_ns[rows], c.end_ns[rows]
    if not len(found):
        return union_ns(start, end), facts.trace.span_ns, 0
    usual = usual_steps(found)
    first, last = found.start_ns[usual], found.end_ns[usual]
    whole = union_ns(first, last)
    both = union_ns(np.append(start, first), np.append(end, last))
    return union_ns(start, end) + whole - both, whole, len(usual)
