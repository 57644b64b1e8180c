"""Kernels with the source lines that they compute, from a log.

A kernel's name alone does not tell its lines: four regions can share one name. So every run is placed in the
compilation and graph that it was launched from, and each of those is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from kinetoscope.analyses.kernel_names import is_inductor_cpp, is_inductor_triton
from kinetoscope.analyses.origins import Work, origin_number
from kinetoscope.ingest.compile_log import Compilation
from kinetoscope.link.logs import LogLinks
from kinetoscope.link.provenance import KernelSource
from kinetoscope.schema import Kernels, Origin, SourceLine, SourceState, TopKernel
from kinetoscope.trace import Int64

__all__ = ["GENERATED", "KernelPlaces", "Place", "with_sources"]

#: origins of kernels that stand in generated code: Inductor's own, and the user's inside a graph
GENERATED: frozenset[Origin] = frozenset(("inductor_triton", "inductor_cpp", "user_triton"))


@dataclass(frozen=True)
class Place:
    """A graph of a compilation that launched a kernel, and what the log says of the kernel there.

    ``pieces`` are indices into the work. ``compilation`` is None where only the name told which graph has it.
    """

    compilation: Compilation | None
    cache_key: str | None
    pieces: Int64
    total_ns: int
    source: KernelSource | None


@dataclass(frozen=True, eq=False)
class KernelPlaces:
    """Where each piece of work was launched from: which compilation, which graph of it."""

    join: LogLinks
    work: Work

    @cached_property
    def graph_call(self) -> Int64:
        """Index of the graph call around each piece's launch, or -1."""
        regions = self.join.links.regions
        if self.work.on_device:
            return regions.graph_of_device
        return regions.graphs.at_rows(self.work.rows)

    @cached_property
    def compilation(self) -> Int64:
        """Index in the log of the compilation that launched each piece, or -1."""
        by_graph = np.append(self.join.of_graph_call, -1)[self.graph_call]
        by_region = np.append(self.join.of_region_call, -1)[self.work.region_call]
        return np.where(by_graph >= 0, by_graph, by_region)

    def of(self, pieces: Int64) -> list[Place]:
        """The places of these pieces (runs of one kernel), the one with most time first."""
        regions = self.join.links.regions
        graphs = regions.graphs
        key_of = np.append(graphs.label, -1)[self.graph_call[pieces]]
        region_of = np.append(regions.calls.label, -1)[self.work.region_call[pieces]]
        each = np.stack([self.compilation[pieces], key_of, region_of], axis=1)
        distinct, which = np.unique(each, axis=0, return_inverse=True)
        found = []
        for number, (item, label, _) in enumerate(distinct.tolist()):
            mine = pieces[which.reshape(-1) == number]
            key = graphs.labels[label] if label >= 0 else None
            compilation = self.join.compilation(item)
            found.append(
                Place(
                    compilation=compilation,
                    cache_key=key,
                    pieces=mine,
                    total_ns=int(self.work.dur_ns[mine].sum()),
                    source=self._look_up(self._name(mine), compilation, key),
                )
            )
        return sorted(found, key=lambda place: -place.total_ns)

    def _name(self, pieces: Int64) -> str:
        return self.join.links.trace.name_of(int(self.work.rows[pieces[0]]))

    def _look_up(self, name: str, item: Compilation | None, key: str | None) -> KernelSource | None:
        lines = self.join.provenance
        if item is not None:
            return lines.kernel(name, compile_id=item.id, cache_key=key, epoch_ns=item.end_ns)
        if key is not None:
            return lines.kernel(name, cache_key=key)
        if not (is_inductor_triton(name) or is_inductor_cpp(name)):
            return None  # the user's own kernel, launched by eager code
        # launched before the window: only a name that one graph alone has tells anything
        found = lines.kernel(name)
        return found if found is not None and len(found.compile_ids) == 1 else None


def with_sources(found: Kernels, places: KernelPlaces) -> Kernels:
    """The kernels, those of generated code with the source lines that they compute.

    Of one that has no source nodes in the log (a copy into another layout), ``op`` names what takes its
    result, instead of repeating the kernel's own name.
    """
    return replace(found, top=[_with_source(kernel, places) for kernel in found.top])


def _with_source(kernel: TopKernel, places: KernelPlaces) -> TopKernel:
    if kernel.origin not in GENERATED:
        return kernel
    told = [p.source for p in places.of(pieces_of(kernel, places.work)) if p.source is not None]
    lines, state = lines_of(told)
    # a view of the result is no operator that would tell where it goes
    consumers = (source.consumer for source in told if source.consumer not in (None, "reinterpret_tensor"))
    consumer = next(consumers, None)
    op = consumer if not lines and consumer is not None and kernel.op in (None, kernel.name) else kernel.op
    return replace(kernel, source=lines, source_state=state, op=op)


def pieces_of(kernel: TopKernel, work: Work) -> Int64:
    """Indices of the pieces of work that an entry of the report stands for."""
    trace = work.links.trace
    number = trace.names.index[kernel.name]
    mine = trace.columns.name[work.rows] == number
    mine &= work.origin == origin_number(kernel.origin)
    found: Int64 = np.flatnonzero(mine & (work.is_replay == kernel.in_graph_replay))
    return found


def lines_of(told: Sequence[KernelSource]) -> tuple[list[SourceLine], SourceState | None]:
    """The distinct lines, and ``cached`` where any of them is."""
    lines = dict.fromkeys(
        (frame.file, frame.line, frame.function) for source in told for frame in source.sources
    )
    states = {source.source_state for source in told if source.sources}
    state: SourceState | None = "cached" if "cached" in states else "exact" if states else None
    return [SourceLine(file=f, line=n, function=name) for f, n, name in lines], state
