"""The types say what the contract says: these names are read by other programs."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import msgspec
import pytest

from kinetoscope import schema

# The contract's names, written down a second time: a renamed field must fail here.
FIELDS = {
    "Report": "schema trace steps compiled regions graphs graph_breaks recompiles compile_time autograd "
    "device_time launches kernels idle memory cuda_graphs ranks findings",
    "TraceSummary": "path events complete_events span_ns device_kind devices versions rank world_size "
    "complete window warnings",
    "DeviceInfo": "index name",
    "Versions": "torch cuda_runtime cuda_driver cupti",
    "WarningNote": "code message count",
    "Steps": "source count mean_ns median_ns list",
    "Step": "name start_ns dur_ns device_busy_ns complete",
    "Compiled": "verdict evidence device_share cpu_share",
    "Region": "id function file line calls nested_calls total_ns self_ns device_ns resumes parents "
    "compiled_functions_per_call",
    "Graph": "id ops kernels backend mode dynamic guards guard_ns cache_key cuda_graph",
    "GraphBreaks": "count bound source sites",
    "BreakSite": "file line ordinal function reason gb_id hits regions kind cost_ns_per_step",
    "Recompiles": "count source sites",
    "RecompileSite": "function file line ids reasons compile_ns",
    "CompileTime": "total_ns in_window_ns source frames caches compile_times_table",
    "CompileFrame": "id function file line total_ns phases",
    "CompilePhase": "name total_ns self_ns",
    "Caches": "fx_hit fx_miss fx_bypass aot_hit aot_miss",
    "Autograd": "pairs unpaired_forward unpaired_backward linked_by list",
    "LinkedBy": "fwdbwd sequence_number",
    "AutogradPair": "sequence_number forward_ns backward_ns backward_device_ns region",
    "DeviceTime": "device events span_ns busy_ns idle_ns gaps compute_ns communication_ns memcpy_ns "
    "exposed_communication_ns exposed_memcpy_ns",
    "Launches": "launch_calls graph_launches device_events linked unlinked launched_before_window launch_ns "
    "median_launch_ns median_queue_ns sync_ns lookup_ns device_events_per_graph_launch",
    "Kernels": "count total_ns graph_replay_ns by_origin by_kind top",
    "OriginShare": "origin count total_ns share",
    "KindShare": "kind count total_ns share",
    "TopKernel": "name origin kind count total_ns mean_ns share in_graph_replay region op source "
    "source_state bytes flops gb_per_s tflop_per_s",
    "SourceLine": "file line function",
    "Idle": "total_ns share gaps by_cause longest",
    "CauseShare": "cause total_ns share gaps",
    "Gap": "start_ns dur_ns cause device detail",
    "Memory": "device cpu_peak_allocated_bytes",
    "DeviceMemory": "device peak_allocated_bytes peak_reserved_bytes",
    "CudaGraphs": "used replays regions skips recordings",
    "GraphRegion": "id replays device_ns",
    "CudaGraphSkip": "reason count",
    "Finding": "code title severity detail fix doc share cost_ns_per_step saving_ns_per_step basis evidence",
    "Saving": "low best high",
    "Evidence": "track start_ns dur_ns name",
}


def structs() -> dict[str, type[msgspec.Struct]]:
    found = inspect.getmembers(schema, inspect.isclass)
    return {
        name: kind for name, kind in found if issubclass(kind, msgspec.Struct) and kind is not msgspec.Struct
    }


@pytest.mark.parametrize("name", FIELDS)
def test_the_contract_names_are_there(name: str) -> None:
    missing = set(FIELDS[name].split()) - set(structs()[name].__struct_encode_fields__)
    assert not missing


@pytest.mark.parametrize("kind", structs().values(), ids=lambda kind: kind.__name__)
def test_types_are_frozen_and_documented(kind: type[msgspec.Struct]) -> None:
    assert kind.__struct_config__.frozen
    assert kind.__doc__
    assert len(kind.__doc__) > 20


@pytest.mark.parametrize("kind", structs().values(), ids=lambda kind: kind.__name__)
def test_times_are_integers_in_nanoseconds(kind: type[msgspec.Struct]) -> None:
    for field in msgspec.structs.fields(kind):
        assert not field.encode_name.endswith(("_ms", "_us", "_s", "_sec")) or field.name.endswith("_per_s")
        if field.encode_name.endswith("_ns"):
            assert field.type in (int, int | None), field.name


def test_the_lowest_layer_imports_nothing_of_ours() -> None:
    files = sorted(Path(schema.__file__).parent.glob("*.py"))
    assert len(files) > 3
    for file in files:
        nodes = list(ast.walk(ast.parse(file.read_text())))
        modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        modules += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        ours = [module for module in modules if module.startswith("kinetoscope")]
        assert all(module.startswith("kinetoscope.schema.") for module in ours), file
