"""The wait for the next batch in programs without a device: microseconds added up by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Event, call, links_of, note, op, region
from kinetoscope.findings import Facts, find
from kinetoscope.schema import Finding

ONE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
SEVERAL = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def waits(tmp_path: Path, events: list[Event]) -> list[Finding]:
    return [f for f in find(Facts.of(links_of(tmp_path, events))) if f.code == "data-loading"]


def program(waits_us: list[float], name: str = ONE, tid: int = 1, steps: bool = True) -> list[Event]:
    """Steps of 1000 us, each with a wait of so long and an operator."""
    events: list[Event] = []
    for number, wait in enumerate(waits_us):
        at = 1000 * number
        events += [note(f"ProfilerStep#{number}", at, 1000)] if steps else []
        events += [note(name, at + 10, wait, tid=tid)] if wait else []
        events += [op("aten::mm", at + 900, 90)]
    return events


def test_a_loader_without_workers(tmp_path: Path) -> None:
    # the first of more than two steps is left out: (200 + 100 + 300) / 3 of 1000
    (found,) = waits(tmp_path, program([800, 200, 100, 300]))
    assert found.cost_ns_per_step == 200_000
    assert found.share == pytest.approx(0.2)
    assert (found.severity, found.basis) == ("high", "profiled")
    assert found.saving_ns_per_step is None
    assert "is not known" in found.detail
    assert "at most this time" in found.detail
    assert "asked it for 4 batches and waited up to 800 us" in found.detail
    assert found.title == "The data loader takes 200 us a step (20 %)"
    assert "num_workers=1" in (found.fix or "")
    assert "pin_memory" not in (found.fix or "")
    assert [event.dur_ns for event in found.evidence] == [800_000, 300_000, 200_000, 100_000]


def test_workers_that_make_one_step_in_several_wait(tmp_path: Path) -> None:
    # a median would say 20: (20 + 20 + 500 + 20 + 20) / 5
    (found,) = waits(tmp_path, program([20, 20, 20, 500, 20, 20], SEVERAL))
    assert found.cost_ns_per_step == 116_000
    assert "It has workers" in found.detail
    assert (found.fix or "").startswith("More workers")


def test_a_loader_that_is_quick_enough_is_no_finding(tmp_path: Path) -> None:
    assert waits(tmp_path, program([9, 9, 9, 9])) == []  # 0.9 %
    assert len(waits(tmp_path, program([11, 11, 11, 11]))) == 1


def test_a_thread_that_fetches_ahead_makes_nobody_wait(tmp_path: Path) -> None:
    assert waits(tmp_path, program([800, 800, 800], tid=2)) == []


def test_loaders_in_loaders_and_waits_over_a_border_count_once(tmp_path: Path) -> None:
    # step 1: 100 us, of which 40 are in a loader inside; from 1950 to 2150: 50 of step 1, 150 of step 2
    events = program([0, 0, 0])
    events += [note(ONE, 1100, 100), note(ONE, 1120, 40), note(SEVERAL, 1950, 200)]
    (found,) = waits(tmp_path, events)
    assert found.cost_ns_per_step == (100_000 + 50_000 + 150_000) // 2
    assert "2 batches" in found.detail


def test_without_steps_the_total_is_told(tmp_path: Path) -> None:
    # two operators and two waits in 1990 us, from 10 to 1990: nothing that repeats often enough
    (found,) = waits(tmp_path, program([300, 300], steps=False))
    assert found.cost_ns_per_step is None
    assert found.title == "The data loader takes 600 us of the 1.98 ms recorded"


def test_steps_that_regions_make(tmp_path: Path) -> None:
    # from region to region 500 us, of which the loader takes 125
    events: list[Event] = []
    for number in range(6):
        at = 500 * number
        events += [region("0/0", at, 300), op("aten::mm", at + 10, 200), note(ONE, at + 310, 125)]
    (found,) = waits(tmp_path, events)
    assert found.cost_ns_per_step is not None
    # the last step lasts until the end of its region: the wait after it is in none
    assert found.cost_ns_per_step == 4 * 125_000 // 5


def test_a_device_whose_events_are_missing(tmp_path: Path) -> None:
    events = program([200, 200, 200])
    for number in range(3):
        events += [call(number + 1, 1000 * number + 910)]
    (found,) = waits(tmp_path, events)
    assert found.cost_ns_per_step == 200_000
    assert found.saving_ns_per_step is None
    assert "pin_memory" in (found.fix or "")
