"""Devices, launches, regions, idle time, compile time, graphs and memory, on small traces and cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers import (
    call,
    event,
    kernel,
    launched,
    links_of,
    note,
    op,
    region,
    shared_trace,
    shipped,
)
from kinetoscope.analyses.autograd import autograd
from kinetoscope.analyses.compile_time import compile_time
from kinetoscope.analyses.cuda_graphs import cuda_graphs
from kinetoscope.analyses.device_time import device_time
from kinetoscope.analyses.idle import find_gaps, idle
from kinetoscope.analyses.launches import launches
from kinetoscope.analyses.memory import memory
from kinetoscope.analyses.regions import regions
from kinetoscope.link import Links
from kinetoscope.schema import DeviceTime, GraphRegion


def case(name: str) -> Links:
    return shared_trace(f"cases/{name}.json")


def device_us(links: Links, device: str = "0") -> dict[str, float]:
    """busy, span and gap time in microseconds, and the number of gaps."""
    (one,) = [one for one in device_time(links) if one.device == device]
    return {"busy": one.busy_ns / 1e3, "span": one.span_ns / 1e3, "idle": one.idle_ns / 1e3, "gaps": one.gaps}


USUAL = {"busy": 300.0, "span": 340.0, "idle": 40.0, "gaps": 2}


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("R01_windows_backslash", USUAL),
        ("R02_unescaped_quotes", USUAL),
        ("R04_inf_nan_na", USUAL),
        ("R05_truncated_plain", {"busy": 200.0, "span": 220.0, "idle": 20.0, "gaps": 1}),
        ("R08_non_utf8", USUAL),
        ("R09_big_ints_dup_keys", USUAL),
        ("R15_zero_ts_kernel", USUAL),
        ("R16_negative_durations", USUAL),
        ("R17_zero_duration", USUAL),
        ("R19_string_ts", USUAL),
        ("R21_impossible_duration", {"busy": 270.0, "span": 290.0, "idle": 20.0, "gaps": 2}),
        ("R22_small_same_stream_overlap", {"busy": 140.0, "span": 140.0, "idle": 0.0, "gaps": 0}),
        ("R26_spill_in_unlinked", {"busy": 324.0, "span": 395.0, "idle": 71.0, "gaps": 4}),
        ("R28_flow_mismatch", USUAL),
        ("R32_gpu_only", {"busy": 120.0, "span": 180.0, "idle": 60.0, "gaps": 3}),
        ("R42_guard_overhead", {"busy": 350.0, "span": 1750.0, "idle": 1400.0, "gaps": 4}),
        ("R47_rocm", {"busy": 77.0, "span": 110.0, "idle": 33.0, "gaps": 4}),
        ("R48_xpu", {"busy": 60.0, "span": 80.0, "idle": 20.0, "gaps": 1}),
    ],
)
def test_device_time_of_cases(name: str, right: dict[str, float]) -> None:
    assert device_us(case(name)) == right


def test_two_devices_with_one_stream_number() -> None:
    found = device_time(case("R52_big_tid_two_devices"))
    assert [(one.device, one.busy_ns) for one in found] == [("0", 10_000), ("1", 10_000)]


def test_classes_and_exposure(tmp_path: Path) -> None:
    (found,) = device_time(
        links_of(
            tmp_path,
            [
                kernel(1, 0, 10, name="gemm"),
                kernel(2, 5, 10, name="ncclDevKernel_AllReduce", stream=20),
                kernel(3, 12, 10, name="Memcpy HtoD", stream=21, cat="gpu_memcpy"),
                kernel(4, 30, 10, name="Memset", cat="gpu_memset"),
                kernel(5, 35, 2, name="custom", stream=20, **{"Collective name": "allreduce"}),
            ],
        )
    )
    assert found == DeviceTime(
        device="0",
        events=5,
        span_ns=40_000,
        busy_ns=32_000,
        idle_ns=8_000,
        gaps=1,
        compute_ns=20_000,
        communication_ns=12_000,
        memcpy_ns=10_000,
        exposed_communication_ns=5_000,
        exposed_memcpy_ns=7_000,
    )


def test_device_without_number_is_its_process(tmp_path: Path) -> None:
    events = [
        event("kernel", "a", 0, 5, pid=3, tid=1),
        event("kernel", "b", 10, 5, pid="GPU", tid=1),
        event("kernel", "c", 20, 5, pid=3, tid=2, device=1),
        event("kernel", "d", 2, 5, pid=4, tid=2, device=3),
    ]
    found = {one.device: one.busy_ns for one in device_time(links_of(tmp_path, events))}
    assert found == {"1": 5_000, "3": 7_000, "GPU": 5_000}


def test_collective_by_name() -> None:
    (found,) = device_time(case("R46_collective_skew"))
    assert (found.communication_ns, found.compute_ns) == (17_456_098_000, 360_000)


def test_launches(tmp_path: Path) -> None:
    links = links_of(
        tmp_path,
        [
            op("TorchDynamo Cache Lookup", 0, 7),
            call(1, 10, 4),
            call(2, 20, 6),
            call(2, 21, 3, name="cuLaunchKernel", cat="cuda_driver"),
            call(3, 30, 50, name="cudaStreamSynchronize"),
            call(4, 31, 40, name="cuStreamSynchronize", cat="cuda_driver"),  # inside the runtime's
            call(5, 90, 2, name="cudaStreamIsCapturing"),
            kernel(1, 15, 1),
            kernel(2, 50, 1),
            kernel(77, 60, 1),
        ],
    )
    found = launches(links)
    assert (found.launch_calls, found.linked, found.unlinked) == (2, 2, 1)
    assert (found.launch_ns, found.median_launch_ns) == (10_000, 5_000)
    assert found.median_queue_ns == 17_500  # 5 and 30 us
    assert (found.sync_ns, found.lookup_ns) == (50_000, 7_000)


def test_kernel_before_its_launch_is_no_wait(tmp_path: Path) -> None:
    links = links_of(tmp_path, [call(1, 10), kernel(1, 8, 5), call(2, 20), kernel(2, 26, 5)])
    assert launches(links).median_queue_ns == 6_000


def test_what_was_not_recorded_is_null(tmp_path: Path) -> None:
    found = launches(links_of(tmp_path, [kernel(1, 0, 5)]))
    assert (found.launch_ns, found.median_launch_ns, found.median_queue_ns) == (None, None, None)
    assert (found.sync_ns, found.lookup_ns) == (None, None)
    only_cpu = launches(links_of(tmp_path, [op("aten::add", 0, 5)]))
    assert (only_cpu.launch_ns, only_cpu.lookup_ns) == (None, 0)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        (
            "R25_no_gpu_events",
            {"launch_calls": 10, "launch_ns": 50_000, "sync_ns": 450_000, "device_events": 0},
        ),
        ("R15_zero_ts_kernel", {"launch_calls": 4, "linked": 4}),
        ("R26_spill_in_unlinked", {"unlinked": 2, "launched_before_window": 2}),
        ("R28_flow_mismatch", {"launch_calls": 3, "linked": 3, "median_queue_ns": 30_000}),
        (
            "R34_cudagraph_one_correlation",
            {"launch_calls": 2, "launch_ns": 82_000, "linked": 8, "device_events_per_graph_launch": [4, 4]},
        ),
        ("R38_region_name_variants", {"lookup_ns": 42_000}),
        ("R39_graph_breaks", {"sync_ns": 140_000}),
        ("R42_guard_overhead", {"lookup_ns": 850_000, "launch_ns": 200_000, "graph_launches": 5}),
        ("R47_rocm", {"launch_calls": 5}),
        ("R48_xpu", {"launch_calls": 2, "linked": 2}),
    ],
)
def test_launches_of_cases(name: str, right: dict[str, Any]) -> None:
    found = launches(case(name))
    assert {field: getattr(found, field) for field in right} == right


def test_regions(tmp_path: Path) -> None:
    links = links_of(
        tmp_path,
        [
            region("0/0", 0, 50),
            region("1/0", 10, 30),
            op("CompiledFunction", 12, 5),
            region("1/0", 60, 10),
            call(1, 15),
            kernel(1, 100, 9),
        ],
    )
    inner, outer = regions(links)
    assert (inner.id, inner.calls, inner.nested_calls, inner.parents) == ("1/0", 2, 1, {"0/0": 1})
    assert (inner.total_ns, inner.self_ns, inner.device_ns) == (40_000, 40_000, 9_000)
    assert inner.compiled_functions_per_call == 0.5
    assert (outer.id, outer.total_ns, outer.self_ns, outer.parents) == ("0/0", 50_000, 20_000, {})


def test_region_names_of_all_versions() -> None:
    found = regions(case("R38_region_name_variants"))
    assert len(found) == 6
    assert {one.device_ns for one in found} == {10_000}
    assert {"", "0/0", "0/1", "!0/1/0", "Unknown"} < {one.id for one in found}


def test_region_of_a_cpu_trace() -> None:
    (found,) = regions(case("R49_cpu_or_mps_only"))
    assert (found.calls, found.total_ns, found.device_ns) == (1, 300_000, 0)
    assert device_time(case("R49_cpu_or_mps_only")) == []


def test_idle_is_null_where_nothing_was_recorded(tmp_path: Path) -> None:
    assert idle(case("R25_no_gpu_events")) is None
    assert idle(case("R49_cpu_or_mps_only")) is None
    lost = [call(number, number) for number in range(1, 30)]
    assert idle(links_of(tmp_path, [*lost, kernel(1, 100, 1), kernel(2, 200, 1)])) is None
    broken = [event("kernel", "k", 0, 0, pid=0, tid=7, device=0), op("aten::add", 5, 1)]
    assert idle(links_of(tmp_path, broken)) is None


def test_idle_gaps(tmp_path: Path) -> None:
    links = links_of(
        tmp_path,
        [
            kernel(1, 0, 10),
            kernel(2, 15, 10, stream=8),
            kernel(3, 40, 10),
            kernel(4, 100, 10, device=1),
            kernel(5, 113, 10, device=1),
        ],
    )
    found = idle(links)
    assert found is not None
    assert (found.total_ns, found.gaps) == (23_000, 3)
    assert found.share == pytest.approx(23 / 73)
    assert [(gap.start_ns, gap.dur_ns, gap.device, gap.cause) for gap in found.longest] == [
        (25_000, 15_000, "0", "unknown"),
        (10_000, 5_000, "0", "unknown"),
        (110_000, 3_000, "1", "unknown"),
    ]
    assert [links.trace.columns.correlation[row] for row in find_gaps(links).next_row] == [2, 3, 5]


def test_without_cpu_rows_no_cause_is_known(tmp_path: Path) -> None:
    # gaps of 1, 2, 3 and 4 us
    links = links_of(tmp_path, [kernel(number, 10 * number, 10 - number) for number in range(1, 6)])
    found = idle(links)
    assert found is not None
    assert [(cause.cause, cause.total_ns, cause.gaps, cause.share) for cause in found.by_cause] == [
        ("unknown", 10_000, 4, 1.0)
    ]
    longest = found.longest[0]
    assert (longest.dur_ns, longest.cause, longest.detail) == (4_000, "unknown", None)


def test_longest_gaps_are_limited(tmp_path: Path) -> None:
    links = links_of(tmp_path, [kernel(number, 10 * number, 5) for number in range(60)])
    found = idle(links)
    assert found is not None
    assert (found.gaps, len(found.longest)) == (59, 20)
    assert [gap.start_ns for gap in found.longest] == [5_000 + 10_000 * number for number in range(20)]


def test_compile_time() -> None:
    found = compile_time(case("R40_compile_in_window"))
    assert (found.total_ns, found.in_window_ns, found.source) == (850_000_000, 850_000_000, "trace")
    (frame,) = found.frames
    assert (frame.id, frame.total_ns) == (None, 850_000_000)
    phases = {phase.name: (phase.total_ns, phase.self_ns) for phase in frame.phases}
    assert phases["_compile.compile_inner"] == (750_000_000, 10_000_000)
    assert phases["backward._backward_impl"] == (100_000_000, 2_000_000)
    assert sum(self_ns for _, self_ns in phases.values()) == 850_000_000


def test_compile_time_of_recursion_counts_once(tmp_path: Path) -> None:
    links = links_of(
        tmp_path,
        [
            note("a_data: compile_id=3/1", 0, 1),
            note("a (dynamo_timed)", 2, 20),
            note("a (dynamo_timed)", 5, 10),
        ],
    )
    (frame,) = compile_time(links).frames
    assert (frame.id, frame.total_ns) == ("3/1", 20_000)
    assert [(one.name, one.total_ns, one.self_ns) for one in frame.phases] == [("a", 20_000, 20_000)]


def test_compile_time_unknown_or_none(tmp_path: Path) -> None:
    assert compile_time(links_of(tmp_path, [op("aten::add", 0, 5)])).total_ns == 0
    found = compile_time(case("R32_gpu_only"))
    assert (found.total_ns, found.source) == (None, None)


def test_cuda_graphs() -> None:
    found = cuda_graphs(shipped("gpt_decode"))
    assert (found.used, found.replays) == (True, 10)
    assert found.regions == [GraphRegion(id="0/1", replays=10, device_ns=1_333_693)]
    found = cuda_graphs(case("R34_cudagraph_one_correlation"))
    assert found.regions == [GraphRegion(id="0/0", replays=2, device_ns=200_000)]


def test_graphs_outside_regions_and_none(tmp_path: Path) -> None:
    outside = [call(1, 0, name="hipGraphLaunch"), kernel(1, 10, 3), kernel(1, 14, 3)]
    found = cuda_graphs(links_of(tmp_path, outside))
    assert found.regions == [GraphRegion(id=None, replays=1, device_ns=6_000)]
    found = cuda_graphs(links_of(tmp_path, launched(1, ["a"], 0)))
    assert (found.used, found.replays, found.regions) == (False, 0, [])
    assert cuda_graphs(links_of(tmp_path, [op("aten::add", 0, 5)])).used is None


def test_memory_of_cases() -> None:
    found = memory(case("R50_memory_events"))
    assert found is not None
    (device,) = found.device
    assert (device.device, device.peak_allocated_bytes) == ("0", 3_145_728)
    found = memory(case("R09_big_ints_dup_keys"))
    assert found is not None
    assert found.device[0].peak_allocated_bytes == 4096
    assert found.device[0].peak_reserved_bytes is None
    assert memory(case("R28_flow_mismatch")) is None


def test_memory_without_totals_is_summed(tmp_path: Path) -> None:
    def moved(time_us: float, amount: int, kind: int, device: int) -> dict[str, Any]:
        args = {"Bytes": amount, "Device Type": kind, "Device Id": device}
        return {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": time_us, "s": "t", "args": args}

    events = [
        moved(1, 100, 1, 0),
        moved(3, -100, 1, 0),
        moved(2, 50, 1, 0),
        moved(1, 7, 1, 1),
        moved(1, 5, 0, -1),
    ]
    found = memory(links_of(tmp_path, [op("aten::add", 0, 5), *events]))
    assert found is not None
    assert [(one.device, one.peak_allocated_bytes) for one in found.device] == [("0", 150), ("1", 7)]
    assert found.cpu_peak_allocated_bytes == 5


def test_autograd() -> None:
    found = autograd(shipped("seed_breaks"))
    assert (found.pairs, found.unpaired_forward, found.unpaired_backward) == (12, 0, 0)
    assert (found.linked_by.fwdbwd, found.linked_by.sequence_number) == (12, 0)
    assert [pair.region for pair in found.list[:4]] == ["0/0", "1/0", "2/0", "3/0"]
    assert all(pair.backward_device_ns for pair in found.list)
    found = autograd(shared_trace("traces/public/hta/negative_queue_rank0.json.gz"))
    assert (found.pairs, found.linked_by.sequence_number) == (35, 35)
    found = autograd(shared_trace("traces/gpu/straggler/rank1.trace.json.gz"))
    assert (found.pairs, found.unpaired_forward) == (100, 20)
