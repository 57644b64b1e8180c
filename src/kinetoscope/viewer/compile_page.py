"""What the compile page shows: phases as they followed each other, and regions as a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kinetoscope.ingest.log_types import SourceFrame
from kinetoscope.render.sections import region_tree

if TYPE_CHECKING:
    from kinetoscope.viewer.analysis import Analysis

_PHASES = 3000
_FRAMES = 8  # of a stack, the innermost


def page(analysis: Analysis) -> dict[str, Any]:
    """The waterfall of compile phases and the tree of compiled regions."""
    report = analysis.report
    first = _first_calls(analysis)
    return {
        "total_ns": report.compile_time.total_ns,
        "in_window_ns": report.compile_time.in_window_ns,
        "source": report.compile_time.source,
        "span_ns": report.trace.span_ns,
        "waterfall": _waterfall(analysis),
        "frames": report.compile_time.frames,
        "caches": report.compile_time.caches,
        "compile_times_table": report.compile_time.compile_times_table,
        "tree": [
            {"level": depth, "region": region, "row": first.get(region.id)}
            for depth, region in region_tree(report.regions)
        ],
        "breaks": report.graph_breaks,
        "records": _records(analysis),
        "recompiles": report.recompiles,
        "graphs": report.graphs,
        "cuda_graphs": report.cuda_graphs,
    }


def _first_calls(analysis: Analysis) -> dict[str, int]:
    """The slice of each region's first call, by the region's id."""
    calls = analysis.links.regions.calls
    if not len(calls):
        return {}
    shown = np.arange(len(calls))
    if analysis.in_window is not None:
        shown = shown[analysis.in_window[calls.rows]]
    shown = shown[np.argsort(calls.start_ns[shown], kind="stable")]
    labels, first = np.unique(calls.label[shown], return_index=True)
    rows = calls.rows[shown[first]]
    return {calls.labels[label]: row for label, row in zip(labels.tolist(), rows.tolist(), strict=True)}


def _records(analysis: Analysis) -> dict[str, Any]:
    """What the compile log says of each break, by ``file:line``: the way there in source, and hints."""
    found: dict[str, Any] = {}
    for compilation in analysis.join.log.compilations:
        for record in compilation.breaks:
            found.setdefault(
                f"{record.file}:{record.line}",
                {
                    "explanation": record.explanation,
                    "hints": list(record.hints),
                    "stack": [
                        {"where": f"{f.file}:{f.line}", "function": f.function, "code": f.code}
                        for f in _own(record.user_stack)[-_FRAMES:]
                    ],
                },
            )
    return found


def _own(stack: Sequence[SourceFrame]) -> list[SourceFrame]:
    """A stack without torch's own frames on the way; where it ends is kept whatever it is."""
    return [frame for frame in stack[:-1] if "/torch/" not in frame.file] + list(stack[-1:])


def _waterfall(analysis: Analysis) -> dict[str, Any]:
    """Phases with their nesting, the longest ones, in order of time."""
    compiles = analysis.links.compiles
    calls = compiles.phases
    depth = np.zeros(len(calls), np.int64)
    for number, parent in enumerate(calls.parent.tolist()):  # parents come first
        if parent >= 0:
            depth[number] = depth[parent] + 1
    shown = np.arange(len(calls))
    if analysis.in_window is not None:
        shown = shown[analysis.in_window[calls.rows]]
    chosen = shown[np.argsort(-calls.dur_ns[shown], kind="stable")[:_PHASES]]
    chosen = chosen[np.lexsort((depth[chosen], calls.start_ns[chosen]))]
    return {
        "total": len(shown),
        "phases": [
            {
                "name": calls.labels[int(calls.label[number])],
                "id": compiles.ids[int(compiles.compile_id[number])]
                if compiles.compile_id[number] >= 0
                else None,
                "start_ns": int(calls.start_ns[number]),
                "dur_ns": int(calls.dur_ns[number]),
                "self_ns": int(calls.self_ns[number]),
                "depth": int(depth[number]),
                "row": int(calls.rows[number]),
                "track": int(calls.track[number]),
            }
            for number in chosen.tolist()
        ],
    }
