"""Every kernel by name: how often, how long, how its runs spread, who wrote it and where it was launched."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetoscope.analyses.origins import KINDS, ORIGINS, Work
from kinetoscope.export.kernels import source_lines
from kinetoscope.findings import Facts
from kinetoscope.render import words
from kinetoscope.schema import Report
from kinetoscope.trace import Bool, Int64
from kinetoscope.viewer.meaning import MEANINGS

_BINS = 16
_ROWS = 5000


def table(facts: Facts, meaning: Any, report: Report, in_window: Bool | None) -> dict[str, Any]:
    """The table, most costly first; a name is one row for each origin, replayed or not.

    ``in_window`` tells the slices that count, if not all do.
    """
    work = facts.work
    trace = work.links.trace
    c = trace.columns
    counts = c.is_valid if in_window is None else c.is_valid & in_window
    valid = np.flatnonzero(counts[work.rows])
    rows = work.rows[valid]
    key = c.name[rows].astype(np.int64) * (2 * len(ORIGINS)) + work.origin[valid] * 2 + work.is_replay[valid]
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    dur = work.dur_ns[valid]
    count = np.bincount(group, minlength=len(first))
    total = np.bincount(group, weights=dur, minlength=len(first)).astype(np.int64)
    low = np.full(len(first), np.iinfo(np.int64).max)
    high = np.zeros(len(first), np.int64)
    np.minimum.at(low, group, dur)
    np.maximum.at(high, group, dur)
    bins = _histograms(group, dur, low, high)
    region, regions = _most_common(group, _region_labels(work, valid), len(first))
    operator = work.operator_row[valid]
    operator_name = np.where(operator >= 0, c.name[np.maximum(operator, 0)].astype(np.int64), -1)
    operator_of, _ = _most_common(group, operator_name, len(first))
    sources = _sources(facts, valid, group)
    longest = np.lexsort((dur, group))[np.cumsum(count) - 1] if len(first) else first
    known = {(k.name, k.origin, k.in_graph_replay): k for k in report.kernels.top} if report.kernels else {}
    whole = int(dur.sum())
    order = np.lexsort((-count, -total))
    entries = []
    for at in order[:_ROWS].tolist():
        one = int(valid[first[at]])
        name, origin = trace.name_of(int(work.rows[one])), ORIGINS[int(work.origin[one])]
        more = known.get((name, origin, bool(work.is_replay[one])))
        region_label = int(region[at])
        op = trace.names[int(operator_of[at])] if work.on_device and operator_of[at] >= 0 else None
        entries.append(
            {
                "name": name,
                "short": words.kernel(name),
                "meaning": int(meaning[work.rows[one]]),
                "origin": words.ORIGINS[origin],
                "kind": KINDS[int(work.kind[one])],
                "replay": bool(work.is_replay[one]),
                "count": int(count[at]),
                "total_ns": int(total[at]),
                "mean_ns": round(int(total[at]) / int(count[at])),
                "min_ns": int(low[at]),
                "max_ns": int(high[at]),
                "share": int(total[at]) / whole if whole else 0.0,
                "bins": bins[at].tolist(),
                "region": work.links.regions.calls.labels[region_label] if region_label >= 0 else None,
                "regions": int(regions[at]),
                "op": op if op != name else None,  # the generated code's own frame around the launch
                "row": int(rows[longest[at]]),
                "gb_per_s": more.gb_per_s if more else None,
                "source": sources.get(int(at), []),
            }
        )
    return {
        "on_device": work.on_device,
        "in_window": in_window is not None,
        "total_ns": whole,
        "names": len(first),
        "shown": len(entries),
        "meanings": [name for name, _ in MEANINGS],
        "rows": entries,
    }


def _histograms(group: Int64, dur: Int64, low: Int64, high: Int64) -> Any:
    """Runs of each group in equal bins from its shortest to its longest."""
    width = np.maximum(high - low, 1)
    bin_ = np.minimum((dur - low[group]) * _BINS // width[group], _BINS - 1)
    return np.bincount(group * _BINS + bin_, minlength=len(low) * _BINS).reshape(-1, _BINS)


def _region_labels(work: Work, members: Int64) -> Int64:
    calls = work.links.regions.calls
    call = work.region_call[members]
    if len(calls) == 0:
        return np.full(len(members), -1, np.int64)
    return np.where(call >= 0, calls.label[np.maximum(call, 0)], -1)


def _sources(facts: Facts, members: Int64, group: Int64) -> dict[int, list[dict[str, Any]]]:
    """For each group that has any, the source lines its runs compute."""
    told, line_of = source_lines(facts)
    known = line_of[members] >= 0
    found: dict[int, list[dict[str, Any]]] = {}
    for at, line in np.unique(np.stack((group[known], line_of[members][known])), axis=1).T.tolist():
        shown = found.setdefault(at, [])
        for each in told[line][0]:
            said = {"where": words.place(each.file, each.line), "function": each.function}
            if said not in shown:
                shown.append(said)
    return found


def _most_common(group: Int64, value: Int64, groups: int) -> tuple[Int64, Int64]:
    """For each group its most frequent value that is known (else -1), and how many such values it has."""
    found, distinct = np.full(groups, -1, np.int64), np.zeros(groups, np.int64)
    known = value >= 0
    if not known.any():
        return found, distinct
    group, value = group[known], value[known]
    width = int(value.max()) + 1
    pairs, counts = np.unique(group * width + value, return_counts=True)
    # the last one assigned is the most frequent, of equals the first
    order = np.lexsort((-pairs, counts, pairs // width))
    found[pairs[order] // width] = pairs[order] % width
    return found, np.bincount(pairs // width, minlength=groups).astype(np.int64)
