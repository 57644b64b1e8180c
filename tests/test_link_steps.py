"""Steps: each way of finding them, their order, and what must not be taken for steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers import (
    annotation_window,
    call,
    kernel,
    launched,
    links_of,
    note,
    op,
    region,
    shared_trace,
    shipped,
    window,
)
from kinetoscope.link import Links
from kinetoscope.link.repetition import find_repetition


def found(links: Links) -> tuple[str | None, int]:
    return links.steps.source, len(links.steps)


def durations_us(links: Links) -> list[int]:
    return ((links.steps.end_ns - links.steps.start_ns) // 1000).tolist()


SHIPPED = [
    ("seed_breaks", "region", 3),
    ("breaks_nograd", "region", 3),
    ("pair_decode", "region", 8),
    ("pair_decode_after", "region", 8),
    ("user_triton", "region", 5),
    ("gpt_decode", "region", 20),  # ten calls compiled, ten with graphs; the eager ten have no marker
]
SHARED = [
    ("seed_resnet/trace", "region", 3),
    ("gpt_train/trace", "region", 4),
    ("big/trace", "optimizer", 30),
    ("resnet_eager/trace", "repetition", 3),
    ("resnet_shapes_stack/trace", "region", 3),
    ("cpu_inductor/trace", "region", 3),
    ("seed_compile/trace", None, 0),
    ("ddp/rank0.trace", "profiler_step", 5),
    ("straggler/rank1.trace", "profiler_step", 5),
    ("pair_big_batch/trace", "region", 8),
    ("pair_big_batch/after.trace", "region", 8),
    ("pair_breaks_infer/trace", "region", 8),
    ("pair_breaks_infer/after.trace", "region", 8),
    ("pair_breaks_train/trace", "region", 8),
    ("pair_breaks_train/after.trace", "region", 8),
]


@pytest.mark.parametrize(("name", "source", "count"), SHIPPED)
def test_shipped_captures(name: str, source: str | None, count: int) -> None:
    assert found(shipped(name)) == (source, count)


@pytest.mark.parametrize(("name", "source", "count"), SHARED)
def test_captures(name: str, source: str | None, count: int) -> None:
    assert found(shared_trace(f"traces/gpu/{name}.json.gz")) == (source, count)


@pytest.mark.parametrize(
    ("annotation", "source"), [("eager", "repetition"), ("compiled", "region"), ("cudagraph", "region")]
)
def test_decode_shows_ten_steps_in_each_annotation(annotation: str, source: str) -> None:
    links = annotation_window(shipped("gpt_decode"), annotation)
    assert found(links) == (source, 10)
    each = np.bincount(links.steps.of_device)
    assert each.min() == each.max()


@pytest.mark.parametrize(
    "path",
    [
        "public/tracelens/b200_eager.json.gz",  # one forward of many equal layers
        "public/tracelens/mi300_sglang_decode.json.gz",
        "public/tracelens/mi210_gpu_only.json.gz",
        "public/sam_fast/compiled_cudagraph.json.gz",
        "public/hta/simple_add.json.gz",
        "cpu_scenarios/regional/warm.json.gz",  # one call, layers compiled one by one
        "cpu_scenarios/gb_nested/warm.json.gz",
    ],
)
def test_a_single_pass_has_no_steps(path: str) -> None:
    assert found(shared_trace(f"traces/{path}")) == (None, 0)


@pytest.mark.parametrize("step", [0, 1, 2])
def test_one_step_is_no_repetition(step: int) -> None:
    links = shipped("seed_breaks")
    part = window(links, int(links.steps.start_ns[step]), int(links.steps.end_ns[step]))
    assert found(part) == (None, 0)


def test_profiler_steps(tmp_path: Path) -> None:
    links = links_of(
        tmp_path,
        [
            note("ProfilerStep#3", 0, 90),
            note("ProfilerStep#4", 100, 80),
            note("ProfilerStep#9", 500, 70),  # the schedule waited in between
            note("data", 0, 5),
            note("data", 100, 5),
            call(1, 95),  # between two annotations: still step 3
            call(2, 150, tid=2),  # another thread, as a backward
            call(3, 300),  # while the schedule waited
            call(4, 510),
            *(kernel(number, 1000 + number, 1) for number in range(1, 5)),
        ],
    )
    steps = links.steps
    assert (steps.source, steps.names) == (
        "profiler_step",
        ("ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#9"),
    )
    assert durations_us(links) == [100, 80, 70]
    assert steps.of_device.tolist() == [0, 1, -1, 2]
    assert steps.of_call.tolist() == [0, -1, 2, 1]  # calls are ordered by thread


def test_a_cut_file_cuts_its_last_step(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    whole = links_of(
        tmp_path, [note("ProfilerStep#1", 0, 10), note("ProfilerStep#2", 10, 10), op("a", 30, 1)]
    )
    assert whole.steps.complete == (True, True)
    path.write_text((tmp_path / "trace.json").read_text()[:-20])
    import kinetoscope
    from kinetoscope.link import link

    assert link(kinetoscope.load(str(path), use_store=False)).steps.complete == (True, False)


def test_repeating_annotation(tmp_path: Path) -> None:
    events = []
    for number in range(3):
        at = 100 * number
        events += [
            note(f"request {number}", at, 90),  # names differ in their number only
            note("nccl:all_reduce", at, 5),
            note("Optimizer.zero_grad#SGD.zero_grad", at, 5),
            note("inner", at + 10, 20),
            *launched(10 * number + 1, ["a", "b"], at + 10),
        ]
    links = links_of(tmp_path, events)
    assert found(links) == ("annotation", 3)
    assert links.steps.names == ("request 0", "request 1", "request 2")


def test_annotation_that_says_step_wins(tmp_path: Path) -> None:
    events = []
    for number in range(4):
        at = 100 * number
        events += [note("epoch", at, 190)] if number % 2 == 0 else []
        events += [note("train_step", at + 1, 80), *launched(10 * number + 1, ["a", "b"], at + 10)]
    assert found(links_of(tmp_path, events)) == ("annotation", 4)


def test_parts_of_a_step_take_turns_and_the_first_opens_it(tmp_path: Path) -> None:
    events = []
    for number in range(3):
        at = 100 * number
        events += [
            note("forward", at, 30),
            note("backward", at + 35, 50),
            *launched(10 * number + 1, ["a", "b"], at + 2),
        ]
    links = links_of(tmp_path, events)
    assert links.steps.names == ("forward",) * 3
    assert durations_us(links) == [100, 100, 30]


def test_idle_annotations_are_no_steps(tmp_path: Path) -> None:
    """Launches are all in one of them, so the others mark something else."""
    events = [note("log", 1000 * number, 5) for number in range(6)]
    assert found(links_of(tmp_path, [*events, *launched(1, ["a", "b", "c"], 10)])) == (None, 0)


def test_serving_markers() -> None:
    links = shared_trace("cases/R54_inference_step_markers.json")
    assert links.steps.names == ("step[DECODE bs=16]",) * 2
    assert durations_us(links) == [150, 100]


def test_optimizer_steps_end_a_step(tmp_path: Path) -> None:
    events = []
    for number in range(3):
        at = 100 * number
        events += [
            *launched(10 * number + 1, ["a", "b"], at + 10),
            note("Optimizer.step#AdamW.step", at + 60, 10),
            note("Optimizer.step#Muon.step", at + 75, 15),  # a second one right after: the same step
        ]
    links = links_of(tmp_path, events)
    assert links.steps.source == "optimizer"
    assert (links.steps.start_ns // 1000).tolist() == [0, 80, 180]  # relative to the first event, at 10
    assert (links.steps.end_ns // 1000).tolist() == [80, 180, 280]
    assert links.steps.of_device.tolist() == [0, 0, 1, 1, 2, 2]


def test_regions_repeat_in_sequence(tmp_path: Path) -> None:
    events = []
    for number in range(3):
        at = 100 * number
        events += [region("0/0", at, 20), region("1/0", at + 30, 20), region("9/0", at + 31, 2)]
        events += launched(10 * number + 1, ["a", "b"], at + 1, 35)
    links = links_of(tmp_path, events)
    assert found(links) == ("region", 3)
    assert durations_us(links) == [100, 100, 69]  # the last: until its last operator ends
    assert links.steps.complete == (True, True, True)


def test_loop_cut_short(tmp_path: Path) -> None:
    events = [region(f"{number % 3}/0", 100 * number, 50) for number in range(8)]
    links = links_of(tmp_path, events)
    assert found(links) == ("region", 3)
    assert links.steps.complete == (True, True, False)


def test_recompiled_frame_is_the_same_step(tmp_path: Path) -> None:
    ids = ["0/0", "0/0", "0/1", "0/0", "0/0"]
    events = [region(compile_id, 100 * number, 50) for number, compile_id in enumerate(ids)]
    assert found(links_of(tmp_path, events)) == (None, 0)  # as well a model compiled layer by layer
    assert found(links_of(tmp_path, [*events, note("compile (dynamo_timed)", 160, 30)])) == ("region", 5)


def test_nameless_regions_are_told_apart_by_their_work(tmp_path: Path) -> None:
    events = []
    for number in range(4):
        at = 100 * number
        events += [op("Torch-Compiled Region", at, 30), op("Torch-Compiled Region", at + 40, 30)]
        events += [*launched(10 * number + 1, ["a", "b"], at + 2), *launched(10 * number + 5, ["c"], at + 42)]
    assert found(links_of(tmp_path, events)) == ("region", 4)


def test_most_work_after_the_regions_is_no_loop(tmp_path: Path) -> None:
    events = [region("0/0", 100 * number, 50) for number in range(3)]
    events += [event for number in range(3) for event in launched(number + 1, ["a"], 100 * number + 5)]
    assert found(links_of(tmp_path, events)) == ("region", 3)
    events += launched(100, [f"k{number}" for number in range(40)], 400)
    assert found(links_of(tmp_path, events)) == (None, 0)


def test_cases() -> None:
    assert found(shared_trace("cases/R30_no_profilerstep.json")) == (None, 0)
    assert found(shared_trace("cases/R39_graph_breaks.json")) == ("profiler_step", 2)
    links = shared_trace("cases/R42_guard_overhead.json")
    assert found(links) == ("region", 5)
    assert durations_us(links)[:4] == [420] * 4


# --- the finder itself


def repetition(text: str, **options: object) -> list[int] | None:
    rules = {"least": 3, "shortest": 4, "distinct": 2, "covered": 0.6, **options}
    turns = find_repetition(np.array([ord(letter) for letter in text], np.int64), **rules)  # type: ignore[arg-type]
    return None if turns is None else turns.starts.tolist()


def test_plain_loop() -> None:
    assert repetition("abcd" * 3) == [0, 4, 8]
    assert repetition("abcd" * 2) is None
    assert repetition("") is None
    assert repetition("a" * 40) is None
    assert repetition("abcdefghij" * 3, least=3) == [0, 10, 20]


def test_longest_period_wins() -> None:
    forward = "e" + "qkvo" * 6 + "hl"
    assert repetition(forward * 3) == [0, len(forward), 2 * len(forward)]


def test_warm_up_is_left_out() -> None:
    assert repetition("xyzzyxaq" + "abcdefgh" * 5) == [8, 16, 24, 32, 40]


def test_slightly_different_turns() -> None:
    turn = "abcdefghijklmnopqrst"
    other = turn.replace("k", "")
    assert repetition(turn * 3 + other + turn * 2) == [0, 20, 40, 60, 79, 99]


def test_random_is_nothing() -> None:
    random = np.random.default_rng(7)
    for size in (50, 500, 20_000):
        symbols = random.integers(0, 30, size)
        assert find_repetition(symbols, least=3, shortest=4, distinct=2, covered=0.6) is None
