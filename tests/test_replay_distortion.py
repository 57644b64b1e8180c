"""What the profiler added, and what else differs from the step without it, on steps written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Event, call, event, kernel, note, op
from kinetoscope.replay import run
from kinetoscope.replay.distortion import correct
from replay_helpers import STEPS, compiled_step, model_of, steps


def test_profiler_is_taken_away_first(tmp_path: Path) -> None:
    def with_flush(at: float, first: int) -> list[Event]:
        flush = event("overhead", "Buffer Flush", at + 360, 30, pid=-1, tid=0)
        return [*compiled_step(at, first), flush]

    model = model_of(tmp_path, steps(400, with_flush))
    assert run(model).step_ns == 400_000
    (best, *_) = correct(model, None)
    assert run(best.model).step_ns == 370_000


def test_time_between_two_step_marks_is_the_profilers(tmp_path: Path) -> None:
    events: list[Event] = []
    for number in range(STEPS):
        events.append(note(f"ProfilerStep#{number}", 400 * number, 375))
        events += compiled_step(400 * number, 10 * number)
    model = model_of(tmp_path, events)
    assert run(model).step_ns == 400_000
    assert run(correct(model, None)[0].model).step_ns == 375_000


def test_host_time_is_scaled_to_the_unprofiled_step(tmp_path: Path) -> None:
    model = model_of(tmp_path, steps(400, compiled_step))
    best, alike, by_event = correct(model, 200_000)
    assert alike.host_scale == pytest.approx(0.5, abs=0.001)
    assert not best.is_device_bound
    for one in (best, alike, by_event):
        assert run(one.model).step_ns == pytest.approx(200_000, rel=0.01)
    # by event: the lookup's 30 us are one segment with two borders, and all are at least a fifth of before
    assert (by_event.model.host.dur_ns >= 0.19 * model.host.dur_ns).all()


@pytest.mark.parametrize("name", ["aten::sort", "TorchDynamo Cache Lookup"])
def test_what_recorded_nothing_is_hardly_scaled(tmp_path: Path, name: str) -> None:
    # 400 us: one of 190, in which nothing is recorded, and 20 operators of 8 us, one every 10
    def step(at: float, first: int) -> list[Event]:
        operators = [op("aten::relu", at + 200 + 10 * number, 8) for number in range(20)]
        launch = [call(first + 1, at + 391, 6), kernel(first + 1, at + 399, 5)]
        return [op(name, at + 5, 190), *operators, *launch]

    model = model_of(tmp_path, steps(400, step))
    # the third model is left out: if each event cost the same around it, no cost explains 240
    best, alike = correct(model, 240_000)
    for one in (best, alike):
        assert run(one.model).step_ns == pytest.approx(240_000, rel=0.01)
    longest = int(model.host.dur_ns.argmax())
    assert model.host.dur_ns[longest] == 190_000
    # alike: 0.6 of it; of recording its beginning and its end 4 us each can lie within it
    assert alike.model.host.dur_ns[longest] == pytest.approx(114_000, rel=0.01)
    assert best.model.host.dur_ns[longest] == 182_000


def test_recording_an_event_lengthens_what_is_around_it(tmp_path: Path) -> None:
    # 400 us: an operator of 150 that records nothing else, Python of 150, an operator of 60 that launches
    def step(at: float, first: int) -> list[Event]:
        return [
            op("aten::sort", at + 20, 150),
            op("aten::relu", at + 320, 60),
            call(first + 1, at + 330, 40),
            kernel(first + 1, at + 372, 5),
        ]

    model = model_of(tmp_path, steps(400, step))
    best = correct(model, 288_000)[0].model
    # Everything takes 0.4 of its time, but: the first operator and the launch lie within their own beginning
    # and end, which can have cost 8 us; Python lies around an end and a beginning, which can have cost 60.
    left_us = {0: 8, 20: 142, 170: 90, 320: 4, 330: 32, 370: 4, 380: 8}
    assert sum(left_us.values()) == 288
    at = (model.host.recorded_ns % 400_000) // 1000
    assert sorted(set(at.tolist())) == list(left_us)
    for began, expected in left_us.items():
        assert best.host.dur_ns[at == began] == pytest.approx(expected * 1000, abs=20)


def test_a_mark_of_a_step_costs_beside_it_what_it_costs_between(tmp_path: Path) -> None:
    # 400 us, of which 14 between two marks: of 25 us of Python before them and 10 after them two fifths go
    events: list[Event] = []
    for number in range(STEPS):
        events.append(note(f"ProfilerStep#{number}", 400 * number, 386))
        events += compiled_step(400 * number, 10 * number)
        events.append(op("aten::relu", 400 * number + 351, 10))
    model = model_of(tmp_path, events)
    best = correct(model, 400_000 - 14_000 - 14_000)[0].model
    assert run(best).step_ns == 372_000
    less = model.host.dur_ns - best.host.dur_ns
    before, between, after = (model.host.recorded_ns % 400_000 == at for at in (361_000, 386_000, 0))
    inside = model.host.step < model.last_step
    assert set(less[between].tolist()) == {14_000}
    assert set(less[before & inside].tolist()) == {10_000}
    assert set(less[after][1:].tolist()) == {4_000}  # no mark ends at the window's start
    assert (less[~(before | between | after)] == 0).all()


def test_a_step_that_was_longer_had_slower_copies_of_pageable_memory(tmp_path: Path) -> None:
    """The host's time cannot have grown by taking the profiler away, and a kernel takes what it takes."""

    def step(at: float, first: int) -> list[Event]:
        copied = "Memcpy HtoD (Pageable -> Device)"
        return [
            call(first + 1, at + 10, 320, name="cudaMemcpyAsync"),
            event("gpu_memcpy", copied, at + 20, 300, pid=0, tid=7, correlation=first + 1),
            call(first + 2, at + 340, 10),
            kernel(first + 2, at + 352, 500),
        ]

    model = model_of(tmp_path, steps(1000, step))
    assert run(model).step_ns == pytest.approx(1_000_000, rel=0.01)
    best = correct(model, 1_200_000)[0].model
    assert run(best).step_ns == pytest.approx(1_200_000, rel=0.01)
    copies = model.is_pageable_copy()
    assert copies.sum() == STEPS - 1  # the first step is left out
    # 200 us more: 500
    assert best.events.dur_ns[copies] == pytest.approx(500_000, rel=0.02)
    assert (best.events.dur_ns[~copies] == 500_000).all()


def test_device_bound_steps_scale_the_device(tmp_path: Path) -> None:
    model = model_of(tmp_path, steps(400, compiled_step))
    slow = model.with_events(model.events.dur_ns * 10)
    found = correct(slow, 640_000)
    assert all(one.is_device_bound for one in found)
    assert run(found[0].model).step_ns == pytest.approx(640_000, rel=0.006)
