"""``kinetoscope kernel``: one kernel's data, the names it goes by, and the commands for other tools."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers import TRACES, call, kernel, op, region, trace_of
from kinetoscope.__main__ import main
from kinetoscope.analyses.one_kernel_tools import function_name
from test_join_captures import capture

CLI_TRACE = TRACES / "seed_breaks.trace.json.gz"
LOG = TRACES / "logs" / "seed_breaks.log.gz"
RELU = "triton_poi_fused_addmm_relu_0"


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    status = main(["kernel", *map(str, words), "--no-store"])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def as_json(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    status, out, err = run(capsys, *words, "--format", "json")
    assert (status, err) == (0, "")
    value: dict[str, Any] = json.loads(out)
    assert value["schema"] == "kinetoscope.kernel/1"
    return value


def test_everything_about_a_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, CLI_TRACE, RELU, "--compile-log", LOG)
    (runs,) = found["runs"]
    assert (runs["origin"], runs["kind"], runs["count"], runs["per_step"]) == (
        "inductor_triton",
        "pointwise",
        12,
        4.0,
    )
    assert runs["total_ns"] == sum(place["total_ns"] for place in found["places"])
    assert runs["min_ns"] <= runs["median_ns"] <= runs["max_ns"]
    (config,) = found["configs"]
    assert (config["grid"], config["block"], config["count"]) == ([64, 1, 1], [128, 1, 1], 12)
    assert config["registers_per_thread"] == 16
    places = {place["compile_id"]: place for place in found["places"]}
    lines = {key: [line["line"] for line in place["source"]] for key, place in places.items()}
    assert lines == {"0/0": [68], "1/0": [70], "2/0": [72], "3/0": [74]}
    first = places["0/0"]
    assert (first["function"], first["line"], first["count"]) == ("M.forward", 67, 3)
    assert (first["op"], first["launch_call"]) == (RELU, "cuLaunchKernel")
    assert first["source"][0]["code"] == "a = s.mod1(i)"
    assert first["source_state"] == "exact"
    assert f"def {RELU}(" in first["code"]


def test_the_command_for_nsight_compute(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, CLI_TRACE, RELU)
    command = shlex.split(found["commands"][0]["command"])
    assert command[0] == "ncu"
    assert command[command.index("--kernel-name") + 1] == RELU
    skip = int(command[command.index("--launch-skip") + 1])
    # four launches a step; the second step is the first that is usual
    assert 4 <= skip < 8
    assert command[command.index("--launch-count") + 1] == "1"
    assert command[-2:] == ["python", "your_program.py"]
    assert "add 4 for every step" in found["commands"][0]["note"]


def test_the_captured_program_and_its_warm_up_are_in_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = capture(
        tmp_path / "c",
        program={"target": "my train.py", "arguments": ["--lr", "1e-3; rm x"], "is_module": False},
        window={"first_step": 10},
    )
    found = as_json(capsys, where, RELU)
    command = shlex.split(found["commands"][0]["command"])
    assert command[-4:] == ["python", "my train.py", "--lr", "1e-3; rm x"]
    assert 40 + 4 <= int(command[command.index("--launch-skip") + 1]) < 40 + 8
    assert "10 steps before this trace, with 4 such launches each" in found["commands"][0]["note"]


def test_replayed_kernels_are_profiled_as_nodes_of_their_graph(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, TRACES / "gpt_decode.trace.json.gz", "triton_poi_fused_gelu_view_2")
    assert [run["in_graph_replay"] for run in found["runs"]] == [True, False]
    assert [run["count"] for run in found["runs"]] == [60, 60]
    assert "--graph-profiling node" in found["commands"][0]["command"]


def test_a_kernel_of_a_library_has_no_benchmark_of_inductors(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, CLI_TRACE, "sm80_xmma_gemm_f32f32_f32f32_f32_nt")
    assert [command["tool"] for command in found["commands"]] == ["Nsight Compute"]
    tools = [command["tool"] for command in as_json(capsys, CLI_TRACE, RELU)["commands"]]
    assert tools == ["Nsight Compute", "Inductor's benchmark of each kernel"]


@pytest.mark.parametrize(
    ("kind", "tools"),
    [
        ("AMD Instinct MI300X", ["rocprof-compute", "rocprof-sys"]),
        ("Intel(R) Data Center GPU Max 1550", ["VTune"]),
    ],
)
def test_other_devices_have_other_tools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, tools: list[str]
) -> None:
    api = (
        {"cat": "xpu_runtime", "name": "urEnqueueKernelLaunch"}
        if "Intel" in kind
        else {"name": "hipLaunchKernel"}
    )
    trace_of(
        tmp_path,
        [region("0/0", 0, 50), op("aten::mm", 1, 20), call(7, 2, **api), kernel(7, 10, 5, name="Cijk_gemm")],
        deviceProperties=[{"id": 0, "name": kind}],
    )
    found = as_json(capsys, tmp_path / "trace.json", "Cijk_gemm")
    assert [command["tool"] for command in found["commands"]] == tools
    assert all("python your_program.py" in command["command"] for command in found["commands"])
    if "AMD" in kind:
        assert "--kernel Cijk_gemm" in found["commands"][0]["command"]


def test_a_kernel_on_the_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, log = TRACES / "warm" / "gb_nested.json.gz", TRACES / "logs" / "gb_nested.log.gz"
    found = as_json(capsys, trace, "cpp_fused_cos", "--compile-log", log)
    (place,) = found["places"]
    assert (place["compile_id"], place["function"]) == ("3/0", "inner")
    assert place["code"].startswith("cpp_fused_cos_0 = async_compile.cpp")
    benchmark, vtune = found["commands"]
    assert benchmark["command"] == f"python {place['file_path']}"
    assert (vtune["tool"], "called `kernel`" in vtune["note"]) == ("VTune", True)


def test_names(capsys: pytest.CaptureFixture[str]) -> None:
    short = "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul>>"
    for asked in (short, "CUDAFunctor_add", "vectorized_elementwise_kernel<4, CUDAF…3ul>>"):
        assert as_json(capsys, CLI_TRACE, asked)["name"].startswith("void at::native::vectorized"), asked
    status, out, err = run(capsys, CLI_TRACE, "vectorized_elementwise")
    assert (status, out) == (2, "")
    assert "2 kernels" in err
    status, out, err = run(capsys, CLI_TRACE, "no such kernel\x1b[31m")
    assert (status, out) == (2, "")
    assert "\x1b" not in err
    assert RELU in err or "the most costly are" in err


def test_function_names() -> None:
    assert function_name(RELU) == RELU
    assert (
        function_name("void at::native::(anonymous namespace)::fill<4, at::F<int> >(int, float*)") == "fill"
    )
    assert (
        function_name("nvjet_sm90_tst_64x24_64x16_2x4_h_bz_NNT") == "nvjet_sm90_tst_64x24_64x16_2x4_h_bz_NNT"
    )
    assert function_name("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)") == (
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    )
    assert function_name("") == ""


def test_text_is_safe_and_holds_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, CLI_TRACE, RELU, "--compile-log", LOG)
    assert status == 0
    assert "/home/user/workloads.py:70 in" in out
    assert "b = s.mod2(a)" in out
    assert f"    def {RELU}(" in out
    assert "--no-code" not in out
    bare = run(capsys, CLI_TRACE, RELU, "--compile-log", LOG, "--no-code")[1]
    assert "Generated code" not in bare
    assert len(bare) < len(out)
    evil = "k\x1b[2Jx"
    trace_of(tmp_path, [op("aten::a\x1b[0m", 0, 9), call(1, 1), kernel(1, 3, 2, name=evil)])
    shown = run(capsys, tmp_path / "trace.json", "k")[1]
    assert "\x1b" not in shown
    assert "\\x1b[2Jx" in shown


def test_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(CLI_TRACE, tmp_path / "a.json.gz")
    shutil.copy(CLI_TRACE, tmp_path / "b.json.gz")
    status, _, err = run(capsys, tmp_path, RELU)
    assert (status, "holds 2 traces" in err) == (2, True)
    status, _, err = run(capsys, CLI_TRACE, RELU, "-o", CLI_TRACE)
    assert (status, "overwrite" in err) == (2, True)
    assert run(capsys, tmp_path / "missing.json", RELU)[0] == 2
