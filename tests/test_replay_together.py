"""Replays of several threads and streams, and of several changes at once: all by hand, in microseconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from helpers import Event, call, kernel, links_of, note, op
from kinetoscope.analyses.idle_causes_names import Cause
from kinetoscope.link import Links
from kinetoscope.replay import Model, Replayed, build, changes, run
from kinetoscope.replay.breaks import no_breaks
from kinetoscope.replay.cuda_graphs import cuda_graphs, graph_calls
from kinetoscope.replay.model import Item
from kinetoscope.replay.whatif import whatif
from test_replay import stretched_kernel
from test_replay_changes import broken_step

STEPS = 6
GRAPH = "## Call CompiledFxGraph f ##"
PINNED = "Memcpy HtoD (Pinned -> Device)"
StepOf = Callable[[float, int], list[Event]]


def links_for(tmp_path: Path, length_us: float, events_of: StepOf) -> Links:
    events: list[Event] = []
    for number in range(STEPS):
        events.append(note(f"ProfilerStep#{number}", length_us * number, length_us))
        events += events_of(length_us * number, 10 * number)
    return links_of(tmp_path, events)


def model_of(tmp_path: Path, length_us: float, events_of: StepOf) -> Model:
    model = build(links_for(tmp_path, length_us, events_of))
    assert model is not None
    assert run(model).step_ns == length_us * 1e3
    return model


def longer_host(model: Model, operator: str, by_us: float) -> Replayed:
    trace = model.links.trace
    mine = (model.host.row >= 0) & (trace.columns.name[model.host.row] == trace.names.index[operator])
    first = np.flatnonzero(mine)
    first = first[np.append(True, np.diff(model.host.recorded_ns[first]) > 100_000)]
    longer = model.host.dur_ns.copy()
    longer[first] += round(by_us * 1e3)
    return run(model.with_host(longer))


# --- threads ---


def two_operators(at: float, first: int) -> list[Event]:
    """a from 10 to 60 and b from 70 to 170, each with a kernel of 20."""
    return [
        op("aten::a", at + 10, 50),
        call(first + 1, at + 20, 8),
        kernel(first + 1, at + 30, 20, name="a"),
        op("aten::b", at + 70, 100),
        call(first + 2, at + 80, 8),
        kernel(first + 2, at + 90, 20, name="b"),
    ]


def test_a_thread_that_only_watches_holds_nobody_up(tmp_path: Path) -> None:
    def step(at: float, first: int) -> list[Event]:
        watching = call(first + 5, at + 40, 120, tid=2, name="cudaStreamSynchronize")
        return [*two_operators(at, first), watching]

    model = model_of(tmp_path, 200, step)
    assert not len(model.waits.row)
    assert longer_host(model, "aten::b", 30).step_ns == 230_000
    assert run(changes.no_sync(model)).step_ns == 200_000


def test_who_works_while_another_thread_waits_is_not_hidden(tmp_path: Path) -> None:
    # thread 2 copies on a stream of its own from 12 to 150, and waits for that from 15 to 155
    def step(at: float, first: int) -> list[Event]:
        return [
            *two_operators(at, first),
            call(first + 3, at + 5, 4, tid=2, name="cudaMemcpyAsync"),
            kernel(first + 3, at + 12, 138, name=PINNED, cat="gpu_memcpy", stream=20),
            call(first + 4, at + 15, 140, tid=2, name="cudaStreamSynchronize"),
        ]

    model = model_of(tmp_path, 200, step)
    assert len(model.waits.row) == STEPS - 1
    # 10 us of the main thread's work fit before the wait ends: what rests between a and b
    assert longer_host(model, "aten::b", 30).step_ns == 220_000
    assert stretched_kernel(model, PINNED, 30).step_ns == 230_000


def test_a_wait_of_the_data_loader_is_part_of_it(tmp_path: Path) -> None:
    # in the loader from 5 to 105, and there in a wait from 20 to 100 for the kernel of the step before
    def step(at: float, first: int) -> list[Event]:
        return [
            note("enumerate(DataLoader)#_Iter.__next__", at + 5, 100),
            call(first + 5, at + 20, 80, name="cudaStreamSynchronize"),
            op("aten::mm", at + 118, 10),
            call(first + 1, at + 120, 4),
            kernel(first + 1, at + 134, 96, name="mm"),
        ]

    model = model_of(tmp_path, 200, step)
    assert not len(changes.wait_rows(model, Cause.SYNC))
    assert run(changes.no_sync(model)).step_ns == 200_000
    assert run(changes.no_data_wait(model)).step_ns == 100_000


def test_a_number_that_is_read_back_is_no_copy(tmp_path: Path) -> None:
    # item: its copy holds the host until 150, by itself
    def step(at: float, first: int) -> list[Event]:
        return [
            op("aten::mm", at + 10, 20),
            call(first + 1, at + 20, 8),
            kernel(first + 1, at + 30, 100, name="mm"),
            op("aten::_local_scalar_dense", at + 35, 120),
            call(first + 2, at + 40, 110, name="cudaMemcpyAsync"),
            kernel(first + 2, at + 131, 4, name="Memcpy DtoH (Device -> Pageable)", cat="gpu_memcpy"),
        ]

    model = model_of(tmp_path, 250, step)
    assert len(changes.wait_rows(model, Cause.SYNC)) == STEPS - 1
    assert not len(changes.wait_rows(model, Cause.COPY))
    assert run(changes.no_copies(model)).step_ns == 250_000
    # of the call's 110 us 3 are left; the kernel and the copy need 104 us and two rests
    assert run(changes.no_sync(model)).step_ns == 250_000 - 110_000 + 3_000


# --- streams ---


def test_kernels_of_a_graph_on_other_streams_do_not_mix_streams_up(tmp_path: Path) -> None:
    def step(at: float, first: int) -> list[Event]:
        return [
            op("aten::y", at + 2, 8),
            call(first + 1, at + 3, 4),
            kernel(first + 1, at + 9, 4, name="y"),
            op("aten::x", at + 10, 50),
            call(first + 2, at + 15, 10, name="cudaGraphLaunch"),
            kernel(first + 2, at + 27, 10, name="g"),
            kernel(first + 2, at + 38, 10, name="g", stream=13),
            call(first + 3, at + 40, 4),
            kernel(first + 3, at + 46, 104, name="x", stream=20),
            call(first + 4, at + 70, 85, name="cudaStreamSynchronize"),
        ]

    model = model_of(tmp_path, 200, step)
    assert stretched_kernel(model, "x", 30).step_ns == 230_000
    assert stretched_kernel(model, "y", 3).step_ns == 200_000


def graph_step(at: float, first: int) -> list[Event]:
    """300 us: a graph from 80 to 180 launches kernels of 20 and 100 us, the second runs until 262."""
    return [
        op(GRAPH, at + 80, 100),
        call(first + 1, at + 100, 10),
        kernel(first + 1, at + 112, 20, name="k1"),
        call(first + 2, at + 150, 10),
        kernel(first + 2, at + 162, 100, name="k2"),
    ]


def test_who_waited_for_a_kernel_waits_for_its_cuda_graph(tmp_path: Path) -> None:
    # c of 100 us, on stream 20, is launched until 192 and begins 1 us after k2
    def step(at: float, first: int) -> list[Event]:
        return [
            *graph_step(at, first),
            op("aten::c", at + 185, 10),
            call(first + 3, at + 188, 4),
            kernel(first + 3, at + 263, 100, name="c", stream=20),
        ]

    model = model_of(tmp_path, 300, step)
    assert run(model).total_ns == 4 * 300_000 + 363_000
    found = run(cuda_graphs(model))
    assert found.step_ns == 250_000
    # launched at 130, after 2 us 20 + 0.2 + 100 us of the graph, then 1 us and c
    assert found.total_ns == 4 * 250_000 + 132_000 + 120_200 + 1_000 + 100_000


def test_a_cuda_graph_waits_for_what_its_kernels_waited_for(tmp_path: Path) -> None:
    # a copy on stream 20 runs until 161; k2 was launched at 110 and waits for it
    def step(at: float, first: int) -> list[Event]:
        return [
            op("aten::copy_", at + 10, 20),
            call(first + 3, at + 15, 5, name="cudaMemcpyAsync"),
            kernel(first + 3, at + 22, 139, name=PINNED, cat="gpu_memcpy", stream=20),
            op(GRAPH, at + 80, 100),
            call(first + 1, at + 90, 5),
            kernel(first + 1, at + 97, 20, name="k1"),
            call(first + 2, at + 105, 5),
            kernel(first + 2, at + 162, 100, name="k2"),
        ]

    model = model_of(tmp_path, 300, step)
    changed = cuda_graphs(model)
    launched = changed.items.argument[changed.items.kind == Item.LAUNCH]
    graphs = launched[changed.blocks.length_ns[launched] == 120_200]
    assert len(graphs) == STEPS - 1
    assert (changed.blocks.behind[graphs] >= 0).all()
    # the copy ends at 161, and 1 us later the whole graph begins
    assert run(changed).total_ns == 4 * 250_000 + 161_000 + 1_000 + 120_200


def test_launches_of_another_thread_are_no_part_of_a_cuda_graph(tmp_path: Path) -> None:
    def step(at: float, first: int) -> list[Event]:
        return [
            *graph_step(at, first),
            op("aten::copy_", at + 115, 20, tid=2),
            call(first + 3, at + 120, 5, tid=2, name="cudaMemcpyAsync"),
            kernel(first + 3, at + 127, 10, name=PINNED, cat="gpu_memcpy", stream=20),
        ]

    changed = cuda_graphs(model_of(tmp_path, 300, step))
    launched = changed.items.argument[changed.items.kind == Item.LAUNCH]
    assert sorted(changed.blocks.length_ns[launched].tolist()) == [10_000] * 5 + [120_200] * 5


def test_who_waits_for_the_device_does_not_wait_for_copies_that_run_ahead(tmp_path: Path) -> None:
    # a copy from 22 to 122, a kernel behind it until 173, and a wait for all of it from 70 to 176
    def step(at: float, first: int) -> list[Event]:
        return [
            op("aten::copy_", at + 10, 20),
            call(first + 1, at + 15, 5, name="cudaMemcpyAsync"),
            kernel(first + 1, at + 22, 100, name=PINNED, cat="gpu_memcpy"),
            op("aten::mm", at + 40, 20),
            call(first + 2, at + 45, 5),
            kernel(first + 2, at + 123, 50, name="mm"),
            call(first + 3, at + 70, 106, name="cudaDeviceSynchronize"),
        ]

    model = model_of(tmp_path, 300, step)
    # The copy's call takes 3 us of its 5. The kernel begins 1.5 us after its launch, then at 48, and the wait
    # returns 3 us after its end at 99.5.
    assert run(changes.no_copies(model)).step_ns == 300_000 - 176_000 + 102_500


# --- several changes, and graphs that cannot be one ---


def test_without_breaks_the_pieces_are_one_cuda_graph(tmp_path: Path) -> None:
    model = model_of(tmp_path, 500, broken_step)
    assert run(cuda_graphs(model)).step_ns == 500_000 - 2 * 100_000 + 2 * 50_000
    # the 220 us from the first graph's end to the region's go whole, and the first graph takes 50 of its 100
    assert run(cuda_graphs(no_breaks(model))).step_ns == 500_000 - 220_000 - 50_000


def test_changes_are_made_in_one_order(tmp_path: Path) -> None:
    links = links_for(tmp_path, 500, broken_step)
    one = whatif(links, ["--no-breaks", "--cuda-graphs"])
    other = whatif(links, ["--cuda-graphs", "--no-breaks"])
    assert one == other
    # in profiled time a graph call takes 50 / 0.62 us
    assert one.step_ns.predicted == 500_000 - 220_000 - 100_000 + round(50_000 / 0.62)


def test_a_graph_that_waits_can_be_a_cuda_graph_once_nobody_waits(tmp_path: Path) -> None:
    def step(at: float, first: int) -> list[Event]:
        return [
            *graph_step(at, first)[:3],
            op("aten::item", at + 115, 60),
            call(first + 3, at + 120, 30, name="cudaStreamSynchronize"),
        ]

    model = model_of(tmp_path, 300, step)
    assert not len(graph_calls(model))
    free = changes.no_sync(model)
    assert len(graph_calls(free)) == STEPS - 1
    assert run(cuda_graphs(free)).step_ns == 250_000
    assert run(free).step_ns == 270_000


@pytest.mark.parametrize(
    ("more", "could"),
    [
        ([], True),
        ([op("aten::copy_", 170, 8), call(9, 172, 4, name="cudaMemcpyAsync")], False),
    ],
)
def test_what_copies_from_the_host_is_no_cuda_graph(tmp_path: Path, more: list[Event], could: bool) -> None:
    def step(at: float, first: int) -> list[Event]:
        copies = [{**one, "ts": one["ts"] + at, "args": {**one["args"]}} for one in more]
        for one in copies:
            if "correlation" in one["args"]:
                one["args"]["correlation"] = first + 3
        copied = [kernel(first + 3, at + 270, 4, name=PINNED, cat="gpu_memcpy")] if more else []
        return [*graph_step(at, first), *copies, *copied]

    assert bool(len(graph_calls(model_of(tmp_path, 300, step)))) == could


def test_a_graph_that_launches_nothing_is_not_counted(tmp_path: Path) -> None:
    def step(at: float, first: int) -> list[Event]:
        return [*two_operators(at, first), op(GRAPH, at + 175, 10)]

    model = model_of(tmp_path, 200, step)
    assert not len(graph_calls(model))
    assert cuda_graphs(model) is model


# --- a device that lags ---


def test_a_device_that_lags_goes_on_with_earlier_work(tmp_path: Path) -> None:
    # the host needs 100 us a step and is ahead; a takes 40 us, and b 150 on a stream of its own
    events: list[Event] = []
    for number in range(3):
        at, device = 100 * number, 151 * number
        events += [
            note(f"ProfilerStep#{number}", at, 100),
            op("aten::a", at + 2, 10),
            call(10 * number + 1, at + 4, 4),
            kernel(10 * number + 1, device + 230, 40, name="a"),
            op("aten::b", at + 70, 20),
            call(10 * number + 2, at + 74, 6),
            kernel(10 * number + 2, device + 300, 150, name="b", stream=20),
        ]
    model = build(links_of(tmp_path, events))
    assert model is not None
    # when step 1 begins, at 100, the first a will run until 270 and the first b until 450
    assert model.backlog_ns.tolist() == [170_000, 350_000]
    # behind it come the two b of the steps 1 and 2
    assert run(model).total_ns == 350_000 + 2 * (700 + 150_000)


def test_as_many_launches_are_ahead_as_the_trace_shows(tmp_path: Path) -> None:
    # 1,100 launches, one a us, before the first of their kernels runs
    def step(at: float, first: int) -> list[Event]:
        events = [op("aten::many", at + 1, 1_110)]
        for number in range(1_100):
            correlation = 2_000 * first + number + 1
            events += [
                call(correlation, at + 5 + number, 0.5),
                kernel(correlation, at + 1_150 + 0.5 * number, 0.5),
            ]
        return events

    model = model_of(tmp_path, 1_700, step)
    assert model.queue == 1_100


def test_a_single_step_takes_no_less_than_its_work(tmp_path: Path) -> None:
    # 300 us, of which the device works 250.5, from 1.5 us behind its launch; the host waits for it until 285
    events = [
        note("ProfilerStep#0", 0, 300),
        op("aten::mm", 10, 20),
        call(1, 20, 8),
        kernel(1, 29.5, 250.5, name="mm"),
        call(2, 40, 245, name="cudaDeviceSynchronize"),
    ]
    model = build(links_of(tmp_path, events))
    assert model is not None
    assert run(model).step_ns == 300_000
    assert run(changes.no_sync(model)).step_ns == 250_500
    assert run(changes.kernel(model, "mm", 2)).step_ns == 300_000 - 125_250
    # the host alone needs 55 us
    assert run(changes.no_sync(changes.kernel(model, "mm", 10))).step_ns == 55_000


def test_a_single_step_of_a_device_that_lags_is_not_host_bound(tmp_path: Path) -> None:
    # the host launches in 100 us what the device takes 250 us for
    events = [note("ProfilerStep#0", 0, 100), op(GRAPH, 10, 80), call(1, 20, 8), kernel(1, 30, 150)]
    links = links_of(tmp_path, [*events, call(2, 60, 8), kernel(2, 181, 100)])
    found = whatif(links, ["--cuda-graphs"])
    assert found.step_ns.measured == 100_000
    assert found.step_ns.replayed == 250_000
    assert found.verdict == "no gain"
    assert "the single step takes the host 100 us" in found.assumptions[0]
