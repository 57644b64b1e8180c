"""The one way out of the viewer: a trace handed to another page, or saved, and only when asked."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kinetoscope.ingest import load
from viewer.conftest import TRACES
from viewer.driving import TimelinePage, until

Open = Callable[..., Any]

_STUB = """<!doctype html><title>waiting</title><script>
addEventListener("message", ({ data, source }) => {
    if (data === "PING") source.postMessage("PONG", "*");
    else if (data.perfetto) document.title = `${data.perfetto.title} ${data.perfetto.buffer.byteLength}`;
});
</script>"""


def _elsewhere(page: Any) -> list[str]:
    """Stand in for the other page; the addresses that were asked for there."""
    asked: list[str] = []

    def answer(route: Any) -> None:
        asked.append(route.request.url)
        route.fulfill(body=_STUB, content_type="text/html")

    page.context.route("https://ui.perfetto.dev/**", answer)
    return asked


def test_the_trace_is_handed_over_only_when_asked(open_page: Open) -> None:
    page = open_page("seed_breaks")
    asked = _elsewhere(page)
    page.wait_for_selector(".overview h1")
    page.click("text=Open in Perfetto")
    assert "Nothing leaves this machine before you press Open" in page.inner_text("dialog[open]")
    page.click("dialog[open] >> text=Cancel")
    assert asked == []
    page.click("text=Open in Perfetto")
    page.check("dialog[open] >> label:has-text('The file as it is') >> input")
    with page.expect_popup() as popup:
        page.click("dialog[open] >> button:has-text('Open')")
    size = (TRACES / "seed_breaks.trace.json.gz").stat().st_size
    until(popup.value, "(title) => document.title === title", f"seed_breaks.trace.json.gz {size}")
    assert not page.is_visible("dialog[open]")


def test_what_was_found_is_handed_over_with_the_trace(open_page: Open) -> None:
    page = open_page("seed_breaks")
    _elsewhere(page)
    page.wait_for_selector(".overview h1")
    page.click("text=Open in Perfetto")
    assert page.locator("dialog[open] input[type=radio]").count() == 2
    with page.expect_popup() as popup:
        page.click("dialog[open] >> button:has-text('Open')")
    size = page.evaluate("async () => (await (await fetch('api/export')).arrayBuffer()).byteLength")
    until(popup.value, "(title) => document.title === title", f"seed_breaks.trace.json.gz {size}")


def test_the_window_of_the_timeline_is_saved(timeline: Callable[..., TimelinePage], tmp_path: Path) -> None:
    there = timeline("seed_breaks", "timeline?b=9758298&e=13298521")
    page = there.page
    page.click("text=Open in Perfetto")
    assert "3.54 ms that the timeline shows" in page.inner_text("dialog[open]")
    with page.expect_download() as download:
        page.click("dialog[open] >> text=Save as a file")
    saved = tmp_path / "saved.json.gz"
    download.value.save_as(saved)
    assert download.value.suggested_filename == "seed_breaks.trace.kinetoscope.json.gz"
    trace, whole = load(saved), load(TRACES / "seed_breaks.trace.json.gz")
    ours = trace.cats.where(lambda cat: cat == "kinetoscope")[trace.columns.cat]
    window = there.window
    c = whole.columns
    began = whole.columns.is_cpu & (c.start_ns >= int(window[0])) & (c.start_ns < window[1])
    kept = trace.columns.is_cpu & ~ours
    assert int(kept.sum()) == int(began.sum()) > 0
    page.keyboard.press("Escape")


def test_a_cut_trace_is_handed_over_as_one(open_page: Open, tmp_path: Path) -> None:
    text = gzip.decompress((TRACES / "seed_breaks.trace.json.gz").read_bytes())
    path = tmp_path / "cut.json"
    path.write_bytes(text[: len(text) * 2 // 3])
    page = open_page(path)
    page.wait_for_selector(".overview h1")
    page.click("text=Open in Perfetto")
    assert "Partial: the end of this trace's file is missing" in page.inner_text("dialog[open]")
    with page.expect_download() as download:
        page.click("dialog[open] >> text=Save as a file")
    saved = tmp_path / "saved.json.gz"
    download.value.save_as(saved)
    assert not load(saved).info.complete
