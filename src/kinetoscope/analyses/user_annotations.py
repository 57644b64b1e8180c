"""What the program itself named, where nothing else marks steps."""

from __future__ import annotations

import numpy as np

from kinetoscope.analyses.wording import counted, duration
from kinetoscope.link import Links
from kinetoscope.link.steps import own_annotations
from kinetoscope.trace import TraceWarning

_NAMED = 6


def user_annotations(links: Links) -> TraceWarning | None:
    """The program's own annotations, most time first, for a reader who looks for steps.

    None where ``ProfilerStep`` marks them, or where there is no annotation.
    """
    rows = own_annotations(links.trace, links.marks)
    if links.steps.source == "profiler_step" or len(rows) == 0:
        return None
    c = links.trace.columns
    names, which = np.unique(c.name[rows], return_inverse=True)
    times = np.bincount(which)
    total = np.bincount(which, weights=c.dur_ns[rows])
    order = np.argsort(-total, kind="stable")
    listed = ", ".join(
        f"{links.trace.names[int(names[i])]} ({times[i]} x {duration(float(total[i] / times[i]))})"
        for i in order[:_NAMED].tolist()
    )
    more = f" and {len(names) - _NAMED} more names" if len(names) > _NAMED else ""
    return TraceWarning(
        "annotations",
        f"no ProfilerStep; {counted(len(rows), 'user annotation')} found: {listed}{more}; "
        "--annotation NAME reports on one of them",
    )
