"""Changes, one by one, on steps whose times with and without the cause can be told by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from helpers import (
    Event,
    call,
    kernel,
    note,
    op,
    region,
)
from kinetoscope.analyses.idle_causes_names import Cause
from kinetoscope.replay import breaks, changes, cuda_graphs, run
from kinetoscope.replay.constants import BEST, MOST
from replay_helpers import STEPS, compiled_step, model_of, steps


def test_cuda_graphs(tmp_path: Path) -> None:
    model = model_of(tmp_path, steps(400, compiled_step))
    assert run(model).step_ns == 400_000
    # the graph's 250 us of host time become 50; three kernels with two gaps of 0.2 us fit into the step
    changed = cuda_graphs.cuda_graphs(model)
    assert run(changed).step_ns == 400_000 - 250_000 + 50_000
    launched = changed.items.argument[changed.items.kind == 0]
    assert len(launched) == STEPS - 1
    assert set(changed.blocks.length_ns[launched].tolist()) == {60_400}
    # if a graph call cost nothing, the host would still need 150 us
    assert run(cuda_graphs.cuda_graphs(model, replace(BEST, graph_host_ns=0))).step_ns == 150_000


def test_cuda_graphs_of_device_bound_steps_gain_only_the_gaps(tmp_path: Path) -> None:
    model = model_of(tmp_path, steps(400, compiled_step))
    slow = model.with_events(model.events.dur_ns * 10)  # 200 us each, 0.7 us between them
    assert run(slow).step_ns == 3 * 200_000 + 3 * 700
    assert run(cuda_graphs.cuda_graphs(slow)).step_ns == 3 * 200_000 + 2 * 200 + 700


def test_a_graph_that_is_a_cuda_graph_already_is_left_alone(tmp_path: Path) -> None:
    def replayed(at: float, first: int) -> list[Event]:
        return [
            op("## Call CompiledFxGraph f ##", at + 80, 250),
            call(first + 1, at + 100, 40, name="cudaGraphLaunch"),
            kernel(first + 1, at + 145, 20),
            kernel(first + 1, at + 166, 20),
        ]

    model = model_of(tmp_path, steps(400, replayed))
    assert len(cuda_graphs.graph_calls(model)) == 0
    assert cuda_graphs.cuda_graphs(model) is model


def test_gradients_make_a_cuda_graph_dearer(tmp_path: Path) -> None:
    def with_backward(at: float, first: int) -> list[Event]:
        return [
            *compiled_step(at, first),
            *(op("torch::autograd::AccumulateGrad", at + 352 + 10 * number, 8) for number in range(4)),
        ]

    model = model_of(tmp_path, steps(400, with_backward))
    assert run(cuda_graphs.cuda_graphs(model)).step_ns == 400_000 - 250_000 + 50_000 + 4 * 3_000


def broken_step(at: float, first: int) -> list[Event]:
    """500 us: region 0/0 until 370 with a graph from 50 to 150; lookup 160 to 190; region 1/0 from 200 to 350
    with a graph from 240 to 340."""
    return [
        region("0/0", at + 40, 330),
        op("## Call CompiledFxGraph f ##", at + 50, 100),
        call(first + 1, at + 100, 20),
        kernel(first + 1, at + 122, 20),
        op("TorchDynamo Cache Lookup", at + 160, 30),
        region("1/0", at + 200, 150),
        op("## Call CompiledFxGraph g ##", at + 240, 100),
        call(first + 2, at + 300, 20),
        kernel(first + 2, at + 322, 20),
    ]


def test_no_breaks(tmp_path: Path) -> None:
    model = model_of(tmp_path, steps(500, broken_step))
    assert run(model).step_ns == 500_000
    # from the first graph's end at 150 to the region's at 370, less the second graph, of which the 20 us from
    # its launch to its end go, too: 220 - 100 + 20
    assert run(breaks.no_breaks(model)).step_ns == 360_000
    assert breaks.break_ns(model) == (STEPS - 1) * 140_000


def test_pieces_are_entered_and_left_once(tmp_path: Path) -> None:
    def step(at: float, first: int) -> list[Event]:
        return [
            *broken_step(at, first)[:-2],
            call(first + 2, at + 270, 10),
            kernel(first + 2, at + 282, 10),
            call(first + 3, at + 300, 10),
            kernel(first + 3, at + 312, 10),
        ]

    # The second graph launches at 280 and 310. Its first launch took 40 us from 240, of which the entry is
    # what is beyond the 30 us between two launches; 30 us from the last launch to its end go as well.
    model = model_of(tmp_path, steps(500, step))
    assert breaks.break_ns(model) == (STEPS - 1) * (220_000 - 100_000 + 10_000 + 30_000)
    assert run(breaks.no_breaks(model)).step_ns == 340_000


@pytest.mark.parametrize(
    ("check_us", "saved_ns"),
    [
        # half of the 100 us that follow the check are due to its cold caches
        (100, 100_000 + 50_000),
        # a check of half of what fills the caches, so a quarter; and of the 30 us only that it took
        (30, 30_000 + 7_500),
        # no more follows than 100 us
        (400, 400_000 + 50_000),
    ],
)
def test_no_guards(tmp_path: Path, check_us: int, saved_ns: int) -> None:
    def step(at: float, first: int) -> list[Event]:
        return [
            op("TorchDynamo Cache Lookup", at + 10, check_us),
            region("0/0", at + 20 + check_us, 60),
            call(first + 1, at + 30 + check_us, 10),
            kernel(first + 1, at + 45 + check_us, 10),
        ]

    length = check_us + 100
    model = model_of(tmp_path, steps(length, step))
    assert run(model).step_ns == 1_000 * length
    assert run(changes.no_guards(model)).step_ns == 1_000 * length - saved_ns
    # at most, nothing is colder
    assert run(changes.no_guards(model, MOST)).step_ns == 1_000 * (length - check_us)


def waiting_step(at: float, first: int) -> list[Event]:
    """300 us: a kernel of 150 us launched at 28, waited for until 190; then 110 us of host work alone."""
    return [
        op("aten::mm", at + 10, 20),
        call(first + 1, at + 20, 8),
        kernel(first + 1, at + 30, 150, name="mm"),
        op("aten::item", at + 40, 155),
        call(first + 2, at + 45, 140, name="cudaStreamSynchronize"),
    ]


def test_no_sync(tmp_path: Path) -> None:
    model = model_of(tmp_path, steps(300, waiting_step))
    assert run(model).step_ns == 300_000
    assert len(changes.wait_rows(model, Cause.SYNC)) == STEPS - 1
    # the host needs 300 - 140 us without the wait, which the kernel of 150 us fits in
    assert run(changes.no_sync(model)).step_ns == 160_000


def test_what_is_found_is_what_is_changed(tmp_path: Path) -> None:
    # an operator that copies back and waits for that, a wait for nothing, one in a copy that was not recorded
    def step(at: float, first: int) -> list[Event]:
        return [
            op("aten::mm", at + 10, 20),
            call(first + 1, at + 20, 8),
            kernel(first + 1, at + 30, 10, name="mm"),
            op("aten::item", at + 50, 50),
            call(first + 2, at + 55, 10, name="cudaMemcpyAsync"),
            kernel(first + 2, at + 70, 4, name="Memcpy DtoH (Device -> Pinned)", cat="gpu_memcpy"),
            call(first + 3, at + 70, 10, name="cudaStreamSynchronize"),
            call(first + 4, at + 120, 20, name="cudaDeviceSynchronize"),
            op("aten::copy_", at + 150, 30),
            call(first + 5, at + 160, 10, name="cudaStreamSynchronize"),
        ]

    model = model_of(tmp_path, steps(200, step))
    syncs, copies = (
        changes.operators_of(model, changes.wait_rows(model, cause)) for cause in (Cause.SYNC, Cause.COPY)
    )
    # the two calls of item are one
    assert len(syncs) == 2 * (STEPS - 1)
    assert changes.no_sync(model).differs_from(model)
    assert len(copies) == STEPS - 1
    assert changes.no_copies(model).differs_from(model)


def copying_step(at: float, first: int) -> list[Event]:
    """300 us: a copy of 100 us from pageable memory holds the host until 150; a kernel of 60 us at 200."""
    return [
        op("aten::copy_", at + 30, 125),
        call(first + 1, at + 40, 110, name="cudaMemcpyAsync"),
        kernel(first + 1, at + 45, 100, name="Memcpy HtoD (Pageable -> Device)", cat="gpu_memcpy"),
        op("aten::mm", at + 180, 20),
        call(first + 2, at + 190, 8),
        kernel(first + 2, at + 200, 60, name="mm"),
    ]


def test_no_copies(tmp_path: Path) -> None:
    model = model_of(tmp_path, steps(300, copying_step))
    assert run(model).step_ns == 300_000
    # of the call's 110 us 3 are left, in which it is made: 193 us of host time, and copies run beside it all
    assert run(changes.no_copies(model)).step_ns == 193_000


def test_kernel_factor(tmp_path: Path) -> None:
    model = model_of(tmp_path, steps(300, waiting_step))
    # 150 us become 50, all of it on the way to the wait's end
    assert run(changes.kernel(model, "^mm$", 3)).step_ns == 200_000
    assert run(changes.kernel(model, "^mm$", 0.5)).step_ns == 450_000
    assert run(changes.kernel(model, "nothing", 3)).step_ns == 300_000


def optimizer_step(name: str, *inside: str, launches: int = 4) -> Callable[[float, int], list[Event]]:
    """300 us: an optimizer from 100 to 250, with operators of 20 us that launch 5 us of device work each."""

    def step(at: float, first: int) -> list[Event]:
        events = [note(f"Optimizer.step#{name}.step", at + 100, 150)]
        events += [op(one, at + 112, 130) for one in inside]
        for number in range(launches):
            start = at + 120 + 30 * number
            events += [
                op("aten::add_", start, 20),
                call(first + number + 1, start + 5, 10),
                kernel(first + number + 1, start + 17, 5),
            ]
        return events

    return step


def test_fused_optimizer(tmp_path: Path) -> None:
    model = model_of(tmp_path, steps(300, optimizer_step("AdamW")))
    assert run(model).step_ns == 300_000
    assert len(changes.optimizer_steps(model)) == STEPS - 1
    # all after the return of the first launch, from 135 to 250, goes
    fused = changes.fused_optimizer(model)
    assert run(fused).step_ns == 185_000
    launched = fused.items.argument[fused.items.kind == 0]
    # and 40 % of 4 kernels of 5 us are left
    assert set(fused.blocks.length_ns[launched].tolist()) == {8_000}


@pytest.mark.parametrize(
    "step",
    [
        optimizer_step("AdamW", "aten::_fused_adamw_"),
        optimizer_step("FusedAdam"),
        optimizer_step("SGD", launches=1),
    ],
    ids=["torch's own", "another library's", "one launch"],
)
def test_an_optimizer_that_is_fused_already_is_left_alone(
    tmp_path: Path, step: Callable[[float, int], list[Event]]
) -> None:
    model = model_of(tmp_path, steps(300, step))
    assert len(changes.optimizer_steps(model)) == 0
    assert not changes.fused_optimizer(model).differs_from(model)


def test_an_optimizer_around_another_one_is_one_step(tmp_path: Path) -> None:
    model = model_of(tmp_path, steps(300, optimizer_step("Wrapper", "Optimizer.step#SGD.step")))
    assert len(changes.optimizer_steps(model)) == STEPS - 1
    # as above: all after the return of the first launch
    assert run(changes.fused_optimizer(model)).step_ns == 185_000


def test_no_compile(tmp_path: Path) -> None:
    def compiling(at: float, first: int) -> list[Event]:
        return [
            op("_compile.compile_inner (dynamo_timed)", at + 20, 200),
            op("aten::mm", at + 50, 50),
            call(first + 1, at + 60, 10),
            kernel(first + 1, at + 72, 30, name="tuned"),
            op("aten::mm", at + 240, 20),
            call(first + 2, at + 245, 10),
            kernel(first + 2, at + 257, 30),
        ]

    model = model_of(tmp_path, steps(300, compiling))
    changed = changes.no_compile(model)
    assert run(changed).step_ns == 100_000
    assert (changed.items.kind == 0).sum() == STEPS - 1
