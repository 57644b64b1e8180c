"""Launch overhead on hand-built steps: late launches, the queue, and who sets the pace."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Event, call, kernel, links_of, note, op, region, shipped
from kinetoscope.analyses.launch_bound import Queue, late_starts, launch_bound, queue_depth


def host_bound(count: int = 4) -> list[Event]:
    """Steps of 100 us; two launches of 10 us; kernels of 5 us that start 2 us after their calls return."""
    events: list[Event] = []
    for number in range(count):
        at = 100 * number
        events += [note(f"ProfilerStep#{number}", at, 100), region("0/0", at + 5, 60)]
        for which, start in ((1, 10), (2, 40)):
            events += [
                op("aten::mm", at + start, 20),
                call(2 * number + which, at + start + 5, 10),
                kernel(2 * number + which, at + start + 17, 5),
            ]
    return events


def test_host_bound(tmp_path: Path) -> None:
    found = launch_bound(links_of(tmp_path, host_bound()))
    assert found is not None
    assert found.verdict == "cpu"
    assert (found.step_ns, found.host_ns, found.device_ns) == (100_000, 100_000, 10_000)
    assert found.margin == pytest.approx(0.9)
    assert found.late_share == 1.0
    # each launch is in the queue for the 2 us until its kernel starts: 4 of 100 us
    assert found.queue == Queue(mean=pytest.approx(0.04), most=1, empty_share=pytest.approx(0.96))
    assert len(found.steps) == 4
    step = found.steps[1]
    assert (step.name, step.launches, step.launch_ns) == ("ProfilerStep#1", 2, 20_000)
    assert step.host_ns_per_launch == 50_000
    (only,) = found.regions
    # three steps count: the first is left out
    assert (only.name, only.calls, only.launches, only.launch_ns) == ("0/0", 3, 2.0, 20_000)
    assert only.host_ns_per_launch == 30_000
    assert only.late_share == 1.0


def test_queue_over_time(tmp_path: Path) -> None:
    # three launches return at 12, 22 and 32; the device takes them up at 14, 50 and 90
    events = [op("aten::mm", 0, 60)]
    for number, (start, begins) in enumerate(((10, 14), (20, 50), (30, 90))):
        events += [call(number + 1, start, 2), kernel(number + 1, begins, 30)]
    links = links_of(tmp_path, events)
    at, depth = queue_depth(links, late_starts(links)[1])
    assert (at // 1000).tolist() == [12, 14, 22, 32, 50, 90]
    assert depth.tolist() == [1, 0, 1, 2, 1, 0]


def test_device_bound(tmp_path: Path) -> None:
    events: list[Event] = []
    for number in range(5):
        at = 50 * number
        events += [
            note(f"ProfilerStep#{number}", at, 50),
            op("aten::mm", at + 10, 20),
            call(number + 1, at + 15, 10),
            kernel(number + 1, 30 + 200 * number, 199),
        ]
    found = launch_bound(links_of(tmp_path, events))
    assert found is not None
    assert found.verdict == "gpu"
    assert (found.step_ns, found.host_ns, found.device_ns) == (200_000, 50_000, 199_000)
    assert found.margin == pytest.approx(149 / 200)
    assert found.late_share == 0.0
    assert found.queue is not None
    assert found.queue.most == 4


def test_both_wait_for_each_other(tmp_path: Path) -> None:
    # 200 us: 50 of host work, then a wait of 100 us for the kernel, then 50 us again
    events: list[Event] = []
    for number in range(4):
        at = 200 * number
        events += [
            note(f"ProfilerStep#{number}", at, 200),
            op("aten::mm", at + 20, 30),
            call(2 * number + 1, at + 30, 10),
            kernel(2 * number + 1, at + 45, 100),
            call(2 * number + 2, at + 50, 100, name="cudaDeviceSynchronize"),
        ]
    found = launch_bound(links_of(tmp_path, events))
    assert found is not None
    assert found.verdict == "mixed"
    assert (found.step_ns, found.host_ns, found.device_ns) == (200_000, 100_000, 100_000)
    assert found.margin == pytest.approx(0)


def test_kernels_of_a_graph_are_one_launch(tmp_path: Path) -> None:
    events: list[Event] = []
    for number in range(3):
        at = 100 * number
        events += [
            note(f"ProfilerStep#{number}", at, 100),
            op("aten::mm", at + 5, 40),
            call(number + 1, at + 10, 20, name="cudaGraphLaunch"),
            *(kernel(number + 1, at + 35 + 10 * which, 8) for which in range(4)),
        ]
    found = launch_bound(links_of(tmp_path, events))
    assert found is not None
    assert found.late_share == 1.0
    assert [step.launches for step in found.steps] == [1, 1, 1]


def test_nothing_without_launches(tmp_path: Path) -> None:
    assert launch_bound(links_of(tmp_path, [kernel(1, 0, 10), kernel(2, 20, 10)])) is None
    calls = [op("aten::mm", 0, 50), *(call(number, 5 * number, 2) for number in range(1, 9))]
    assert launch_bound(links_of(tmp_path, calls)) is None


def test_a_trace_without_steps_has_no_verdict(tmp_path: Path) -> None:
    events = [op("aten::mm", 0, 50), call(1, 5, 2), kernel(1, 20, 5)]
    found = launch_bound(links_of(tmp_path, events))
    assert found is not None
    assert (found.verdict, found.step_ns, found.margin) == (None, None, None)
    assert found.late_share == 1.0


def test_measured_captures() -> None:
    # eight steps of 66 launches of 2 us kernels, and the same as one graph launch and a copy
    launched = launch_bound(shipped("pair_decode"))
    replayed = launch_bound(shipped("pair_decode_after"))
    assert launched is not None
    assert replayed is not None
    assert launched.verdict == "cpu"
    assert launched.late_share == 1.0
    assert [step.launches for step in launched.steps] == [66] * 8
    assert [step.launches for step in replayed.steps] == [2] * 8
