"""Durations of steps: means, medians, and what the device adds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers import call, kernel, links_of, note, op, shared_trace
from kinetoscope.analyses.steps import steps
from kinetoscope.schema import Steps


def looped(tmp_path: Path, starts_us: list[float], kernels_us: list[float], dur_us: float = 50) -> Steps:
    events: list[dict[str, Any]] = []
    for number, (start, device_start) in enumerate(zip(starts_us, kernels_us, strict=True)):
        events += [
            note(f"ProfilerStep#{number}", start, dur_us),
            call(number + 1, start + 1),
            kernel(number + 1, device_start, 30),
        ]
    return steps(links_of(tmp_path, events))


def test_first_step_is_left_out_of_more_than_two(tmp_path: Path) -> None:
    found = looped(tmp_path, [0, 900, 1000, 1100], [2, 902, 1002, 1102], 80)
    assert [step.dur_ns for step in found.list] == [900_000, 100_000, 100_000, 80_000]
    assert found.mean_ns == 100_000  # the device's period; the CPU's mean is 93,333
    assert found.median_ns == 100_000


def test_two_steps_both_count(tmp_path: Path) -> None:
    found = looped(tmp_path, [0, 100], [2, 102], 70)
    assert (found.count, found.mean_ns) == (2, 100_000)


def test_one_step(tmp_path: Path) -> None:
    found = looped(tmp_path, [0], [2], 70)
    assert (found.count, found.mean_ns, found.median_ns) == (1, 70_000, 70_000)


def test_device_that_lags_sets_the_period(tmp_path: Path) -> None:
    found = looped(tmp_path, [0, 50, 100, 150], [10, 310, 610, 910])
    assert (found.mean_ns, found.median_ns) == (300_000, 300_000)
    assert [step.dur_ns for step in found.list] == [50_000] * 4
    assert [step.device_busy_ns for step in found.list] == [30_000] * 4


def test_busy_is_the_union_of_what_was_launched(tmp_path: Path) -> None:
    events = [
        note("ProfilerStep#0", 0, 100),
        note("ProfilerStep#1", 100, 100),
        call(1, 10),
        call(2, 20),
        call(3, 110),
        kernel(1, 150, 20),  # runs in the time of the next step
        kernel(2, 160, 30, stream=8),
        kernel(3, 165, 10),
        kernel(4, 50, 500),  # launched by nobody
    ]
    found = steps(links_of(tmp_path, events))
    assert [step.device_busy_ns for step in found.list] == [40_000, 10_000]


def test_unknown_is_null(tmp_path: Path) -> None:
    found = steps(links_of(tmp_path, [note("ProfilerStep#0", 0, 10), op("aten::add", 1, 2)]))
    assert [step.device_busy_ns for step in found.list] == [None]
    found = steps(links_of(tmp_path, [op("aten::add", 1, 2)]))
    assert (found.source, found.count, found.mean_ns, found.list) == (None, None, None, [])


def test_device_bound_pair_is_timed_by_the_device() -> None:
    """Unprofiled, a step of the fixed program takes 3.678 ms; its CPU needs a tenth of that."""
    found = steps(shared_trace("traces/gpu/pair_big_batch/after.trace.json.gz"))
    assert found.median_ns is not None
    assert abs(found.median_ns / 3_678_000 - 1) < 0.01
    assert found.list[4].dur_ns < 500_000
