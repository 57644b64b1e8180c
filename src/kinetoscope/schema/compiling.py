"""What was compiled, how, and what compiling cost."""

from __future__ import annotations

import builtins

import msgspec

from kinetoscope.schema.words import Bound, BreakKind, Source, Verdict


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
