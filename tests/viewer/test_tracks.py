"""Tracks: their order, pins and menus, many of them, and what lies over them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.link import Links
from viewer.driving import SELECTED, TimelinePage, rows_named, until
from viewer.sessions import SAMPLE

Timeline = Callable[..., TimelinePage]


def names_of(page: TimelinePage) -> list[str]:
    found: list[str] = page.page.eval_on_selector_all(
        ".names .track .label",
        """(all) => all.map((one) => [one.getBoundingClientRect().top, one.textContent])
            .sort((a, b) => a[0] - b[0]).map((pair) => pair[1])""",
    )
    return found


def menu(page: TimelinePage, track: str, entry: str) -> None:
    page.page.click(f"button[aria-label='Track menu: {track}']")
    page.page.click(f".track-menu button:has-text('{entry}')")


def test_pin_hide_reorder_and_filter_tracks(timeline: Timeline) -> None:
    page = timeline("seed_breaks")
    before = names_of(page)
    threads = ["thread 717 (python3)", "thread 760 (python3)"]
    assert before[:4] == [*threads, "idle, by cause", "stream 7"]
    menu(page, "thread 760 (python3)", "Pin to the top")
    assert names_of(page)[:4] == [*threads[::-1], "idle, by cause", "stream 7"]
    assert "717%2F760%2Fwork" in page.page.url
    menu(page, "thread 760 (python3)", "Unpin")
    assert names_of(page) == before
    menu(page, "thread 760 (python3)", "Move up")
    assert names_of(page)[:2] == threads[::-1]
    menu(page, "thread 760 (python3)", "Move down")
    menu(page, "thread 760 (python3)", "Hide")
    assert threads[1] not in names_of(page)
    page.page.click("button:has-text('Show 1 hidden')")
    assert names_of(page) == before
    page.page.fill("input[aria-label='Filter tracks by name']", "stream")
    assert [name for name in names_of(page) if "stream" in name] == names_of(page)
    page.page.fill("input[aria-label='Filter tracks by name']", "")
    page.page.click("button[aria-label='Fold thread 717 (python3)']")
    assert (
        page.page.get_attribute("button[aria-label='Unfold thread 717 (python3)']", "aria-expanded")
        == "false"
    )


def test_a_link_shows_the_same(timeline: Timeline, links: Callable[[str], Links]) -> None:
    page = timeline("seed_breaks")
    menu(page, "thread 760 (python3)", "Pin to the top")
    row = rows_named(links("seed_breaks"), "aten::mm")[3]
    page.click(row)
    page.press("m")
    page.page.wait_for_timeout(300)
    window, address = page.window, page.page.url
    again = timeline("seed_breaks", address.split("#/", 1)[1])
    until(again.page, SELECTED, row)
    assert again.window == pytest.approx(window, abs=1)
    assert again.page.evaluate("kinetoscope.marks().length") == 1
    assert names_of(again)[:2] == ["thread 760 (python3)", "thread 717 (python3)"]


def shown(page: TimelinePage, row: str) -> tuple[float, float]:
    """Top and bottom of a row on the canvas, as far as they are in view."""
    found: list[float] = page.page.evaluate(
        """(id) => {
            const { rows, scroll } = kinetoscope, row = rows.shown.find((each) => each.id === id);
            const y = rows.y(row, scroll.scrollTop), top = row.pinned ? 0 : rows.pinnedHeight;
            return [Math.max(top, y), Math.min(scroll.clientHeight, y + row.height)];
        }""",
        row,
    )
    return found[0], found[1]


@pytest.mark.parametrize(
    ("trace", "streams", "threads"),
    [
        (SAMPLE, ["0/7/device"], ["717/717/work", "717/760/work"]),
        ("pair_decode", ["0/7/device"], ["493/493/work"]),
        ("gpt_decode", ["0/7/device"], ["922/922/work"]),
        ("user_triton", ["0/7/device"], ["1406/1406/work"]),
    ],
)
def test_the_device_and_who_feeds_it_are_seen_at_once(
    timeline: Timeline, trace: str | Path, streams: list[str], threads: list[str]
) -> None:
    page = timeline(trace, width=1280, height=720)
    assert page.page.evaluate("kinetoscope.scroll.scrollTop") == 0
    for row in streams + threads:
        top, bottom = shown(page, row)
        assert bottom - top >= 18, row
    tops = [shown(page, row)[0] for row in threads + streams]
    assert tops == sorted(tops)


def test_the_thread_that_launches_comes_before_busier_ones(timeline: Timeline, tmp_path: Path) -> None:
    """One thread polls the driver (calls, but nothing ran because of them); a deep one launches."""
    events: list[dict[str, Any]] = []

    def put(name: str, cat: str, pid: int, tid: int, ts: int, dur: int, **args: int) -> None:
        events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
        )

    for n in range(400):
        put("cudaEventQuery", "cuda_runtime", 1, 3, n * 10, 1, correlation=10_000 + n)
        put("aten::add", "cpu_op", 1, 4, n * 10, 5)
        put("aten::mul", "cpu_op", 1, 4, n * 10 + 6, 2)
    for n in range(20):
        for level in range(30):
            put(f"level {level}", "cpu_op", 1, 2, n * 200 + level, 150 - 2 * level)
        put("cudaLaunchKernel", "cuda_runtime", 1, 2, n * 200 + 60, 5, correlation=n + 1)
        put("a kernel", "kernel", 0, 7, n * 200 + 80, 50, correlation=n + 1, device=0, stream=7)
    path = tmp_path / "polling.json"
    path.write_text(json.dumps({"traceEvents": events}))
    page = timeline(path, width=1280, height=720)
    rows = page.page.evaluate("kinetoscope.rows.shown.filter((r) => r.strip !== null).map((r) => r.id)")
    assert rows == ["1/2/work", "0/7/device", "1/4/work", "1/3/work"]
    # 31 levels deep: folded to the outermost ones, so that what is below can be seen as well
    assert page.page.evaluate("kinetoscope.rows.shown.find((r) => r.id === '1/2/work').height") == 6 * 18
    assert shown(page, "1/3/work")[1] <= page.box["height"]
    page.page.evaluate("(row) => kinetoscope.selection.select(row, true)", _row(page, "cudaLaunchKernel"))
    # the call stands at level 31: the row is unfolded to show it
    until(page.page, "kinetoscope.rows.shown.find((r) => r.id === '1/2/work').height === 31 * 18")


def _row(page: TimelinePage, name: str) -> int:
    asked = "async (q) => (await (await fetch(`api/search-step?q=${q}&time=0`)).json()).hit.row"
    found: int = page.page.evaluate(asked, name)
    return found


def test_an_arrow_meets_a_folded_row_at_its_border(timeline: Timeline, links: Callable[[str], Links]) -> None:
    page = timeline("seed_breaks")
    kernel = page.page.evaluate(
        "async () => (await (await fetch('api/search-step?q=category:kernel&time=0')).json()).hit.row"
    )
    page.click(kernel)
    (arrow,) = [each for each in page.arrows if each["kind"] == 0]
    assert arrow["target"] == kernel
    lane = page.page.evaluate(
        "(row) => kinetoscope.arrows().find((a) => a.target === row).sourceLane", kernel
    )
    open_y = page.page.evaluate("(lane) => kinetoscope.rows.arrowY(lane, 0)", lane)
    assert open_y == page.page.evaluate("(lane) => kinetoscope.rows.laneY(lane, 0) + 9", lane)
    thread = page.page.evaluate("(lane) => kinetoscope.rows.rowOfLane.get(lane).label", lane)
    page.page.click(f"button[aria-label='Fold {thread}']")
    folded = page.page.evaluate(
        """(lane) => {
            const { rows } = kinetoscope, row = rows.rowOfLane.get(lane);
            return [rows.arrowY(lane, 0), rows.y(row, 0) + row.height];
        }""",
        lane,
    )
    assert folded[0] == folded[1]
    # scrolled away behind what is pinned: it ends at that border
    menu(page, "stream 7", "Pin to the top")
    assert page.page.evaluate(
        "(lane) => kinetoscope.rows.arrowY(lane, 1e5) === kinetoscope.rows.pinnedHeight - 2", lane
    )


def test_a_choice_of_pins_is_remembered(timeline: Timeline) -> None:
    page = timeline("seed_breaks")
    page.page.evaluate("(row) => kinetoscope.selection.select(row, true)", _row(page, "category:kernel"))
    until(page.page, "kinetoscope.selection.row !== null")
    page.press("p")
    until(page.page, "kinetoscope.rows.shown.find((row) => row.id === '0/7/device').pinned")
    # to another page and back, and the trace opened anew
    page.page.click("#rail a:has-text('Kernels')")
    page.page.wait_for_selector("table")
    page.page.click("#rail a:has-text('Timeline')")
    page.settle()
    assert page.page.evaluate("kinetoscope.rows.shown.find((row) => row.id === '0/7/device').pinned")
    page.page.goto(page.page.url.split("#")[0])
    page.page.reload()
    page.page.click("#rail a:has-text('Timeline')")
    page.settle()
    assert page.page.evaluate("kinetoscope.rows.shown.find((row) => row.id === '0/7/device').pinned")
    assert not page.page.evaluate("kinetoscope.rows.shown.find((row) => row.kind === 'idle').pinned")


def test_overlays_can_be_switched_off(timeline: Timeline) -> None:
    page = timeline("seed_breaks")
    assert any(name == "idle, by cause" for name in names_of(page))
    page.page.click("button:has-text('Idle')")
    until(page.page, "!kinetoscope.rows.shown.some((row) => row.kind === 'idle')")
    page.page.click("button:has-text('Counters')")
    until(page.page, "!kinetoscope.rows.shown.some((row) => row.kind === 'counter')")
    for name in ("Steps", "Breaks, phases"):
        page.page.click(f"button:has-text('{name}')")
        assert page.page.get_attribute(f"button:has-text('{name}')", "aria-pressed") == "false"
    page.press("l")
    # a link shows the same; and in the same window a link to the usual shows that
    pressed = """() => [...document.querySelectorAll(".bar-tools button[aria-pressed=true]")]
        .map((each) => each.textContent)"""
    link = page.page.url.split("#/", 1)[1]
    again = timeline("seed_breaks", link)
    assert again.page.evaluate(pressed) == ["All arrows"]
    until(again.page, "!kinetoscope.rows.shown.some((row) => ['idle', 'counter'].includes(row.kind))")
    begin, end = (round(time) for time in again.window)
    again.page.evaluate("(place) => { location.hash = place; }", f"#/timeline?b={begin}&e={end}")
    until(again.page, f"({pressed})().join() === 'Steps,Breaks, phases,Idle,Counters'")
    assert any(name == "idle, by cause" for name in names_of(again))


def test_a_counter_that_does_not_change_is_even(timeline: Timeline) -> None:
    # around the kernel of slice 613: from its launch to its end the queue holds this one piece of work
    page = timeline("seed_breaks", "timeline?sel=613&zoom=1", width=700, forgive=True)  # it reads pixels
    until(page.page, "kinetoscope.rows.shown.some((row) => row.kind === 'counter')")
    found = """() => {
        const k = kinetoscope, canvas = document.querySelector(".body > canvas");
        const row = k.rows.shown.find((each) => each.kind === "counter");
        k.scroll.scrollTop = k.rows.y(row, 0) - 40;
        const start = k.selection.arrows[0].start, end = k.selection.box.end;
        const y = k.rows.y(row, k.scroll.scrollTop) + row.height - 12;
        const [x, last] = [k.view.x(start) + 20, k.view.x(end) - 20].map(Math.round);
        const { data } = canvas.getContext("2d").getImageData(x, Math.round(y), last - x, 1);
        const colours = new Set();
        for (let at = 0; at < data.length; at += 4) colours.add(data.slice(at, at + 3).join());
        return [...colours];
    }"""
    paper = "246,247,248"
    until(page.page, f"!({found})().includes('{paper}')")  # the counter is drawn
    # in a window of another width, first from what is known, then from as many values as it has pixels
    page.page.route("**/api/counter?*", lambda route: route.abort())
    page.page.set_viewport_size({"width": 1281, "height": 800})
    until(page.page, "kinetoscope.view.width > 700")
    page.page.wait_for_timeout(300)
    assert len(page.page.evaluate(found)) == 1
    page.page.unroute("**/api/counter?*")
    with page.page.expect_response(lambda got: "api/counter?" in got.url) as asked:
        page.page.set_viewport_size({"width": 1303, "height": 800})
    width = page.page.evaluate("kinetoscope.view.width")
    assert f"pixels={width}" in asked.value.url
    assert len(asked.value.json()["high"]) == width


def test_borders_move_by_key(timeline: Timeline) -> None:
    page = timeline("seed_breaks")
    wide = page.box["width"]
    page.page.focus("[aria-label='Width of the track names']")
    page.press("ArrowRight")
    assert page.box["width"] == pytest.approx(wide - 16)
    tall = page.box["height"]
    page.page.focus("[aria-label='Height of the details']")
    page.press("ArrowUp")
    until(
        page.page,
        """(tall) => Math.abs(
            document.querySelector('.body > canvas').getBoundingClientRect().height - tall + 16) <= 1""",
        arg=tall,
    )


def test_two_hundred_tracks(timeline: Timeline, tmp_path: Path) -> None:
    events = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": f"op{n}",
            "pid": 1,
            "tid": n % 200 + 1,
            "ts": n // 200 * 30,
            "dur": 20,
        }
        for n in range(4000)
    ]
    path = tmp_path / "many.json"
    path.write_text(json.dumps({"traceEvents": events}))
    page = timeline(path)
    assert len([name for name in names_of(page) if name.startswith("thread")]) == 200
    page.page.evaluate("kinetoscope.scroll.scrollTop = 1e6")
    page.settle()
    page.click(3999)
    assert "op3999" in page.details
    page.page.fill("input[aria-label='Filter tracks by name']", "thread 17")
    assert len([name for name in names_of(page) if name.startswith("thread")]) == 11


def test_only_the_strip_that_was_dragged_over_counts(timeline: Timeline, tmp_path: Path) -> None:
    def event(name: str, cat: str, start: int, dur: int) -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": dur}

    events = [event("an op", "cpu_op", 10, 50), event("f.py(1): f", "python_function", 0, 100)]
    path = tmp_path / "stack.json"
    path.write_text(json.dumps({"traceEvents": events}))
    page = timeline(path)
    box = page.box
    y = page.page.evaluate("kinetoscope.rows.y(kinetoscope.rows.shown[1], 0)")
    page.page.mouse.move(box["x"] + 9, box["y"] + y + 4)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + box["width"] - 4, box["y"] + y + 10, steps=3)
    page.page.mouse.up()
    page.page.wait_for_selector(".details tbody tr")
    assert page.page.locator(".details tbody td.name").all_inner_texts() == ["an op"]


def test_a_timeline_without_anything_to_draw_says_so(timeline: Timeline, tmp_path: Path) -> None:
    path = tmp_path / "negative.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": -10}
    path.write_text(json.dumps({"traceEvents": [event]}))
    page = timeline(path)
    assert "No event of this trace has a time that can be drawn." in page.page.inner_text(".body")
