"""What a report is made of: the types behind `kinetoscope report --format json`.

Names are those of the JSON. Times are integer nanoseconds in fields ending ``_ns``, relative to
the trace's start where they are points in time; shares are 0 to 1; lists are ordered most costly
first unless a type says otherwise. ``None`` means that the input cannot tell: it is never
written as 0, and 0 is never written for it.

The module is the lowest layer of all: it imports nothing of kinetoscope, so that analyses,
renderers and other programs can share the types.
"""

from __future__ import annotations

import builtins
from typing import Literal, TypeAlias

import msgspec

SchemaId: TypeAlias = Literal["kinetoscope.report/1"]
DeviceKind: TypeAlias = Literal["cuda", "rocm", "xpu", "cpu", "mtia", "npu"]
StepSource: TypeAlias = Literal["profiler_step", "annotation", "region", "optimizer", "repetition"]
Verdict: TypeAlias = Literal["yes", "partly", "no", "unknown"]
Source: TypeAlias = Literal["log", "trace"]
Bound: TypeAlias = Literal["exact", "estimate"]
BreakKind: TypeAlias = Literal["break", "skipped_frame", "limit", "framework"]
SourceState: TypeAlias = Literal["exact", "cached"]
Severity: TypeAlias = Literal["high", "medium", "low", "info"]
Basis: TypeAlias = Literal["unprofiled", "profiled"]
# fmt: off
Origin: TypeAlias = Literal[
    "inductor_triton", "user_triton", "inductor_cpp", "autotune", "compiled_extern", "compiled_fallback",
    "eager", "memory", "unknown",
]
Kind: TypeAlias = Literal[
    "gemm", "convolution", "attention", "normalization", "reduction", "pointwise", "sort", "copy",
    "communication", "optimizer", "other",
]
FindingCode: TypeAlias = Literal[
    "not-compiled", "graph-break", "skipped-frame", "recompile", "recompile-limit", "compile-in-window",
    "compile-time", "launch-bound", "sync", "host-copy", "cuda-graph-skip", "cuda-graph-rerecord",
    "guard-overhead", "eager-kernels", "fallback-op", "small-kernels", "data-loading", "memory-alloc",
    "exposed-communication", "straggler", "gpu-bound", "profiler-distortion", "device-events-missing",
    "trace-incomplete", "kernel-names", "possible-break",
]
# fmt: on


class WarningNote(msgspec.Struct, frozen=True, kw_only=True):
    """Something about the file that a reader of its numbers should know; ``count``: how often it was met."""

    code: str
    message: str
    count: int = 1


class DeviceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A device that the file's header describes."""

    index: int
    name: str | None = None


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """Versions as the file states them."""

    torch: str | None = None
    cuda_runtime: str | None = None
    cuda_driver: str | None = None
    cupti: str | None = None


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the trace that was asked for: from ``start_ns`` to ``end_ns``.

    ``steps`` holds the first and last step (counted from 0, both included) and ``annotation`` the
    name, where the window was given that way.
    """

    start_ns: int
    end_ns: int
    steps: tuple[int, int] | None = None
    annotation: str | None = None


class TraceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What was read. ``events`` are entries of any kind, ``complete_events`` those with a duration.

    ``complete`` is false where the end of the file is missing: everything is then PARTIAL.
    """

    path: str
    events: int
    complete_events: int
    span_ns: int
    device_kind: DeviceKind | None = None
    devices: list[DeviceInfo] = []
    versions: Versions = Versions()
    rank: int | None = None
    world_size: int | None = None
    complete: bool
    window: Window | None = None
    warnings: list[WarningNote] = []


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step. ``dur_ns`` is start to next start (the last step: to its own end).

    ``device_busy_ns`` is the busy time of the work that the step launched, whenever it ran.
    ``complete`` is false for a step that the window or the file's end cut.
    """

    name: str
    start_ns: int
    dur_ns: int
    device_busy_ns: int | None = None
    complete: bool = True


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """The steps, ``list`` in time order; mean and median leave the first out when there are more than two.

    ``source`` says how they were found; without any, ``count`` is None.
    """

    source: StepSource | None = None
    count: int | None = None
    mean_ns: int | None = None
    median_ns: int | None = None
    list: builtins.list[Step] = []


class Compiled(msgspec.Struct, frozen=True, kw_only=True):
    """Whether compiled code ran. ``evidence``: one plain sentence each.

    ``device_share``: device time launched from compiled graphs over all device time (communication
    and work launched while compiling left out of both). ``cpu_share``: share of the steps' CPU
    time spent in compiled regions and compiled backward.
    """

    verdict: Verdict
    evidence: list[str] = []
    device_share: float | None = None
    cpu_share: float | None = None


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """One compiled region, all its calls together.

    ``id`` is the text after ``Torch-Compiled Region: `` (empty for a bare name). ``self_ns`` is the
    total less directly nested regions. ``device_ns`` sums the device events launched on its thread
    while it was the innermost region (no backward). ``resumes``: id of the region whose break this
    one continues. ``parents``: calls by id of the region around them.
    ``compiled_functions_per_call``: CompiledFunctions directly inside, per call.
    """

    id: str
    function: str | None = None
    file: str | None = None
    line: int | None = None
    calls: int
    nested_calls: int
    total_ns: int
    self_ns: int
    device_ns: int
    resumes: str | None = None
    parents: dict[str, int] = {}
    compiled_functions_per_call: float | None = None


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """One compiled graph, in order of its ``id`` (the compile id).

    ``ops`` counts graph nodes, ``kernels`` generated and called kernels, ``guards`` the conditions
    checked before each call and ``guard_ns`` the time of one check. ``dynamic``: sizes that were
    left dynamic. ``cuda_graph``: whether it runs as a CUDA graph.
    """

    id: str
    ops: int | None = None
    kernels: int | None = None
    backend: str | None = None
    mode: str | None = None
    dynamic: list[str] = []
    guards: int | None = None
    guard_ns: int | None = None
    cache_key: str | None = None
    cuda_graph: bool | None = None


class BreakSite(msgspec.Struct, frozen=True, kw_only=True):
    """One place where compilation stopped; ``kind`` says how.

    ``ordinal`` (from 1) tells apart several breaks on one line. ``hits``: how often it was passed
    in the window. ``regions``: ids on both sides. ``cost_ns_per_step`` is CPU time.
    """

    file: str | None = None
    line: int | None = None
    ordinal: int | None = None
    function: str | None = None
    reason: str | None = None
    gb_id: str | None = None
    hits: int | None = None
    regions: list[str] = []
    kind: BreakKind
    cost_ns_per_step: int | None = None


class GraphBreaks(msgspec.Struct, frozen=True, kw_only=True):
    """Graph breaks. ``count`` is the number of sites of kind ``break``; ``bound`` how sure it is."""

    count: int | None = None
    bound: Bound
    source: Source | None = None
    sites: list[BreakSite] = []


class RecompileSite(msgspec.Struct, frozen=True, kw_only=True):
    """A function that was compiled again: the compile ``ids``, why, and the time lost."""

    function: str | None = None
    file: str | None = None
    line: int | None = None
    ids: list[str] = []
    reasons: list[str] = []
    compile_ns: int | None = None


class Recompiles(msgspec.Struct, frozen=True, kw_only=True):
    """Compilations after a code object's first that produced code."""

    count: int | None = None
    source: Source | None = None
    sites: list[RecompileSite] = []


class CompilePhase(msgspec.Struct, frozen=True, kw_only=True):
    """A phase of compilation; ``self_ns`` leaves nested phases out."""

    name: str
    total_ns: int
    self_ns: int


class CompileFrame(msgspec.Struct, frozen=True, kw_only=True):
    """Compilation of one frame, by phase; ``id`` is the compile id."""

    id: str | None = None
    function: str | None = None
    file: str | None = None
    line: int | None = None
    total_ns: int
    phases: list[CompilePhase] = []


class Caches(msgspec.Struct, frozen=True, kw_only=True):
    """Lookups in the FX graph cache and the AOTAutograd cache."""

    fx_hit: int | None = None
    fx_miss: int | None = None
    fx_bypass: int | None = None
    aot_hit: int | None = None
    aot_miss: int | None = None


class CompileTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time spent compiling. ``total_ns`` is a union of spans, so nested phases count once.

    ``in_window_ns`` is the part of it inside the window. ``compile_times_table`` is the text of
    ``torch._dynamo.utils.compile_times()``, which profiling does not distort.
    """

    total_ns: int | None = None
    in_window_ns: int | None = None
    source: Source | None = None
    frames: list[CompileFrame] = []
    caches: Caches = Caches()
    compile_times_table: str | None = None


class LinkedBy(msgspec.Struct, frozen=True, kw_only=True):
    """How pairs of forward and backward were found."""

    fwdbwd: int = 0
    sequence_number: int = 0


class AutogradPair(msgspec.Struct, frozen=True, kw_only=True):
    """A CompiledFunction and its backward: CPU time of each, device time of the backward.

    ``region``: id of the compiled region around the forward.
    """

    sequence_number: int | None = None
    forward_ns: int | None = None
    backward_ns: int | None = None
    backward_device_ns: int | None = None
    region: str | None = None


class Autograd(msgspec.Struct, frozen=True, kw_only=True):
    """CompiledFunction and CompiledFunctionBackward events, paired; ``list`` in time order."""

    pairs: int
    unpaired_forward: int
    unpaired_backward: int
    linked_by: LinkedBy = LinkedBy()
    list: builtins.list[AutogradPair] = []


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
    """Kernels by who wrote them; ``share`` of the summed kernel time (memory on top of it)."""

    origin: Origin
    count: int
    total_ns: int
    share: float


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


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted saving in nanoseconds a step: best guess and the range around it."""

    low: int
    best: int
    high: int


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """An event to look at. ``track`` is ``process/thread`` as the file numbers them."""

    track: str
    start_ns: int
    dur_ns: int
    name: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something worth knowing or changing.

    ``title`` is one short line; ``detail`` says what was seen; ``fix`` what to do; ``doc`` where to read
    on. ``share`` is the cost's share of a step. ``basis``: whether times are those of the profiled or of
    an unprofiled run.
    """

    code: FindingCode
    title: str
    severity: Severity
    detail: str
    fix: str | None = None
    doc: str | None = None
    share: float | None = None
    cost_ns_per_step: int | None = None
    saving_ns_per_step: Saving | None = None
    basis: Basis = "profiled"
    evidence: list[Evidence] = []


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is said about one input.

    Where an input holds several ranks, ``ranks`` holds one report each (whose own ``ranks`` is None)
    and the other fields are those of the lowest rank: nothing is added up.
    """

    schema: SchemaId = "kinetoscope.report/1"
    trace: TraceSummary
    steps: Steps
    compiled: Compiled
    regions: list[Region] = []
    graphs: list[Graph] = []
    graph_breaks: GraphBreaks
    recompiles: Recompiles
    compile_time: CompileTime
    autograd: Autograd
    device_time: list[DeviceTime] = []
    launches: Launches
    kernels: Kernels | None = None
    idle: Idle | None = None
    memory: Memory | None = None
    cuda_graphs: CudaGraphs
    ranks: list[Report] | None = None
    findings: list[Finding] = []
