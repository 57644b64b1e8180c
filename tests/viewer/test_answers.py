"""The server's answers against plain loops over the events; no browser needed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from kinetoscope.errors import UsageError
from kinetoscope.ingest import load
from kinetoscope.ingest.capture_directory import LogShelf, find_inputs
from kinetoscope.trace import NONE, Category
from kinetoscope.viewer import api, area, compile_page, flows, story
from kinetoscope.viewer.analysis import Analysis
from kinetoscope.viewer.api import about, overlaid
from kinetoscope.viewer.meaning import MEANINGS, NUMBER
from kinetoscope.viewer.session import NotReadyError, Session
from kinetoscope.window import WindowSpec
from viewer.sessions import CAPTURES, TRACES, Open, decoded, event, written


@pytest.mark.parametrize("name", CAPTURES)
def test_an_area_equals_a_loop(opened: Open, name: str) -> None:
    session = opened(name)
    trace, c = session.timeline.trace, session.timeline.trace.columns
    low, high = session.timeline.extent_ns
    random = np.random.default_rng(11)
    for _ in range(5):
        begin, end = sorted(random.integers(low, high, 2).tolist())
        strips = {(strip.track, strip.kind) for strip in session.timeline.strips}
        found = area.statistics(trace, session.analysis.meaning, strips, begin, end)
        counts: Counter[str] = Counter()
        total: Counter[str] = Counter()
        own: Counter[str] = Counter()
        cut = {}
        for row in range(len(c)):
            start, finish = int(c.start_ns[row]), int(c.end_ns[row])
            if c.category[row] == Category.TRACE or not c.is_valid[row]:
                continue
            if start < end and (finish > begin or start >= begin):
                cut[row] = min(finish, end) - max(start, begin)
        for row, dur in cut.items():
            counts[trace.name_of(row)] += 1
            total[trace.name_of(row)] += dur
        inside: Counter[int] = Counter()
        for row, dur in cut.items():
            inside[int(c.parent[row])] += dur
        for row, dur in cut.items():
            own[trace.name_of(row)] += max(0, dur - inside[row])
        assert {each["name"]: each["count"] for each in found["names"]} == dict(counts)
        assert {each["name"]: each["total_ns"] for each in found["names"]} == dict(total)
        assert {each["name"]: each["self_ns"] for each in found["names"]} == dict(own)


@pytest.mark.parametrize("name", CAPTURES)
def test_every_correlation_is_an_arrow(opened: Open, name: str) -> None:
    session = opened(name)
    c = session.timeline.trace.columns
    calls: dict[int, int] = {}
    for row in np.flatnonzero(c.is_call & (c.correlation != NONE)).tolist():
        key = int(c.correlation[row])
        if key not in calls or c.event[row] > c.event[calls[key]]:
            calls[key] = row
    expected = {
        (calls[int(c.correlation[row])], row)
        for row in np.flatnonzero(c.is_device).tolist()
        if int(c.correlation[row]) in calls
    }
    found = session.analysis.flows
    launches = found.kind == 0
    assert set(zip(found.source[launches].tolist(), found.target[launches].tolist(), strict=True)) == expected
    for source, target in list(expected)[:50]:
        assert target in found.target[found.leaving(source)].tolist()
        assert source in found.source[found.arriving(target)].tolist()


def test_arrows_in_view_are_thinned_and_stay_honest(opened: Open) -> None:
    session = opened("gpt_decode")
    low, high = session.timeline.extent_ns
    shown = np.ones(len(session.timeline.lanes) + 1, np.bool_)
    found = flows.in_view(session.timeline, session.analysis.flows, low, high, (high - low) / 1000, shown)
    assert found["total"] == len(session.analysis.flows)
    assert len(found["kind"]) <= flows.LIMIT
    nothing = flows.in_view(session.timeline, session.analysis.flows, low, high, 1.0, np.zeros_like(shown))
    assert nothing["total"] == 0


def test_meanings_follow_the_report(opened: Open) -> None:
    for name in CAPTURES:
        analysis = opened(name).analysis
        kernels = analysis.report.kernels
        assert kernels is not None
        c = analysis.links.trace.columns
        device = c.category == Category.KERNEL
        eager = sum(each.count for each in kernels.by_origin if each.origin == "eager")
        communication = sum(each.count for each in kernels.by_kind if each.kind == "communication")
        meant = analysis.meaning[device]
        assert (meant == NUMBER["eager"]).sum() == eager - communication
        triton = sum(each.count for each in kernels.by_origin if each.origin == "inductor_triton")
        assert (meant == NUMBER["triton"]).sum() == triton
        assert analysis.meaning.max() < len(MEANINGS)


@pytest.mark.parametrize("name", CAPTURES)
def test_idle_lanes_are_the_holes_between_device_events(opened: Open, name: str) -> None:
    analysis = opened(name).analysis
    idle = analysis.idle
    assert idle is not None
    assert analysis.report.idle is not None
    lanes = idle.lanes
    assert int((lanes.end_ns - lanes.start_ns).sum()) == analysis.report.idle.total_ns
    assert (lanes.start_ns[1:] >= lanes.end_ns[:-1]).all()


def test_counters_keep_peaks(opened: Open) -> None:
    session = opened("seed_breaks")
    low, high = session.timeline.extent_ns
    for number, series in enumerate(session.analysis.series):
        given = {"id": str(number), "begin": str(low), "end": str(high + 1), "pixels": "37"}
        found = api.counter(session, given)
        assert max(value for value in found["high"] if value is not None) == series.value.max()
        assert len(found["high"]) == len(found["low"]) == 37
    depth = session.analysis.series[-1]
    assert depth.name == "Device 0 queue depth"
    assert depth.value.min() >= 0
    assert depth.value[-1] == 0


def test_details_of_every_slice(opened: Open) -> None:
    session = opened("seed_breaks")
    for row in range(len(session.timeline.trace.columns)):
        found = api.slice_(session, {"row": str(row)})
        assert found["name"] == session.timeline.trace.name_of(row)
        if found["is_device"]:
            assert found["launch"]["row"] == session.analysis.links.launches.launch_of_row[row]
            assert found["queue_ns"] == found["start_ns"] - found["launch"]["start_ns"]
        json.dumps(found)


def test_an_idle_gap_and_a_name_are_found(opened: Open) -> None:
    session = opened("seed_breaks")
    overlays = overlaid(session, {})
    lane = overlays["idle"][0]["lane"]
    idle = session.analysis.idle
    assert idle is not None
    middle = float(idle.lanes.start_ns[3] + idle.lanes.end_ns[3]) / 2
    found = api.at(session, {"lane": str(lane), "time": str(middle), "within": "0"})
    assert found["gap"]["start_ns"] == idle.lanes.start_ns[3]
    assert found["gap"]["cause"] in idle.causes
    assert len(overlays["breaks"]) == 9
    trace = session.timeline.trace
    assert api.names(session, {"ids": "0"})["names"]["0"].startswith(trace.names[0][:20])
    with pytest.raises(UsageError):
        api.at(session, {"lane": str(lane + 5), "time": "0", "within": "0"})


def test_a_session_that_is_still_reading_says_so() -> None:
    session = Session(find_inputs([str(TRACES / "seed_breaks.trace.json.gz")])[0], LogShelf())
    with pytest.raises(NotReadyError):
        _ = session.timeline
    assert session.is_loading
    session.run()
    assert not session.is_loading
    assert about(session, {})["lanes"] == len(session.timeline.lanes)


def test_a_trace_of_one_event(tmp_path: Path) -> None:
    session = written(tmp_path, event("aten::add", 1, 0))
    assert session.status()["state"] == "ready"
    header, _ = decoded(api.tiles(session, {"begin": "0", "end": "100", "pixel": "1", "lanes": "0-5"}))
    assert header["pieces"] == 1
    overlaid(session, {})
    story.overview(session.timeline, session.analysis)
    assert compile_page.page(session.analysis)["waterfall"]["phases"] == []
    assert session.analysis.database.run("SELECT count(*) FROM flows")["rows"] == [[0]]


def test_colours_without_an_analysis_yet(tmp_path: Path) -> None:
    session = written(tmp_path, event("cudaLaunchKernel", 1, 5, "cuda_runtime", correlation=1))
    session._analysis = None
    _, columns = decoded(api.tiles(session, {"begin": "0", "end": "9000", "pixel": "1", "lanes": "0"}))
    assert columns["meaning"].tolist() == [NUMBER["call"]]


def test_two_hundred_tracks(tmp_path: Path) -> None:
    events = [event(f"op{n}", n * 10 % 97, 5, tid=n % 200 + 1) for n in range(2000)]
    session = written(tmp_path, *events)
    assert len(about(session, {})["rows"]) == 200
    header, _ = decoded(api.tiles(session, {"begin": "0", "end": "200000", "pixel": "10", "lanes": "0-9999"}))
    assert len(header["lanes"]) == len(session.timeline.lanes)


def test_evidence_is_located(opened: Open) -> None:
    session = opened("seed_breaks")
    for finding in session.analysis.report.findings:
        for each in finding.evidence:
            row = api.find_event(session.timeline.trace, each.track, each.start_ns, each.name)
            assert row is not None
            assert session.timeline.trace.name_of(row) == each.name
    assert api.find_event(session.timeline.trace, "9/9", 0, "x") is None


def test_the_report_of_a_window_keeps_the_whole_picture() -> None:

    trace = load(str(TRACES / "seed_breaks.trace.json.gz"))
    analysis = Analysis.of(trace, window=WindowSpec(steps=(1, 1)))
    assert analysis.report.trace.window is not None
    assert len(analysis.meaning) == len(trace.columns)
