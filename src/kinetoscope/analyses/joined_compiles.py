"""Compilations of a log as the report has them: recompilations, compile time, graphs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kinetoscope.analyses import compile_time as trace_compile_time
from kinetoscope.analyses.log_compile_time import FrameCompileTime, LogCompileTime
from kinetoscope.analyses.log_recompiles import LogRecompiles
from kinetoscope.ingest.compile_log import Compilation, Payload
from kinetoscope.link.logs import LogLinks
from kinetoscope.schema import (
    Caches,
    CompileFrame,
    CompilePhase,
    CompileTime,
    Graph,
    Recompiles,
    RecompileSite,
)

__all__ = ["compile_time", "graphs", "recompiles"]

_SETTING = re.compile(r"^torch\._inductor\.config\.(triton\.cudagraphs|max_autotune) = (True|False)$", re.M)
_CALLED = re.compile(r"^(?!\s*#).*?\b(?:extern_kernels\.\w+|torch\.ops\.[\w.]+)\(", re.M)
_MODES = {
    (False, False): "default",
    (True, False): "reduce-overhead",
    (True, True): "max-autotune",
    (False, True): "max-autotune-no-cudagraphs",
}


def recompiles(found: LogRecompiles) -> Recompiles:
    """Recompilations, most costly function first; deliberate ones are listed and not counted."""
    return Recompiles(
        count=found.count,
        source="log",
        sites=[
            RecompileSite(
                function=site.function,
                file=site.file,
                line=site.line,
                ids=list(site.ids),
                reasons=list(site.reasons),
                compile_ns=site.compile_ns,
            )
            for site in found.sites
        ],
    )


def compile_time(join: LogLinks, found: LogCompileTime) -> CompileTime:
    """Compile time of the whole log, and the part of it inside the trace's window.

    Where the trace's clock has no epoch, the window's part is what the trace itself shows.
    """
    window = join.window_ns
    inside = trace_compile_time(join.links).in_window_ns if window is None else found.within_ns(*window)
    counts = found.caches
    return CompileTime(
        total_ns=found.total_ns,
        in_window_ns=inside,
        source="log",
        frames=[_frame(frame) for frame in found.frames],
        caches=Caches(
            fx_hit=counts.fx_hit,
            fx_miss=counts.fx_miss,
            fx_bypass=counts.fx_bypass,
            aot_hit=counts.aot_hit,
            aot_miss=counts.aot_miss,
        ),
    )


def _frame(frame: FrameCompileTime) -> CompileFrame:
    return CompileFrame(
        id=frame.id,
        function=frame.function,
        file=frame.file,
        line=frame.line,
        total_ns=frame.total_ns,
        phases=[
            CompilePhase(
                name=f"{phase.name} (backward)" if phase.backward else phase.name,
                total_ns=phase.total_ns,
                self_ns=phase.self_ns,
            )
            for phase in frame.phases
        ],
    )


def graphs(join: LogLinks) -> list[Graph]:
    """The graphs that compilations made, by compile id; of an id that came twice, the last one."""
    made = {
        item.id: item for item in join.log.compilations if item.produced_code and (item.ops or item.graphs)
    }
    replayed = _replayed(join)
    return [_graph(join, made[key], replayed) for key in sorted(made, key=_order)]


def _order(compile_id: str) -> tuple[bool, list[int]]:
    """Compiled autograd after the rest; numbers as numbers."""
    return compile_id.startswith("!"), [int(n) for n in re.findall(r"\d+", compile_id)]


def _graph(join: LogLinks, item: Compilation, replayed: Mapping[str, bool]) -> Graph:
    forward = [graph for graph in item.graphs if not graph.backward] or list(item.graphs)
    codes = [graph.code.text() for graph in forward if graph.code is not None]
    kernels = [
        sum(kernel.calls for kernel in join.provenance.kernels(graph).values())
        for graph in forward
        if graph.code
    ]
    skipped = item.cudagraph_skip_reason is not None
    return Graph(
        id=item.id,
        ops=item.ops,
        kernels=sum(kernels) + sum(len(_CALLED.findall(code)) for code in codes) if codes else None,
        backend="inductor" if item.graphs else None,
        mode=_mode(item.extra.get("fx_graph_runnable", ())),
        dynamic=list(item.dynamic),
        guards=item.guards,
        guard_ns=item.guard_ns,
        cache_key=forward[0].cache_key if forward else None,
        cuda_graph=False if skipped and not replayed.get(item.id) else replayed.get(item.id),
    )


def _mode(runnable: tuple[Payload, ...]) -> str | None:
    """The mode whose settings a graph was compiled with; the log has those that are not the defaults."""
    if not runnable:
        return None
    said = dict(_SETTING.findall(runnable[0].text()))
    return _MODES[said.get("triton.cudagraphs") == "True", said.get("max_autotune") == "True"]


def _replayed(join: LogLinks) -> dict[str, bool]:
    """Whether regions that ran on a device launched a CUDA graph; regions without any launch are left out."""
    links = join.links
    calls, launches = links.regions.calls, links.launches
    of_launch = calls.at_rows(launches.call_rows)
    inside = of_launch >= 0
    labels = calls.label[of_launch[inside]].tolist()
    found: dict[str, bool] = {}
    for label, is_graph in zip(labels, launches.is_graph_call[inside].tolist(), strict=True):
        found[calls.labels[label]] = found.get(calls.labels[label], False) or bool(is_graph)
    return found
