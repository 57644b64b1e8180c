"""Every question that the page asks, by the name in its address."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kinetoscope.export.chrome import chrome, gzipped
from kinetoscope.export.part import part, whole
from kinetoscope.viewer import api, compile_page, query
from kinetoscope.viewer.session import Session

Answer = Callable[[Session, Mapping[str, str]], Any]


def run_sql(session: Session, sql: str, name: str) -> dict[str, Any]:
    """The rows of a query; its ``name`` is for `stop_sql`."""
    found: dict[str, Any] = session.analysis.database.run(sql, name=name)
    return found


def stop_sql(session: Session, name: str) -> dict[str, Any]:
    """End a query that is running."""
    session.analysis.database.stop(name)
    return {}


def export(session: Session, given: Mapping[str, str]) -> Iterator[bytes]:
    """The trace with what was found in it, as packed Chrome JSON: all of it, or ``begin`` to ``end``."""
    analysis = session.analysis
    if "begin" in given or "end" in given:
        begin, end = api.window(given)
        chosen = part(analysis.links, [(int(begin), math.ceil(end))])
    else:
        chosen = whole(analysis.links.trace)
    return gzipped(chrome(analysis.facts, analysis.report, chosen))


def _tables(session: Session, given: Mapping[str, str]) -> dict[str, Any]:
    return {
        "tables": [
            {"name": name, "columns": [{"name": column, "about": text} for column, text in columns]}
            for name, columns in query.TABLES
        ]
    }


ANSWERS: Mapping[str, Answer] = {
    "trace": api.about,
    "overlays": api.overlaid,
    "report": lambda session, given: session.analysis.report,
    "overview": api.overview,
    "bars": api.bars,
    "tiles": api.tiles,
    "slice": api.slice_,
    "args": api.args,
    "kernel": api.kernel,
    "at": api.at,
    "names": api.names,
    "neighbour": api.neighbour,
    "search": api.search,
    "search-step": api.search_step,
    "area": api.area_,
    "flows": api.flows_in_view,
    "counter": api.counter,
    "locate": api.locate,
    "kernels": lambda session, given: session.analysis.kernels,
    "compile": lambda session, given: compile_page.page(session.analysis),
    "tables": _tables,
}
