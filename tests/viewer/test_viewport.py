"""A viewport against a plain scan of the file: its own reading of the JSON, no column of the program's."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from kinetoscope.viewer import api
from kinetoscope.viewer.session import Session
from viewer.sessions import CAPTURES, TRACES, Open, decoded

WINDOWS = 40
#: as far as the pixels of an answer reach
LEFT, RIGHT = -20_000, 40_000

Slice = tuple[int, int]  # start and end, ns


def slices_of(name: str) -> list[Slice | None]:
    """Start and end of each entry of ``traceEvents``, from the first start; None of what is no slice."""
    text = gzip.decompress((TRACES / f"{name}.trace.json.gz").read_bytes())
    events = json.loads(text, parse_float=Decimal)["traceEvents"]

    def times(event: dict[str, Any]) -> Slice | None:
        if event["ph"] != "X" or event["cat"] == "Trace":
            return None
        start = int(Decimal(event["ts"]) * 1000)
        return start, start + int(Decimal(event["dur"]) * 1000)

    found = [times(event) for event in events]
    first = min(each[0] for each in found if each is not None)
    return [None if each is None else (each[0] - first, each[1] - first) for each in found]


def lanes_of(session: Session, slices: list[Slice | None]) -> dict[int, list[Slice]]:
    """The slices of the file in the lanes in which the program puts them; each in one."""
    lanes, event = session.timeline.lanes, session.timeline.trace.columns.event
    found = {}
    seen: set[int] = set()
    for lane in range(len(lanes)):
        entries = event[lanes.row[slice(*lanes.bounds(lane))]].tolist()
        seen.update(entries)
        inside = [slices[entry] for entry in entries]
        assert None not in inside
        found[lane] = sorted(each for each in inside if each is not None)
        assert all(one[1] <= other[0] for one, other in pairwise(found[lane]))
    assert len(seen) == sum(map(len, found.values())) == sum(each is not None for each in slices)
    return found


@pytest.mark.parametrize("name", CAPTURES)
def test_a_viewport_loses_no_slice_and_no_gap(opened: Open, name: str) -> None:
    session = opened(name)
    slices = slices_of(name)
    lanes = lanes_of(session, slices)
    event = session.timeline.trace.columns.event
    low, high = 0, max(each[1] for each in slices if each is not None)
    random = np.random.default_rng(5)
    merged = 0
    for _ in range(WINDOWS):
        width = (high - low) * 10 ** random.uniform(-4, 0)
        begin = low + random.uniform(0, 1) * (high - low - width)
        end, pixel = begin + width, width / 1000
        given = {"begin": begin, "end": end, "pixel": pixel, "lanes": "0-9999"}
        header, columns = decoded(api.tiles(session, {key: str(value) for key, value in given.items()}))
        pieces = iter(zip(*(columns[key].tolist() for key in ("x0", "x1", "count", "row")), strict=True))
        drawn = {lane: [next(pieces) for _ in range(count)] for lane, count in header["lanes"]}
        assert next(pieces, None) is None
        for lane, inside in lanes.items():
            visible = [each for each in inside if each[0] < end and each[1] > begin]
            mine = drawn.get(lane, [])
            assert mine or not visible
            at = None
            for x0, x1, count, row in mine:
                if at is None:  # the first one begins where a slice begins
                    longest = slices[event[row]]
                    assert longest is not None
                    at = max(0, inside.index(longest) - count + 1)
                    while not _is_at(inside[at : at + count], begin, pixel, x0, x1):
                        at += 1
                        assert at <= inside.index(longest)
                    assert inside[at] <= min(visible, default=inside[at])
                some = inside[at : at + count]
                assert _is_at(some, begin, pixel, x0, x1)
                at += count
                if count > 1:
                    merged += 1
                    assert all(last - first < pixel for first, last in some)
                    assert all(b[0] - a[1] < pixel for a, b in pairwise(some))
                longest = slices[event[row]]
                assert longest is not None
                assert longest[1] - longest[0] == max(last - first for first, last in some)
            if at is not None and visible:
                assert inside[at - 1] >= visible[-1]
        wide = columns["x1"] - columns["x0"] > 14
        assert {str(n) for n in columns["name"][wide & (columns["count"] == 1)]} <= set(header["names"])
    assert merged or name != "gpt_decode"


def _is_at(some: list[Slice], begin: float, pixel: float, x0: float, x1: float) -> bool:
    """Whether slices reach from one place to another, as exactly as 32 bits tell."""
    if not some:
        return False
    first = max((some[0][0] - begin) / pixel, LEFT)
    last = min((some[-1][1] - begin) / pixel, RIGHT)
    return x0 == pytest.approx(first, abs=2e-3, rel=1e-6) and x1 == pytest.approx(last, abs=2e-3, rel=1e-6)
