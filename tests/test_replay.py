"""The replay: hand-built steps in which it is plain what a longer kernel or a slower host must do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinetoscope
from helpers import HAS_SHARED, NO_SHARED, SHARED, Event, call, kernel, links_of, note, op
from kinetoscope import analyses
from kinetoscope.link import link
from kinetoscope.replay import Model, Replayed, build, run
from kinetoscope.replay.model import Item

STEPS = 6


def model_of(tmp_path: Path, events: list[Event]) -> Model:
    model = build(links_of(tmp_path, events))
    assert model is not None
    return model


def stretched_kernel(model: Model, name: str, by_us: float) -> Replayed:
    """Replayed with every run of this kernel longer."""
    names = model.links.trace.names
    mine = model.links.trace.columns.name[model.events.row] == names.index[name]
    assert mine.any()
    return run(model.with_events(model.events.dur_ns + np.where(mine, round(by_us * 1e3), 0)))


def stretched_host(model: Model, operator: str, by_us: float) -> Replayed:
    """Replayed with the first host segment of this operator longer, every time."""
    trace = model.links.trace
    rows = np.maximum(model.host.row, 0)
    mine = (model.host.row >= 0) & (trace.columns.name[rows] == trace.names.index[operator])
    first = np.flatnonzero(mine)
    first = first[np.append(True, np.diff(model.host.row[first]) != 0)]
    assert len(first)
    longer = model.host.dur_ns.copy()
    longer[first] += round(by_us * 1e3)
    return run(model.with_host(longer))


def host_bound() -> list[Event]:
    """Steps of 300 us: kernels a (20 us) and b (30 us) start 2 us after their calls return."""
    events: list[Event] = []
    for number in range(STEPS):
        at = 300 * number
        events += [
            note(f"ProfilerStep#{number}", at, 300),
            op("aten::a", at + 50, 40),
            call(2 * number + 1, at + 60, 8),
            kernel(2 * number + 1, at + 70, 20, name="a"),
            op("aten::b", at + 200, 50),
            call(2 * number + 2, at + 210, 8),
            kernel(2 * number + 2, at + 220, 30, name="b"),
        ]
    return events


def test_host_bound(tmp_path: Path) -> None:
    model = model_of(tmp_path, host_bound())
    assert run(model).step_ns == 300_000
    # the device has 130 us from b's end to the next a, 130 from a's end to b: nothing changes before that
    assert stretched_kernel(model, "b", 100).step_ns == 300_000
    # b of 330 us does not fit any more: a and b and the rest between queued kernels fill a step
    assert stretched_kernel(model, "b", 300).step_ns == 20_000 + 330_000 + 2 * 700
    assert stretched_host(model, "aten::a", 25).step_ns == 325_000
    assert stretched_host(model, "aten::b", -5).step_ns == 295_000


def device_bound() -> list[Event]:
    """The host needs 100 us a step and is ahead; kernels a (150 us) and b (50 us), 1 us between them."""
    events: list[Event] = []
    for number in range(STEPS):
        at, device = 100 * number, 202 * number + 40
        events += [
            note(f"ProfilerStep#{number}", at, 100),
            op("aten::a", at + 10, 40),
            call(2 * number + 1, at + 20, 8),
            kernel(2 * number + 1, device, 150, name="a"),
            op("aten::b", at + 60, 30),
            call(2 * number + 2, at + 70, 8),
            kernel(2 * number + 2, device + 151, 50, name="b"),
        ]
    return events


def test_device_bound(tmp_path: Path) -> None:
    model = model_of(tmp_path, device_bound())
    assert run(model).step_ns == 202_000
    assert stretched_kernel(model, "a", 40).step_ns == 242_000
    assert stretched_kernel(model, "a", -30).step_ns == 172_000
    assert stretched_host(model, "aten::a", 60).step_ns == 202_000
    # 150 us more make the host need 250 us a step
    assert stretched_host(model, "aten::a", 150).step_ns == 250_000


def synchronised() -> list[Event]:
    """Steps of 200 us: 50 us until the launch returns, 2 us, kernel a of 100 us, 3 us until the wait returns,
    and 45 us of host work that runs alone."""
    events: list[Event] = []
    for number in range(STEPS):
        at = 200 * number
        events += [
            note(f"ProfilerStep#{number}", at, 200),
            op("aten::a", at + 10, 45),
            call(2 * number + 1, at + 42, 8),
            kernel(2 * number + 1, at + 52, 100, name="a"),
            op("aten::item", at + 60, 97),
            call(2 * number + 2, at + 65, 90, name="cudaStreamSynchronize"),
            op("aten::c", at + 160, 20),
        ]
    return events


def test_synchronised(tmp_path: Path) -> None:
    model = model_of(tmp_path, synchronised())
    assert run(model).step_ns == 200_000
    # every part is on the only path there is
    assert stretched_kernel(model, "a", 40).step_ns == 240_000
    assert stretched_kernel(model, "a", -40).step_ns == 160_000
    assert stretched_host(model, "aten::a", 10).step_ns == 210_000
    assert stretched_host(model, "aten::c", 10).step_ns == 210_000
    # what the host does between launch and wait is hidden behind the kernel: 10 us of item until the wait
    assert stretched_host(model, "aten::item", 30).step_ns == 200_000


def blocking_copies() -> list[Event]:
    """Steps of 200 us with a copy to the host that the host waits for."""
    events: list[Event] = []
    for number in range(STEPS):
        at = 200 * number
        events += [
            note(f"ProfilerStep#{number}", at, 200),
            op("aten::a", at + 10, 30),
            call(2 * number + 1, at + 20, 8),
            kernel(2 * number + 1, at + 30, 60, name="a"),
            op("aten::copy_", at + 45, 110),
            call(2 * number + 2, at + 50, 100, name="cudaMemcpyAsync"),
            kernel(2 * number + 2, at + 91, 50, name="Memcpy DtoH (Device -> Pageable)", cat="gpu_memcpy"),
        ]
    return events


def test_blocking_copy(tmp_path: Path) -> None:
    model = model_of(tmp_path, blocking_copies())
    # the copy follows the kernel after 1 us and the call returns 9 us after the copy
    assert run(model).step_ns == 200_000
    assert stretched_kernel(model, "a", 15).step_ns == 215_000
    assert stretched_kernel(model, "Memcpy DtoH (Device -> Pageable)", 15).step_ns == 215_000
    assert stretched_host(model, "aten::a", 15).step_ns == 215_000


def two_streams(number_of_steps: int = STEPS) -> list[Event]:
    """Kernel a on stream 7; b on stream 20 waits for it by an event. The host needs 100 us a step.

    a takes 120 us, b 60 us. b runs beside the a of the next step, so a step takes 121 us.
    """
    events: list[Event] = []
    for number in range(number_of_steps):
        at, device = 100 * number, 121 * number + 40
        first = 10 * number
        events += [
            note(f"ProfilerStep#{number}", at, 100),
            op("aten::a", at + 10, 60),
            call(first + 1, at + 20, 8),
            kernel(first + 1, device, 120, name="a"),
            call(first + 2, at + 30, 2, name="cudaEventRecord"),
            call(first + 3, at + 34, 2, name="cudaStreamWaitEvent"),
            call(first + 4, at + 40, 8),
            kernel(first + 4, device + 121, 60, name="b", stream=20),
        ]
    return events


def test_streams_wait_for_events(tmp_path: Path) -> None:
    model = model_of(tmp_path, two_streams())
    whole = run(model)
    assert whole.step_ns == 121_000
    # b is beside a: longer by 50 us it still fits, and only the last step ends later
    longer = stretched_kernel(model, "b", 50)
    assert longer.step_ns == 121_000
    assert longer.total_ns == whole.total_ns + 50_000
    # a longer a holds up its b: the end moves by all five steps' worth
    assert stretched_kernel(model, "a", 10).step_ns == 131_000
    assert stretched_kernel(model, "a", 10).total_ns == whole.total_ns + 5 * 10_000


def test_streams_that_wait_without_saying_so(tmp_path: Path) -> None:
    # No call tells that stream 20 waits. But b starts 1 us after each a, which it was launched long before.
    silent = [one for one in two_streams() if not one["name"].startswith(("cudaEvent", "cudaStream"))]
    model = model_of(tmp_path, silent)
    whole = run(model)
    assert whole.step_ns == 121_000
    assert stretched_kernel(model, "a", 10).total_ns == whole.total_ns + 5 * 10_000
    assert stretched_kernel(model, "b", 50).total_ns == whole.total_ns + 50_000


def test_a_wait_that_the_trace_contradicts_is_not_believed(tmp_path: Path) -> None:
    # b runs beside its a, although stream 20 was told to wait: for something else, then
    beside = two_streams()
    for one in beside:
        if one["name"] == "b":
            one["ts"] -= 60
    model = model_of(tmp_path, beside)
    told = model_of(tmp_path, two_streams())
    assert (told.items.kind == Item.STREAM_WAIT).sum() == STEPS - 1
    assert (model.items.kind != Item.STREAM_WAIT).all()


def test_work_left_lying_for_no_recorded_reason_is_left_as_long(tmp_path: Path) -> None:
    # launched at 28 of 200 us, once started at 130 though the device had nothing to do: 100 us late
    events: list[Event] = []
    for number in range(STEPS):
        at = 200 * number
        late = 100 if number == 3 else 0
        events += [
            note(f"ProfilerStep#{number}", at, 200),
            op("aten::a", at + 10, 30),
            call(number + 1, at + 20, 8),
            kernel(number + 1, at + 30 + late, 20, name="a"),
        ]
    model = model_of(tmp_path, events)
    assert sorted(model.blocks.extra_ns.tolist()) == [0, 0, 0, 0, 100_000]
    assert run(model).step_ns == 200_000


def graphs() -> list[Event]:
    """A graph launch a step: three kernels of 10 us, 1 us and 2 us between them; the host needs 100 us."""
    events: list[Event] = []
    for number in range(STEPS):
        at = 100 * number
        events += [
            note(f"ProfilerStep#{number}", at, 100),
            op("## Call CompiledFxGraph f ##", at + 10, 60),
            call(number + 1, at + 20, 30, name="cudaGraphLaunch"),
            *(
                kernel(number + 1, at + 55 + after, 10, name=name)
                for name, after in (("x", 0), ("y", 11), ("z", 23))
            ),
        ]
    return events


def test_graph_launch_is_one_block(tmp_path: Path) -> None:
    model = model_of(tmp_path, graphs())
    assert run(model).step_ns == 100_000
    assert set(model.blocks.length_ns.tolist()) == {33_000}
    # 80 us more and the graph takes 113 us, 0.7 us after the one before it
    assert stretched_kernel(model, "y", 80).step_ns == 113_700


def test_events_of_a_graph_that_overlap(tmp_path: Path) -> None:
    events = graphs()
    for number in range(STEPS):
        events.append(kernel(number + 1, 100 * number + 60, 40, name="beside", stream=21))
    model = model_of(tmp_path, events)
    # beside runs from 5 to 45 us of the graph, longer than y and z, which end at 33
    assert set(model.blocks.length_ns.tolist()) == {45_000}
    assert run(model).step_ns == 100_000


def test_full_queue_holds_the_host(tmp_path: Path) -> None:
    model = model_of(tmp_path, device_bound())
    from dataclasses import replace

    # With room for two launches the host can be no more than a step ahead; the device is as fast as before.
    held = run(replace(model, queue=2))
    assert held.step_ns == 202_000
    assert int(held.host_steps_ns[-2]) == 202_000
    assert int(run(model).host_steps_ns[-2]) == 100_000


def test_launches_of_two_threads_take_turns(tmp_path: Path) -> None:
    # forward on thread 1, backward on thread 2, while thread 1 rests: 200 us a step
    events: list[Event] = []
    for number in range(STEPS):
        at = 200 * number
        events += [
            note(f"ProfilerStep#{number}", at, 200),
            op("aten::forward", at + 10, 50),
            call(2 * number + 1, at + 20, 8),
            kernel(2 * number + 1, at + 30, 10, name="f"),
            op("aten::backward", at + 100, 70, tid=2),
            call(2 * number + 2, at + 110, 8, tid=2),
            kernel(2 * number + 2, at + 120, 10, name="g"),
        ]
    model = model_of(tmp_path, events)
    assert run(model).step_ns == 200_000
    assert stretched_host(model, "aten::forward", 7).step_ns == 207_000
    assert stretched_host(model, "aten::backward", 7).step_ns == 207_000


def test_no_model_without_steps_or_launches(tmp_path: Path) -> None:
    assert build(links_of(tmp_path, [op("aten::add", 0, 10), kernel(1, 5, 5)])) is None
    assert build(links_of(tmp_path, [note("ProfilerStep#0", 0, 10), op("aten::add", 0, 10)])) is None


def captures() -> list[Path]:
    found = sorted((SHARED / "traces" / "gpu").rglob("*.json.gz")) if HAS_SHARED else []
    return [path for path in found if "compile_log" not in path.parts]


@pytest.mark.skipif(not HAS_SHARED, reason=NO_SHARED)
@pytest.mark.parametrize("path", captures(), ids=lambda path: "/".join(path.parts[-2:]))
def test_unchanged_replay_is_the_measured_step(path: Path) -> None:
    links = link(kinetoscope.load(str(path)))
    measured = analyses.steps(links)
    if measured.count is None or measured.count < 5 or not len(links.launches.device_rows):
        pytest.skip("fewer than five steps, or no device")
    model = build(links)
    assert model is not None
    assert measured.median_ns is not None
    assert abs(run(model).step_ns / measured.median_ns - 1) <= 0.05
