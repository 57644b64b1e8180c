"""Compile time from a log's own events."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kinetoscope.analyses.log_compile_time import LogCompileTime, compile_ns, log_compile_time
from kinetoscope.ingest.compile_log import Compilation, CompileLog, Span, read_compile_log

LOGS = Path(__file__).parent / "traces" / "logs"
SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "traces"
WRAPPERS = ("dynamo", "entire_frame_compile", "entire_backward_compile", "compiled_autograd")


def times(name: str) -> LogCompileTime:
    return log_compile_time(read_compile_log(LOGS / f"{name}.log.gz"))


def of(*spans: Span) -> LogCompileTime:
    item = Compilation("0/0", 0, None, 1, "a.log", spans=spans)
    return log_compile_time(CompileLog(compilations=(item,)))


def test_self_times_split_the_union() -> None:
    (frame,) = of(
        Span("dynamo", 0, 100, None),
        Span("entire_frame_compile", 5, 95, 0),
        Span("bytecode_tracing", 10, 40, 1),
        Span("backend_compile", 40, 90, 1),
        Span("inductor_compile", 50, 80, 3),
    ).frames
    assert frame.total_ns == 100
    own = {p.name: p.self_ns for p in frame.phases}
    assert own["bytecode_tracing"] == 30
    assert own["backend_compile"] == 20
    assert own["inductor_compile"] == 30
    assert own["dynamo"] == own["entire_frame_compile"] == 0
    assert own["frame_setup"] == 5 + 5  # before the first phase, of both wrappers
    assert own["metrics_logging"] == 5
    assert own["code_install"] == 5
    assert {p.name for p in frame.phases if p.derived} == {"frame_setup", "metrics_logging", "code_install"}


def test_helper_threads_count_once() -> None:
    (frame,) = of(
        Span("dynamo", 0, 100, None),
        Span("async_compile.wait", 10, 90, 0),
        Span("compile_file", 20, 60, 1, worker=True),
        Span("compile_file", 30, 80, 1, worker=True),
    ).frames
    phases = {p.name: p for p in frame.phases}
    assert (phases["compile_file"].total_ns, phases["compile_file"].count) == (60, 2)
    assert phases["compile_file"].self_ns == 60
    assert phases["async_compile.wait"].self_ns == 20
    assert frame.total_ns == 100


def test_forward_lazy_backward_and_work_at_a_call_are_apart() -> None:
    (frame,) = of(
        Span("dynamo", 0, 10, None),
        Span("entire_backward_compile", 20, 50, None),
        Span("inductor_compile", 25, 45, 1),
        Span("CachingAutotuner.benchmark_all_configs", 60, 67, None),
    ).frames
    assert (frame.total_ns, frame.forward_ns, frame.backward_ns, frame.runtime_ns) == (47, 10, 30, 7)
    assert {(p.name, p.backward) for p in frame.phases if p.self_ns and not p.derived} == {
        ("inductor_compile", True),
        ("CachingAutotuner.benchmark_all_configs", False),
    }


def test_frames_that_overlap_count_once_in_the_total() -> None:
    items = tuple(
        Compilation(i, 0, None, 1, "a.log", spans=(Span("dynamo", *at, None),))
        for i, at in (("0/0", (0, 100)), ("1/0", (20, 60)), ("2/0", (150, 160)))
    )
    found = log_compile_time(CompileLog(compilations=items))
    assert found.total_ns == 110
    assert found.within_ns(50, 155) == 55
    assert [f.id for f in found.frames] == ["0/0", "1/0", "2/0"]


def test_without_events_the_metrics_tell() -> None:
    item = Compilation(
        "0/0", 0, None, 1, "a", metrics={"duration_us": 5}, backward_metrics=({"duration_us": 2},)
    )
    assert compile_ns(item) == 7000
    found = log_compile_time(CompileLog(compilations=(item,)))
    (frame,) = found.frames
    assert (found.total_ns, frame.total_ns, frame.forward_ns, frame.backward_ns) == (7000, 7000, 5000, 2000)


@pytest.mark.parametrize("seed", range(20))
def test_any_spans_sum_to_their_union(seed: int) -> None:
    source = random.Random(seed)
    names = ["dynamo", "compile_attempt_0", "entire_backward_compile", "a", "b", "c"]
    spans = []
    for index in range(30):
        start = source.randrange(100)
        parent = source.randrange(index) if index and source.random() < 0.7 else None
        spans.append(Span(source.choice(names), start, start + source.randrange(40), parent))
    (frame,) = of(*spans).frames
    covered = {t for s in spans for t in range(s.start_ns, s.end_ns)}
    assert frame.total_ns == len(covered) == sum(p.self_ns for p in frame.phases)


@pytest.mark.parametrize(
    "name", ["seed_breaks", "cpu_inductor", "train", "compiled_autograd", "recompile_limit"]
)
def test_nearly_all_of_each_frame_is_a_named_phase_below_the_wrappers(name: str) -> None:
    for frame in times(name).frames:
        named = sum(p.self_ns for p in frame.phases if p.name not in WRAPPERS)
        assert named >= 0.98 * frame.total_ns, frame.id


def test_parallel_cpp_compilation_is_wall_time() -> None:
    (frame,) = times("cpu_inductor").frames
    item = read_compile_log(LOGS / "cpu_inductor.log.gz").compilations[0]
    assert sum(s.worker for s in item.spans) > 5
    assert all(s.closed for s in item.spans)
    # the metrics' own durations of forward and backward, made by another clock in torch
    measured = (item.metrics["duration_us"] + item.backward_metrics[0]["duration_us"]) * 1000
    assert abs(frame.total_ns - measured) < 0.01 * measured


def test_caches_and_logging_cost() -> None:
    found = times("seed_breaks")
    assert (found.caches.fx_hit, found.caches.fx_miss, found.caches.aot_miss) == (4, 4, 4)
    assert found.logging_ns is not None
    assert 39_127_000 <= found.logging_ns < found.total_ns  # the first frame's own is 39.127 ms
    warm = {f.id: f.cached for f in found.frames}
    assert warm == {"0/0": False, "1/0": False, "2/0": True, "3/0": False}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared captures are not beside the checkout")
def test_the_log_agrees_with_the_traces_spans() -> None:
    found = log_compile_time(read_compile_log(SHARED / "gpu" / "seed_compile" / "compile_log"))
    assert abs(found.total_ns - 22_124_000_000) < 0.005 * 22_124_000_000  # facts.md: spans as a union
    resnet = found.frames[0]
    assert (resnet.function, resnet.id) == ("ResNet.forward", "1/0")
    assert resnet.backward_ns > 6e9
