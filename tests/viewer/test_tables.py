"""The pages' tables, kernels' details and SQL against plain loops over the events."""

from __future__ import annotations

import threading
import time
from collections import Counter

import numpy as np
import pytest

from kinetoscope.errors import UsageError
from kinetoscope.ingest.capture_directory import LogShelf, find_inputs
from kinetoscope.trace import NONE, Category
from kinetoscope.viewer import api
from kinetoscope.viewer.api import overlaid
from kinetoscope.viewer.query import LIMIT
from kinetoscope.viewer.session import Session
from kinetoscope.window import WindowSpec
from viewer.sessions import CAPTURES, SAMPLE, TRACES, Open


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


def test_an_answer_has_a_size(opened: Open) -> None:
    database = opened("seed_breaks").analysis.database
    with pytest.raises(UsageError, match="larger than 32 MB"):
        database.run("SELECT repeat('x', 9000) FROM range(5000)")
    found = database.run("SELECT repeat('x', 9000) FROM range(500)")
    assert (len(found["rows"]), found["more"]) == (500, False)
    assert database.run(f"SELECT * FROM range({LIMIT})")["more"] is False
    assert database.run(f"SELECT * FROM range({LIMIT + 1})")["more"] is True


def test_a_query_is_stopped_and_others_go_on(opened: Open) -> None:
    database = opened("seed_breaks").analysis.database
    said: list[str] = []

    def endless() -> None:
        try:
            database.run("SELECT count(*) FROM range(10000000) a, range(1000000) b", name="endless")
        except UsageError as error:
            said.append(str(error))

    running = threading.Thread(target=endless)
    running.start()
    began = time.monotonic()
    assert database.run("SELECT 1", name="short")["rows"] == [[1]]
    database.stop("nothing of this name")
    assert running.is_alive()
    while running.is_alive() and time.monotonic() - began < 20:
        database.stop("endless")
        running.join(0.1)
    assert said == ["stopped"]
    for sql in (
        "SELECT * FROM database",
        "SET memory_limit = '9GB'",
        "SELECT * FROM read_text('/etc/passwd')",
    ):
        with pytest.raises(UsageError):
            database.run(sql)
