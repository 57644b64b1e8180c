"""The server's answers against plain loops over the events; no browser needed."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
from kinetoscope.viewer.query import LIMIT
from kinetoscope.viewer.session import NotReadyError, Session
from kinetoscope.window import WindowSpec

TRACES = Path(__file__).parents[1] / "traces"
SAMPLE = Path(__file__).parents[2] / "samples" / "graph_breaks"
CAPTURES = ("seed_breaks", "gpt_decode", "user_triton")
Open = Callable[[str], Session]


@pytest.fixture(scope="module")
def opened() -> Open:
    found: dict[str, Session] = {}

    def of(name: str) -> Session:
        if name not in found:
            path = TRACES / f"{name}.trace.json.gz"
            found[name] = Session(find_inputs([str(path)])[0], LogShelf())
            found[name].run()
            assert found[name].status()["state"] == "ready", found[name].status()
        return found[name]

    return of


def written(tmp_path: Path, *events: dict[str, Any]) -> Session:
    path = tmp_path / "small.json"
    path.write_text(json.dumps({"traceEvents": list(events)}))
    session = Session(find_inputs([str(path)])[0], LogShelf())
    session.run()
    return session


def event(
    name: str, start: float, dur: float, cat: str = "cpu_op", tid: int = 1, **args: Any
) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": dur, "args": args}


def decoded(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    (length,) = struct.unpack_from("<I", data)
    header = json.loads(data[4 : 4 + length])
    at, n = 4 + length, header["pieces"]
    columns = {}
    for name, dtype in (
        ("x0", "<f4"),
        ("x1", "<f4"),
        ("count", "<u4"),
        ("row", "<u4"),
        ("name", "<u4"),
        ("busy", "u1"),
        ("meaning", "u1"),
        ("hit", "u1"),
    ):
        columns[name] = np.frombuffer(data, dtype, n, at)
        at += -(-n * np.dtype(dtype).itemsize // 4) * 4
    assert at == len(data)
    return header, columns


@pytest.mark.parametrize("name", CAPTURES)
def test_a_viewport_holds_every_visible_slice(opened: Open, name: str) -> None:
    session = opened(name)
    timeline, c = session.timeline, session.timeline.trace.columns
    low, high = timeline.extent_ns
    random = np.random.default_rng(5)
    for _ in range(30):
        width = (high - low) * 10 ** random.uniform(-4, 0)
        begin = low + random.uniform(0, 1) * (high - low - width)
        pixel = width / 1000
        given = {"begin": begin, "end": begin + width, "pixel": pixel, "lanes": "0-9999"}
        header, columns = decoded(api.tiles(session, {key: str(value) for key, value in given.items()}))
        assert sum(count for _, count in header["lanes"]) == header["pieces"]
        inside = c.is_valid & (c.category != Category.TRACE)
        inside &= (c.start_ns < begin + width) & (c.end_ns > begin) & (c.dur_ns >= pixel)
        lanes = np.repeat([lane for lane, _ in header["lanes"]], [count for _, count in header["lanes"]])
        own = lanes < len(timeline.lanes)
        alone = columns["row"][own & (columns["count"] == 1)]
        assert set(np.flatnonzero(inside).tolist()) <= set(alone.tolist())
        drawn = np.flatnonzero(own & (columns["count"] == 1))
        exact = (c.start_ns[columns["row"][drawn]] - begin) / pixel
        near = np.abs(exact) < 2000
        assert columns["x0"][drawn][near] == pytest.approx(exact[near], abs=2e-3)
        wide = drawn[columns["x1"][drawn] - columns["x0"][drawn] > 14]
        assert {str(n) for n in columns["name"][wide]} <= set(header["names"])


@pytest.mark.parametrize("name", CAPTURES)
def test_search_counts_every_event(opened: Open, name: str) -> None:
    session = opened(name)
    trace = session.timeline.trace
    names = [trace.name_of(row) for row in session.timeline.lanes.row.tolist()]
    low, high = session.timeline.extent_ns
    for text in ("aten::", "TRITON", "k", "("):
        found = session.searches.summary(text, low, high, 50)
        assert found["count"] == sum(text.lower() in each.lower() for each in names)
        assert sum(found["strip"]) == found["count"]
        seen, row = [], None
        for _ in range(min(found["count"], 40)):
            hit = session.searches.step(text, low, row, forward=True)
            assert hit is not None
            row = hit["row"]
            seen.append(int(trace.columns.start_ns[row]))
        assert seen == sorted(seen)
    assert session.searches.step("no such name", 0, None, forward=True) is None


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
def test_the_kernel_table_sums_to_the_report(opened: Open, name: str) -> None:
    analysis = opened(name).analysis
    kernels = analysis.report.kernels
    assert kernels is not None
    rows = analysis.kernels["rows"]
    memory = [row for row in rows if row["origin"] == "memory copies and fills"]
    assert sum(row["count"] for row in rows) - sum(row["count"] for row in memory) == kernels.count
    assert sum(row["total_ns"] for row in rows) - sum(row["total_ns"] for row in memory) == kernels.total_ns
    for row in rows:
        assert sum(row["bins"]) == row["count"]
        assert row["min_ns"] <= row["mean_ns"] <= row["max_ns"]
        assert analysis.links.trace.name_of(row["row"]) == row["name"]
        assert int(analysis.links.trace.columns.dur_ns[row["row"]]) == row["max_ns"]


def test_every_generated_kernel_has_its_lines_and_its_regions() -> None:
    session = Session(find_inputs([str(SAMPLE)])[0], LogShelf())
    session.run()
    analysis = session.analysis
    c, work, calls = analysis.links.trace.columns, analysis.work, analysis.links.regions.calls
    seen = 0
    for entry in analysis.kernels["rows"]:
        if entry["origin"] != "Inductor Triton":
            continue
        seen += 1
        runs = [at for at, row in enumerate(work.rows) if analysis.links.trace.name_of(row) == entry["name"]]
        lines = {
            f"{line['file']}:{line['line']}"
            for at in runs
            for line in (api.kernel(session, {"row": str(work.rows[at])})["place"] or {"source": []})[
                "source"
            ]
        }
        assert {line["where"] for line in entry["source"]} == lines != set()
        regions = Counter(calls.label[work.region_call[at]] for at in runs if work.region_call[at] >= 0)
        assert entry["regions"] == len(regions)
        most = max(regions.values(), default=0)
        assert entry["region"] in {calls.labels[n] for n, count in regions.items() if count == most} | (
            set() if regions else {None}
        )
        assert entry["op"] != entry["name"]
    assert seen == 4
    assert c.is_device.any()


def test_a_window_is_what_the_tables_are_of() -> None:
    asked = WindowSpec(steps=(1, 1))
    session = Session(find_inputs([str(TRACES / "seed_breaks.trace.json.gz")])[0], LogShelf(), asked)
    session.run()
    analysis = session.analysis
    step = analysis.links.steps
    c, launches = analysis.links.trace.columns, analysis.links.launches
    launched = c.start_ns[launches.launch_row]
    inside = (launched >= step.start_ns[1]) & (launched < step.end_ns[1])
    kernels = launches.device_rows[inside & (c.category[launches.device_rows] == Category.KERNEL)]
    assert analysis.kernels["in_window"] is True
    assert sum(row["count"] for row in analysis.kernels["rows"]) == len(kernels) < len(launches.device_rows)
    assert analysis.kernels["total_ns"] == int(c.dur_ns[kernels].sum())
    assert {row["row"] for row in analysis.kernels["rows"]} <= set(kernels.tolist())
    assert len(analysis.facts.work.rows) == len(launches.device_rows)


def test_a_search_by_field_finds_the_work_that_is_meant(opened: Open) -> None:
    session = opened("seed_breaks")
    analysis, trace = session.analysis, session.timeline.trace
    c, report = trace.columns, analysis.report

    def rows(text: str) -> set[int]:
        return set(session.searches.hits(text).rows.tolist())

    assert report.kernels is not None
    for each in report.kernels.by_origin:
        assert len(rows(f"origin:{each.origin}")) == each.count
    for kind in report.kernels.by_kind:
        assert len(rows(f"KIND: {kind.kind}")) == kind.count
    assert rows("category:kernel") == set(np.flatnonzero(c.category == Category.KERNEL).tolist())
    mm = rows("op:aten::mm")
    assert mm
    assert all(analysis.work.is_kernel[analysis.work.rows == row].all() for row in mm)
    inner = next(region for region in report.regions if region.id == "3/0")
    found = rows("region:3/0")
    assert sum(trace.name_of(row) == "Torch-Compiled Region: 3/0" for row in found) == inner.calls
    assert sum(int(c.dur_ns[row]) for row in found if c.is_device[row]) == inner.device_ns
    # a colon does not make a field of a name
    assert rows("aten::mm") == {row for row in range(len(c)) if "aten::mm" in trace.name_of(row)}
    assert rows("origin:") == set()
    assert rows("region:nothing") == set()


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


def test_a_kernel_has_its_next_command(opened: Open) -> None:
    session = opened("seed_breaks")
    trace = session.timeline.trace
    kernels = np.flatnonzero(trace.columns.category == Category.KERNEL)
    found = api.kernel(session, {"row": str(kernels[4])})
    assert found["place"] is None  # no compile log was given
    assert found["commands"][0].command.startswith("ncu ")
    with pytest.raises(UsageError, match="no kernel"):
        api.kernel(session, {"row": "0"})


def test_a_compile_log_tells_source_and_code() -> None:
    session = Session(find_inputs([str(SAMPLE)])[0], LogShelf())
    session.run()
    work = session.analysis.work
    told = 0
    for row in work.rows.tolist():
        place = api.kernel(session, {"row": str(row)})["place"]
        if place is None:
            continue
        told += 1
        assert place["code"]
        assert all(line["file"] and line["line"] for line in place["source"])
    assert told > 0
    assert any(mark["why"] for mark in overlaid(session, {})["breaks"])


def test_sql_reads_and_cannot_write(opened: Open) -> None:
    session = opened("seed_breaks")
    database = session.analysis.database
    c = session.timeline.trace.columns
    found = database.run("SELECT category, count(*), sum(dur_ns) FROM slices GROUP BY ALL")
    kernels = c.category == Category.KERNEL
    assert ["kernel", int(kernels.sum()), str(c.dur_ns[kernels].sum())] in [
        [row[0], row[1], str(row[2])] for row in found["rows"]
    ]
    launched = database.run(
        "SELECT count(*) FROM slices k JOIN slices l ON l.row = k.launch WHERE k.category = 'kernel'"
    )
    assert launched["rows"] == [[174]]
    assert (
        database.run("SELECT count(correlation), min(depth) FROM slices")["rows"][0][0]
        == (c.correlation != NONE).sum()
    )
    assert len(database.run("SELECT * FROM range(20000)")["rows"]) == LIMIT
    for sql in (
        "CREATE TABLE x AS SELECT 1",
        "COPY tracks TO 'x.csv'",
        "INSTALL httpfs",
        "ATTACH 'x.db'",
        "SET memory_limit = '9GB'",
        "EXPLAIN ANALYZE DROP VIEW slices",
        "WITH x AS (SELECT 1) INSERT INTO tracks SELECT * FROM x",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM c",
        "SELECT 1; DROP VIEW slices",
        "",
    ):
        with pytest.raises(UsageError):
            database.run(sql)
    with pytest.raises(UsageError, match="stopped after"):
        database.run("SELECT count(*) FROM range(10000000) a, range(1000000) b", seconds=0.3)
    assert database.run("SELECT 1")["rows"] == [[1]]


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
    from kinetoscope.window import WindowSpec

    trace = load(str(TRACES / "seed_breaks.trace.json.gz"))
    analysis = Analysis.of(trace, window=WindowSpec(steps=(1, 1)))
    assert analysis.report.trace.window is not None
    assert len(analysis.meaning) == len(trace.columns)
