"""A part of a trace holds whole arrows and whole stretches, or nothing of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from export.test_chrome import events, exported

BEGIN, END = 1000, 2000  # us


def at(ph: str, ts: float | str, name: str = "", **more: Any) -> dict[str, Any]:
    return {"ph": ph, "ts": ts, "name": name, "pid": 1, "tid": 1, "cat": "cpu_op", **more}


def kept(tmp_path: Path, *given: dict[str, Any], origin: int = 0) -> list[tuple[str, str]]:
    """Phase and name of the entries of a part from `BEGIN` to `END`; the trace begins at 0."""
    path, out = tmp_path / "in.json", tmp_path / "out.json"
    frame = [at("X", 0, "first", dur=1), at("X", 5000, "last", dur=1)]
    moved = [{**event, "ts": event["ts"] + origin} for event in (*frame, *given)]
    path.write_text(json.dumps({"traceEvents": moved}))
    exported(path, out, intervals=[(BEGIN * 1000, END * 1000)])
    return [
        (event["ph"], event["name"])
        for event in events(out)
        if event["ph"] != "M" and event.get("cat") != "kinetoscope"
    ]


# With a 17-digit clock a double tells no nanoseconds apart: times are read as they are written.
@pytest.mark.parametrize("origin", [0, 1_764_651_234_567_890])
def test_begin_and_end_stay_together(tmp_path: Path, origin: int) -> None:
    found = kept(
        tmp_path,
        at("B", 500, "before, ends inside"),
        at("E", 1100, "before, ends inside"),
        at("B", 1200, "over the end"),
        at("B", 1300, "nested"),
        at("E", 1400, "nested"),
        at("E", 2500, "over the end"),
        at("B", 2600, "after"),
        at("E", 2700, "after"),
        # the ends of another thread are not those of this one
        at("B", 1500, "other thread", tid=2),
        at("E", 3000, "other thread", tid=2),
        origin=origin,
    )
    assert found == [
        ("B", "over the end"),
        ("B", "nested"),
        ("E", "nested"),
        ("E", "over the end"),
        ("B", "other thread"),
        ("E", "other thread"),
    ]


def test_begin_and_end_that_are_not_in_order_of_time(tmp_path: Path) -> None:
    found = kept(
        tmp_path, at("E", 2500, "one"), at("E", 1800, "two"), at("B", 1700, "two"), at("B", 1600, "one")
    )
    assert sorted(found) == [("B", "one"), ("B", "two"), ("E", "one"), ("E", "two")]
    assert kept(tmp_path, at("E", 1500, "no begin")) == []


def test_asynchronous_stretches_stay_together(tmp_path: Path) -> None:
    found = kept(
        tmp_path,
        at("b", 900, "early", id="0x1"),
        at("b", 1900, "late", id="0x2"),
        at("n", 1950, "now", id="0x2"),
        at("e", 1960, "early", id="0x1"),
        at("e", 2100, "late", id="0x2"),
        # one number in two processes: two stretches
        at("b", 900, "there", id2={"local": 7}, pid=2),
        at("b", 1500, "here", id2={"local": 7}, pid=1),
        at("e", 2200, "here", id2={"local": 7}, pid=1),
        at("e", 2300, "there", id2={"local": 7}, pid=2),
        # the old form
        at("S", 1100, "old", id=3),
        at("T", 2400, "old", id=3),
        at("F", 2500, "old", id=3),
    )
    assert found == [
        ("b", "late"),
        ("n", "now"),
        ("e", "late"),
        ("b", "here"),
        ("e", "here"),
        ("S", "old"),
        ("T", "old"),
        ("F", "old"),
    ]


def test_arrows_lead_from_and_to_what_is_there(tmp_path: Path) -> None:
    def launch(number: int, ts: int, kernel_at: int) -> list[dict[str, Any]]:
        args = {"correlation": number}
        on_device = {"pid": 0, "tid": 7, "cat": "kernel", "args": {**args, "device": 0, "stream": 7}}
        arrow = {"cat": "ac2g", "id": number}
        return [
            at("X", ts, f"launch {number}", dur=5, cat="cuda_runtime", args=args),
            at("s", ts, f"arrow {number}", **arrow),
            at("X", kernel_at, f"kernel {number}", dur=10, **on_device),
            at("f", kernel_at, f"arrow {number}", **{**arrow, "pid": 0, "tid": 7}, bp="e"),
        ]

    given = [*launch(1, 800, 1100), *launch(2, 1200, 1300), *launch(3, 1900, 2300)]
    backward = {"cat": "fwdbwd", "id": 2}  # a number that another category uses as well
    given += [
        at("X", 1500, "forward", dur=5),
        at("s", 1500, "to a backward outside", **backward),
        at("X", 2600, "backward", dur=5),
        at("f", 2600, "to a backward outside", **backward, bp="e"),
    ]
    assert kept(tmp_path, *given) == [
        ("X", "launch 2"),
        ("s", "arrow 2"),
        ("X", "kernel 2"),
        ("f", "arrow 2"),
        ("X", "launch 3"),
        ("s", "arrow 3"),
        ("X", "kernel 3"),
        ("f", "arrow 3"),
        ("X", "forward"),
    ]


def test_an_arrow_s_number_that_is_used_again(tmp_path: Path) -> None:
    def arrow(start: int, end: int) -> list[dict[str, Any]]:
        more = {"cat": "fwdbwd", "id": 1}
        return [
            at("X", start, f"a{start}", dur=5),
            at("s", start, f"s{start}", **more),
            at("X", end, f"b{end}", dur=5),
            at("f", end, f"f{end}", **more, bp="e"),
        ]

    found = kept(tmp_path, *arrow(500, 600), *arrow(1500, 1600), *arrow(1900, 2100))
    assert [name for ph, name in found if ph in "sf"] == ["s1500", "f1600"]


def test_times_that_cannot_be_measured_belong_to_no_part(tmp_path: Path) -> None:
    path, out = tmp_path / "in.json", tmp_path / "out.json"
    odd = ("1e400", '"NaN"', '"x"', "null", "-1", "[]")
    written = ",".join(
        f'{{"ph":"{ph}","ts":{ts},"name":"{ph}","pid":1,"tid":[1],"cat":null}}' for ts in odd for ph in "BEbe"
    )
    frame = ",".join(json.dumps(at("X", ts, "x", dur=1)) for ts in (0, 1500, 5000))
    path.write_text(f'{{"traceEvents":[{frame},{written}]}}')
    exported(path, out, intervals=[(BEGIN * 1000, END * 1000)])
    found = [(event["ph"], event.get("ts")) for event in events(out) if event.get("cat") != "kinetoscope"]
    assert ("X", 1500) in found
    assert {ph for ph, _ in found} <= {"X", "M"}
