"""The overview's sentence and bars."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kinetoscope import render
from kinetoscope.analyses.idle_causes_names import CAUSES
from kinetoscope.ingest.capture_directory import LogShelf, find_inputs
from kinetoscope.render import headline
from kinetoscope.viewer import causes, story
from kinetoscope.viewer.session import Session
from viewer.sessions import CAPTURES, TRACES, Open, event, written


@pytest.mark.parametrize("name", CAPTURES)
def test_the_bars_sum_to_a_step(opened: Open, name: str) -> None:
    session = opened(name)
    found = story.bars(session.timeline, session.analysis)
    for bar in found["bars"]:
        assert sum(part["share"] for part in bar["parts"]) == pytest.approx(1, abs=1e-6)
        assert sum(part["ns"] for part in bar["parts"]) == pytest.approx(
            bar["total_ns"], abs=len(bar["parts"])
        )


@pytest.mark.parametrize("name", CAPTURES)
def test_the_bars_are_of_the_step_that_is_spoken_of(opened: Open, name: str) -> None:
    session = opened(name)
    median = session.analysis.report.steps.median_ns
    assert median is not None
    for bar in story.bars(session.timeline, session.analysis)["bars"]:
        assert bar["total_ns"] == pytest.approx(median, abs=1)


def steps(tmp_path: Path, *lengths_us: int) -> Session:
    """Steps of which the GPU works for a tenth, each launched at once."""
    events = [{"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}}]
    start = 1000
    for number, length in enumerate(lengths_us):
        correlated = {"correlation": number + 1}
        kernel = event("k", start + 10, length / 10, "kernel", 7, **correlated, device=0, stream=7)
        events += [
            event(f"ProfilerStep#{number}", start, length, "user_annotation"),
            event("cudaLaunchKernel", start + 2, 3, "cuda_runtime", **correlated),
            {**kernel, "pid": 0},
        ]
        start += length
    return written(tmp_path, *events)


@pytest.mark.parametrize(
    ("lengths", "total_us", "of"),
    [
        ((500, 100, 300, 200), 200, "of ProfilerStep#3, in the middle of 3 steps"),
        (
            (500, 100, 110, 90, 90_000),
            105,
            "mean of ProfilerStep#1 and ProfilerStep#2, in the middle of 4",
        ),
        ((100,), 100, "of ProfilerStep#0"),
        ((100, 200), 150, "mean of ProfilerStep#0 and ProfilerStep#1"),
    ],
)
def test_a_step_that_takes_far_longer_does_not_stand_for_all(
    tmp_path: Path, lengths: tuple[int, ...], total_us: int, of: str
) -> None:
    session = steps(tmp_path, *lengths)
    told = story.overview(session.timeline, session.analysis)
    assert told["of"].startswith(of)
    bars = story.bars(session.timeline, session.analysis)["bars"]
    assert bars[0]["kind"] == "device"
    assert [bar["total_ns"] for bar in bars] == [total_us * 1000] * len(bars)
    assert told["sentence"].endswith("But ProfilerStep#4 took 90.0 ms.") == (90_000 in lengths)


def test_sentence_bar_and_report_tell_one_device_time(tmp_path: Path) -> None:
    """Of steps of 40, 42, 44 and 9,000 us the GPU works 4, 4, 20 and 8,990: the middle ones are 4 and 20."""
    events = [{"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}}]
    start = 1000
    for number, (length, busy) in enumerate(((60, 5), (40, 4), (9_000, 8_990), (42, 4), (44, 20))):
        correlated = {"correlation": number + 1}
        events += [
            event(f"ProfilerStep#{number}", start, length, "user_annotation"),
            event("cudaLaunchKernel", start + 1, 2, "cuda_runtime", **correlated),
            {**event("k", start + 5, busy, "kernel", 7, **correlated, device=0, stream=7), "pid": 0},
        ]
        start += length
    session = written(tmp_path, *events)
    told = story.overview(session.timeline, session.analysis)
    assert told["of"].startswith("mean of ProfilerStep#3 and ProfilerStep#4")
    assert "A step takes 43.0 us and the GPU works for 12.0 us of it" in told["sentence"]
    device, *_ = story.bars(session.timeline, session.analysis)["bars"]
    assert sum(part["ns"] for part in device["parts"] if part["key"] != "idle") == 12_000
    assert headline.step_busy_ns(session.analysis.report) == 12_000


def test_every_cause_of_idle_time_is_explained() -> None:
    """In the words of the page of the documentation, as far as a line holds them."""
    page = (Path(__file__).parents[2] / "docs" / "idle.md").read_text(encoding="utf-8")
    table = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")]
    assert list(causes.ABOUT) == table[1:]
    assert set(causes.ABOUT) == set(CAUSES)
    for cause in CAUSES:
        assert causes.sentence(cause).endswith(".")


def test_a_cut_step_is_none_of_those_that_are_spoken_of(tmp_path: Path) -> None:
    text = gzip.decompress((TRACES / "seed_breaks.trace.json.gz").read_bytes())
    path = tmp_path / "cut.json"
    path.write_bytes(text[: len(text) * 2 // 3])
    session = Session(find_inputs([str(path)])[0], LogShelf())
    session.run()
    report = session.analysis.report
    assert [step.complete for step in report.steps.list] == [True, True, False]
    assert report.steps.median_ns == report.steps.list[1].dur_ns
    assert story.overview(session.timeline, session.analysis)["of"].startswith("of step 1")
    for bar in story.bars(session.timeline, session.analysis)["bars"]:
        assert bar["total_ns"] == report.steps.median_ns
    assert "first step and steps that were cut left out" in " ".join(render.text(report).split())
