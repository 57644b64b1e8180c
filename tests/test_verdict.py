"""Was it compiled: verdicts that the contract fixes, and one small trace for each reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope.analyses.origins import find_work
from kinetoscope.analyses.verdict import CompiledCode, verdict
from kinetoscope.link import Links
from kinetoscope.schema import Compiled
from small_trace import GRAPH, kernel, launch, links_of, links_of_shared, op, region, steps

TRITON = "triton_poi_fused_add_0"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def compiled(links: Links, **log: Any) -> Compiled:
    return verdict(CompiledCode(links, find_work(links)), **log)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("traces/gpu/seed_resnet/trace.json.gz", "yes"),
        ("traces/gpu/seed_breaks/trace.json.gz", "yes"),
        ("traces/gpu/gpt_train/trace.json.gz", "yes"),
        ("traces/gpu/breaks_nograd/trace.json.gz", "yes"),
        ("traces/gpu/seed_compile/trace.json.gz", "yes"),
        ("traces/gpu/resnet_eager/trace.json.gz", "no"),
        ("traces/public/tracelens/b200_eager.json.gz", "partly"),
        ("traces/public/tracelens/mi210_gpu_only.json.gz", "unknown"),
        ("traces/public/tracelens/mi300_torch_compile_triton.json.gz", "yes"),
        ("traces/public/hta/nccl_data.json.gz", "no"),
        ("cases/R32_gpu_only.json", "unknown"),
        ("cases/R25_no_gpu_events.json", "yes"),
    ],
)
def test_verdicts(name: str, wanted: str) -> None:
    assert compiled(links_of_shared(name)).verdict == wanted


# From the scenarios' own programs: what runs eagerly inside a compiled function, and what never does.
SCENARIOS = {
    "adjacent": "yes",
    "disabled_inside": "partly",
    "disabled_recursive_calls_compiled": "partly",
    "fullgraph": "yes",
    "gb_data_dep_if": "yes",
    "gb_generator": "no",
    "gb_item": "yes",
    "gb_loop": "no",
    "gb_nested": "yes",
    "gb_print": "yes",
    "gb_real_print": "yes",
    "gb_with_skip": "no",
    "nested_compile": "yes",
    "recompile_limit": "partly",  # lookups that nothing answered
    "regional": "yes",
    "train": "yes",
    "train_break": "yes",
}


@pytest.mark.parametrize("file", ["warm", "warm_stack"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenarios(scenario: str, file: str) -> None:
    links = links_of_shared(f"traces/cpu_scenarios/{scenario}/{file}.json.gz")
    assert compiled(links).verdict == SCENARIOS[scenario]


def test_a_skipped_frame_beside_a_compiled_one_is_known_only_from_the_log() -> None:
    links = links_of_shared("traces/cpu_scenarios/gb_unresumable_ctx/warm.json.gz")
    assert compiled(links).verdict == "yes"
    with_log = compiled(links, skipped=["f"])
    assert with_log.verdict == "partly"
    assert any("f ran eagerly: skipped" in sentence for sentence in with_log.evidence)


def test_device_share_of_b200_is_one_kernel_of_many() -> None:
    result = compiled(links_of_shared("traces/public/tracelens/b200_eager.json.gz"))
    assert result.device_share is not None
    assert result.device_share < 0.001
    assert any("1 Triton kernel that Inductor generated ran" in sentence for sentence in result.evidence)


def test_device_share_of_a_hand_checked_capture() -> None:
    # kernels inside graphs by the hand-checked table, and the six small copies of no graph
    result = compiled(links_of_shared("traces/gpu/breaks_nograd/trace.json.gz"))
    assert result.device_share == 1.0
    eager = compiled(links_of_shared("traces/gpu/resnet_eager/trace.json.gz"))
    assert eager.device_share == 0.0
    decode = compiled(links_of_shared("traces/gpu/gpt_decode/trace.json.gz"))
    assert decode.device_share == pytest.approx((456991 + 2164814 + 10785) / 4206144)


# --- small traces ---


def compiled_call(start: float = 0, id: str = "0/0") -> list[dict[str, Any]]:
    return [region(id, start, 50), op(GRAPH, start + 10, 30)]


def test_nothing_compiled(tmp_path: Path) -> None:
    result = compiled(links_of(tmp_path, op("aten::add", 0, 9), launch(1, 2), kernel(ADD, 1, 20, 5)))
    assert (result.verdict, result.device_share) == ("no", 0.0)
    assert "1 kernel ran eagerly, 5.00 us in all." in result.evidence


def test_generated_kernels_alone_are_compiled_code(tmp_path: Path) -> None:
    events = [op("aten::add", 0, 9), launch(1, 50, name="cuLaunchKernel"), kernel(TRITON, 1, 80, 5)]
    result = compiled(links_of(tmp_path, events))
    assert (result.verdict, result.device_share) == ("yes", 1.0)


@pytest.mark.parametrize(
    "name", ["aten::view", "aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"]
)
def test_views_and_reading_back_are_not_eager_work(tmp_path: Path, name: str) -> None:
    assert compiled(links_of(tmp_path, compiled_call(), op(name, 42, 5))).verdict == "yes"


def test_an_operator_between_graphs_is_eager_work(tmp_path: Path) -> None:
    result = compiled(links_of(tmp_path, compiled_call(), op("aten::cos", 42, 5)))
    assert result.verdict == "partly"
    assert any("aten::cos, in region 0/0" in sentence for sentence in result.evidence)


def test_operators_outside_regions_do_not_count(tmp_path: Path) -> None:
    assert compiled(links_of(tmp_path, compiled_call(), op("aten::sum", 60, 5))).verdict == "yes"


def test_operators_of_a_compile_phase_do_not_count(tmp_path: Path) -> None:
    phase = op("backward._backward_impl (dynamo_timed)", 41, 8)
    assert compiled(links_of(tmp_path, compiled_call(), phase, op("aten::cos", 42, 5))).verdict == "yes"


def test_before_torch_2_9_operators_tell_nothing(tmp_path: Path) -> None:
    events = [region("0/0", 0, 50), op("CompiledFunction", 10, 30), op("aten::cos", 42, 5)]
    assert compiled(links_of(tmp_path, events)).verdict == "yes"


def test_little_device_time_in_graphs_is_partly(tmp_path: Path) -> None:
    events = [*compiled_call(), launch(1, 20, name="cuLaunchKernel"), kernel(TRITON, 1, 100, 9)]
    events += [op("aten::add", 60, 9), launch(2, 62), kernel(ADD, 2, 200, 91)]
    result = compiled(links_of(tmp_path, events))
    assert (result.verdict, result.device_share) == ("partly", pytest.approx(0.09))


def test_communication_and_autotuning_are_left_out_of_the_device_share(tmp_path: Path) -> None:
    events = [*compiled_call(), launch(1, 20, name="cuLaunchKernel"), kernel(TRITON, 1, 100, 10)]
    events += [op("nccl:all_reduce", 60, 9), launch(2, 62), kernel(NCCL, 2, 200, 900)]
    events += [op("x (dynamo_timed)", 80, 9), launch(3, 82), kernel(ADD, 3, 1200, 500)]
    events += [op("aten::copy_", 95, 4), launch(4, 96, name="cudaMemcpyAsync")]
    events += [kernel("Memcpy HtoD", 4, 2000, 30, "gpu_memcpy")]
    assert compiled(links_of(tmp_path, events)).device_share == pytest.approx(0.25)


def test_lookups_that_nothing_answered(tmp_path: Path) -> None:
    events = []
    for number in range(4):  # 0/0 and 0/1 answer, two lookups find no entry
        events += [op("TorchDynamo Cache Lookup", number * 100, 5)]
        events += compiled_call(number * 100 + 10, f"0/{number}") if number % 3 == 0 else []
    result = compiled(links_of(tmp_path, events))
    assert result.verdict == "partly"
    assert any("After 2 cache lookups" in sentence for sentence in result.evidence)


def test_a_last_lookup_may_be_answered_after_the_end(tmp_path: Path) -> None:
    events = [op("TorchDynamo Cache Lookup", 0, 5), *compiled_call(10), op("TorchDynamo Cache Lookup", 90, 5)]
    assert compiled(links_of(tmp_path, events)).verdict == "yes"


def test_a_limit_that_the_log_tells(tmp_path: Path) -> None:
    result = compiled(links_of(tmp_path, compiled_call()), limited=["body"])
    assert result.verdict == "partly"
    assert any("body reached the recompile limit" in sentence for sentence in result.evidence)


def test_cpu_share_is_of_steps_and_counts_overlap_once(tmp_path: Path) -> None:
    events = [*steps(2, 100), *compiled_call(10), op("CompiledFunctionBackward", 40, 40, tid=2)]
    # 10..60 on one thread and 40..80 on another, of 200
    assert compiled(links_of(tmp_path, events)).cpu_share == pytest.approx(0.35)


def test_no_step_no_cpu_share(tmp_path: Path) -> None:
    assert compiled(links_of(tmp_path, compiled_call())).cpu_share is None
