"""Every pathology in tests/cases, from the command line to the JSON, against values worked out by hand.

The numbers are those of the notes that came with the cases: each was computed from the events by
a person, in microseconds, and stands here as it stood there.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from case_reports import CASES, run


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Any:
    def made(name: str) -> dict[str, Any]:
        status, out, err = run(capsys, "--format", "json", str(CASES / name))
        assert (status, err) == (0, "")
        found: dict[str, Any] = json.loads(out, parse_constant=lambda c: pytest.fail(f"not strict JSON: {c}"))
        return found

    return made


def us(value: int | None) -> float | None:
    return None if value is None else value / 1000


def device(report: dict[str, Any], index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = report["device_time"][index]
    return found


def busy_span_gaps(report: dict[str, Any]) -> tuple[Any, Any, Any]:
    d = device(report)
    return us(d["busy_ns"]), us(d["span_ns"]), us(d["idle_ns"])


def warned(report: dict[str, Any]) -> dict[str, int]:
    return {w["code"]: w["count"] for w in report["trace"]["warnings"]}


def finding_codes(report: dict[str, Any]) -> set[str]:
    return {f["code"] for f in report["findings"]}


BASE = [
    "R01_windows_backslash.json",
    "R02_unescaped_quotes.json",
    "R04_inf_nan_na.json",
    "R08_non_utf8.json",
    "R09_big_ints_dup_keys.json",
    "R12b_gzip_named_json.json",
    "R14_with_stack.json",
    "R15_zero_ts_kernel.json",
    "R19_string_ts.json",
    "R28_flow_mismatch.json",
    "R30_no_profilerstep.json",
    "R33_rank_from_name-rank3.json",
    "R50_memory_events.json",
]


@pytest.mark.parametrize("name", BASE)
def test_the_events_that_every_variant_shares(report: Any, name: str) -> None:
    """Busy 100+100+100, span 1400-1060, gaps 20+20, region 0/0 once, 3 launches."""
    r = report(name)
    assert busy_span_gaps(r) == (300.0, 340.0, 40.0)
    assert device(r)["gaps"] == 2
    assert [(region["id"], region["calls"]) for region in r["regions"]] == [("0/0", 1)]
    assert r["kernels"]["count"] == 3
    # an event without a time is counted where its launch is
    assert r["launches"]["launch_calls"] - warned(r).get("invalid-times", 0) == 3
    # launch->kernel delays 10, 30 and 50 us
    assert us(r["launches"]["median_queue_ns"]) == 30.0
    assert r["trace"]["complete"]


def test_r01_escapes_are_repaired_and_counted(report: Any) -> None:
    assert warned(report("R01_windows_backslash.json"))["repaired-escape"] >= 1


def test_r02_quotes_are_repaired_and_counted(report: Any) -> None:
    assert warned(report("R02_unescaped_quotes.json"))["repaired-quotes"] == 1


def test_r04_bare_words_become_null(report: Any) -> None:
    assert warned(report("R04_inf_nan_na.json"))["repaired-number"] == 3


def test_r05_truncated(report: Any) -> None:
    """2 kernels complete, busy 200, span 1060..1280 = 220, gap 20; 3 launches, one without a kernel."""
    r = report("R05_truncated_plain.json")
    assert not r["trace"]["complete"]
    assert "truncated" in warned(r)
    assert r["kernels"]["count"] == 2
    assert busy_span_gaps(r) == (200.0, 220.0, 20.0)
    assert r["launches"]["launch_calls"] == 3
    assert "trace-incomplete" in finding_codes(r)
    assert "device-events-missing" not in finding_codes(r)


def test_r06_truncated_gzip(report: Any) -> None:
    r = report("R06_truncated_gzip.json.gz")
    assert not r["trace"]["complete"]
    message = r["trace"]["warnings"][0]["message"]
    assert "PARTIAL" in message
    assert "gzip data ends early" in message


def test_r08_bytes_that_are_not_utf8(report: Any) -> None:
    assert warned(report("R08_non_utf8.json"))["repaired-utf8"] >= 1


def test_r09_unset_totals_are_left_out(report: Any) -> None:
    """Peak allocated 4096 B; 2**64-1 means unset; the last of two correlations wins and links."""
    r = report("R09_big_ints_dup_keys.json")
    assert r["launches"]["linked"] == 3
    memory = r["memory"]["device"]
    assert [m["peak_allocated_bytes"] for m in memory] == [4096]
    assert all((m["peak_reserved_bytes"] or 0) < 2**62 for m in memory)


def test_r11_legacy_export(report: Any) -> None:
    """CPU op 134.5 us, device 30 us; what it cannot tell is null, and it is said."""
    r = report("R11_legacy_autograd_list.json")
    assert "legacy-format" in warned(r)
    assert us(device(r)["busy_ns"]) == 30.0
    assert r["compiled"]["verdict"] == "unknown"
    assert r["launches"]["launch_calls"] == 0


def test_r12_two_ranks_are_not_added_up(report: Any) -> None:
    r = report("R12_two_ranks.zip")
    assert [rank["trace"]["rank"] for rank in r["ranks"]] == [0, 1]
    for rank in [*r["ranks"], r]:
        assert busy_span_gaps(rank) == (300.0, 340.0, 40.0)
        assert rank["kernels"]["count"] == 3
    assert r["trace"]["rank"] == 0


def test_r14_stacks_are_not_work(report: Any) -> None:
    r = report("R14_with_stack.json")
    assert warned(r)["with-stack"] == 200
    assert r["compile_time"]["total_ns"] == 0


def test_r15_a_kernel_without_time(report: Any) -> None:
    """Busy 300, span 340, valid kernels 3 and one invalid, launches 4."""
    r = report("R15_zero_ts_kernel.json")
    assert warned(r)["invalid-times"] == 1
    assert r["launches"]["launch_calls"] == 4


def test_r16_negative_durations(report: Any) -> None:
    """3 invalid; busy 300, kernel time 300, span 340."""
    r = report("R16_negative_durations.json")
    assert warned(r)["invalid-times"] == 3
    assert busy_span_gaps(r) == (300.0, 340.0, 40.0)
    assert us(r["kernels"]["total_ns"]) == 300.0


def test_r17_zero_durations_are_valid(report: Any) -> None:
    r = report("R17_zero_duration.json")
    assert r["kernels"]["count"] == 4
    assert busy_span_gaps(r) == (300.0, 340.0, 40.0)
    assert device(r)["gaps"] == 2


def test_r19_string_times(report: Any) -> None:
    assert warned(report("R19_string_ts.json"))["string-timestamp"] >= 1


def test_r21_an_impossible_duration_is_cut(report: Any) -> None:
    """Clipped at 1200: busy 50+120+50+50 = 270, span 290, gaps 20."""
    r = report("R21_impossible_duration.json")
    assert busy_span_gaps(r) == (270.0, 290.0, 20.0)
    assert warned(r)["impossible-duration"] == 1
    assert us(r["kernels"]["total_ns"]) == 270.0
    assert max(k["total_ns"] for k in r["kernels"]["top"]) <= 120_000


def test_r22_overlaps_on_one_stream(report: Any) -> None:
    """Sum 150.064, union 1020..1160 = 140, no gap."""
    r = report("R22_small_same_stream_overlap.json")
    assert busy_span_gaps(r) == (140.0, 140.0, 0.0)
    assert us(r["kernels"]["total_ns"]) == 150.064
    assert device(r)["gaps"] == 0
    assert warned(r) == {}


@pytest.mark.parametrize(("name", "rank", "dur"), [("R24_rank0.json", 0, 200.0), ("R24_rank1.json", 1, 50.0)])
def test_r24_ranks_with_their_own_base(report: Any, name: str, rank: int, dur: float) -> None:
    r = report(name)
    assert r["trace"]["rank"] == rank
    assert us(device(r)["communication_ns"]) == dur


def test_r25_no_device_events(report: Any) -> None:
    """10 launches of 50 us in all, 450 us waiting, region 0/0 once; nothing about utilisation or idleness."""
    r = report("R25_no_gpu_events.json")
    assert "device-events-missing" in finding_codes(r)
    assert r["idle"] is None
    assert r["kernels"] is None
    assert r["device_time"] == []
    assert r["launches"]["launch_calls"] == 10
    assert us(r["launches"]["launch_ns"]) == 50.0
    assert us(r["launches"]["sync_ns"]) == 450.0
    assert [(region["id"], region["calls"]) for region in r["regions"]] == [("0/0", 1)]


def test_r26_work_from_before_the_window(report: Any) -> None:
    """5 kernels, 2 of them launched before; busy 324, span 395, gaps 71; region 0/0 has 300."""
    r = report("R26_spill_in_unlinked.json")
    assert r["launches"]["unlinked"] == r["launches"]["launched_before_window"] == 2
    assert busy_span_gaps(r) == (324.0, 395.0, 71.0)
    assert us(r["regions"][0]["device_ns"]) == 300.0
    assert "device-events-missing" not in finding_codes(r)


def test_r30_no_steps(report: Any) -> None:
    r = report("R30_no_profilerstep.json")
    assert r["steps"]["count"] is None
    assert r["steps"]["source"] is None


def test_r32_device_rows_alone(report: Any) -> None:
    """4 kernels, busy 120, span 180, three gaps of 20; nothing about the CPU."""
    r = report("R32_gpu_only.json")
    assert r["kernels"]["count"] == 4
    assert busy_span_gaps(r) == (120.0, 180.0, 60.0)
    assert device(r)["gaps"] == 3
    assert r["compiled"]["verdict"] == "unknown"
    assert r["launches"]["launch_ns"] is None


def test_r33_rank_from_the_name(report: Any) -> None:
    r = report("R33_rank_from_name-rank3.json")
    assert r["trace"]["rank"] == 3
    assert warned(r)["rank-from-name"] == 1


def test_r34_one_correlation_many_kernels(report: Any) -> None:
    """2 host launches of 41 us, 8 kernels all linked, 4 a launch; region 0/0 twice with 200 us; busy 200."""
    r = report("R34_cudagraph_one_correlation.json")
    launches = r["launches"]
    assert launches["launch_calls"] == launches["graph_launches"] == 2
    assert us(launches["launch_ns"]) == 82.0
    assert launches["linked"] == 8
    assert launches["device_events_per_graph_launch"] == [4, 4]
    assert (r["regions"][0]["calls"], us(r["regions"][0]["device_ns"])) == (2, 200.0)
    assert us(device(r)["busy_ns"]) == 200.0
    assert r["cuda_graphs"]["replays"] == 2


def test_r38_region_names(report: Any) -> None:
    """6 calls, each with one kernel of 10 us; lookups 6 x 7 = 42 us; frame 0 was compiled twice."""
    r = report("R38_region_name_variants.json")
    ids = {region["id"] for region in r["regions"]}
    assert {"0/0", "0/1", "!0/1/0", "Unknown", ""} <= ids
    assert len(ids) == 6
    assert all((region["calls"], us(region["device_ns"])) == (1, 10.0) for region in r["regions"])
    assert us(r["launches"]["lookup_ns"]) == 42.0
    assert r["recompiles"]["count"] == 1


def test_r39_neighbours_are_no_breaks(report: Any) -> None:
    """No break, no recompilation; compiled 6 x 40, eager 4 x 10, waiting 4 x 35."""
    r = report("R39_graph_breaks.json")
    assert r["graph_breaks"]["count"] == 0
    assert r["recompiles"]["count"] == 0
    assert "possible-break" in finding_codes(r)
    assert us(sum(region["device_ns"] for region in r["regions"])) == 240.0
    eager = [o for o in r["kernels"]["by_origin"] if o["origin"] == "eager"]
    assert us(eager[0]["total_ns"]) == 40.0
    assert us(r["launches"]["sync_ns"]) == 140.0


def test_r40_compiling_in_the_window(report: Any) -> None:
    """Union 750 000 + 100 000 us; the region of 20 000 us is running, not compiling; busy 500."""
    r = report("R40_compile_in_window.json")
    assert us(r["compile_time"]["total_ns"]) == 850_000.0
    assert us(r["compile_time"]["in_window_ns"]) == 850_000.0
    assert "compile-in-window" in finding_codes(r)
    assert us(r["regions"][0]["total_ns"]) == 20_000.0
    assert us(device(r)["busy_ns"]) == 500.0


def test_r42_guards(report: Any) -> None:
    """Busy 350 over 1750, lookups 850, region 900, graph launches 200, gaps 4 x 350."""
    r = report("R42_guard_overhead.json")
    assert busy_span_gaps(r) == (350.0, 1750.0, 1400.0)
    assert device(r)["gaps"] == 4
    assert us(r["launches"]["lookup_ns"]) == 850.0
    assert us(r["regions"][0]["total_ns"]) == 900.0
    assert us(r["launches"]["launch_ns"]) == 200.0
    assert r["launches"]["graph_launches"] == 5


def test_r46_a_collective_that_waited(report: Any) -> None:
    r = report("R46_collective_skew.json")
    kinds = {k["kind"]: us(k["total_ns"]) for k in r["kernels"]["by_kind"]}
    assert kinds["communication"] == 17_456_098.0
    assert us(device(r)["compute_ns"]) == 360.0


def test_r47_rocm(report: Any) -> None:
    """3 kernels, 1 memcpy, 1 memset launched; busy 77, span 110, gaps 33; never called CUDA."""
    r = report("R47_rocm.json")
    assert r["trace"]["device_kind"] == "rocm"
    assert r["launches"]["launch_calls"] == 5
    assert busy_span_gaps(r) == (77.0, 110.0, 33.0)
    d = device(r)
    assert (us(d["memcpy_ns"]), us(d["communication_ns"])) == (5.0, 20.0)
    kinds = {k["kind"]: us(k["total_ns"]) for k in r["kernels"]["by_kind"]}
    assert kinds["gemm"] == 40.0
    origins = {o["origin"]: us(o["total_ns"]) for o in r["kernels"]["by_origin"]}
    assert origins["inductor_triton"] == 10.0
    assert origins["memory"] == 7.0


def test_r48_xpu(report: Any) -> None:
    """2 kernels, 2 launches; busy 60, span 80, gap 20."""
    r = report("R48_xpu.json")
    assert r["trace"]["device_kind"] == "xpu"
    assert r["kernels"]["count"] == 2
    assert r["launches"]["launch_calls"] == 2
    assert busy_span_gaps(r) == (60.0, 80.0, 20.0)


def test_r49_cpu_only(report: Any) -> None:
    """Region 0/0 once, 300 us; cpp_fused 120 and aten::mm 100 in it; no idle verdict."""
    r = report("R49_cpu_or_mps_only.json")
    assert r["trace"]["device_kind"] == "cpu"
    assert r["idle"] is None
    assert r["device_time"] == []
    assert (r["regions"][0]["calls"], us(r["regions"][0]["total_ns"])) == (1, 300.0)
    top = {k["name"]: us(k["total_ns"]) for k in r["kernels"]["top"]}
    assert sorted(top.values()) == [100.0, 120.0]


def test_r50_memory(report: Any) -> None:
    memory = report("R50_memory_events.json")["memory"]
    assert [m["peak_allocated_bytes"] for m in memory["device"]] == [3_145_728]
    assert memory["cpu_peak_allocated_bytes"] is not None


def test_r52_two_devices_one_stream_number(report: Any) -> None:
    r = report("R52_big_tid_two_devices.json")
    assert [us(d["busy_ns"]) for d in r["device_time"]] == [10.0, 10.0]


def test_r53_jax_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, str(CASES / "R53_jax_xla.json"))
    assert status == 2
    assert out == ""
    assert "JAX/XLA" in err
    assert err.count("\n") == 1


def test_r54_annotations_of_an_inference_server(report: Any) -> None:
    """DECODE twice; 4 kernels, busy 200."""
    r = report("R54_inference_step_markers.json")
    assert r["kernels"]["count"] == 4
    assert us(device(r)["busy_ns"]) == 200.0
    assert (r["steps"]["source"], r["steps"]["count"]) == ("annotation", 2)
    offered = next(w["message"] for w in r["trace"]["warnings"] if w["code"] == "annotations")
    assert "4 user annotations" in offered
    assert "step[EXTEND bs=1 toks=512] (1 x 400 us)" in offered
    assert "step[DECODE bs=16] (2 x 100 us)" in offered
    assert "(1 x 100 us)" in offered


def test_one_file_twice_is_no_pair_of_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(CASES / "R24_rank0.json")
    status, out, _ = run(capsys, "--format", "json", path, path)
    assert status == 0
    for rank in json.loads(out)["ranks"]:
        assert warned(rank)["rank-twice"] == 2


def test_inputs_that_do_not_know_their_rank(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(
        capsys, "--format", "json", str(CASES / "R17_zero_duration.json"), str(CASES / "R32_gpu_only.json")
    )
    assert status == 0
    assert [warned(rank)["rank-unknown"] for rank in json.loads(out)["ranks"]] == [2, 2]
