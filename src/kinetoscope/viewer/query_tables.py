"""The tables of one trace as plain columns, ready to be sent to the process that queries them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kinetoscope.trace import NONE, Category, Flag, Trace

#: table, column, and its values: integers and truth values as arrays, texts as a list
Column = tuple[str, str, Any]


def columns(trace: Trace, launch_of_row: Any) -> Iterator[Column]:
    """Every column, one at a time: a large trace's are not in memory together.

    Texts are numbered: ``slice_rows`` and ``flow_rows`` hold numbers into the tables of texts.
    """
    c = trace.columns
    for name, texts in (
        ("name_texts", list(trace.names)),
        ("cat_texts", list(trace.cats)),
        ("category_texts", [member.name.lower() for member in Category]),
    ):
        yield name, "text", texts
    yield "slice_rows", "row", np.arange(len(c), dtype=np.int64)
    for name in ("name", "cat", "category", "start_ns", "dur_ns", "track", "depth", "parent"):
        yield "slice_rows", name, np.asarray(getattr(c, name), np.int64)
    yield "slice_rows", "launch", np.asarray(launch_of_row, np.int64)
    yield "slice_rows", "invalid_time", (c.flags & Flag.INVALID_TIME) != 0
    for name in ("correlation", "external_id", "sequence", "device", "stream"):
        yield "slice_rows", name, np.asarray(getattr(c, name), np.int64)
    flows = trace.flow_columns
    for name in ("id", "time_ns", "phase", "cat", "track"):
        yield "flow_rows", name, np.asarray(getattr(flows, name), np.int64)
    tracks = trace.track_list
    yield "track_rows", "track", np.arange(len(tracks), dtype=np.int64)
    yield "track_rows", "pid", [str(track.pid) for track in tracks]
    yield "track_rows", "tid", [str(track.tid) for track in tracks]
    for name in ("process_name", "thread_name", "labels"):
        yield "track_rows", name, [getattr(track, name) for track in tracks]


assert NONE == -(2**63)  # as `kinetoscope.viewer.query` writes it
