"""What a trace without the change cannot show."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Constants:
    """Times in ns without a profiler.

    Attributes:
        graph_host_ns: host time of one call of a graph that is replayed as a CUDA graph.
        gradient_ns: of that, for each gradient that is accumulated after a backward.
        node_gap_ns: between the kernels of a CUDA graph.
        async_ns: host time of a call that is still made and no longer waits.
        fused_share: device time of a fused optimizer over that of the one there is.
        pinned_bytes_per_ns: speed of a copy between the device and pinned memory.
        cold_share: of the host time that follows a long check of guards, the part that is due to the cold
            caches which the check left behind.
    """

    graph_host_ns: int = 50_000
    gradient_ns: int = 3_000
    node_gap_ns: int = 200
    async_ns: int = 3_000
    fused_share: float = 0.4
    pinned_bytes_per_ns: float = 25.0
    cold_share: float = 0.5


#: the best guess, and what is at least and at most to be expected
BEST = Constants()
LEAST = Constants(
    graph_host_ns=25_000,
    gradient_ns=1_500,
    node_gap_ns=100,
    async_ns=1_000,
    fused_share=0.2,
    pinned_bytes_per_ns=50.0,
    cold_share=0.6,
)
MOST = Constants(
    graph_host_ns=100_000,
    gradient_ns=5_000,
    node_gap_ns=600,
    async_ns=8_000,
    fused_share=0.9,
    pinned_bytes_per_ns=12.0,
    cold_share=0.0,
)
