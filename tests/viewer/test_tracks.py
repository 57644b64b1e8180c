"""Tracks: their order, pins and menus, many of them, and what lies over them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.link import Links
from viewer.driving import SELECTED, TimelinePage, rows_named, until

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
    assert before[0].startswith("thread 717")
    assert before.index("stream 7") > before.index("thread 760 (python3)")
    menu(page, "stream 7", "Pin to the top")
    assert names_of(page)[0] == "▲ stream 7"
    assert "pins=0%2F7%2Fdevice" in page.page.url
    page.page.evaluate("kinetoscope.scroll.scrollTop = 120")
    assert page.page.evaluate("kinetoscope.rows.laneY(kinetoscope.rows.shown[0].lanes[0], 120)") == 0
    menu(page, "stream 7", "Unpin")
    assert names_of(page) == before
    menu(page, "thread 760 (python3)", "Move up")
    assert names_of(page)[:2] == [before[1], before[0]]
    menu(page, "thread 760 (python3)", "Move down")
    menu(page, "thread 760 (python3)", "Hide")
    assert before[1] not in names_of(page)
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
    menu(page, "stream 7", "Pin to the top")
    row = rows_named(links("seed_breaks"), "aten::mm")[3]
    page.click(row)
    page.press("m")
    page.page.wait_for_timeout(300)
    window, address = page.window, page.page.url
    again = timeline("seed_breaks", address.split("#/", 1)[1])
    until(again.page, SELECTED, row)
    assert again.window == pytest.approx(window, abs=1)
    assert again.page.evaluate("kinetoscope.marks().length") == 1
    assert names_of(again)[0] == "▲ stream 7"


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
        "(tall) => document.querySelector('.body > canvas').getBoundingClientRect().height === tall - 16",
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
