"""Search: hits, how they spread over time, and the next one.

A text is looked for in names, and in a *deep* search also in source lines and in the arguments of every
event. ``origin:eager`` and its like (`search_fields`) ask for something else, ``name:`` for names alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from kinetoscope.trace import Bool, Int32, Int64
from kinetoscope.viewer import search_args
from kinetoscope.viewer.timeline import Timeline

if TYPE_CHECKING:
    from kinetoscope.viewer.analysis import Analysis

_KEPT = 16
#: what may stand before a colon, besides ``name`` and ``args``
_FIELDS = frozenset(("origin", "kind", "op", "region", "category", "source"))
_ASKERS = 64


@dataclass(frozen=True, eq=False)
class Hits:
    """The slices that a text means.

    Attributes:
        rows: their rows, in order of time.
        before: per position in the lanes, how many hits are before it (one more entry at the end).
        places: how many were found in ``names``, ``source`` lines and ``args``, each where it was looked.
        events: how many events had their arguments looked into; None where none had to.
    """

    rows: Int64
    before: Int32
    places: dict[str, int]
    events: int | None


class Searches:
    """The last few searches, so that pictures can show their hits without searching again."""

    def __init__(self, timeline: Timeline, analysis: Callable[[], Analysis]) -> None:
        self._timeline = timeline
        self._analysis = analysis
        self._found: OrderedDict[tuple[str, bool], Hits] = OrderedDict()
        self._lock = Lock()
        self._reading = Lock()  # the file, one at a time
        self._wanted: OrderedDict[str, str] = OrderedDict()

    def hits(self, text: str, *, deep: bool = False, asker: str = "") -> Hits:
        """Hits of a text, whatever its case.

        A ``deep`` search reads the file; when the same ``asker`` looks for something else, it ends.

        Raises:
            UsageError: the asker has begun another search.
        """
        wanted = text.casefold()
        with self._lock:
            self._wanted[asker] = wanted
            self._wanted.move_to_end(asker)
            while len(self._wanted) > _ASKERS:
                self._wanted.popitem(last=False)
        found = self._known(wanted, deep)
        if found is not None:
            return found
        if not deep or _is_shallow(wanted):
            return self._keep((wanted, deep), self._search(wanted, None))
        self._analysis()  # source lines are known with it: no use to read the file before
        with self._reading:
            found = self._known(wanted, True)
            if found is not None:
                return found
            in_args = search_args.find(
                self._timeline.trace,
                _asked_of_args(wanted),
                is_over=lambda: self._wanted.get(asker) != wanted,
            )
            return self._keep((wanted, True), self._search(wanted, in_args))

    def best(self, text: str, deep: bool) -> Hits:
        """The same without waiting for the file: what a deep search found, if it has been made."""
        wanted = text.casefold()
        found = self._known(wanted, deep) or self._known(wanted, False)
        return found or self._keep((wanted, False), self._search(wanted, None))

    def _known(self, wanted: str, deep: bool) -> Hits | None:
        with self._lock:
            key = (wanted, deep)
            if key in self._found:
                self._found.move_to_end(key)
            return self._found.get(key)

    def _keep(self, key: tuple[str, bool], found: Hits) -> Hits:
        with self._lock:
            self._found[key] = found
            while len(self._found) > _KEPT:
                self._found.popitem(last=False)
        return found

    def _search(self, wanted: str, in_args: search_args.Found | None) -> Hits:
        field, value = _parts(wanted)
        places: dict[str, Bool] = {}
        if field in _FIELDS:
            places["fields"] = self._field(field, value)
        elif field != "args":
            text = value if field == "name" else wanted
            named = self._timeline.trace.names.where(lambda name: text in name.casefold())
            places["names"] = named[self._timeline.trace.columns.name]
        if in_args is not None:
            if field != "args":
                places["source"] = self._field("source", wanted)
            places["args"] = in_args.rows
        hit = np.zeros(len(self._timeline.trace.columns), np.bool_)
        for rows in places.values():
            hit |= rows
        lanes = self._timeline.lanes
        drawn = hit[lanes.row]
        positions = np.flatnonzero(drawn)
        order = np.argsort(lanes.start_ns[positions], kind="stable")
        before = np.zeros(len(drawn) + 1, np.int32)
        np.cumsum(drawn, out=before[1:])
        return Hits(
            lanes.row[positions[order]].astype(np.int64),
            before,
            {name: int(rows[lanes.row].sum()) for name, rows in places.items()},
            in_args.events if in_args is not None else None,
        )

    def _field(self, field: str, value: str) -> Bool:
        from kinetoscope.viewer.search_fields import FIELDS  # known once the analysis is

        return FIELDS[field](self._analysis(), value)

    def summary(
        self, text: str, begin_ns: float, end_ns: float, buckets: int, *, deep: bool = False, asker: str = ""
    ) -> dict[str, Any]:
        """How many hits, where, on which tracks, and a histogram of their starts over the window."""
        hits = self.hits(text, deep=deep, asker=asker)
        c = self._timeline.trace.columns
        counts, _ = np.histogram(c.start_ns[hits.rows], bins=buckets, range=(begin_ns, end_ns))
        names, per_name = np.unique(c.name[hits.rows], return_counts=True)
        top = np.argsort(-per_name, kind="stable")[:20]
        tracks, per_track = np.unique(c.track[hits.rows], return_counts=True)
        return {
            "count": len(hits.rows),
            "distinct": len(names),
            "total_ns": int(c.dur_ns[hits.rows].sum()),
            "strip": counts.tolist(),
            "names": [
                {"name": self._timeline.trace.names[int(names[at])], "count": int(per_name[at])} for at in top
            ],
            "tracks": dict(zip(map(str, tracks.tolist()), per_track.tolist(), strict=True)),
            "places": hits.places,
            "has_more": not deep and not _is_shallow(text.casefold()),
            "events": hits.events,
            "events_of": self._timeline.trace.info.events,
        }

    def step(
        self, text: str, time_ns: float, row: int | None, forward: bool, *, deep: bool = False
    ) -> dict[str, int] | None:
        """The next hit after a slice (or a time), around the end back to the start."""
        hits = self.best(text, deep).rows
        if len(hits) == 0:
            return None
        c = self._timeline.trace.columns
        at = np.flatnonzero(hits == row) if row is not None else np.empty(0, np.int64)
        if len(at):
            index = int(at[0]) + (1 if forward else -1)
        else:
            after = int(np.searchsorted(c.start_ns[hits], time_ns, side="left"))
            index = after if forward else after - 1
        index %= len(hits)
        return {"row": int(hits[index]), "index": index, "count": len(hits)}


def _parts(wanted: str) -> tuple[str, str]:
    """What a text asks for, and of what; a text without a field has none."""
    field, _, value = wanted.partition(":")
    value = value.strip()
    is_field = field in _FIELDS or field in ("name", "args")
    return (field, value) if is_field and value and not value.startswith(":") else ("", wanted)


def _is_shallow(wanted: str) -> bool:
    """Whether a text asks for something that does not stand in the arguments."""
    field, value = _parts(wanted)
    return field in _FIELDS or field == "name" or len(value) < search_args.SHORTEST


def _asked_of_args(wanted: str) -> str:
    field, value = _parts(wanted)
    return value if field == "args" else wanted
