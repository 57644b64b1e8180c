"""Predictions: the range, the verdict, and what is taken for granted."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import (
    Event,
    call,
    kernel,
    op,
)
from kinetoscope.ingest.unprofiled import Unprofiled
from kinetoscope.replay import predict as predictions
from kinetoscope.replay.predict import Before, predict
from replay_helpers import compiled_step, model_of, steps


def test_no_gain_is_said(tmp_path: Path) -> None:
    model = model_of(tmp_path, steps(400, compiled_step))
    slow = Before.of(model.with_events(model.events.dur_ns * 10), Unprofiled(602_100, "test"))
    found = predict(slow, [predictions.CUDA_GRAPHS])
    assert found.verdict == "no gain"
    assert (found.saving.low, found.saving.best) == (0, 0)
    nothing = predict(slow, [predictions.NO_SYNC])
    assert (nothing.predicted_ns, nothing.low_ns, nothing.high_ns) == (slow.step_ns,) * 3


def test_what_is_supposed_of_the_profiler_is_what_was_done(tmp_path: Path) -> None:
    model = model_of(tmp_path, steps(400, compiled_step))
    slow = model.with_events(model.events.dur_ns * 10)  # 602.1 us of device work a step
    told = [
        " ".join(predict(Before.of(of, unprofiled), [predictions.NO_SYNC]).assumptions)
        for of, unprofiled in (
            (model, Unprofiled(300_000, "x")),
            (slow, Unprofiled(602_100, "x")),
            (model, None),
        )
    ]
    said = ("host time in proportion", "the device sets the pace, so", "no step without a profiler is known")
    assert [[words in text for words in said] for text in told] == [
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]


def nearly_busy_step(at: float, first: int) -> list[Event]:
    """600 us: a kernel of 500 us from 30, waited for until 535; 65 us of host work follow."""
    return [
        op("aten::mm", at + 10, 20),
        call(first + 1, at + 20, 8),
        kernel(first + 1, at + 30, 500, name="mm"),
        op("aten::item", at + 40, 500),
        call(first + 2, at + 45, 490, name="cudaStreamSynchronize"),
    ]


def test_a_device_at_its_power_limit_keeps_half_of_the_rest_that_it_would_lose(tmp_path: Path) -> None:
    model = model_of(tmp_path, steps(600, nearly_busy_step))
    free, held_down, unknown = (
        predict(Before.of(model, Unprofiled(600_000, "x", is_throttled)), [predictions.NO_SYNC])
        for is_throttled in (False, True, None)
    )
    # kernels of 500 us follow each other with the usual 0.7 us: the device rests 99.3 us less
    assert free.is_device_bound_after
    assert free.predicted_ns == unknown.predicted_ns == 500_700
    assert held_down.predicted_ns == 500_700 + 99_300 // 2
    assert held_down.low_ns == free.low_ns
    assert held_down.high_ns >= held_down.replayed_ns


def test_at_the_power_limit_less_work_is_less_work(tmp_path: Path) -> None:
    model = model_of(tmp_path, steps(400, compiled_step))
    slow = model.with_events(model.events.dur_ns * 10)
    half = predictions.kernel_change("triton", 2)
    free, held_down = (
        predict(Before.of(slow, Unprofiled(602_100, "x", one)), [half]) for one in (False, True)
    )
    # three kernels of 200 us become 100 us: the device rests no less than before
    assert free.is_device_bound_after
    assert free.predicted_ns == held_down.predicted_ns == 302_100
    assert (free.low_ns, free.high_ns) == (held_down.low_ns, held_down.high_ns)


def test_a_low_clock_of_a_device_that_rests_is_not_held_down_by_the_program(tmp_path: Path) -> None:
    # 60 us of work in 400: the clock is low for another reason, and stays what it is
    model = model_of(tmp_path, steps(400, compiled_step))
    short = [
        predict(
            Before.of(model, Unprofiled(400_000, "x", is_throttled)),
            [predictions.Change("no host", lambda model, _: model.scaled(host=0))],
        )
        for is_throttled in (False, True)
    ]
    assert short[0].is_device_bound_after
    assert short[0].predicted_ns == short[1].predicted_ns
    assert short[0].high_ns == short[1].high_ns


def test_a_cpu_whose_speed_changed_makes_the_range_wider(tmp_path: Path) -> None:
    model = model_of(tmp_path, steps(400, compiled_step))
    even, uneven = (
        predict(Before.of(model, Unprofiled(400_000, "x", unevenness=by)), [predictions.CUDA_GRAPHS])
        for by in (1.1, 1.5)
    )
    assert uneven.predicted_ns == even.predicted_ns
    assert (uneven.low_ns, uneven.high_ns) == (
        pytest.approx(even.low_ns / 1.5, abs=1),
        pytest.approx(even.high_ns * 1.5, abs=1),
    )
    # whether it pays is decided within one process
    assert (uneven.paired_low_ns, uneven.paired_high_ns) == (even.paired_low_ns, even.paired_high_ns)
    said = [text for text in uneven.assumptions if "1.5 times as long" in text]
    assert len(said) == 1
    assert len(uneven.assumptions) == len(even.assumptions) + 1


def test_unsure_where_the_range_reaches_the_step_before(tmp_path: Path) -> None:
    # of 400 us 180 go, which no spread makes doubtful; of 7 % nobody can be sure
    before = Before.of(model_of(tmp_path, steps(400, compiled_step)), Unprofiled(400_000, "x"))
    sure = predict(before, [predictions.CUDA_GRAPHS])
    assert sure.verdict == "gain"
    assert 0 < sure.saving.low < sure.saving.best < sure.saving.high
    little = predictions.Change("a little", lambda model, _: model.scaled(host=0.93))
    assert predict(before, [little]).verdict == "unsure"


def test_a_replay_that_is_not_what_was_measured_says_so(tmp_path: Path) -> None:
    # 400 us as recorded: no host can have been a hundred times as slow without a profiler
    model = model_of(tmp_path, steps(400, compiled_step))
    far, near = (
        predict(Before.of(model, Unprofiled(step_ns, "x")), [predictions.NO_GUARDS])
        for step_ns in (40_000_000, 400_000)
    )
    assert "not the measured 40.0 ms" in far.assumptions[0]
    assert not any("not the measured" in text for text in near.assumptions)
