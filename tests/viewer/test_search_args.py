"""Search in arguments and source lines, against the JSON of the file itself."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.errors import UsageError
from kinetoscope.ingest.capture_directory import LogShelf, find_inputs
from kinetoscope.viewer import search_args
from kinetoscope.viewer.session import Session
from viewer.driving import TimelinePage, until
from viewer.sessions import SAMPLE, TRACES, Open, event, written

Timeline = Callable[..., TimelinePage]


def events_of(path: Path) -> list[dict[str, Any]]:
    """Every complete event of a file, in its order."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [each for each in json.load(file)["traceEvents"] if each["ph"] == "X"]


def found(session: Session, text: str) -> set[int]:
    """Numbers, among the file's entries, of what a deep search finds."""
    rows = session.searches.hits(text, deep=True).rows
    return set(session.timeline.trace.columns.event[rows].tolist())


@pytest.mark.parametrize("name", ["seed_breaks", "user_triton"])
def test_arguments_are_found_as_the_file_has_them(opened: Open, name: str) -> None:
    session = opened(name)
    with gzip.open(TRACES / f"{name}.trace.json.gz", "rt", encoding="utf-8") as file:
        entries = json.load(file)["traceEvents"]
    drawn = set(session.timeline.trace.columns.event[session.timeline.lanes.row].tolist())

    def expected(holds: Callable[[dict[str, Any]], bool]) -> set[int]:
        return {number for number, each in enumerate(entries) if number in drawn and holds(each)}

    def in_args(text: str) -> Callable[[dict[str, Any]], bool]:
        return lambda each: any(text in str(value).lower() for value in each.get("args", {}).values())

    correlation = next(each["args"]["correlation"] for each in entries if each.get("cat") == "kernel")
    for text in ("kernel_kwargs", ".py", str(correlation)):
        wanted = expected(lambda each, text=text: text in each["name"].lower() or in_args(text)(each))
        assert found(session, text.upper()) == wanted, text
        assert found(session, f"args:{text}") == expected(in_args(text)), text
    assert found(session, f"correlation={correlation}") == expected(
        lambda each: each.get("args", {}).get("correlation") == correlation
    )
    assert found(session, "Stream = 7") == expected(lambda each: each.get("args", {}).get("stream") == 7)
    assert found(session, "name:aten::mm") == expected(lambda each: "aten::mm" in each["name"])


def test_shapes_texts_and_numbers(tmp_path: Path) -> None:
    session = written(
        tmp_path,
        event("one", 0, 1, **{"Input Dims": [[128, 64], [64]], "Call stack": "model.py(12): Forward"}),
        event("two", 2, 1, **{"Input Dims": [[1128, 64]], "Python module id": 12, "note": 'größe \\ "x"'}),
        event("three", 4, 1, **{"Python module id": 128, "deep": {"model.py": [1]}}),
        event("12", 6, 1),
    )

    def names(text: str) -> list[str]:
        rows = session.searches.hits(text, deep=True).rows.tolist()
        return [session.timeline.trace.name_of(row) for row in rows]

    assert names("[128,64]") == names("[128, 64]") == ["one"]
    assert names("Input Dims=[128, 64") == ["one"]
    assert names("input dims=128") == ["one", "two"]
    assert names("model.py") == ["one", "three"]
    assert names("FORWARD") == ["one"]
    # a number that is asked for by its key has to be the same
    assert names("python module id=12") == ["two"]
    assert names("args:12") == ["one", "two", "three"]
    assert names("12") == ["one", "two", "three", "12"]
    assert names("name:12") == ["12"]
    assert names("GRÖSSE") == ["two"]
    assert names("größe") == ["two"]
    assert names('\\ "x') == ["two"]
    # names of arguments are no values
    assert names("module id") == []
    hits = session.searches.hits("model.py", deep=True)
    assert (hits.places["names"], hits.places["args"], hits.events) == (0, 2, 4)


def test_source_lines_are_found() -> None:
    """Four Triton kernels a piece of the program and step; each of its four pieces is one line."""
    session = Session(find_inputs([str(SAMPLE)])[0], LogShelf())
    session.run()
    trace = session.timeline.trace
    for line in (68, 70, 72, 74):
        found = session.searches.hits(f"source:workloads.py:{line}").rows.tolist()
        assert len(found) == 4 * 3
        assert all(trace.name_of(row).startswith("triton_") for row in found)
        assert session.searches.hits(f"workloads.py:{line}", deep=True).rows.tolist() == found
        assert session.searches.hits(f"workloads.py:{line}").rows.tolist() == []


def test_a_search_ends_in_time_and_says_how_far_it_came(opened: Open) -> None:
    trace = opened("seed_breaks").timeline.trace
    cut = search_args.find(trace, "kernel", seconds=-1)
    assert cut.events < trace.info.events
    assert not cut.rows[trace.columns.event >= cut.events].any()
    with pytest.raises(UsageError, match="another search"):
        search_args.find(trace, "kernel", is_over=lambda: True)


def test_a_picture_never_waits_for_the_file(opened: Open) -> None:
    session = opened("gpt_decode")
    shallow = session.searches.best("cbid", True)
    assert shallow.events is None
    deep = session.searches.hits("cbid=211", deep=True)
    assert deep.events == session.timeline.trace.info.events
    assert session.searches.best("cbid=211", True) is deep


def test_the_page_says_where_it_looked(timeline: Timeline) -> None:
    page = timeline("seed_breaks")
    said = ".search [role=status]"
    page.press("/")
    page.page.keyboard.type("stream=7")
    until(page.page, f"/^\\d+ hits, .*s$/.test(document.querySelector('{said}').textContent)")
    title = page.page.get_attribute(said, "title")
    entries = events_of(TRACES / "seed_breaks.trace.json.gz")
    kernels = sum(each.get("args", {}).get("stream") == 7 for each in entries)
    assert f"0 in names\n0 in source lines\n{kernels} in arguments" in title
    page.press("Enter")
    until(page.page, "kinetoscope.selection.data?.is_device")
    page.settle()
    dimmed = page.page.evaluate("[...kinetoscope.tiles.current.hit].filter(Boolean).length")
    assert (
        dimmed == page.page.evaluate("[...kinetoscope.tiles.current.lanes].filter(([, n]) => n).length")
        or dimmed > 0
    )
    page.page.fill(".search input", "no such thing anywhere")
    until(page.page, f"document.querySelector('{said}').textContent === 'no hit'")
