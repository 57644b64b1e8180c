"""Search: hits, how they spread over time, and the next one.

A text is looked for in names; ``origin:eager`` and its like (`search_fields`) ask for something else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from kinetoscope.trace import Int32, Int64
from kinetoscope.viewer.timeline import Timeline

if TYPE_CHECKING:
    from kinetoscope.viewer.analysis import Analysis

_KEPT = 8
#: what may stand before a colon
_FIELDS = frozenset(("origin", "kind", "op", "region", "category"))


@dataclass(frozen=True, eq=False)
class Hits:
    """The slices that a text means.

    Attributes:
        rows: their rows, in order of time.
        before: per position in the lanes, how many hits are before it (one more entry at the end).
    """

    rows: Int64
    before: Int32


class Searches:
    """The last few searches, so that pictures can show their hits without searching again."""

    def __init__(self, timeline: Timeline, analysis: Callable[[], Analysis]) -> None:
        self._timeline = timeline
        self._analysis = analysis
        self._found: OrderedDict[str, Hits] = OrderedDict()
        self._lock = Lock()

    def hits(self, text: str) -> Hits:
        """Hits of a text, whatever its case."""
        wanted = text.casefold()
        with self._lock:
            if wanted in self._found:
                self._found.move_to_end(wanted)
                return self._found[wanted]
        found = self._search(wanted)
        with self._lock:
            self._found[wanted] = found
            while len(self._found) > _KEPT:
                self._found.popitem(last=False)
        return found

    def _search(self, wanted: str) -> Hits:
        trace, lanes = self._timeline.trace, self._timeline.lanes
        field, _, value = wanted.partition(":")
        if field in _FIELDS and value.strip() and not value.startswith(":"):
            from kinetoscope.viewer.search_fields import FIELDS  # known once the analysis is

            hit = FIELDS[field](self._analysis(), value.strip())[lanes.row]
        else:
            named = trace.names.where(lambda name: wanted in name.casefold())
            hit = named[trace.columns.name[lanes.row]]
        positions = np.flatnonzero(hit)
        order = np.argsort(lanes.start_ns[positions], kind="stable")
        before = np.zeros(len(hit) + 1, np.int32)
        np.cumsum(hit, out=before[1:])
        return Hits(lanes.row[positions[order]].astype(np.int64), before)

    def summary(self, text: str, begin_ns: float, end_ns: float, buckets: int) -> dict[str, Any]:
        """How many hits, on which tracks, and a histogram of their starts over the window."""
        hits = self.hits(text)
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
        }

    def step(self, text: str, time_ns: float, row: int | None, forward: bool) -> dict[str, int] | None:
        """The next hit after a slice (or a time), around the end back to the start."""
        hits = self.hits(text).rows
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
