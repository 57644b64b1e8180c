"""Calls that launch device work: how many, how long they take, how long their work waits."""

from __future__ import annotations

import numpy as np

from kinetoscope.link import Links
from kinetoscope.link.ancestors import nearest_around
from kinetoscope.link.names import Mark, marked
from kinetoscope.schema import Launches
from kinetoscope.trace import Bool, Category, Int64


def launches(links: Links) -> Launches:
    """Launch calls and what they launched.

    Times are null where no call of the runtime or driver was recorded; ``lookup_ns`` where no CPU
    work was.
    """
    found, c = links.launches, links.trace.columns
    has_calls = bool(c.is_call.any())
    linked = int(found.is_linked.sum())
    return Launches(
        launch_calls=len(found.call_rows),
        graph_launches=len(found.graph_rows),
        device_events=len(found.device_rows),
        linked=linked,
        unlinked=len(found.device_rows) - linked,
        launched_before_window=int(found.before_window.sum()),
        launch_ns=int(found.call_dur_ns.sum()) if has_calls else None,
        median_launch_ns=median_ns(found.call_dur_ns),
        median_queue_ns=median_ns(queue_ns(links)),
        sync_ns=int(c.dur_ns[sync_rows(links)].sum()) if has_calls else None,
        lookup_ns=int(c.dur_ns[links.regions.lookups].sum()) if _has_cpu_work(c.category) else None,
        device_events_per_graph_launch=found.events_per_graph_launch.tolist(),
    )


def queue_ns(links: Links) -> Int64:
    """From the start of a launch call to the start of each of its device events, negatives left out.

    Clocks of device and CPU differ by some microseconds, which shows as work before its launch.
    """
    found, c = links.launches, links.trace.columns
    launched = found.launch_start_ns.copy()
    by_call = np.flatnonzero(found.call_of >= 0)
    launched[by_call] = found.call_start_ns[found.call_of[by_call]]
    waits = c.start_ns[found.device_rows] - launched
    measured: Int64 = waits[found.is_linked & c.is_valid[found.device_rows] & (waits >= 0)]
    return measured


def sync_rows(links: Links) -> Int64:
    """Rows of calls that wait for the device; one inside another (driver in runtime) is left out."""
    c = links.trace.columns
    is_sync = marked(links.marks, c.name, Mark.SYNC) & c.is_call
    rows = np.flatnonzero(is_sync)
    return rows[nearest_around(c.parent, rows, is_sync) < 0]


def median_ns(values: Int64) -> int | None:
    """Median in whole nanoseconds; null of nothing."""
    return int(np.median(values)) if len(values) else None


def _has_cpu_work(category: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> bool:
    found: Bool = (category == Category.CPU_OP) | (category == Category.USER_ANNOTATION)
    return bool(found.any())
