"""What a TORCH_TRACE log says, as frozen values.

Times are integer nanoseconds since the epoch (the log has microseconds); the trace's clock agrees with them
to 0.1 to 0.2 ms once ``baseTimeNanoseconds`` is added to its timestamps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from kinetoscope.ingest.log_records import Payload

CLOCK_TOLERANCE_NS = 1_000_000
CacheState = Literal["hit", "miss", "bypass"]

__all__ = [
    "AotGraph",
    "BreakRecord",
    "CacheResult",
    "Compilation",
    "CompileLog",
    "FxGraph",
    "GuardFailure",
    "LogWarning",
    "SourceFrame",
    "Span",
]


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """One entry of a Python stack; ``code`` is the source text the log has for it."""

    file: str
    line: int
    function: str
    code: str | None = None


@dataclass(frozen=True, slots=True)
class LogWarning:
    """Something that was lost while reading: a stable code, a sentence, and how often."""

    code: str
    message: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class BreakRecord:
    """One ``dynamo_graph_break_reason`` record, or what made a compilation fail without one.

    ``file:line`` is where tracing stopped; ``user_stack`` (outermost first) the calls that led there.
    ``skips`` says that Dynamo gave the whole frame up, with ``skip_reason`` and ``skip_gb_id`` where the
    record names a second cause. ``failed``: the compilation ended with an error (``fullgraph=True``, or an
    error of the backend), which the program got unless it has errors suppressed.
    """

    compile_id: str
    attempt: int
    file: str | None
    line: int | None
    reason: str
    explanation: str | None
    hints: tuple[str, ...]
    gb_id: str | None
    skips: bool
    skip_reason: str | None
    skip_gb_id: str | None
    user_stack: tuple[SourceFrame, ...]
    failed: bool = False


@dataclass(frozen=True, slots=True)
class GuardFailure:
    """Why an existing compilation did not fit: its id, the guard, and the line that caused the guard."""

    compile_id: str | None
    guard: str
    source: SourceFrame | None = None

    @property
    def is_backend_match(self) -> bool:
        """A second ``torch.compile`` of the same code with another backend: deliberate."""
        return "BACKEND_MATCH" in self.guard


@dataclass(frozen=True, slots=True)
class CacheResult:
    """One look-up in the FX graph cache or the AOTAutograd cache."""

    cache: Literal["fx", "aot"]
    state: CacheState
    key: str | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AotGraph:
    """A graph that AOTAutograd made. On an AOTAutograd cache hit its source comments are those of the run
    that filled the cache."""

    kind: Literal["forward", "backward", "inference"]
    code: Payload


@dataclass(frozen=True, slots=True)
class FxGraph:
    """One graph that Inductor compiled or took from its cache: what a ``CompiledFxGraph`` event runs.

    ``state`` is None where the log has no cache record for it. Payloads are None where the log lacks them
    or the log was read without source.
    """

    compile_id: str
    cache_key: str | None
    state: CacheState | None
    backward: bool
    file_path: str | None
    code: Payload | None = None
    post_grad: Payload | None = None
    node_mappings: Payload | None = None
    kernel_stacks: Payload | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """One compile phase. ``parent`` is the index of the enclosing span of the same compilation, None at the
    top.

    ``worker`` marks a span of a helper thread that runs beside the phases around it. ``closed`` is False
    where the log ended first (``end_ns`` is then the last time seen).
    """

    name: str
    start_ns: int
    end_ns: int
    parent: int | None
    worker: bool = False
    closed: bool = True


@dataclass(frozen=True, slots=True)
class Compilation:
    """One attempt of Dynamo to compile one frame, restarts and lazy backward included.

    ``id`` is the text after ``Torch-Compiled Region: ``. ``function``, ``file`` and ``line`` name the
    user's code (a module's class and ``forward``); ``code_name``, ``code_file`` and ``code_line`` are the
    code object as Dynamo has it. ``resumes_line`` is the line after whose break a continuation function
    starts. ``produced_code`` is None where the log ended before the result. ``generation`` counts
    ``torch._dynamo.reset`` (ids start again).
    """

    id: str
    generation: int
    rank: int | None
    pid: int
    source: str
    function: str | None = None
    file: str | None = None
    line: int | None = None
    code_name: str | None = None
    code_file: str | None = None
    code_line: int | None = None
    resumes_function: str | None = None
    resumes_line: int | None = None
    module_class: str | None = None
    user_call: SourceFrame | None = None
    stack: tuple[SourceFrame, ...] = ()
    start_ns: int | None = None
    end_ns: int | None = None
    attempts: int = 1
    restart_reasons: tuple[str, ...] = ()
    produced_code: bool | None = None
    fail_type: str | None = None
    fail_reason: str | None = None
    breaks: tuple[BreakRecord, ...] = ()
    guard_failures: tuple[GuardFailure, ...] = ()
    ops: int | None = None
    guards: int | None = None
    guard_ns: int | None = None
    dynamic: tuple[str, ...] = ()
    cudagraph_skip_reason: str | None = None
    caches: tuple[CacheResult, ...] = ()
    dynamo_graph: Payload | None = None
    aot_graphs: tuple[AotGraph, ...] = ()
    graphs: tuple[FxGraph, ...] = ()
    spans: tuple[Span, ...] = field(default=(), repr=False)
    metrics: Mapping[str, Any] = field(default_factory=dict, repr=False)
    backward_metrics: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    runtime_metrics: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    extra: Mapping[str, tuple[Payload, ...]] = field(default_factory=dict, repr=False)

    @property
    def frame_id(self) -> str:
        """The id without its last part: the code object within one generation."""
        return self.id.rpartition("/")[0] or self.id

    @property
    def compile_index(self) -> int | None:
        """Which compilation of its frame this is, from 0; None for a bare compiled-autograd id."""
        tail = self.id.rpartition("/")[2]
        return int(tail) if tail.isdecimal() else None

    @property
    def hit_limit(self) -> bool:
        """Whether Dynamo gave up because the code object had been compiled too often."""
        text = f"{self.fail_type or ''} {self.fail_reason or ''}".lower()
        return any(
            w in text for w in ("recompile limit", "recompile_limit", "cache_size_limit", "recompilelimit")
        )

    @property
    def aot_state(self) -> CacheState | None:
        """Result of the AOTAutograd cache; None where it was not asked."""
        states = [c.state for c in self.caches if c.cache == "aot"]
        return "hit" if "hit" in states else states[-1] if states else None


@dataclass(frozen=True)
class CompileLog:
    """Every compilation of one or several log files, in time order.

    ``counts`` has the number of records of every kind met, ``unknown`` those kinds that nothing here reads.
    ``framework_root`` is torch's own folder, ``loose_spans`` phases that name no compilation.
    """

    compilations: tuple[Compilation, ...] = ()
    files: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[LogWarning, ...] = ()
    torch_version: str | None = None
    framework_root: str | None = None
    loose_spans: tuple[Span, ...] = field(default=(), repr=False)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that the files name, ascending; empty outside distributed runs."""
        return tuple(sorted({c.rank for c in self.compilations if c.rank is not None}))

    def for_rank(self, rank: int | None) -> CompileLog:
        """The same log with the compilations of one rank only."""
        return replace(self, compilations=tuple(c for c in self.compilations if c.rank == rank))

    def with_id(self, compile_id: str) -> tuple[Compilation, ...]:
        """Every compilation of that id, in time order (``torch._dynamo.reset`` makes ids occur again)."""
        return self._by_id.get(compile_id, ())

    @cached_property
    def _by_id(self) -> Mapping[str, tuple[Compilation, ...]]:
        found: dict[str, list[Compilation]] = {}
        for item in self.compilations:
            found.setdefault(item.id, []).append(item)
        return {key: tuple(items) for key, items in found.items()}

    @cached_property
    def _by_key(self) -> Mapping[str, tuple[Compilation, ...]]:
        found: dict[str, dict[int, Compilation]] = {}
        for number, item in enumerate(self.compilations):
            for graph in item.graphs:
                if graph.cache_key is not None:
                    found.setdefault(graph.cache_key, {})[number] = item
        return {key: tuple(items.values()) for key, items in found.items()}

    def compilation_for(self, compile_id: str, epoch_ns: int | None = None) -> Compilation | None:
        """The compilation that a region of that id, called at ``epoch_ns``, runs.

        That is the last one that ended before the call; without a time, the last one. Where none ended
        before, the clocks do not agree: then the only one, or None where there are several.
        """
        found = self.with_id(compile_id)
        if epoch_ns is None:
            return found[-1] if found else None
        limit = epoch_ns + CLOCK_TOLERANCE_NS
        before = [c for c in found if c.end_ns is not None and c.end_ns <= limit]
        if before:
            return before[-1]
        return found[0] if len(found) == 1 else None

    def graphs_for(self, cache_key: str, compile_id: str | None = None) -> tuple[FxGraph, ...]:
        """The graphs of one ``CompiledFxGraph`` key; the enclosing region decides among several."""
        owners = self._by_key.get(cache_key, ())
        found = tuple(g for c in owners for g in c.graphs if g.cache_key == cache_key)
        mine = tuple(g for g in found if g.compile_id == compile_id)
        return mine or found

    def compilations_for_key(self, cache_key: str) -> tuple[Compilation, ...]:
        """Every compilation that made or fetched the graph of one ``CompiledFxGraph`` key, in time order."""
        return self._by_key.get(cache_key, ())
