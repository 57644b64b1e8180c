"""The change "no graph breaks": what is only there because a function was compiled in pieces is gone."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from kinetoscope.analyses.breaks import Nesting
from kinetoscope.analyses.idle_causes_names import Cause
from kinetoscope.link import Links
from kinetoscope.replay.merging import LaunchItems
from kinetoscope.replay.model import Model
from kinetoscope.trace import Bool, Int64


def no_breaks(model: Model) -> Model:
    """Without graph breaks: guards, wrappers and bytecode between the pieces are gone, and the pieces are
    entered and left once."""
    return replace(model.with_host(_without_breaks(model)), has_breaks=False)


def break_ns(model: Model) -> int:
    """Host time of the window that is there because of breaks."""
    return int((model.host.dur_ns - _without_breaks(model)).sum())


def graphs_behind_breaks(links: Links) -> Int64:
    """Graph calls that would be part of the one before them if it were not for a break.

    And those of their backwards.
    """
    return links.once(_graphs_behind_breaks)


def _graphs_behind_breaks(links: Links) -> Int64:
    graphs, backwards = links.regions.graphs, links.regions.backwards
    forward = Nesting(links).entered_again(graphs)
    if not len(graphs) or not len(backwards):
        return forward
    around = backwards.at_rows(graphs.rows)
    mine = np.flatnonzero(np.isin(around, links.once(_backwards_behind_breaks)))
    _, first = np.unique(around[mine], return_index=True)  # graphs are in order of time
    return np.union1d(forward, mine[first])


def _without_breaks(model: Model) -> Int64:
    """Host times without what is there because of breaks."""
    links = model.links
    dur = np.where(_because_of_breaks(model), 0, model.host.dur_ns)
    graphs = links.regions.graphs
    behind = graphs_behind_breaks(links)
    low, high = model.window_ns
    launches = LaunchItems.of(model, graphs)
    behind = behind[(graphs.start_ns[behind] >= low) & (graphs.end_ns[behind] <= high)]
    for call in behind.tolist():
        first, last = np.searchsorted(model.host.recorded_ns, [graphs.start_ns[call], graphs.end_ns[call]])
        at = model.items.after[launches.of_this(call, first, last)]
        if not len(at):
            continue
        # what leads up to the first launch is in part what leads up to any launch, and in part the entry
        before = int(dur[first : at[0]].sum())
        usual = float(np.median([dur[i:j].sum() for i, j in pairwise(at.tolist())])) if len(at) > 1 else 0.0
        kept = min(1.0, usual / before) if before and usual else 1.0
        dur[first : at[0]] = np.rint(dur[first : at[0]] * kept)
        dur[at[-1] : last] = 0
    return dur


def _because_of_breaks(model: Model) -> Bool:
    gone: Bool = model.host.cause == Cause.BREAK
    backwards = model.links.once(_backwards_behind_breaks)
    if len(backwards):
        owner = _backward_of(model.links, np.maximum(model.host.row, 0))
        is_wrapper = (model.host.cause == Cause.WRAPPER) & (model.host.row >= 0)
        gone |= is_wrapper & np.isin(owner, backwards)
    return gone


def _backward_of(links: Links, rows: Int64) -> Int64:
    """Index of the backward that each slice is part of, or that is the first in it; -1 if there is none.

    The engine's ``evaluate_function`` lies around a backward, and tells of the way to its graph.
    """
    c, backwards = links.trace.columns, links.regions.backwards
    owner = backwards.at_rows(rows)
    for track in np.unique(backwards.track):
        mine = np.flatnonzero(backwards.track == track)  # in order of time
        open_ = np.flatnonzero((owner < 0) & (c.track[rows] == track))
        next_ = np.searchsorted(backwards.start_ns[mine], c.start_ns[rows[open_]])
        inside = next_ < len(mine)
        found = mine[np.minimum(next_, len(mine) - 1)]
        inside &= backwards.start_ns[found] < c.end_ns[rows[open_]]
        owner[open_[inside]] = found[inside]
    return owner


def _backwards_behind_breaks(links: Links) -> Int64:
    """Backwards of what is only entered because of a break: one piece would have only one backward."""
    again = Nesting(links).entered_again(links.regions.forwards)
    found: Int64 = links.pairs.backward[np.isin(links.pairs.forward, again)]
    return found
