"""Which compilation of a log each call in a trace runs.

A region's id is a compile id. Ids start again after ``torch._dynamo.reset``, so the last compilation of that
id that ended before the call is meant. A graph call belongs to the compilation of the region around it; the
backward runs in no region, so there the forward that it is the backward of decides, and else the graph's
cache key, where one compilation alone has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinetoscope.ingest.compile_log import Compilation, CompileLog
from kinetoscope.link import Links
from kinetoscope.link.provenance import Provenance
from kinetoscope.link.regions import Calls
from kinetoscope.trace import Int64

__all__ = ["LogLinks"]

# Times since 2001 in nanoseconds: a trace whose clock starts anywhere else has no epoch.
_EPOCH_FROM_NS = 1_000_000_000_000_000_000
# By so much the clocks of trace and log may differ (0.1 to 0.2 ms were seen).
_TOLERANCE_NS = 1_000_000


@dataclass(frozen=True, eq=False)
class LogLinks:
    """A trace and the compile log of its process.

    ``[r]`` marks columns of one entry a region call, ``[g]`` of one a graph call; -1 means "none".
    """

    links: Links
    log: CompileLog

    @cached_property
    def epoch_offset_ns(self) -> int | None:
        """What to add to a time of the trace for nanoseconds since the epoch, where its clock tells."""
        trace = self.links.trace
        offset = (trace.info.base_time_ns or 0) + trace.origin_ns
        return offset if offset >= _EPOCH_FROM_NS else None

    @cached_property
    def window_ns(self) -> tuple[int, int] | None:
        """First start and last end of what the trace measured, since the epoch."""
        trace, offset = self.links.trace, self.epoch_offset_ns
        c = trace.columns
        rows = np.flatnonzero(c.is_valid & c.is_cpu)
        if offset is None or not len(rows):
            return None
        return offset + int(c.start_ns[rows].min()), offset + int(c.end_ns[rows].max())

    @cached_property
    def provenance(self) -> Provenance:
        """Look-ups of kernels in the log."""
        return Provenance(self.log)

    @cached_property
    def number_of(self) -> dict[int, int]:
        """Index in ``log.compilations`` by the identity of a compilation."""
        return {id(item): number for number, item in enumerate(self.log.compilations)}

    @cached_property
    def of_region_call(self) -> Int64:
        """[r] index of the compilation that the call runs."""
        calls = self.links.regions.calls
        found = np.full(len(calls), -1, np.int64)
        for number, label in enumerate(calls.labels):
            found[calls.label == number] = self._by_id(label, calls.start_ns[calls.label == number])
        return found

    def _by_id(self, label: str, start_ns: Int64) -> Int64:
        items = self.log.with_id(label)
        if len(items) < 2 or self.epoch_offset_ns is None:
            last = self.number_of[id(items[-1])] if items else -1
            return np.full(len(start_ns), last, np.int64)
        # as CompileLog.compilation_for, for all calls at once
        ended = [item for item in items if item.end_ns is not None]
        if not ended:
            return np.full(len(start_ns), -1, np.int64)
        ends = np.array([item.end_ns for item in ended], np.int64)
        latest = np.maximum.accumulate(ends)
        at = np.searchsorted(latest, start_ns + self.epoch_offset_ns + _TOLERANCE_NS, side="right") - 1
        numbers = np.array([self.number_of[id(item)] for item in ended] + [-1], np.int64)
        return numbers[at]

    @cached_property
    def of_graph_call(self) -> Int64:
        """[g] index of the compilation whose graph the call runs."""
        regions = self.links.regions
        graphs = regions.graphs
        region = regions.calls.at_rows(graphs.rows)
        found = self._of_calls(region)
        open_ = np.flatnonzero(found < 0)
        found[open_] = self._of_calls(self._forward_region(graphs)[open_])
        owners = np.array([self._owner_of_key(key) for key in graphs.labels] + [-1], np.int64)
        by_key = owners[graphs.label]
        # a region's compilation that does not have this graph cannot be what ran (the log of another run)
        keys = [{g.cache_key for g in item.graphs} for item in self.log.compilations]
        has_it = np.array(
            [
                item >= 0 and not keys[item].isdisjoint((graphs.labels[label], None))
                for item, label in zip(found.tolist(), graphs.label.tolist(), strict=True)
            ],
            np.bool_,
        )
        return np.where(has_it, found, by_key) if len(graphs) else found

    def _of_calls(self, region_call: Int64) -> Int64:
        found: Int64 = np.append(self.of_region_call, -1)[region_call]
        return found

    def _forward_region(self, graphs: Calls) -> Int64:
        """[g] the region call whose forward the graph call is the backward of."""
        regions, pairs = self.links.regions, self.links.pairs
        backward = regions.backwards.at_rows(graphs.rows)
        region_of = np.full(len(regions.backwards) + 1, -1, np.int64)
        region_of[pairs.backward] = pairs.region_of_forward
        found: Int64 = region_of[backward]
        return found

    def _owner_of_key(self, key: str) -> int:
        owners = self.log.compilations_for_key(key)
        return self.number_of[id(owners[0])] if len(owners) == 1 else -1

    def compilation(self, number: int) -> Compilation | None:
        """The compilation of an index; None of -1."""
        return self.log.compilations[number] if number >= 0 else None

    @cached_property
    def latest_of_id(self) -> dict[str, Compilation]:
        """For each region id of the trace, the compilation that most of its calls ran."""
        calls = self.links.regions.calls
        found: dict[str, Compilation] = {}
        for number, label in enumerate(calls.labels):
            ran = self.of_region_call[calls.label == number]
            ran = ran[ran >= 0]
            if len(ran):
                found[label] = self.log.compilations[int(np.bincount(ran).argmax())]
        return found

    @cached_property
    def mismatch(self) -> str | None:
        """Why this log cannot be the one of this trace; None where nothing speaks against it."""
        regions = self.links.regions
        window = self.window_ns
        starts = [item.start_ns for item in self.log.compilations if item.start_ns is not None]
        pids = {track.pid for track in self.links.trace.track_list}
        foreign = bool(self.log.compilations) and not any(item.pid in pids for item in self.log.compilations)
        if window is not None and starts and min(starts) > window[1] + _TOLERANCE_NS:
            return "the log begins after the trace ends"
        ids = [label for label in regions.calls.labels if label and label != "Unknown"]
        if ids and not any(self.log.with_id(label) for label in ids):
            return "the log has none of the trace's compiled regions"
        keys = regions.graphs.labels
        if foreign and keys and not any(self.log.graphs_for(key) for key in keys):
            return "the log is of another process and has none of the trace's compiled graphs"
        return None
