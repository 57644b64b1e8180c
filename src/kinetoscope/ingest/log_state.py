"""What a compile-log reader holds while it reads: open compilations, kept texts, the kinds it knows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from kinetoscope.ingest.log_metrics import is_number
from kinetoscope.ingest.log_records import LogRecord, Payload
from kinetoscope.ingest.log_spans import OpenSpan
from kinetoscope.ingest.log_text import GuardTree
from kinetoscope.ingest.log_types import (
    AotGraph,
    BreakRecord,
    CacheResult,
    FxGraph,
    GuardFailure,
    SourceFrame,
)

__all__ = ["EXTRA_KINDS", "IGNORED_KINDS", "OpenCompilation", "TextKeeper"]

IGNORED_KINDS = frozenset(
    [
        "describe_storage",
        "describe_tensor",
        "describe_source",
        "torch._functorch.config",
        "aot_forward_graph_fw_metadata",
        "compilation_metrics_runtime",
        "exported_program",
        "guard_added",
        "guard_added_fast",
        "missing_fake_kernel",
        "stack",
        "propagate_real_tensors_provenance",
        "symbolic_shape_specialization",
        "create_unbacked_symbol",
        "link",
        "expression_created",
        "describe_fake_tensor",
    ]
)
EXTRA_KINDS = frozenset(
    [
        "fx_graph_runnable",
        "before_pre_grad_graph",
        "after_pre_grad_graph",
        "before_post_grad_graph",
        "before_joint_graph",
        "after_joint_graph",
        "aot_joint_graph",
        "triton_kernel_info",
        "dynamo_error",
        "optimize_ddp_split_graph",
        "compiled_autograd_graph",
        "optimize_ddp_split_child",
        "compiled_autograd_graph_pre_reordering",
        "backward_prologue",
        "backward_epilogue",
        "compiled_function_forward",
        "compiled_function_backward",
        "compiled_fn_wrapper",
        "runtime_wrapper_orchestration",
        "dynamo_side_effects",
        "inductor_triton_kernel_to_post_grad_nodes",
        "cudagraph_dump",
    ]
)


class TextKeeper:
    """Keeps payload texts in memory up to a budget, each text once; beyond it only their places."""

    def __init__(self, keep_source: bool, budget: int = 96 << 20, largest: int = 8 << 20) -> None:
        self.keep_source = keep_source
        self._left = budget
        self._largest = largest
        self._texts: dict[str, str] = {}
        self._strings: dict[str, str] = {}

    def keep(self, record: LogRecord, *, is_code: bool = True) -> Payload | None:
        """The record's payload as a reference, with its text where the budget allows."""
        place, data = record.place, record.payload
        if place is None or (is_code and not self.keep_source):
            return None
        if data is None or len(data) > min(self._largest, self._left):
            return place
        text = data.decode("utf-8", "replace")
        known = self._texts.get(text)
        if known is None:
            self._texts[text] = known = text
            self._left -= len(data)
        return replace(place, kept=known)

    def metrics(self, body: Any) -> dict[str, Any]:
        """A metrics record with its long texts (configurations that repeat in each) held once, without
        numbers that are none (NaN, infinities, more than any count)."""
        if not isinstance(body, dict):
            return {}
        held = self._strings
        return {
            k: held.setdefault(v, v) if isinstance(v, str) and len(v) > 256 else v
            for k, v in body.items()
            if isinstance(v, bool) or not isinstance(v, int | float) or is_number(v)
        }


@dataclass(slots=True, eq=False)
class OpenCompilation:
    """A compilation while its file is still being read."""

    id: str
    pid: int
    generation: int = 0
    started: bool = False
    closed: bool = False
    attempt: int = 0
    stack: tuple[SourceFrame, ...] = ()
    breaks: list[BreakRecord] = field(default_factory=list)
    failures: list[GuardFailure] = field(default_factory=list)
    dynamic: list[str] = field(default_factory=list)
    caches: list[CacheResult] = field(default_factory=list)
    tree: GuardTree | None = None
    dynamo_graph: Payload | None = None
    aot_graphs: list[AotGraph] = field(default_factory=list)
    graphs: list[FxGraph] = field(default_factory=list)
    pending: FxGraph | None = None
    has_code: bool = False
    spans: list[OpenSpan] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    backward_metrics: list[dict[str, Any]] = field(default_factory=list)
    runtime_metrics: list[dict[str, Any]] = field(default_factory=list)
    extra: dict[str, list[Payload]] = field(default_factory=dict)
