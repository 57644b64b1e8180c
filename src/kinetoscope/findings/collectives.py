"""Findings about communication that one rank's trace can tell."""

from __future__ import annotations

import numpy as np

from kinetoscope.analyses.wording import counted, duration, percent
from kinetoscope.findings.facts import Facts
from kinetoscope.schema import Finding

# A collective this much longer than its like, and this long, waited for another rank. Sizes under one name
# differ too, but not by so much.
_TIMES, _LEAST_NS, _LIKE = 100, 10_000_000, 3


def waiting_collective(facts: Facts) -> list[Finding]:
    """A collective that lasts far longer than the others of its name: it waits for a rank that comes late."""
    work, trace = facts.work, facts.trace
    pieces = np.flatnonzero(work.is_communication & work.is_kernel & (work.dur_ns > 0))
    if not work.on_device or len(pieces) < _LIKE:
        return []
    names, which = np.unique(trace.columns.name[work.rows[pieces]], return_inverse=True)
    dur = work.dur_ns[pieces]
    late, usual_of = [], np.zeros(len(pieces))
    for number in range(len(names)):
        mine = np.flatnonzero(which == number)
        usual = float(np.median(dur[mine]))
        usual_of[mine] = usual
        if len(mine) >= _LIKE:
            late += mine[(dur[mine] > _TIMES * usual) & (dur[mine] >= _LEAST_NS)].tolist()
    if not late:
        return []
    waited = float((dur[late] - usual_of[late]).sum())
    total, rest = int(dur.sum()), int(dur.sum() - dur[late].sum())
    longest = late[int(np.argmax(dur[late]))]
    first = trace.columns.start_ns[work.rows[pieces]]
    at_start = bool(first[longest] == first.min())
    cause = (
        "It is the first of the window: ranks start their profilers at different times."
        if at_start
        else "Another rank came late: it compiled, was slow, or waited for data."
    )
    return [
        facts.finding(
            "straggler",
            f"{counted(len(late), 'collective')} waited for another rank",
            f"The longest took {duration(int(dur[longest]))}; the usual one of its name takes"
            f" {duration(float(usual_of[longest]))}. {cause} Communication is {duration(total)} with"
            f" {'it' if len(late) == 1 else 'them'} and {duration(rest)} without"
            f" ({percent(rest / total) if total else '0 %'}).",
            "Look at the traces of all ranks together: `kinetoscope report` on the directory says who was"
            " waited for.",
            total_ns=waited,
            severity="info" if at_start else None,
            rows=work.rows[pieces[late]],
        )
    ]


ALL = (waiting_collective,)
