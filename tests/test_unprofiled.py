"""The step without a profiler, from the times and clocks in a manifest."""

from __future__ import annotations

from typing import Any

import pytest

from kinetoscope.ingest.unprofiled import Unprofiled


def manifest(host_ns: list[int], lag_ns: int = 0, **more: Any) -> dict[str, Any]:
    wall = sum(host_ns) + lag_ns
    before = {
        "steps": len(host_ns),
        "wall_ns": wall,
        "mean_ns": round(wall / len(host_ns)),
        "host_ns": host_ns,
    }
    return {"steps": {"before": before}, **more}


def step_ns(value: dict[str, Any]) -> int:
    found = Unprofiled.of(value)
    assert found is not None
    return found.step_ns


def test_steps_that_something_else_slowed_down_do_not_count() -> None:
    # 80 steps, of which 25 in a row took twice as long: three of eight parts are slow, the median is not
    slow = [100_000] * 30 + [200_000] * 25 + [100_000] * 25
    assert step_ns(manifest(slow)) == 100_000
    # the device ended 80 us after the host: 1 us a step
    assert step_ns(manifest(slow, lag_ns=80_000)) == 101_000


def test_slow_steps_that_come_again_and_again_do_count() -> None:
    # every fifth step takes five times as long: 180 us on average in every part
    assert step_ns(manifest(([100_000] * 4 + [500_000]) * 16)) == 180_000


def test_where_the_device_lags_only_the_end_tells() -> None:
    # the host runs ahead for the first half, then waits: 300 us a step on average
    ahead = [100_000] * 40 + [300_000] * 40
    assert step_ns(manifest(ahead, lag_ns=40 * 200_000)) == 300_000


def test_few_steps_are_averaged() -> None:
    assert step_ns(manifest([100_000] * 9 + [200_000])) == 110_000


@pytest.mark.parametrize(
    "damaged",
    [
        {"host_ns": None},
        {"host_ns": []},
        {"host_ns": ["1"] * 80},
        {"host_ns": [-1] * 80},
        {"wall_ns": "long"},
    ],
)
def test_damaged_times_leave_the_mean(damaged: dict[str, Any]) -> None:
    value = manifest([100_000] * 80)
    value["steps"]["before"].update(damaged, mean_ns=123_000)
    assert step_ns(value) == 123_000


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"steps": None},
        manifest([0]),
        *({"steps": {"before": {"mean_ns": mean}}} for mean in (None, True, 10**30, 1.5, "1")),
    ],
)
def test_without_a_timed_step_there_is_none(value: dict[str, Any]) -> None:
    assert Unprofiled.of(value) is None


@pytest.mark.parametrize(
    ("clock", "most", "held_down"),
    [(1515, 1980, True), (1980, 1980, False), (1965, 1980, False), (None, 1980, None), (1980, 0, None)],
)
def test_a_clock_below_its_highest_is_held_down(clock: Any, most: Any, held_down: bool | None) -> None:
    idle = {"index": 0, "sm_mhz": 345, "max_sm_mhz": 1980}
    ours = {"index": 1, "sm_mhz": clock, "max_sm_mhz": most}
    more = {"calibration": {"device_before": [idle, ours]}, "device": {"current": 1}}
    found = Unprofiled.of(manifest([100_000], **more))
    assert found is not None
    assert found.is_throttled is held_down


@pytest.mark.parametrize(
    ("shown", "current", "held_down"),
    [
        ("1", 0, True),
        ("1,0", 1, False),
        (" 0 , 1 ", 1, True),
        ("GPU-8a1b", 0, None),
        ("", 0, None),
        ("1", 1, None),
        (None, 1, True),
        (7, 0, False),
        (None, True, None),
        (None, None, None),
    ],
)
def test_a_program_counts_the_devices_that_it_is_shown(
    shown: Any, current: Any, held_down: bool | None
) -> None:
    clocks = [
        {"index": 0, "sm_mhz": 1980, "max_sm_mhz": 1980},
        {"index": 1, "sm_mhz": 345, "max_sm_mhz": 1980},
    ]
    found = Unprofiled.of(
        manifest(
            [100_000],
            calibration={"device_before": clocks},
            device={"current": current},
            environment={} if shown is None else {"CUDA_VISIBLE_DEVICES": shown},
        )
    )
    assert found is not None
    assert found.is_throttled is held_down


@pytest.mark.parametrize(
    ("before", "after", "unevenness"),
    [
        (30.0, 30.0, 1.0),
        (30, 60, 2.0),
        (60.0, 30.0, 2.0),
        (None, 30.0, 1.0),
        (0, 30.0, 1.0),
        ("30", 30.0, 1.0),
    ],
)
def test_how_evenly_the_cpu_ran(before: Any, after: Any, unevenness: float) -> None:
    spins = {"calibration": {"before": {"spin_ns": before}, "after": {"spin_ns": after}}}
    found = Unprofiled.of(manifest([100_000], **spins))
    assert found is not None
    assert found.unevenness == unevenness
