"""Every action of the timeline, by key and by mouse, on real captures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kinetoscope.link import Links
from kinetoscope.trace import Category
from viewer.driving import SELECTED, TimelinePage, rows_named, until

Timeline = Callable[..., TimelinePage]


def span(page: TimelinePage) -> float:
    begin, end = page.window
    return end - begin


def test_zoom_and_pan_by_key(timeline: Timeline) -> None:
    page = timeline("seed_breaks")
    whole = span(page)
    page.press("w")
    near = span(page)
    assert near < whole * 0.85
    page.press("s")
    assert span(page) == pytest.approx(whole, rel=0.05)
    for _ in range(6):
        page.press("w")
    before, _ = page.window
    page.press("d")
    right, _ = page.window
    page.press("Shift+D")
    faster, _ = page.window
    assert right > before
    assert faster - right > 2 * (right - before)
    page.press("a")
    assert page.window[0] < faster


def test_a_held_key_goes_on(timeline: Timeline) -> None:
    page = timeline("seed_breaks")
    page.press("w")
    once = span(page)
    page.page.keyboard.down("w")
    page.page.wait_for_timeout(500)
    page.page.keyboard.up("w")
    held = span(page)
    assert held < once * 0.5
    page.page.wait_for_timeout(200)
    assert span(page) == pytest.approx(held, rel=0.2)


def test_wheel_zooms_at_the_pointer_and_scrolls(timeline: Timeline) -> None:
    page = timeline("seed_breaks", height=520)
    box = page.box
    page.page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 60)
    begin, end = page.window
    under = begin + 0.25 * (end - begin)
    page.page.keyboard.down("Control")
    page.page.mouse.wheel(0, -120)
    page.page.keyboard.up("Control")
    until(page.page, "(span) => kinetoscope.view.span < span", arg=(end - begin) * 0.95)
    begin, end = page.window
    assert begin + 0.25 * (end - begin) == pytest.approx(under, abs=(end - begin) / 100)
    page.page.mouse.wheel(0, 120)
    until(page.page, "kinetoscope.scroll.scrollTop > 20")
    assert page.window == (begin, end)


def test_shift_and_drag_pans(timeline: Timeline) -> None:
    page = timeline("seed_breaks")
    for _ in range(4):
        page.press("w")
    page.settle()
    begin, end = page.window
    box = page.box
    y = box["y"] + box["height"] - 4
    page.page.keyboard.down("Shift")
    page.page.mouse.move(box["x"] + 600, y)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 400, y, steps=4)
    page.page.mouse.up()
    page.page.keyboard.up("Shift")
    moved = page.window[0] - begin
    assert moved == pytest.approx(200 / box["width"] * (end - begin), rel=0.02)


def test_an_area_has_the_statistics_of_what_is_in_it(
    timeline: Timeline, links: Callable[[str], Links]
) -> None:
    page = timeline("seed_breaks")
    box = page.box
    rows: list[dict[str, Any]] = page.page.evaluate(
        """() => {
            const k = globalThis.kinetoscope, rows = k.rows.shown.filter((row) => row.kind === "lanes");
            const track = (row) => k.rows.trace.rows.find((one) => one.number === row.strip).track;
            return rows.map((row) => ({ track: track(row), y: k.rows.y(row, 0), height: row.height }));
        }"""
    )
    cpu = rows[:2]
    page.page.mouse.move(box["x"] + 200, box["y"] + cpu[0]["y"] + 2)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 700, box["y"] + cpu[1]["y"] + cpu[1]["height"] - 2, steps=5)
    page.page.mouse.up()
    page.page.wait_for_selector(".details .table tbody tr")
    area = page.page.evaluate("kinetoscope.selection.area")
    trace = links("seed_breaks").trace
    c = trace.columns
    mine = np.isin(c.track, [row["track"] for row in cpu]) & c.is_valid
    inside = mine & (c.start_ns < area["end"]) & ((c.end_ns > area["begin"]) | (c.start_ns >= area["begin"]))
    assert f"{int(inside.sum()):,} events" in page.details
    cells = page.page.eval_on_selector_all(
        ".details tbody tr",
        "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText.trim()))",
    )
    names, counts = np.unique(c.name[inside], return_counts=True)
    expected = {trace.names[int(name)]: int(count) for name, count in zip(names, counts, strict=True)}
    assert {name: int(count.replace(",", "")) for name, count, *_ in cells} == expected


def test_zoom_to_the_selection_and_fit_all(timeline: Timeline, links: Callable[[str], Links]) -> None:
    page = timeline("seed_breaks")
    whole = page.window
    row = rows_named(links("seed_breaks"), "CompiledFunction")[0]
    page.click(row)
    dur = int(links("seed_breaks").trace.columns.dur_ns[row])
    page.press("f")
    assert span(page) == pytest.approx(dur / 0.3, rel=0.01)
    page.press("f")
    assert span(page) == pytest.approx(dur / 0.96, rel=0.01)
    page.press("0")
    assert page.window == pytest.approx(whole)


def test_double_click_zooms_to_the_slice(timeline: Timeline, links: Callable[[str], Links]) -> None:
    page = timeline("seed_breaks")
    row = rows_named(links("seed_breaks"), "CompiledFunction")[1]
    x, y = page.point(row)
    page.page.mouse.dblclick(x, y)
    c = links("seed_breaks").trace.columns
    until(page.page, "(span) => Math.abs(kinetoscope.view.span / span - 1) < 0.02", arg=c.dur_ns[row] / 0.8)
    begin, end = page.window
    assert begin < c.start_ns[row] < c.end_ns[row] < end


def test_next_and_previous_event(timeline: Timeline, links: Callable[[str], Links]) -> None:
    page = timeline("seed_breaks")
    found = links("seed_breaks")
    kernels = np.flatnonzero(found.trace.columns.category == Category.KERNEL)
    page.click(int(kernels[5]))
    page.press(".")
    until(page.page, SELECTED, int(kernels[6]))
    page.press(",")
    until(page.page, SELECTED, int(kernels[5]))


def test_search_counts_shows_and_steps(timeline: Timeline, links: Callable[[str], Links]) -> None:
    page = timeline("seed_breaks")
    page.press("/")
    page.page.keyboard.type("triton_POI")
    trace = links("seed_breaks").trace
    hit = trace.names.where(lambda name: "triton_poi" in name.lower())[trace.columns.name]
    rows = np.flatnonzero(hit)
    until(page.page, "(n) => document.querySelector('.hits').textContent.startsWith(n)", arg=f"{len(rows)}")
    in_time = rows[np.argsort(trace.columns.start_ns[rows], kind="stable")]
    page.press("Enter")
    until(page.page, SELECTED, int(in_time[0]))
    page.press("Enter")
    until(page.page, SELECTED, int(in_time[1]))
    page.press("Shift+Enter")
    until(page.page, SELECTED, int(in_time[0]))
    page.press("Shift+Enter")
    until(page.page, SELECTED, int(in_time[-1]))
    assert page.page.inner_text(".hits") == f"{len(rows)} of {len(rows)}"
    page.settle()
    hits = page.page.evaluate("[...kinetoscope.tiles.current.hit].reduce((a, b) => a + b, 0)")
    assert hits > 0
    # the heat strip is drawn in the colour of a break at the foot of the minimap
    colored = page.page.evaluate(
        """() => {
            const canvas = document.querySelector(".strip.map canvas"), c = canvas.getContext("2d");
            const data = c.getImageData(0, canvas.height - 4, canvas.width, 1).data;
            let n = 0;
            for (let at = 0; at < data.length; at += 4) {
                if (data[at] > 150 && data[at + 1] < 160 && data[at + 2] < 190) n++;
            }
            return n;
        }"""
    )
    assert colored > 3


def test_a_search_by_field_from_the_address_and_the_keyboard(
    timeline: Timeline, links: Callable[[str], Links]
) -> None:
    page = timeline("seed_breaks", "timeline?q=region:3/0")
    until(page.page, "/^\\d+ hits,/.test(document.querySelector('.search .hits').textContent)")
    page.page.fill(".search input", "category:kernel")
    kernels = int((links("seed_breaks").trace.columns.category == Category.KERNEL).sum())
    until(
        page.page,
        "(said) => document.querySelector('.search .hits').textContent.startsWith(said)",
        f"{kernels} hits, ",
    )
    page.page.press(".search input", "Enter")
    until(page.page, "kinetoscope.selection.row !== null")
    assert links("seed_breaks").trace.columns.category[page.row] == Category.KERNEL


def test_a_search_without_hits_says_so(timeline: Timeline) -> None:
    page = timeline("seed_breaks")
    page.page.fill(".search input", "no such event")
    until(page.page, "document.querySelector('.hits').textContent === 'no hit'")
    page.page.press(".search input", "Escape")
    assert page.page.input_value(".search input") == ""


def test_mark_deselect_and_help(timeline: Timeline, links: Callable[[str], Links]) -> None:
    page = timeline("seed_breaks")
    row = rows_named(links("seed_breaks"), "CompiledFunction")[0]
    page.click(row)
    c = links("seed_breaks").trace.columns
    page.press("m")
    assert page.page.evaluate("kinetoscope.marks()") == [
        {"begin": int(c.start_ns[row]), "end": int(c.end_ns[row])}
    ]
    assert f"marks={c.start_ns[row]}-{c.end_ns[row]}" in page.page.url
    page.press("m")
    assert page.page.evaluate("kinetoscope.marks()") == []
    page.press("Escape")
    assert page.row is None
    assert "Click an event" in page.details
    page.press("?")
    assert page.page.is_visible("dialog[open] >> text=Follow the arrow")
    page.press("Escape")
    assert not page.page.is_visible("dialog[open]")


def test_an_area_is_in_the_address(timeline: Timeline) -> None:
    page = timeline("seed_breaks")
    box = page.box
    page.page.mouse.move(box["x"] + 100, box["y"] + 30)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 300, box["y"] + 60, steps=3)
    page.page.mouse.up()
    page.page.wait_for_selector(".details .table tbody tr")
    title = page.page.inner_text(".details h2")
    again = timeline("seed_breaks", page.page.url.split("#/", 1)[1])
    again.page.wait_for_selector(".details .table tbody tr")
    assert again.page.inner_text(".details h2") == title


@pytest.mark.parametrize(
    "broken", ["sel=999999999", "sel=x", "gap=999-5", "gap=x", "area=1-2", "b=x&e=y", "b=1", "marks=a-b~3~~-"]
)
def test_a_link_that_names_what_is_not_here_shows_the_rest(timeline: Timeline, broken: str) -> None:
    page = timeline("seed_breaks", f"timeline?{broken}", forgive=True)
    begin, end = page.window
    assert begin < 0 < 13_000_000 < end  # the whole trace
    assert page.page.evaluate("kinetoscope.tiles.current.row.length") > 0
    assert page.row is None
    assert page.page.evaluate("kinetoscope.marks()") == []
    assert ("is not in this trace" in page.details) == broken.startswith(("sel", "gap", "area"))
    page.click(640)  # and it works on
    assert "is not in this trace" not in page.details


def test_what_is_before_the_first_step_stays_in_the_address(timeline: Timeline) -> None:
    # seen from the first step's begin these times are below 0
    page = timeline("seed_breaks", "timeline?marks=-2000--1000~-500-700&area=-90000--80000-717%2F717%2Fwork")
    marks = [{"begin": -2000, "end": -1000}, {"begin": -500, "end": 700}]
    assert page.page.evaluate("kinetoscope.marks()") == marks
    page.page.wait_for_selector(".details h2:has-text('10.0 us from -90.0 us')")
    assert "marks=-2000--1000%7E-500-700" in page.page.url
    assert "area=-90000--80000-" in page.page.url


def test_an_idle_gap_says_why(timeline: Timeline) -> None:
    page = timeline("seed_breaks")
    lane = page.page.evaluate("kinetoscope.rows.all.find((row) => row.kind === 'idle').lanes[0]")
    place = page.page.evaluate(
        """(lane) => {
            const k = globalThis.kinetoscope, tile = k.tiles.current, [first, last] = tile.ranges.get(lane);
            let best = first;
            const wide = (at) => tile.x1[at] - tile.x0[at];
            for (let at = first; at < last; at++) if (wide(at) > wide(best)) best = at;
            const box = document.querySelector(".body > canvas").getBoundingClientRect();
            const time = tile.begin + (tile.x0[best] + tile.x1[best]) / 2 * tile.pixel;
            return [box.left + k.view.x(time), box.top + k.rows.laneY(lane, k.scroll.scrollTop) + 9];
        }""",
        lane,
    )
    page.page.mouse.click(*place)
    page.page.wait_for_selector(".details h2:has-text('idle')")
    assert "Ends with" in page.details
    # and a link to it shows it too
    said = page.details
    start = page.page.evaluate("kinetoscope.selection.gap.start_ns")
    assert f"{start / 1e6:.6f} ms" in said  # to the nanosecond, as neighbours are no further apart
    again = timeline("seed_breaks", page.page.url.split("#/", 1)[1])
    again.page.wait_for_selector(".details h2:has-text('idle')")
    assert again.details == said


def test_minimap_brushes(timeline: Timeline) -> None:
    page = timeline("seed_breaks")
    box = page.page.eval_on_selector(
        ".strip.map canvas",
        "(c) => { const b = c.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }",
    )
    page.page.mouse.move(box[0] + box[2] * 0.4, box[1] + 20)
    page.page.mouse.down()
    page.page.mouse.move(box[0] + box[2] * 0.6, box[1] + 20, steps=4)
    page.page.mouse.up()
    begin, end = page.window
    low, high = page.page.evaluate("[kinetoscope.view.low, kinetoscope.view.high]")
    assert begin == pytest.approx(low + 0.4 * (high - low), abs=(high - low) / 50)
    assert end == pytest.approx(low + 0.6 * (high - low), abs=(high - low) / 50)


def test_args_are_decoded_on_demand(timeline: Timeline, links: Callable[[str], Links]) -> None:
    page = timeline("seed_breaks")
    trace = links("seed_breaks").trace
    row = int(links("seed_breaks").launches.device_rows[3])
    page.click(row)
    page.page.wait_for_selector(".details .args dl")
    shown = page.page.inner_text(".details .args")
    for name, value in trace.args(row).items():
        assert name in shown
        if isinstance(value, int):
            assert str(value) in shown


def test_from_event_to_event_without_a_mouse(timeline: Timeline, links: Callable[[str], Links]) -> None:
    page = timeline("seed_breaks")
    trace = links("seed_breaks").trace
    page.page.focus(".scroll")
    page.press(".")
    until(page.page, "kinetoscope.selection.row !== null")
    first = page.row
    assert first is not None
    region = rows_named(links("seed_breaks"), "Torch-Compiled Region: 0/0")[0]
    page.page.evaluate("(row) => kinetoscope.selection.select(row, false)", region)
    until(page.page, SELECTED, region)
    page.press("ArrowDown")
    until(page.page, "(row) => kinetoscope.selection.row !== row", region)
    below = page.row
    assert below is not None
    assert trace.columns.depth[below] == trace.columns.depth[region] + 1
    page.press("ArrowUp")
    until(page.page, SELECTED, region)
    assert page.page.inner_text(".details [role=status]").startswith("Torch-Compiled Region: 0/0")
