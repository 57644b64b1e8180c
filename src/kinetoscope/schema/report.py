"""Findings, and the report as a whole."""

from __future__ import annotations

import msgspec

from kinetoscope.schema.compiling import (
    Autograd,
    Compiled,
    CompileTime,
    Graph,
    GraphBreaks,
    Recompiles,
    Region,
)
from kinetoscope.schema.device import CudaGraphs, DeviceTime, Idle, Kernels, Launches, Memory
from kinetoscope.schema.summary import Steps, TraceSummary
from kinetoscope.schema.words import Basis, FindingCode, SchemaId, Severity


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
    on. ``share`` is the cost's share of a step. ``basis``: whether the cost is of the profiled or of an
    unprofiled run; ``saving_basis`` the same of the saving.
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
    saving_basis: Basis = "profiled"
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
