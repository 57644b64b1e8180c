"""The other pages: overview, kernels, compile, query; loading, empty and failed states."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.ingest import load
from kinetoscope.reporting import report_of
from viewer.conftest import ROOT, TRACES, start
from viewer.driving import TimelinePage, until

Open = Callable[..., Any]
SAMPLE = ROOT / "samples" / "graph_breaks"


@pytest.fixture(scope="module")
def report() -> Any:
    return report_of(load(str(TRACES / "seed_breaks.trace.json.gz")))


def test_overview_says_what_is_going_on(open_page: Open, report: Any) -> None:
    page = open_page("seed_breaks")
    page.wait_for_selector(".overview h1")
    said = page.inner_text(".overview h1").replace("\u00a0", " ")
    assert (
        said
        == "A step takes 3.43 ms and the GPU works for 147 us of it: most of the time it waits for the CPU."
    )
    page.wait_for_selector(".overview .bar")
    assert page.locator(".bar").count() == 3
    for bar in page.locator(".bar").all():
        widths = bar.locator(".stack > div").evaluate_all(
            "(all) => all.map((e) => e.getBoundingClientRect().width)"
        )
        shares = [
            float(share)
            for share in re.findall(r"([\d.]+) %", bar.locator(".stack").get_attribute("aria-label"))
        ]
        assert sum(shares) == pytest.approx(100, abs=3)
        assert max(widths) == pytest.approx(max(shares) / 100 * sum(widths), rel=0.05)
    assert page.locator(".card").count() == min(5, len(report.findings))
    assert page.locator(".card h3").first.inner_text() == report.findings[0].title
    page.click(".card >> nth=0 >> button:has-text('How to fix')")
    assert page.locator(".card .fix").first.inner_text() == report.findings[0].fix


def test_show_me_opens_the_timeline_at_the_evidence(open_page: Open, report: Any) -> None:
    page = open_page("seed_breaks")
    page.click(".card >> nth=0 >> text=Show me")
    timeline = TimelinePage(page)
    evidence = report.findings[0].evidence[0]
    until(page, "kinetoscope.selection.data !== null")
    data = page.evaluate("kinetoscope.selection.data")
    assert (data["name"], data["start_ns"], data["dur_ns"]) == (
        evidence.name,
        evidence.start_ns,
        evidence.dur_ns,
    )
    begin, end = timeline.window
    assert begin < data["start_ns"] < data["end_ns"] < end
    assert end - begin < 100 * data["dur_ns"]
    page.go_back()
    page.wait_for_selector(".overview h1")


def test_kernels_sort_and_filter(open_page: Open) -> None:
    page = open_page("seed_breaks", "kernels")
    rows = page.locator(".table tbody tr")
    page.wait_for_selector(".table tbody tr")
    assert rows.count() == 11
    totals = [
        float(text.replace(",", "")) for text in page.locator("tbody td:nth-child(5)").all_inner_texts()
    ]
    assert totals == sorted(totals, reverse=True)
    assert sum(totals) == pytest.approx(438.6, abs=0.5)
    page.click("th button:has-text('Runs')")
    runs = [int(text) for text in page.locator("tbody td:nth-child(4)").all_inner_texts()]
    assert runs == sorted(runs, reverse=True)
    page.click("th button:has-text('Runs')")
    assert [int(text) for text in page.locator("tbody td:nth-child(4)").all_inner_texts()] == sorted(runs)
    page.fill("input[type=search]", "triton_red")
    until(page, "document.querySelectorAll('tbody tr').length === 2")
    assert "24 runs" in page.inner_text("[role=status]")
    page.fill("input[type=search]", "")
    page.select_option("select[aria-label='Who wrote it']", "eager")
    assert all("eager" in text for text in page.locator("tbody td:nth-child(2)").all_inner_texts())
    page.select_option("select[aria-label='Who wrote it']", "")
    page.fill("input[type=search]", "triton_poi_fused_addmm_relu_0")
    page.click("tbody tr >> nth=0 >> a")
    TimelinePage(page)
    until(page, "kinetoscope.selection.data?.name === 'triton_poi_fused_addmm_relu_0'")


def test_compile_page_shows_regions_and_breaks(open_page: Open) -> None:
    page = open_page("seed_breaks", "compile")
    page.wait_for_selector("#regions")
    assert [
        text.strip() for text in page.locator("section[aria-labelledby=regions] tbody a").all_inner_texts()
    ] == [
        "0/0",
        "1/0",
        "2/0",
        "3/0",
    ]
    assert "3 graph breaks" in page.inner_text("#breaks")
    page.click("section[aria-labelledby=regions] a:has-text('2/0')")
    TimelinePage(page)
    until(page, "kinetoscope.selection.data?.name === 'Torch-Compiled Region: 2/0'")


def test_compile_page_shows_the_source_of_a_break(open_page: Open) -> None:
    page = open_page(SAMPLE, "compile")
    page.wait_for_selector(".sites .excerpt code")
    assert page.locator(".sites .excerpt code").count() > 0
    for code in page.locator(".sites .excerpt code").all_inner_texts():
        assert code.strip()


def test_compile_page_has_a_waterfall(open_page: Open, tmp_path: Path) -> None:
    def phase(name: str, start: int, dur: int) -> dict[str, Any]:
        return {
            "ph": "X",
            "cat": "cpu_op",
            "name": name,
            "pid": 1,
            "tid": 1,
            "ts": start,
            "dur": dur,
            "args": {},
        }

    events = [
        phase("_compile.compile_inner (dynamo_timed)", 0, 900),
        phase("backend_compile (dynamo_timed)", 100, 500),
    ]
    path = tmp_path / "compiling.json"
    path.write_text(json.dumps({"traceEvents": events}))
    page = open_page(path, "compile")
    page.wait_for_selector(".waterfall canvas")
    assert "Compiling took 900 us of the 900 us recorded" in page.inner_text("h1")
    page.mouse.move(*page.evaluate(_CANVAS_PLACE, [0.3, 1]))
    assert "backend_compile: 500 us" in page.inner_text(".waterfall [role=status]")
    page.mouse.click(*page.evaluate(_CANVAS_PLACE, [0.3, 1]))
    until(page, "globalThis.kinetoscope?.selection.data?.name === 'backend_compile (dynamo_timed)'")


_CANVAS_PLACE = """([share, row]) => {
    const box = document.querySelector(".waterfall canvas").getBoundingClientRect();
    return [box.left + share * box.width, box.top + row * 18 + 9];
}"""


def test_query_runs_refuses_and_downloads(open_page: Open, tmp_path: Path) -> None:
    page = open_page("seed_breaks", "query", forgive=True)
    page.fill("textarea", "SELECT category, count(*) AS n FROM slices GROUP BY ALL ORDER BY n DESC")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".table tbody tr")
    cells = page.locator("tbody tr").evaluate_all(
        "(rows) => rows.map((row) => [...row.cells].map((c) => c.innerText))"
    )
    assert ["kernel", "174"] in cells
    with page.expect_download() as download:
        page.click("text=Download CSV")
    target = tmp_path / "rows.csv"
    download.value.save_as(target)
    with target.open(newline="") as file:
        assert list(csv.reader(file)) == [["category", "n"], *cells]
    for sql, said in (
        ("DROP TABLE tracks", "only SELECT"),
        ("SELECT * FROM read_text('/etc/hostname')", "disabled"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("SELECT nothing FROM slices", "nothing"),
        ("COPY slices TO '/tmp/out.csv'", "only SELECT"),
    ):
        page.fill("textarea", sql)
        page.click("button:has-text('Run')")
        until(page, "(said) => document.querySelector('.tools .bad')?.textContent.includes(said)", said)
        assert page.locator(".table tbody tr").count() == 0
    # DuckDB marks the place under the query's line: a line and a fixed width each, or the mark is nowhere
    page.fill("textarea", "SELECT name,\n  nothing FROM slices")
    page.click("button:has-text('Run')")
    until(page, "document.querySelector('.tools .bad')?.innerText.includes('LINE 2')")
    query, mark = page.inner_text(".tools .bad").split("\n")[-2:]
    assert query.index("nothing") == mark.index("^")
    # a query that fails can be mended after a reload
    page.reload()
    until(page, "document.querySelector('textarea')?.value.includes('nothing FROM slices')")


def test_the_rail_goes_everywhere_by_keyboard(open_page: Open) -> None:
    page = open_page("seed_breaks")
    page.wait_for_selector(".overview h1")
    for name in ("Overview", "Timeline", "Compile", "Kernels", "Query"):
        page.focus(f"nav a:has-text('{name}')")
        page.keyboard.press("Enter")
        until(page, "(name) => document.title.startsWith(name)", name)
        assert page.get_attribute("nav a[aria-current]", "data-page") == name.lower()


def test_a_trace_without_a_device(open_page: Open, tmp_path: Path) -> None:
    event = {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::add",
        "pid": 1,
        "tid": 1,
        "ts": 5,
        "dur": 7,
        "args": {},
    }
    path = tmp_path / "cpu.json"
    path.write_text(json.dumps({"traceEvents": [event]}))
    page = open_page(path)
    page.wait_for_selector(".overview h1")
    assert "without any device" in page.inner_text("h1").replace("\u00a0", " ")
    assert page.inner_text("#time").startswith("Where the time goes")
    for name in ("timeline", "compile", "kernels", "query"):
        page.goto(page.url.split("#")[0] + f"#/{name}")
        until(page, "(name) => document.title.toLowerCase().startsWith(name)", name)
        page.wait_for_selector(".timeline, article")


def test_names_of_a_trace_are_never_markup(open_page: Open, tmp_path: Path) -> None:
    hostile = [
        "<img src=x onerror=\"document.title='owned'\">",
        "<script>document.title='owned'</script>",
        "</title><svg onload=alert(1)>",
        "javascript:alert(1)",
        "\u202edcba",
        "\x00\x1b[31m",
        "{{7*7}}${7*7}",
        "=cmd|' /C calc'!A0",
    ]
    events = [
        {
            "ph": "X",
            "cat": "cpu_op" if n else name,
            "name": name,
            "pid": 1,
            "tid": 1,
            "ts": 10 * n,
            "dur": 8,
            "args": {name: name},
        }
        for n, name in enumerate(hostile)
    ]
    events.append({"ph": "M", "name": "process_name", "pid": 1, "tid": 1, "args": {"name": hostile[0]}})
    events.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": hostile[1]}})
    text = json.dumps({"traceEvents": events}).replace("dcba", "dcba\\ud800")
    path = tmp_path / "hostile <b>.json"
    path.write_text(text)
    page = open_page(path, "timeline")
    timeline = TimelinePage(page)
    for row in range(len(hostile)):
        timeline.click(row)
        page.wait_for_selector(".details .args dl")
        assert page.locator(".details img, .details script, .details svg").count() == 0
    assert "onerror" in timeline.page.inner_text(".names:not(.pinned)")
    page.fill(".search input", "<img")
    until(page, "document.querySelector('.hits').textContent.startsWith('1')")
    for name in ("kernels", "compile", "query", "overview"):
        page.goto(page.url.split("#")[0] + f"#/{name}")
        until(page, "(name) => document.title.toLowerCase().startsWith(name)", name)
    page.wait_for_selector(".overview h1")
    assert "owned" not in page.title()


def test_what_cannot_be_seen_is_written_out(open_page: Open, tmp_path: Path) -> None:
    names = ("\u202edcba", "a\x00\x1b[31mb", "zero\u200bwidth", " ", "")
    shown = ("\\u202edcba", "a\\x00\\x1b[31mb", "zero\\u200bwidth", "(no name)", "(no name)")
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 10 * n, "dur": 8 - n}
        for n, name in enumerate(names)
    ]
    path = tmp_path / "unseen.json"
    path.write_text(json.dumps({"traceEvents": events}))
    page = open_page(path, "kernels")
    page.wait_for_selector(".table tbody tr")
    assert tuple(page.locator(".table tbody td.name a").all_text_contents()) == shown
    timeline = TimelinePage(open_page(path, "timeline"))
    timeline.click(0)
    assert "\\u202edcba" in timeline.details
    assert not any(ord(char) in (0x202E, 0x200B, 0) for char in timeline.details)


def test_a_region_leads_to_its_own_first_call(open_page: Open, tmp_path: Path) -> None:
    # the id of one is how another's begins
    events = [
        {"ph": "X", "cat": "cpu_op", "name": f"Torch-Compiled Region: {name}", "pid": 1, "tid": 1, **when}
        for name, when in (
            ("0/10", {"ts": 0, "dur": 5}),
            ("0/1_1", {"ts": 10, "dur": 5}),
            ("0/1", {"ts": 20, "dur": 5}),
            ("0/1", {"ts": 30, "dur": 5}),
        )
    ]
    path = tmp_path / "regions.json"
    path.write_text(json.dumps({"traceEvents": events}))
    page = open_page(path, "compile")
    page.get_by_role("link", name="0/1", exact=True).click()
    TimelinePage(page)
    until(page, "kinetoscope.selection.data?.start_ns === 20000")


def test_a_download_runs_nothing_and_keeps_numbers(open_page: Open, tmp_path: Path) -> None:
    page = open_page("seed_breaks", "query")
    page.wait_for_selector(".schema details")
    page.fill("textarea", "SELECT '=1+1' AS a, '-2+3' AS b, -1.5 AS c, -7 AS d, 'x,\"y' AS e, NULL AS \"@f\"")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".table tbody tr")
    with page.expect_download() as download:
        page.click("text=Download CSV")
    target = tmp_path / "rows.csv"
    download.value.save_as(target)
    with target.open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["a", "b", "c", "d", "e", "'@f"],
            ["'=1+1", "'-2+3", "-1.5", "-7", 'x,"y', ""],
        ]


def test_a_query_is_stopped(open_page: Open) -> None:
    page = open_page("seed_breaks", "query", forgive=True)
    page.wait_for_selector(".schema details")
    page.fill("textarea", "SELECT count(*) FROM range(10000000) a, range(1000000) b")
    page.keyboard.press("Control+Enter")
    page.click("button:text-is('Stop')")
    until(page, "document.querySelector('.tools .bad')?.textContent === 'stopped'")
    page.fill("textarea", "SELECT 1 AS one")
    page.click("button:text-is('Run')")
    page.wait_for_selector(".table th:has-text('one')")


def test_two_windows_that_show_different_ranks(open_page: Open, tmp_path: Path) -> None:
    for rank in range(2):
        event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 7}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps({"traceEvents": [event]}))
    one, other = (open_page(tmp_path, forgive=True) for _ in range(2))
    for page in (one, other):
        page.wait_for_selector(".overview .bar")
    other.select_option("select[aria-label='Trace of this input']", "1")
    until(other, "document.querySelector('header select')?.value === '1'")
    # what the first window asks now is not answered with the other trace's numbers
    one.click("nav a:has-text('Kernels')")
    one.wait_for_selector(".failed")
    assert "chosen in another window" in one.inner_text(".failed")
    one.reload()
    until(one, "document.querySelector('header select')?.value === '1'")
    one.wait_for_selector(".table tbody tr")


def test_a_cut_file_is_called_partial(open_page: Open, tmp_path: Path) -> None:
    event = '{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":%d,"dur":7,"args":{}}'
    path = tmp_path / "cut.json"
    path.write_text('{"traceEvents": [' + ",".join(event % n for n in range(0, 100, 10)) + ',{"ph":"X","ca')
    page = open_page(path)
    page.wait_for_selector(".overview .note")
    assert "PARTIAL" in page.inner_text(".note")


def test_several_ranks_are_chosen_from(open_page: Open, tmp_path: Path) -> None:
    for rank in range(2):
        event = {
            "ph": "X",
            "cat": "cpu_op",
            "name": f"rank{rank}",
            "pid": 1,
            "tid": 1,
            "ts": 0,
            "dur": 7,
            "args": {},
        }
        (tmp_path / f"rank{rank}.json").write_text(json.dumps({"traceEvents": [event]}))
    page = open_page(tmp_path)
    page.wait_for_selector(".overview h1")
    page.evaluate("window.before = true")
    page.select_option("select[aria-label='Trace of this input']", "1")
    until(page, "!window.before && document.querySelector('header select')?.value === '1'")
    page.wait_for_selector(".overview h1")
    page.goto(page.url.split("#")[0] + "#/timeline")
    timeline = TimelinePage(page)
    timeline.click(0)
    assert "rank1" in timeline.details


def test_it_stops_on_ctrl_c() -> None:
    server = start(str(TRACES / "seed_breaks.trace.json.gz"))
    assert server.stop() == 0
