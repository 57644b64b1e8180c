"""Time spent compiling, as the trace shows it.

Totals are unions of the ``(dynamo_timed)`` spans, so that nested phases count once. What a log
knows besides (functions, caches) is not in a trace.
"""

from __future__ import annotations

import numpy as np

from kinetoscope.link import Links
from kinetoscope.link.compiles import Compiles
from kinetoscope.link.intervals import union_by_group
from kinetoscope.schema import CompileFrame, CompilePhase, CompileTime
from kinetoscope.trace import Category


def compile_time(links: Links) -> CompileTime:
    """Compile time in all, by frame and by phase.

    A frame without a known compile id has ``id`` None. Without a record of the CPU's work nothing can
    be told and everything is null.
    """
    found = links.compiles
    if not (links.trace.columns.category == Category.CPU_OP).any() and not len(found.phases):
        return CompileTime()
    return CompileTime(
        total_ns=found.total_ns,
        in_window_ns=found.total_ns,
        source="trace",
        frames=_frames(found),
    )


def _frames(found: Compiles) -> list[CompileFrame]:
    phases = found.phases
    if not len(phases):
        return []
    # unknown ids are one more frame
    frame = np.where(found.compile_id >= 0, found.compile_id, len(found.ids))
    ids: list[str | None] = [*found.ids, None]
    entries = found.entries
    totals = union_by_group(frame[entries], phases.start_ns[entries], phases.end_ns[entries], len(ids))
    kinds = len(phases.labels)
    key = frame * kinds + phases.label
    keys, which = np.unique(key, return_inverse=True)
    # a phase inside one of its own name is part of it: a union, not a sum
    lengths = union_by_group(which, phases.start_ns, phases.end_ns, len(keys))
    selves = np.zeros(len(keys), np.int64)
    np.add.at(selves, which, phases.self_ns)
    by_frame: dict[int, list[CompilePhase]] = {}
    for number, both in enumerate(keys.tolist()):
        owner, label = divmod(both, kinds)
        phase = CompilePhase(
            name=phases.labels[label], total_ns=int(lengths[number]), self_ns=int(selves[number])
        )
        by_frame.setdefault(owner, []).append(phase)
    frames = [
        CompileFrame(
            id=ids[owner],
            total_ns=int(totals[owner]),
            phases=sorted(of, key=lambda phase: (-phase.self_ns, phase.name)),
        )
        for owner, of in by_frame.items()
    ]
    return sorted(frames, key=lambda each: (-each.total_ns, each.id or ""))
