"""A gap of 100 us on the device, from 100 to 200 us, and its division by cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers import Event, call, kernel, links_of, op
from kinetoscope import analyses

#: kernel 1 is launched long before; kernel 2 right at the end of the gap
AROUND = [op("aten::first", -20, 10), call(1, -15, 2), kernel(1, 0, 100), kernel(2, 200, 10)]
LAST = [op("aten::last", 188, 10), call(2, 190, 5)]
#: what LAST makes of the gap: its operator from 188 to the call; then the launch, which is the call from 190
#: to 195 and the time from its return to the kernel
TAIL = {"eager operator overhead": 2, "launch call": 5 + 5}


def causes(tmp_path: Path, *events: Event, **header: Any) -> dict[str, float]:
    """Cause and microseconds."""
    found = analyses.idle(links_of(tmp_path, events, **header))
    assert found is not None
    assert sum(cause.total_ns for cause in found.by_cause) == found.total_ns
    return {cause.cause: cause.total_ns / 1e3 for cause in found.by_cause}


def plus(tail: dict[str, float], **more: float) -> dict[str, float]:
    names = {
        "python": "Python between regions",
        "eager": "eager operator overhead",
        "graph": "host code of compiled graphs",
        "wrapper": "region prologue and wrapper",
        "guard": "guard lookup",
        "graph_break": "graph break",
        "sync": "synchronisation",
        "copy": "host-device copy",
        "alloc": "allocation",
        "collective": "collective or another rank",
        "data": "data loading",
        "compile": "compilation",
        "profiler": "profiler overhead",
        "launch": "launch call",
        "queued": "between queued kernels",
        "stream": "other stream's dependency",
    }
    total: dict[str, float] = dict(tail)
    for key, value in more.items():
        total[names[key]] = total.get(names[key], 0) + value
    return total
