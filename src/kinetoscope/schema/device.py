"""What devices did, and what waited for what."""

from __future__ import annotations

import msgspec

from kinetoscope.schema.words import Kind, Origin, SourceState


class DeviceTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time of one device, from its first event to its last; list in order of ``device``.

    Busy time and its parts are unions. Communication is a kernel whose metadata or name says so;
    memset is compute. "Exposed" is time not covered by compute (memcpy: nor by communication).
    """

    device: str
    events: int
    span_ns: int
    busy_ns: int
    idle_ns: int
    gaps: int
    compute_ns: int
    communication_ns: int
    memcpy_ns: int
    exposed_communication_ns: int
    exposed_memcpy_ns: int


class Launches(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of the runtime or driver that launch device work, and what they launched.

    Runtime and driver rows of one correlation are one call; a graph launch is one call.
    ``linked`` and ``unlinked`` count device events. ``launched_before_window``: unlinked ones whose
    correlation is below the smallest recorded. ``median_queue_ns``: from a call's start to its
    device event's start. ``sync_ns``: time in synchronising calls; ``lookup_ns``: in
    ``TorchDynamo Cache Lookup``. ``device_events_per_graph_launch`` ascends.
    """

    launch_calls: int
    graph_launches: int
    device_events: int
    linked: int
    unlinked: int
    launched_before_window: int
    launch_ns: int | None = None
    median_launch_ns: int | None = None
    median_queue_ns: int | None = None
    sync_ns: int | None = None
    lookup_ns: int | None = None
    device_events_per_graph_launch: list[int] = []


class OriginShare(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels by who wrote them; ``share`` of the summed kernel time (memory on top of it).

    ``communication_ns``: what of ``total_ns`` is in communication kernels.
    """

    origin: Origin
    count: int
    total_ns: int
    share: float
    communication_ns: int = 0


class KindShare(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels by what they compute."""

    kind: Kind
    count: int
    total_ns: int
    share: float


class SourceLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the user's program."""

    file: str
    line: int | None = None
    function: str | None = None


class TopKernel(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel by name, all its runs together.

    ``region``: id of the compiled region it was launched in; ``op``: the operator that launched it.
    ``in_graph_replay``: whether these runs came from a graph launch; a kernel that ran both ways is
    two entries. ``source_state``: ``cached`` lines can be out of date. ``bytes`` and ``flops`` are of one
    run, as Inductor estimated them.
    """

    name: str
    origin: Origin
    kind: Kind
    count: int
    total_ns: int
    mean_ns: int
    share: float
    in_graph_replay: bool = False
    region: str | None = None
    op: str | None = None
    source: list[SourceLine] = []
    source_state: SourceState | None = None
    bytes: int | None = None
    flops: int | None = None
    gb_per_s: float | None = None
    tflop_per_s: float | None = None


class Kernels(msgspec.Struct, frozen=True, kw_only=True):
    """Device kernels (category ``kernel``; CPU-only traces: Inductor's C++ kernels and leaf operators).

    ``count`` and ``total_ns`` leave memcpy and memset out; ``graph_replay_ns`` is the part replayed.
    """

    count: int
    total_ns: int
    graph_replay_ns: int
    by_origin: list[OriginShare] = []
    by_kind: list[KindShare] = []
    top: list[TopKernel] = []

    @property
    def all_device_ns(self) -> int:
        """Time of kernels, copies and fills together; parts shown side by side are shares of it."""
        return sum(entry.total_ns for entry in self.by_origin)


class CauseShare(msgspec.Struct, frozen=True, kw_only=True):
    """Device idle time with one cause on the CPU."""

    cause: str
    total_ns: int
    share: float
    gaps: int


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """One stretch in which a device did nothing."""

    start_ns: int
    dur_ns: int
    cause: str | None = None
    device: str
    detail: str | None = None


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """Idle time summed over devices; causes sum to ``total_ns``; ``share`` is of the devices' spans."""

    total_ns: int
    share: float
    gaps: int
    by_cause: list[CauseShare] = []
    longest: list[Gap] = []


class DeviceMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Highest memory in use by one device, in bytes."""

    device: str
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory, where the trace recorded it; ``device`` in order of its number."""

    device: list[DeviceMemory] = []
    cpu_peak_allocated_bytes: int | None = None


class GraphRegion(msgspec.Struct, frozen=True, kw_only=True):
    """CUDA-graph replays of one compiled region; an ``id`` of None: outside of any."""

    id: str | None = None
    replays: int
    device_ns: int


class CudaGraphSkip(msgspec.Struct, frozen=True, kw_only=True):
    """Why a compiled graph was not run as a CUDA graph."""

    reason: str
    count: int


class CudaGraphs(msgspec.Struct, frozen=True, kw_only=True):
    """CUDA graphs: replays seen, skips with their reasons, recordings made."""

    used: bool | None = None
    replays: int | None = None
    regions: list[GraphRegion] = []
    skips: list[CudaGraphSkip] = []
    recordings: int | None = None
