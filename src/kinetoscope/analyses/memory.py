"""Peak memory, where the trace recorded allocations (``profile_memory``)."""

from __future__ import annotations

import numpy as np

from kinetoscope.link import Links
from kinetoscope.schema import DeviceMemory, Memory
from kinetoscope.trace import NONE, Instants, Int64

_CPU = 0  # c10::DeviceType


def memory(links: Links) -> Memory | None:
    """Peaks of each device and of the CPU; None where no allocation was recorded.

    The allocator's own total is taken where it is given; where not, the running sum of what was
    allocated and freed, which starts at 0 with the window and so is a lower bound.
    """
    instants = links.trace.instants
    is_memory = (instants.device_type != NONE) & (
        (instants.bytes != NONE) | (instants.total_allocated != NONE)
    )
    if not is_memory.any():
        return None
    on_cpu = is_memory & (instants.device_type == _CPU)
    on_device = is_memory & ~on_cpu
    return Memory(
        device=[
            _peaks(instants, np.flatnonzero(on_device & (instants.device_id == device)), device)
            for device in np.unique(instants.device_id[on_device]).tolist()
        ],
        cpu_peak_allocated_bytes=_allocated(instants, np.flatnonzero(on_cpu)),
    )


def _peaks(instants: Instants, rows: Int64, device: int) -> DeviceMemory:
    reserved = instants.total_reserved[rows]
    reserved = reserved[reserved != NONE]
    return DeviceMemory(
        device="" if device == NONE else str(device),
        peak_allocated_bytes=_allocated(instants, rows),
        peak_reserved_bytes=int(reserved.max()) if len(reserved) else None,
    )


def _allocated(instants: Instants, rows: Int64) -> int | None:
    if not len(rows):
        return None
    total = instants.total_allocated[rows]
    given = total[total != NONE]
    if len(given):
        return int(given.max())
    rows = rows[np.argsort(instants.time_ns[rows], kind="stable")]
    amount = instants.bytes[rows]
    return max(0, int(np.cumsum(amount[amount != NONE]).max()))
