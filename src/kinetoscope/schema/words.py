"""The closed vocabularies of a report."""

from __future__ import annotations

from typing import Literal, TypeAlias

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
