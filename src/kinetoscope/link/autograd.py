"""Which compiled backward belongs to which compiled forward.

The backward runs on autograd's own thread and in no region. Arrows of category ``fwdbwd`` lead
from the start of a CompiledFunction to the start of its CompiledFunctionBackward; where they are
missing, both carry the same sequence number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinetoscope.link.regions import Calls, Regions
from kinetoscope.trace import NONE, Bool, Int64, Trace


@dataclass(frozen=True, eq=False)
class Pairs:
    """CompiledFunctions and their backwards. ``[p]`` marks columns of one entry a pair, in forward order.

    Attributes:
        regions: what they were found in.
        forward: [p] index into ``regions.forwards``.
        backward: [p] index into ``regions.backwards``.
        by_flow: [p] joined by an arrow; else by sequence number.
    """

    regions: Regions
    forward: Int64
    backward: Int64
    by_flow: Bool

    def __len__(self) -> int:
        return len(self.forward)

    @cached_property
    def unpaired_forwards(self) -> Int64:
        """Indices of forwards without a backward in this trace."""
        return self._unpaired(self.regions.forwards, self.forward)

    @cached_property
    def unpaired_backwards(self) -> Int64:
        """Indices of backwards without a forward in this trace."""
        return self._unpaired(self.regions.backwards, self.backward)

    def _unpaired(self, calls: Calls, paired: Int64) -> Int64:
        sequence = calls.trace.columns.sequence[calls.rows]
        # a second backward through the same forward is not without one
        known = np.isin(sequence, sequence[paired]) & (sequence != NONE)
        known[paired] = True
        return np.flatnonzero(~known)

    @cached_property
    def device_ns_of_backwards(self) -> Int64:
        """Per backward: sum over the device events that it launched."""
        regions = self.regions
        total = np.zeros(len(regions.backwards), np.int64)
        inside = regions.backward_of_device >= 0
        np.add.at(total, regions.backward_of_device[inside], regions.launches.device_dur_ns[inside])
        return total

    @cached_property
    def region_of_forward(self) -> Int64:
        """[p] index of the region call around the forward, or -1."""
        return self.regions.calls.at_rows(self.regions.forwards.rows[self.forward])


def find_pairs(trace: Trace, regions: Regions) -> Pairs:
    """Pair the compiled forwards of ``trace`` with their backwards."""
    forwards, backwards = regions.forwards, regions.backwards
    forward, backward = _by_flow(trace, forwards, backwards)
    by_flow = len(forward)
    if by_flow < min(len(forwards), len(backwards)):
        free_forwards = np.setdiff1d(np.arange(len(forwards)), forward)
        free_backwards = np.setdiff1d(np.arange(len(backwards)), backward)
        sequence = trace.columns.sequence
        ours, first = np.unique(sequence[forwards.rows[free_forwards]], return_index=True)
        theirs, first_backward = np.unique(sequence[backwards.rows[free_backwards]], return_index=True)
        common, at, at_backward = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
        given = common != NONE
        forward = np.append(forward, free_forwards[first[at[given]]])
        backward = np.append(backward, free_backwards[first_backward[at_backward[given]]])
    is_flow = np.arange(len(forward)) < by_flow
    order = np.argsort(forwards.start_ns[forward], kind="stable")
    return Pairs(regions, forward[order], backward[order], is_flow[order])


def _by_flow(trace: Trace, forwards: Calls, backwards: Calls) -> tuple[Int64, Int64]:
    """Pairs that an arrow joins, start to start."""
    flows = trace.flow_columns
    ours = trace.cats.where(lambda cat: cat.lower() in ("fwdbwd", "forward_backward"))[flows.cat]
    at = np.flatnonzero(ours)
    source = _called_at(forwards, flows.track[at].astype(np.int64), flows.time_ns[at])
    target = _called_at(backwards, flows.track[at].astype(np.int64), flows.time_ns[at])
    is_start = flows.phase[at] == ord("s")
    starts = np.flatnonzero(is_start & (source >= 0))
    ends = np.flatnonzero(~is_start & (target >= 0))
    _, of_start, of_end = np.intersect1d(flows.id[at[starts]], flows.id[at[ends]], return_indices=True)
    found, first = np.unique(source[starts[of_start]], return_index=True)
    return found, target[ends[of_end[first]]]


def _called_at(calls: Calls, track: Int64, time_ns: Int64) -> Int64:
    """Index of the call that starts exactly then on that track, or -1."""
    index = calls.cover.innermost(track, time_ns)
    if len(calls) == 0:
        return index
    hit = (index >= 0) & (calls.start_ns[np.maximum(index, 0)] == time_ns)
    return np.where(hit, index, -1)
