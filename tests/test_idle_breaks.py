"""What of a break's pieces is there because of the break, and what would be there without it.

Kernel 1 runs from 0 to 100 us and kernel 2 from 600 us, so a gap of 500 us, in which a function is left at
a break and goes on in a region of its own.
"""

from __future__ import annotations

from pathlib import Path

from helpers import Event, call, kernel, links_of, op, region
from kinetoscope import analyses
from kinetoscope.analyses.breaks import Nesting

AROUND = [op("aten::first", -40, 10), call(1, -35, 2), kernel(1, 0, 100), kernel(2, 600, 10)]


def graph(start: float, key: str = "f") -> list[Event]:
    """A forward of 60 us: 10 until its graph of 40 us, and 10 after it."""
    return [op("CompiledFunction", start, 60), op(f"## Call CompiledFxGraph {key} ##", start + 10, 40)]


def causes(tmp_path: Path, *events: Event) -> dict[str, float]:
    found = analyses.idle(links_of(tmp_path, events))
    assert found is not None
    return {cause.cause: cause.total_ns / 1e3 for cause in found.by_cause}


def test_a_piece_that_is_divided_anyway_is_entered_once_because_of_the_break(tmp_path: Path) -> None:
    # 0/0 from 120 with a graph from 140 to 180, left at 190; 1/0 from 250 to 590 with three forwards (DDP)
    events = [
        region("0/0", 120, 475),
        *graph(130),
        region("1/0", 250, 340),
        *graph(270, "a"),
        *graph(370, "b"),
        *graph(470, "c"),
        call(2, 515, 5),
    ]
    found = causes(tmp_path, *AROUND, *events)
    # The graphs: 40 us each; in the last one, 5 us are the launch call and what follows is not the host's.
    assert found["host code of compiled graphs"] == 40 + 40 + 40 + 35
    # From the end of f's forward at 190 to the start of a's graph, and a's forward behind its graph: one
    # whole wrapper, and what lies between.
    assert found["graph break"] == (280 - 190) + 10
    # f's wrapper and the way to it; from a's end at 330 to b's graph at 380, from b's, at 420, to c's at 480
    assert found["region prologue and wrapper"] == (140 - 120) + (190 - 180) + 50 + 60


def test_what_is_compiled_first_is_entered_anyway(tmp_path: Path) -> None:
    # nothing compiled runs in 0/0 before it calls 1/0: one function would be entered as well
    events = [region("0/0", 120, 475), region("1/0", 250, 340), *graph(270, "a"), call(2, 315, 5)]
    links = links_of(tmp_path, [*AROUND, *events])
    nesting = Nesting(links)
    assert nesting.continuations.tolist() == [1]
    assert nesting.entered_again(links.regions.graphs).tolist() == []
    again = links_of(tmp_path, [*AROUND, *graph(130), *events])
    assert Nesting(again).entered_again(again.regions.graphs).tolist() == [1]
    found = causes(tmp_path, *AROUND, *events)
    # the forward's 10 us before its graph; the regions without a graph before it are those of a break
    assert found["region prologue and wrapper"] == 10
    assert found["graph break"] == 270 - 120
