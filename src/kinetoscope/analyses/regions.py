"""Compiled regions, all calls of one id together."""

from __future__ import annotations

import numpy as np

from kinetoscope.link import Links
from kinetoscope.schema import Region


def regions(links: Links) -> list[Region]:
    """Compiled regions, those with the most time of their own first.

    Where a file has no graph calls and no CompiledFunction, ``compiled_functions_per_call`` is 0:
    without gradients there are none.
    """
    found = links.regions
    calls, count = found.calls, len(found.ids)

    def by_id(values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int]:
        total = np.zeros(count, np.int64)
        np.add.at(total, calls.label, values)
        result: list[int] = total.tolist()
        return result

    nested = np.flatnonzero(calls.parent >= 0)
    parents: list[dict[str, int]] = [{} for _ in found.ids]
    ways, times = np.unique(
        calls.label[nested] * max(count, 1) + calls.label[calls.parent[nested]], return_counts=True
    )
    for way, amount in zip(ways.tolist(), times.tolist(), strict=True):
        child, parent = divmod(way, count)
        parents[child][found.ids[parent]] = amount
    amounts = np.bincount(calls.label, minlength=count).tolist()
    forwards = by_id(found.forwards_per_call)
    totals, selves, device = by_id(calls.dur_ns), by_id(calls.self_ns), by_id(found.device_ns)
    result = [
        Region(
            id=found.ids[number],
            calls=amounts[number],
            nested_calls=sum(parents[number].values()),
            total_ns=totals[number],
            self_ns=selves[number],
            device_ns=device[number],
            parents=parents[number],
            compiled_functions_per_call=forwards[number] / amounts[number],
        )
        for number in range(count)
    ]
    return sorted(result, key=lambda region: (-region.self_ns, region.id))
