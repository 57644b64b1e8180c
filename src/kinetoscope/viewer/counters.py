"""Counters over time: memory, the queue of launched and unfinished device work, and the file's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinetoscope.link import Links
from kinetoscope.trace import NONE, Float64, Int64, Trace


@dataclass(frozen=True, eq=False)
class Series:
    """Values that hold from their time until the next one."""

    name: str
    unit: str  # B, or empty for a plain number
    time_ns: Int64
    value: Float64

    def summary(self, number: int) -> dict[str, Any]:
        """What a list of counters shows."""
        return {
            "id": number,
            "name": self.name,
            "unit": self.unit,
            "samples": len(self.value),
            "max": float(self.value.max()),
            "min": float(min(self.value.min(), 0.0)),
        }

    def pixels(self, begin_ns: float, end_ns: float, pixels: int) -> dict[str, Any]:
        """Lowest and highest value in each pixel; None before the first sample."""
        edges = (begin_ns + np.arange(pixels + 1) * ((end_ns - begin_ns) / pixels)).astype(np.int64)
        at = np.searchsorted(self.time_ns, edges, side="right")
        # a pixel holds what was there when it began, and every sample inside it
        first, last = np.maximum(at[:-1] - 1, 0), at[1:]
        known = last > 0
        bounds = np.stack((first, np.maximum(last, first + 1)), axis=1).ravel()
        padded = np.append(self.value, self.value[-1])
        low = np.minimum.reduceat(padded, bounds)[::2]
        high = np.maximum.reduceat(padded, bounds)[::2]
        return {
            "low": [
                value if there else None for value, there in zip(low.tolist(), known.tolist(), strict=True)
            ],
            "high": [
                value if there else None for value, there in zip(high.tolist(), known.tolist(), strict=True)
            ],
        }


def find_series(links: Links) -> list[Series]:
    """Every series that has a sample."""
    return [*_memory(links.trace), *_queues(links), *_own(links.trace)]


def _memory(trace: Trace) -> list[Series]:
    instants = trace.instants
    found = []
    for kind, where in ((0, "CPU"), (1, "GPU")):
        for device in np.unique(instants.device_id[instants.device_type == kind]).tolist():
            mine = (instants.device_type == kind) & (instants.device_id == device)
            name = where if kind == 0 or device == NONE else f"{where} {device}"
            for column, what in (
                (instants.total_allocated, "allocated"),
                (instants.total_reserved, "reserved"),
            ):
                rows = np.flatnonzero(mine & (column != NONE))
                if len(rows) and column[rows].any():
                    rows = rows[np.argsort(instants.time_ns[rows], kind="stable")]
                    found.append(
                        Series(
                            f"{name} memory {what}",
                            "B",
                            instants.time_ns[rows],
                            column[rows].astype(np.float64),
                        )
                    )
    return found


def _queues(links: Links) -> list[Series]:
    """Device events that were launched and have not ended, device by device."""
    launches, c = links.launches, links.trace.columns
    found = []
    for events in links.devices:
        mine = np.isin(launches.device_rows, events.rows) & launches.is_linked
        if not mine.any():
            continue
        start, end = launches.launch_start_ns[mine], c.end_ns[launches.device_rows[mine]]
        time = np.concatenate((start, np.maximum(end, start)))
        change = np.repeat([1, -1], len(start))
        order = np.lexsort((-change, time))
        found.append(
            Series(
                f"Device {events.device} queue depth",
                "",
                time[order],
                np.cumsum(change[order]).astype(np.float64),
            )
        )
    return found


def _own(trace: Trace) -> list[Series]:
    counters = trace.counters
    if len(counters) == 0:
        return []
    key = np.stack((counters.name.astype(np.int64), counters.series.astype(np.int64)), axis=1)
    distinct, which = np.unique(key, axis=0, return_inverse=True)
    found = []
    for number, (name, series) in enumerate(distinct.tolist()):
        rows = np.flatnonzero(which.ravel() == number)
        rows = rows[np.argsort(counters.time_ns[rows], kind="stable")]
        text = f"{trace.names[name]} {trace.names[series]}".strip()
        found.append(Series(text, "", counters.time_ns[rows], counters.value[rows]))
    return found
