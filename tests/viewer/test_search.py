"""Search against plain loops over the names and the report."""

from __future__ import annotations

import numpy as np
import pytest

from kinetoscope.trace import Category
from viewer.sessions import CAPTURES, Open


@pytest.mark.parametrize("name", CAPTURES)
def test_search_counts_every_event(opened: Open, name: str) -> None:
    session = opened(name)
    trace = session.timeline.trace
    names = [trace.name_of(row) for row in session.timeline.lanes.row.tolist()]
    low, high = session.timeline.extent_ns
    for text in ("aten::", "TRITON", "k", "("):
        found = session.searches.summary(text, low, high, 50)
        assert found["count"] == sum(text.lower() in each.lower() for each in names)
        assert sum(found["strip"]) == found["count"]
        seen, row = [], None
        for _ in range(min(found["count"], 40)):
            hit = session.searches.step(text, low, row, forward=True)
            assert hit is not None
            row = hit["row"]
            seen.append(int(trace.columns.start_ns[row]))
        assert seen == sorted(seen)
    assert session.searches.step("no such name", 0, None, forward=True) is None


def test_a_search_by_field_finds_the_work_that_is_meant(opened: Open) -> None:
    session = opened("seed_breaks")
    analysis, trace = session.analysis, session.timeline.trace
    c, report = trace.columns, analysis.report

    def rows(text: str) -> set[int]:
        return set(session.searches.hits(text).rows.tolist())

    assert report.kernels is not None
    for each in report.kernels.by_origin:
        assert len(rows(f"origin:{each.origin}")) == each.count
    for kind in report.kernels.by_kind:
        assert len(rows(f"KIND: {kind.kind}")) == kind.count
    assert rows("category:kernel") == set(np.flatnonzero(c.category == Category.KERNEL).tolist())
    mm = rows("op:aten::mm")
    assert mm
    assert all(analysis.work.is_kernel[analysis.work.rows == row].all() for row in mm)
    inner = next(region for region in report.regions if region.id == "3/0")
    found = rows("region:3/0")
    assert sum(trace.name_of(row) == "Torch-Compiled Region: 3/0" for row in found) == inner.calls
    assert sum(int(c.dur_ns[row]) for row in found if c.is_device[row]) == inner.device_ns
    # a colon does not make a field of a name
    assert rows("aten::mm") == {row for row in range(len(c)) if "aten::mm" in trace.name_of(row)}
    assert rows("origin:") == set()
    assert rows("region:nothing") == set()
