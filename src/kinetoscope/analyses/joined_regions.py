"""Regions with the names that a log gives them, and what it tells of CUDA graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from kinetoscope.analyses.joined_breaks import JoinedBreaks
from kinetoscope.ingest.compile_log import CompileLog
from kinetoscope.schema import CudaGraphs, CudaGraphSkip, Region

__all__ = ["cuda_graphs", "regions"]

_RECORDING = "CUDAGraphNode.record"


def regions(found: Sequence[Region], breaks: JoinedBreaks) -> list[Region]:
    """The regions with function, file and line of the user's code, and with what each one resumes."""
    items = breaks.join.latest_of_id
    named = []
    for region in found:
        item = items.get(region.id)
        if item is not None:
            parents = sorted(region.parents, key=lambda parent: -region.parents[parent])
            region = replace(
                region,
                function=item.function,
                file=item.file or None,  # a log can have lost the names of its files
                line=item.line,
                resumes=breaks.continued_by(item, parents),
            )
        named.append(region)
    return named


def cuda_graphs(
    found: CudaGraphs, log: CompileLog | None, skips: Sequence[tuple[str, int]] | None
) -> CudaGraphs:
    """CUDA graphs with why graphs were left out of them, most frequent first, and how many were recorded.

    ``skips`` are those that the capture heard of; without them each compilation tells its last one. Without
    a ``log`` the recordings are those that were found already.
    """
    if log is None:
        heard = [CudaGraphSkip(reason=reason, count=count) for reason, count in skips or ()]
        return replace(found, skips=heard)
    if not skips:
        told = Counter(c.cudagraph_skip_reason for c in log.compilations if c.cudagraph_skip_reason)
        skips = told.most_common()
    recordings = sum(s.name == _RECORDING for c in log.compilations for s in c.spans)
    recordings += sum(s.name == _RECORDING for s in log.loose_spans)
    return replace(
        found,
        skips=[CudaGraphSkip(reason=reason, count=count) for reason, count in skips],
        recordings=recordings,
    )
