"""Graph launches: how often CUDA (or HIP) graphs were replayed, and from which compiled region."""

from __future__ import annotations

import numpy as np

from kinetoscope.link import Links
from kinetoscope.schema import CudaGraphs, GraphRegion


def cuda_graphs(links: Links) -> CudaGraphs:
    """Replays by compiled region (None: outside of any), those with most device time first.

    Skips and recordings are not in a trace. Without a record of runtime calls nothing can be told.
    """
    trace, launches, regions = links.trace, links.launches, links.regions
    if not trace.columns.is_call.any():
        return CudaGraphs()
    rows = launches.graph_rows
    # outside of any region is one more place
    label = np.append(regions.calls.label, len(regions.ids))[regions.calls.at_rows(rows)]
    replayed = launches.in_graph_replay
    owner = np.searchsorted(rows, launches.launch_row[replayed])
    device = np.zeros(len(regions.ids) + 1, np.int64)
    np.add.at(device, label[owner], launches.device_dur_ns[replayed])
    replays = np.bincount(label, minlength=len(regions.ids) + 1)
    ids: list[str | None] = [*regions.ids, None]
    found = [
        GraphRegion(id=ids[number], replays=int(replays[number]), device_ns=int(device[number]))
        for number in np.flatnonzero(replays).tolist()
    ]
    return CudaGraphs(
        used=len(rows) > 0,
        replays=len(rows),
        regions=sorted(found, key=lambda region: (-region.device_ns, region.id or "")),
    )
