"""What a report is made of: the types behind `kinetoscope report --format json`.

Names are those of the JSON. Times are integer nanoseconds in fields ending ``_ns``, relative to
the trace's start where they are points in time; shares are 0 to 1; lists are ordered most costly
first unless a type says otherwise. ``None`` means that the input cannot tell: it is never
written as 0, and 0 is never written for it.

The module is the lowest layer of all: it imports nothing of kinetoscope, so that analyses,
renderers and other programs can share the types.
"""

from __future__ import annotations

from kinetoscope.schema.compiling import (
    Autograd,
    AutogradPair,
    BreakSite,
    Caches,
    Compiled,
    CompileFrame,
    CompilePhase,
    CompileTime,
    Graph,
    GraphBreaks,
    LinkedBy,
    Recompiles,
    RecompileSite,
    Region,
)
from kinetoscope.schema.device import (
    CauseShare,
    CudaGraphs,
    CudaGraphSkip,
    DeviceMemory,
    DeviceTime,
    Gap,
    GraphRegion,
    Idle,
    Kernels,
    KindShare,
    Launches,
    Memory,
    OriginShare,
    SourceLine,
    TopKernel,
)
from kinetoscope.schema.report import Evidence, Finding, Report, Saving
from kinetoscope.schema.summary import DeviceInfo, Step, Steps, TraceSummary, Versions, WarningNote, Window
from kinetoscope.schema.words import (
    Basis,
    Bound,
    BreakKind,
    DeviceKind,
    FindingCode,
    Kind,
    Origin,
    SchemaId,
    Severity,
    Source,
    SourceState,
    StepSource,
    Verdict,
)

__all__ = [
    "Autograd",
    "AutogradPair",
    "Basis",
    "Bound",
    "BreakKind",
    "BreakSite",
    "Caches",
    "CauseShare",
    "CompileFrame",
    "CompilePhase",
    "CompileTime",
    "Compiled",
    "CudaGraphSkip",
    "CudaGraphs",
    "DeviceInfo",
    "DeviceKind",
    "DeviceMemory",
    "DeviceTime",
    "Evidence",
    "Finding",
    "FindingCode",
    "Gap",
    "Graph",
    "GraphBreaks",
    "GraphRegion",
    "Idle",
    "Kernels",
    "Kind",
    "KindShare",
    "Launches",
    "LinkedBy",
    "Memory",
    "Origin",
    "OriginShare",
    "RecompileSite",
    "Recompiles",
    "Region",
    "Report",
    "Saving",
    "SchemaId",
    "Severity",
    "Source",
    "SourceLine",
    "SourceState",
    "Step",
    "StepSource",
    "Steps",
    "TopKernel",
    "TraceSummary",
    "Verdict",
    "Versions",
    "WarningNote",
    "Window",
]
