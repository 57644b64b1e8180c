"""Kernels by origin and kind, against tables that were checked by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.analyses.kernel_names import is_inductor_triton
from kinetoscope.analyses.kernels import kernels
from kinetoscope.link import Links
from kinetoscope.schema import Kernels
from kinetoscope.trace import Category
from small_trace import GRAPH, SHARED, kernel, launch, links_of, links_of_shared, op, region

# count and summed ns, from the hand-checked table beside the captures
ORIGINS = {
    "seed_breaks": {
        "inductor_triton": (48, 66784),
        "compiled_extern": (69, 310880),
        "compiled_fallback": (3, 3680),
        "eager": (54, 57278),
    },
    "breaks_nograd": {"inductor_triton": (24, 23646), "compiled_extern": (24, 104543)},
    "user_triton": {"inductor_triton": (10, 27810), "user_triton": (10, 24799)},
    "seed_resnet": {
        "inductor_triton": (528, 1334571),
        "compiled_extern": (291, 3188298),
        "compiled_fallback": (3, 3680),
        "eager": (192, 404999),
    },
    "resnet_eager": {"eager": (1233, 6766305)},
    "gpt_decode": {
        "inductor_triton": (380, 456991),
        "compiled_extern": (620, 2164814),
        "compiled_fallback": (10, 10785),
        "eager": (630, 1573554),
    },
}
REPLAY_NS = {"gpt_decode": 1333693}
MM = "sm90_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_execute_kernel__5x_cublas"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"
COPY = "void at::native::elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda()::{lambda}>(int)"


def found(links: Links) -> Kernels:
    result = kernels(links)
    assert result is not None
    return result


def origins(links: Links) -> dict[str, tuple[int, int]]:
    """Origins of kernels, memory left out."""
    by_origin = found(links).by_origin
    return {o.origin: (o.count, o.total_ns) for o in by_origin if o.origin != "memory"}


def one_origin(links: Links) -> str:
    (origin,) = origins(links)
    return origin


@pytest.mark.parametrize("name", ORIGINS)
def test_origins_that_were_checked_by_hand(name: str) -> None:
    links = links_of_shared(f"traces/gpu/{name}/trace.json.gz")
    assert origins(links) == ORIGINS[name]
    assert found(links).graph_replay_ns == REPLAY_NS.get(name, 0)


def references() -> list[Path]:
    return sorted((SHARED / "traces").rglob("*.reference.json"))


@pytest.mark.parametrize("path", references() or [None], ids=lambda p: "none" if p is None else p.name[:50])
def test_totals_are_those_of_the_reference(path: Path | None) -> None:
    if path is None:
        pytest.skip("needs the shared traces, which are not here")
    wanted = json.loads(path.read_text())
    links = links_of_shared(str(path.relative_to(SHARED)).replace(".reference.json", ".json.gz"))
    c = links.trace.columns
    generated = links.trace.names.where(is_inductor_triton)[c.name] & (c.category == Category.KERNEL)
    assert int(generated.sum()) == wanted["triton_kernels"]
    if not wanted["device_time"]:
        return
    result = found(links)
    assert (result.count, result.total_ns) == (wanted["kernels"], wanted["kernel_sum_ns"])
    assert sum(kind.total_ns for kind in result.by_kind) == result.total_ns
    assert sum(o.total_ns for o in result.by_origin if o.origin != "memory") == result.total_ns
    assert all(0 <= entry.share <= 1 for entry in [*result.by_origin, *result.by_kind, *result.top])


def test_replayed_triton_kernels_stay_inductors() -> None:
    top = found(links_of_shared("traces/gpu/gpt_decode/trace.json.gz")).top
    replayed = [entry for entry in top if entry.in_graph_replay]
    assert {entry.origin for entry in replayed} == {"inductor_triton", "compiled_extern"}
    assert {entry.region for entry in replayed} == {"0/1"}


def test_convolutions_of_compiled_code_are_extern() -> None:
    result = found(links_of_shared("traces/gpu/seed_resnet/trace.json.gz"))
    assert {entry.origin for entry in result.top if entry.kind == "convolution"} == {"compiled_extern"}


def test_user_triton_kernels_launched_eagerly_have_no_operator() -> None:
    result = found(links_of_shared("traces/gpu/user_triton/trace.json.gz"))
    (mine,) = [entry for entry in result.top if entry.origin == "user_triton"]
    assert (mine.name, mine.count, mine.op) == ("scale_add_kernel", 10, None)


def test_b200_reduces_by_multimem_and_runs_one_generated_kernel() -> None:
    result = kernels(links_of_shared("traces/public/tracelens/b200_eager.json.gz"), top=1000)
    assert result is not None
    reducing = [entry for entry in result.top if "multimem_all_reduce" in entry.name]
    assert [(entry.kind, entry.count) for entry in reducing] == [("communication", 73)]
    counts = {entry.kind: entry.count for entry in result.by_kind}
    assert counts["communication"] == 74  # 73 and one all-gather by NCCL
    assert result.count == 768
    assert {o.origin: o.count for o in result.by_origin}["inductor_triton"] == 1


def test_mi300_runs_four_generated_kernels_in_one_region() -> None:
    result = found(links_of_shared("traces/public/tracelens/mi300_torch_compile_triton.json.gz"))
    counts = {o.origin: o.count for o in result.by_origin}
    assert counts == {"inductor_triton": 4, "compiled_extern": 8}


def test_graph_replay_outside_of_compiled_code_is_unknown() -> None:
    links = links_of_shared("traces/public/tracelens/mi300_sglang_decode.json.gz")
    assert {o.origin: o.count for o in found(links).by_origin}["unknown"] == 544


def test_without_cpu_rows_the_origin_is_unknown() -> None:
    links = links_of_shared("traces/public/tracelens/mi210_gpu_only.json.gz")
    assert origins(links) == {"unknown": (562, 5343422)}


def test_old_inductor_names_are_inductors() -> None:
    links = links_of_shared("traces/public/sam_fast/compiled.json.gz")
    assert {o.origin: o.count for o in found(links).by_origin}["inductor_triton"] == 976


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        ("R47_rocm", {"gemm": 40_000, "pointwise": 10_000, "communication": 20_000}),
        ("R46_collective_skew", {"communication": 17_456_098_000, "gemm": 360_000}),
    ],
)
def test_kinds_of_cases(case: str, wanted: dict[str, int]) -> None:
    result = found(links_of_shared(f"cases/{case}.json"))
    assert {kind.kind: kind.total_ns for kind in result.by_kind} == wanted


def test_collectives_are_counted_within_their_origin() -> None:
    links = links_of_shared("traces/gpu/ddp/rank0.trace.json.gz")
    content = json.loads(gzip.decompress((SHARED / "traces/gpu/ddp/rank0.trace.json.gz").read_bytes()))
    took = [
        event["dur"]
        for event in content["traceEvents"]
        if event.get("cat") == "kernel" and event["name"].startswith("nccl")
    ]
    by_origin = {entry.origin: entry.communication_ns for entry in found(links).by_origin}
    assert len(took) > 20
    assert by_origin.pop("eager") == pytest.approx(1000 * sum(took), abs=len(took))
    assert set(by_origin.values()) == {0}


def test_memory_comes_on_top_of_kernels() -> None:
    result = found(links_of_shared("cases/R47_rocm.json"))
    (memory,) = [o for o in result.by_origin if o.origin == "memory"]
    assert (memory.count, memory.total_ns) == (2, 7_000)
    assert result.total_ns == 70_000


def test_events_with_lost_times_are_not_counted() -> None:
    result = found(links_of_shared("cases/R15_zero_ts_kernel.json"))
    assert (result.count, result.total_ns) == (3, 300_000)


def test_nothing_is_said_where_device_events_are_missing() -> None:
    assert kernels(links_of_shared("cases/R25_no_gpu_events.json")) is None


def test_cpu_only_trace() -> None:
    links = links_of_shared("cases/R49_cpu_or_mps_only.json")
    assert origins(links) == {"inductor_cpp": (1, 120_000), "compiled_extern": (1, 100_000)}


def test_generated_cpu_kernels_have_the_origin_inductor_cpp() -> None:
    links = links_of_shared("traces/gpu/cpu_inductor/trace.json.gz")
    c = links.trace.columns
    mine = links.trace.names.where(lambda name: name.startswith("graph_"))[c.name]
    assert origins(links)["inductor_cpp"] == (int(mine.sum()), int(c.dur_ns[mine].sum()))


# --- small traces: one rule each ---


def inside_graph(*events: dict[str, Any]) -> list[dict[str, Any]]:
    return [region("0/0", 0, 100), op(GRAPH, 10, 80), *events]


def test_a_gemm_inside_the_graph_is_extern_however_it_was_launched(tmp_path: Path) -> None:
    events = inside_graph(
        op("aten::mm", 20, 20), launch(1, 25, name="cuLaunchKernelEx"), kernel(MM, 1, 200, 9)
    )
    assert one_origin(links_of(tmp_path, events)) == "compiled_extern"


def test_any_kernel_of_a_convolution_is_extern(tmp_path: Path) -> None:
    layout = "void cudnn::ops::nchwToNhwcKernel<float, float>(int)"
    events = inside_graph(
        op("aten::convolution", 20, 30),
        op("aten::cudnn_convolution", 22, 20),
        op("aten::add_", 44, 4),
        launch(1, 25),
        launch(2, 45),
        kernel(layout, 1, 200, 9),
        kernel(ADD, 2, 300, 5),
    )
    assert origins(links_of(tmp_path, events)) == {"compiled_extern": (2, 14_000)}


def test_another_operator_inside_the_graph_is_a_fallback(tmp_path: Path) -> None:
    events = inside_graph(op("aten::sort", 20, 20), launch(1, 25), kernel("void sort<int>()", 1, 200, 9))
    assert one_origin(links_of(tmp_path, events)) == "compiled_fallback"


def test_work_between_region_and_graph_is_eager(tmp_path: Path) -> None:
    events = [region("0/0", 0, 100), op(GRAPH, 10, 20)]
    events += [op("aten::add", 50, 20), launch(1, 55), kernel(ADD, 1, 200, 9)]
    assert one_origin(links_of(tmp_path, events)) == "eager"


def test_the_copy_that_the_backward_wrapper_makes_is_a_fallback(tmp_path: Path) -> None:
    events = [op("CompiledFunctionBackward", 0, 100, tid=2), op(GRAPH, 50, 40, tid=2)]
    events += [op("aten::contiguous", 10, 20, tid=2), op("aten::copy_", 12, 10, tid=2)]
    events += [launch(1, 15, tid=2), kernel(COPY, 1, 200, 9)]
    assert one_origin(links_of(tmp_path, events)) == "compiled_fallback"


def test_all_that_a_compile_phase_launches_is_autotuning(tmp_path: Path) -> None:
    events = [op("CachingAutotuner.benchmark_all_configs (dynamo_timed)", 0, 100)]
    events += [op("aten::mm", 10, 50), launch(1, 20), launch(2, 30), launch(3, 40)]
    events += [kernel(MM, 1, 200, 9), kernel("triton_mm_7", 2, 300, 9), kernel(ADD, 3, 400, 9)]
    assert origins(links_of(tmp_path, events)) == {"autotune": (3, 27_000)}


def replay(around: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    launched = [kernel(name, 1, 200 + 10 * n, 5) for n, name in enumerate(names)]
    return [*around, launch(1, 50, name="cudaGraphLaunch"), *launched]


def test_replay_inside_a_region(tmp_path: Path) -> None:
    events = replay(inside_graph(), "triton_poi_fused_add_0", MM, ADD)
    links = links_of(tmp_path, events)
    assert origins(links) == {
        "inductor_triton": (1, 5_000),
        "compiled_extern": (1, 5_000),
        "compiled_fallback": (1, 5_000),
    }
    assert found(links).graph_replay_ns == 15_000


def test_replay_of_compiled_code_outside_a_region(tmp_path: Path) -> None:
    links = links_of(
        tmp_path, replay([op("x", 0, 100, "user_annotation")], "triton_poi_fused_add_0", MM, ADD)
    )
    assert origins(links) == {
        "inductor_triton": (1, 5_000),
        "compiled_extern": (1, 5_000),
        "unknown": (1, 5_000),
    }


def test_replay_of_eager_code_is_unknown(tmp_path: Path) -> None:
    links = links_of(tmp_path, replay([op("x", 0, 100, "user_annotation")], MM, ADD))
    assert one_origin(links) == "unknown"


def test_user_triton_inside_a_graph_with_and_without_an_operator(tmp_path: Path) -> None:
    events = inside_graph(op("my_kernel_0", 20, 10), launch(1, 22, name="cuLaunchKernelEx"))
    events += [
        launch(2, 60, name="cuLaunchKernel"),
        kernel("my_kernel", 1, 200, 9),
        kernel("my_kernel", 2, 300, 9),
    ]
    assert one_origin(links_of(tmp_path, events)) == "user_triton"


def test_a_user_kernel_in_a_replay_is_known_from_a_launch_of_its_own(tmp_path: Path) -> None:
    events = replay(inside_graph(), "my_kernel")
    events += [launch(2, 150, name="cuLaunchKernel"), kernel("my_kernel", 2, 400, 5)]
    assert origins(links_of(tmp_path, events)) == {"user_triton": (2, 10_000)}


def test_library_kernels_without_an_operator_are_not_a_users(tmp_path: Path) -> None:
    events = [op("x", 0, 100, "user_annotation")]
    names = [
        "nvjet_sm90_hsh_8x64_64x16_4x1_v_bz_TNN",
        "Cijk_Ailk_Bljk_BBS_BH_MT16x16x64",
        "ncclDevKernel_Generic",
    ]
    for number, name in enumerate(names, 1):
        events += [launch(number, 10 * number), kernel(name, number, 200 + 10 * number, 5)]
    assert origins(links_of(tmp_path, events)) == {"eager": (3, 15_000)}


def test_before_torch_2_9_the_compiled_function_is_the_graph(tmp_path: Path) -> None:
    events = [region("0/0", 0, 100), op("CompiledFunction", 10, 40)]
    events += [op("aten::sort", 20, 10), launch(1, 22), kernel("void sort<int>()", 1, 200, 9)]
    events += [op("aten::add", 60, 10), launch(2, 62), kernel(ADD, 2, 300, 9)]
    assert origins(links_of(tmp_path, events)) == {"compiled_fallback": (1, 9_000), "eager": (1, 9_000)}


def test_before_torch_2_9_without_gradient_the_region_is_the_graph(tmp_path: Path) -> None:
    events = [
        region("0/0", 0, 100),
        op("aten::sort", 20, 10),
        launch(1, 22),
        kernel("void sort<int>()", 1, 200, 9),
    ]
    assert one_origin(links_of(tmp_path, events)) == "compiled_fallback"


def test_what_was_launched_before_the_window_is_unknown(tmp_path: Path) -> None:
    links = links_of(
        tmp_path, op("aten::add", 0, 100), launch(9, 10), kernel(ADD, 9, 50, 5), kernel(ADD, 3, 5, 7)
    )
    assert origins(links) == {"eager": (1, 5_000), "unknown": (1, 7_000)}


def test_collective_metadata_makes_a_kernel_communication(tmp_path: Path) -> None:
    metadata = {"Collective name": "allreduce", "In msg nelems": 8}
    links = links_of(tmp_path, op("x", 0, 9), launch(1, 1), kernel("my_exchange", 1, 50, 5, **metadata))
    assert [kind.kind for kind in found(links).by_kind] == ["communication"]


def test_bytes_and_rates_of_a_triton_kernel(tmp_path: Path) -> None:
    args = {"kernel_num_gb": 0.004, "kernel_flop": 1_000_000}
    events = inside_graph(op("triton_poi_fused_add_0", 20, 20, **args), launch(1, 25, name="cuLaunchKernel"))
    (top,) = found(links_of(tmp_path, events, kernel("triton_poi_fused_add_0", 1, 200, 2))).top
    assert (top.bytes, top.flops, top.mean_ns) == (4_000_000, 1_000_000, 2_000)
    assert top.gb_per_s == pytest.approx(2000)  # 4 MB in 2 us
    assert top.tflop_per_s == pytest.approx(0.5)  # 1 MFLOP in 2 us
    assert (top.region, top.op, top.share) == ("0/0", "triton_poi_fused_add_0", 1.0)


def test_bytes_and_rate_of_copies(tmp_path: Path) -> None:
    events = [
        op("aten::copy_", 0, 50),
        launch(1, 5, name="cudaMemcpyAsync"),
        launch(2, 9, name="cudaMemcpyAsync"),
    ]
    events += [kernel("Memcpy HtoD", 1, 100, 4, "gpu_memcpy", bytes=1000)]
    events += [kernel("Memcpy HtoD", 2, 200, 6, "gpu_memcpy", bytes=3000)]
    (top,) = found(links_of(tmp_path, events)).top
    assert (top.origin, top.kind, top.count, top.bytes) == ("memory", "copy", 2, 2000)
    assert top.gb_per_s == pytest.approx(0.4)  # 4,000 bytes in 10 us


def test_a_kernel_that_ran_both_ways_is_two_entries(tmp_path: Path) -> None:
    events = replay(inside_graph(), "triton_poi_fused_add_0")
    events += [launch(2, 60, name="cuLaunchKernel"), kernel("triton_poi_fused_add_0", 2, 300, 3)]
    top = found(links_of(tmp_path, events)).top
    assert [(entry.in_graph_replay, entry.total_ns) for entry in top] == [(True, 5_000), (False, 3_000)]


def test_a_cpu_operator_is_counted_once_with_the_copies_it_makes(tmp_path: Path) -> None:
    events = [op("aten::addmm", 0, 100), op("aten::expand", 5, 5), op("aten::copy_", 20, 30)]
    events += [op("aten::contiguous", 200, 50), op("aten::clone", 205, 40), op("aten::copy_", 210, 30)]
    result = found(links_of(tmp_path, events))
    assert [(entry.name, entry.total_ns) for entry in result.top] == [
        ("aten::addmm", 100_000),
        ("aten::copy_", 30_000),
    ]


def test_operators_of_a_compile_phase_are_no_cpu_work(tmp_path: Path) -> None:
    events = [
        op("_compile.compile_inner (dynamo_timed)", 0, 100),
        op("aten::add", 10, 20),
        op("aten::mul", 200, 7),
    ]
    result = found(links_of(tmp_path, events))
    assert [(entry.name, entry.total_ns) for entry in result.top] == [("aten::mul", 7_000)]
