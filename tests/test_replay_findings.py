"""Findings with what their fixes are worth: found where they are planted, silent where they do not pay."""

from __future__ import annotations

from pathlib import Path

import pytest

import kinetoscope
from helpers import TRACES, Event, call, kernel, links_of, note, op, region, shared_trace, shipped
from kinetoscope.findings import Facts, find
from kinetoscope.link import Links, link
from kinetoscope.replay import build
from kinetoscope.replay.predict import NO_SYNC, Before, predict
from kinetoscope.schema import Finding

STEPS = 6
WORTH = {
    *("launch-bound", "sync", "host-copy", "guard-overhead", "data-loading", "memory-alloc"),
    *("gpu-bound", "small-kernels", "cuda-graph-rerecord", "graph-break"),
}


def findings(links: Links) -> dict[str, Finding]:
    return {finding.code: finding for finding in find(Facts.of(links)) if finding.code in WORTH}


def planted(tmp_path: Path, length_us: float, events_of: object) -> dict[str, Finding]:
    events: list[Event] = []
    for number in range(STEPS):
        events.append(note(f"ProfilerStep#{number}", length_us * number, length_us))
        events += events_of(length_us * number, 10 * number)  # type: ignore[operator]
    return findings(links_of(tmp_path, events))


def busy(at: float, first: int, start: float, length: float) -> list[Event]:
    """A kernel launched at ``start`` that runs 10 us later."""
    return [
        op("aten::mm", at + start - 2, 8),
        call(first + 1, at + start, 4),
        kernel(first + 1, at + start + 10, length, name="mm"),
    ]


def test_sync(tmp_path: Path) -> None:
    # the device works 100 us of 200 and the host waits for it 115 us
    def step(at: float, first: int) -> list[Event]:
        wait = call(first + 5, at + 25, 90, name="cudaStreamSynchronize")
        return [*busy(at, first, 10, 90), op("aten::_local_scalar_dense", at + 22, 95), wait]

    found = planted(tmp_path, 200, step)["sync"]
    assert found.cost_ns_per_step == 90_000
    assert "cudaStreamSynchronize in aten::_local_scalar_dense" in found.detail
    assert found.saving_ns_per_step is not None
    # without the wait's 90 us the host needs 110, and the device 90 and a gap
    assert found.saving_ns_per_step.best == 90_000
    assert found.fix is not None
    assert found.basis == "profiled"


def test_a_sync_that_hides_behind_the_device_is_harmless(tmp_path: Path) -> None:
    # the device works all the time; the host waits for work of the step before, and is ahead again
    def step(at: float, first: int) -> list[Event]:
        return [
            *busy(at, first, 10, 195),
            call(first + 5, at + 50, 1, name="cudaEventRecord"),
            call(first + 6, at + 55, 80, name="cudaEventSynchronize"),
        ]

    found = planted(tmp_path, 200, step)
    assert found.get("sync") is None or found["sync"].severity == "info"


def test_host_copy(tmp_path: Path) -> None:
    def step(at: float, first: int) -> list[Event]:
        return [
            op("aten::copy_", at + 10, 110),
            call(first + 2, at + 15, 100, name="cudaMemcpyAsync"),
            kernel(first + 2, at + 20, 90, cat="gpu_memcpy", name="Memcpy HtoD (Pageable -> Device)"),
            *busy(at, first, 130, 50),
        ]

    found = planted(tmp_path, 200, step)
    assert set(found) & {"sync", "host-copy"} == {"host-copy"}
    # Of the call's 100 us 3 are left (in profiled time 3 / 0.62); 50 us of other work are beside the copies.
    saving = found["host-copy"].saving_ns_per_step
    assert saving is not None
    assert saving.best == 100_000 - round(3_000 / 0.62)


def test_data_loading(tmp_path: Path) -> None:
    def step(at: float, first: int) -> list[Event]:
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        return [note(name, at + 5, 100), *busy(at, first, 120, 40)]

    found = planted(tmp_path, 200, step)["data-loading"]
    assert found.cost_ns_per_step == 100_000
    assert found.saving_ns_per_step is not None
    assert found.saving_ns_per_step.best == 100_000


def test_memory_alloc(tmp_path: Path) -> None:
    def step(at: float, first: int) -> list[Event]:
        return [
            op("aten::empty", at + 5, 62),
            call(first + 5, at + 6, 60, name="cudaMalloc"),
            *busy(at, first, 120, 40),
        ]

    found = planted(tmp_path, 200, step)["memory-alloc"]
    assert found.cost_ns_per_step == 60_000
    assert "cudaMalloc in aten::empty" in found.detail
    assert found.saving_ns_per_step is not None
    assert found.saving_ns_per_step.best == 60_000


def test_guard_overhead_of_replayed_graphs_is_not_answered_with_cuda_graphs() -> None:
    found = findings(shared_trace("cases/R42_guard_overhead.json"))
    guards = found["guard-overhead"]
    assert guards.cost_ns_per_step == 170_000
    assert guards.saving_ns_per_step is not None
    # 170 us, and half of the 170 us that follow, of which 0.62 are supposed to be left without a profiler
    assert guards.saving_ns_per_step.best == pytest.approx(170_000 + 0.5 * 0.62 * 170_000, abs=1)
    assert guards.saving_ns_per_step.low <= 170_000
    first = find(Facts.of(shared_trace("cases/R42_guard_overhead.json")))[0]
    assert first.code == "guard-overhead"
    told = " ".join(f"{finding.detail} {finding.fix}" for finding in found.values())
    assert "reduce-overhead" not in told
    assert found["launch-bound"].severity == "info"
    assert "in use already" in found["launch-bound"].detail


def test_compilation_is_no_launch_overhead() -> None:
    assert "launch-bound" not in findings(shared_trace("cases/R40_compile_in_window.json"))


def test_launch_bound_decode() -> None:
    found = findings(shipped("pair_decode"))["launch-bound"]
    assert found.severity == "high"
    assert found.fix is not None
    assert "reduce-overhead" in found.fix
    assert found.saving_ns_per_step is not None
    assert found.cost_ns_per_step is not None
    assert 0 < found.saving_ns_per_step.low < found.saving_ns_per_step.best
    assert found.saving_ns_per_step.best <= found.cost_ns_per_step
    assert found.title == "66 launches a step keep the device waiting"


def test_launch_bound_with_cuda_graphs_in_use_does_not_advise_them() -> None:
    found = findings(shipped("pair_decode_after"))
    told = " ".join(f"{finding.fix}" for finding in found.values() if finding.code != "small-kernels")
    assert "reduce-overhead" not in told


@pytest.mark.parametrize("trace", ["trace.json.gz", "after.trace.json.gz"])
def test_a_gpu_bound_model_is_not_advised_cuda_graphs(trace: str) -> None:
    found = findings(shared_trace(f"traces/gpu/pair_big_batch/{trace}"))
    assert found["gpu-bound"].severity == "info"
    assert "launch-bound" not in found
    told = " ".join(f"{finding.fix}" for finding in found.values())
    assert "reduce-overhead" not in told
    for finding in found.values():
        assert finding.saving_ns_per_step is None or finding.saving_ns_per_step.best == 0


def test_breaks_carry_their_saving() -> None:
    found = findings(shared_trace("traces/gpu/pair_breaks_infer/trace.json.gz"))["graph-break"]
    assert found.saving_ns_per_step is not None
    assert found.saving_ns_per_step.best > 0
    # profiled traces of before and after: 591 and 423 us
    assert found.saving_ns_per_step.low <= 168_000 <= found.saving_ns_per_step.high


def test_a_break_that_gains_nothing_is_harmless(tmp_path: Path) -> None:
    # the device needs 400 us a step, the host 120: the break of 30 us is hidden
    def step(at: float, first: int) -> list[Event]:
        return [
            region("0/0", at + 5, 90),
            op("## Call CompiledFxGraph f ##", at + 10, 20),
            call(first + 1, at + 15, 5),
            kernel(first + 1, 4 * at + 25, 300, name="a"),
            region("1/0", at + 50, 40),
            op("## Call CompiledFxGraph g ##", at + 60, 20),
            call(first + 2, at + 65, 5),
            kernel(first + 2, 4 * at + 326, 98, name="b"),
        ]

    found = planted(tmp_path, 100, step)
    broken = found["graph-break"]
    assert broken.severity == "info"
    assert "Harmless here" in broken.detail
    assert broken.saving_ns_per_step is not None
    assert (broken.saving_ns_per_step.low, broken.saving_ns_per_step.best) == (0, 0)
    assert "gpu-bound" in found
    assert "launch-bound" not in found


def test_cuda_graph_rerecord(tmp_path: Path) -> None:
    def step(at: float, first: int) -> list[Event]:
        recording = [
            op("## Call CompiledFxGraph f ##", at + 10, 150),
            call(first + 5, at + 20, 5, name="cudaStreamBeginCapture"),
            call(first + 6, at + 100, 40, name="cudaGraphInstantiate"),
        ]
        return [*(recording if at == 400 else []), *busy(at, first, 170, 20)]

    found = planted(tmp_path, 200, step)["cuda-graph-rerecord"]
    assert found.title == "1 CUDA graph recorded in 1 step"
    assert found.cost_ns_per_step == 150_000 // STEPS


def test_small_kernels() -> None:
    found = findings(shipped("pair_decode"))["small-kernels"]
    assert found.severity == "info"
    assert found.title.endswith("kernels a step are shorter than 5.00 us")


def test_savings_come_before_costs() -> None:
    order = find(Facts.of(shipped("seed_breaks")))
    saved = [
        finding.cost_ns_per_step if finding.saving_ns_per_step is None else finding.saving_ns_per_step.best
        for finding in order
        if finding.severity != "info"
    ]
    assert saved == sorted(saved, key=lambda ns: -(ns or 0))


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("data_loading", "data-loading"),
        ("guard_lookup", "guard-overhead"),
        ("graph_break", "graph-break"),
        ("allocation", "memory-alloc"),
        ("synchronisation", "sync"),
        ("host_device_copy", "host-copy"),
    ],
)
def test_what_keeps_the_device_waiting_is_named_first(program: str, code: str) -> None:
    # planted in a real program, so that nothing else matters: no general advice stands above it
    found = find(Facts.of(link(kinetoscope.load(str(TRACES / "planted" / program / "trace.json.gz")))))
    assert found[0].code == code
    assert found[0].saving_ns_per_step is not None
    (general,) = [finding for finding in found if finding.code == "launch-bound"] or [None]
    if general is not None and general.saving_ns_per_step is None:
        assert general.severity == "info"
        assert f"See {code}" in (general.fix or "")


def test_breaks_and_cuda_graphs_are_named_together_where_that_gives_more() -> None:
    found = findings(shipped("seed_breaks"))
    for code in ("launch-bound", "graph-break"):
        assert "Without graph breaks and with CUDA graphs, it would be" in found[code].detail
    # one graph: nothing to be put together
    assert "Without graph breaks" not in findings(shipped("pair_decode"))["launch-bound"].detail


def test_a_device_that_communicates_is_not_told_to_compute_less(tmp_path: Path) -> None:
    def step(at: float, first: int) -> list[Event]:
        events = busy(at, first, 10, 195)
        events[-1]["name"] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm)"
        return events

    found = planted(tmp_path, 200, step)["gpu-bound"]
    assert found.fix is not None
    assert "other ranks" in found.fix
    plain = planted(tmp_path, 200, lambda at, first: busy(at, first, 10, 195))["gpu-bound"]
    assert plain.fix is not None
    assert "costliest kernels" in plain.fix


def test_costs_of_uneven_steps_are_shares_of_their_mean(tmp_path: Path) -> None:
    # two steps of 100 us, one of 1,000 that launches 280 us of eager work
    events = [
        *(note(f"ProfilerStep#{number}", 100 * number, 100) for number in range(2)),
        note("ProfilerStep#2", 200, 1_000),
        op("aten::mm", 210, 20),
        call(1, 215, 5),
        kernel(1, 225, 280, name="mm"),
    ]
    facts = Facts.of(links_of(tmp_path, events))
    # the first of more than two is left out of the mean
    assert facts.mean_step_ns == 550_000
    assert facts.share(280_000) == pytest.approx(280 / 3 / 550)


def test_a_copy_and_the_wait_for_it_are_one(tmp_path: Path) -> None:
    def step(at: float, first: int) -> list[Event]:
        return [
            *busy(at, first, 10, 90),
            op("aten::_local_scalar_dense", at + 22, 120),
            call(first + 2, at + 25, 90, name="cudaMemcpyAsync"),
            kernel(first + 2, at + 111, 2, cat="gpu_memcpy", name="Memcpy DtoH (Device -> Pageable)"),
            call(first + 3, at + 120, 20, name="cudaStreamSynchronize"),
        ]

    assert planted(tmp_path, 200, step)["sync"].title == "1 synchronisation a step takes 110 us (55 %)"


def test_waits_that_differ_from_step_to_step_save_what_the_text_says() -> None:
    # the median step waits for 1.9 ms, some for more than 4: the replay gains 3.0 of 39.1 ms
    links = shared_trace("traces/gpu/ddp/rank1.trace.json.gz")
    found = findings(links)["sync"]
    model = build(links)
    assert model is not None
    prediction = predict(Before.of(model), [NO_SYNC])
    assert found.saving_ns_per_step is not None
    assert found.saving_ns_per_step.best == prediction.replayed_ns - prediction.predicted_ns
    assert found.cost_ns_per_step is not None
    assert found.cost_ns_per_step < found.saving_ns_per_step.best
