"""Findings that a capture adds: CUDA graphs that were not used and why, and what the profiler changed."""

from __future__ import annotations

from kinetoscope.analyses.joined_regions import cuda_graphs
from kinetoscope.analyses.wording import counted, duration, listed, percent
from kinetoscope.findings.facts import Facts
from kinetoscope.findings.log_facts import LogFacts
from kinetoscope.schema import CudaGraphs, Finding

__all__ = ["ALL", "cuda_graph_skip", "profiler_distortion"]

# From this share on, times of a profiled step cannot be taken for those of an unprofiled one.
_SLOWER = 0.05
_MUCH_SLOWER = 0.25
# Fewer steps than this tell more about chance than about the profiler.
_FEWEST = 3
_FIXES = (
    ("cpu device", "Move the tensors that the message names to the GPU, or take them out of the graph."),
    (
        "mutated inputs",
        "Make the mutated input a buffer or parameter of the module, or return the new value.",
    ),
    (
        "dynamic shape",
        "Pad to a few sizes, or set torch._inductor.config.triton.cudagraph_skip_dynamic_graphs.",
    ),
    ("incompatible op", "Take the operator that the message names out of the graph."),
    ("multiple devices", "Keep one graph on one device."),
)


def cuda_graph_skip(facts: Facts) -> list[Finding]:
    """Graphs that were to run as CUDA graphs and do not."""
    log = facts.join.log if isinstance(facts, LogFacts) else None
    skips = None if facts.capture is None else facts.capture.cudagraph_skips
    found = cuda_graphs(CudaGraphs(), log, skips).skips
    if not found:
        return []
    count = sum(skip.count for skip in found)
    reasons = [f"{skip.reason.strip()} ({counted(skip.count, 'time')})" for skip in found]
    fixes = [fix for word, fix in _FIXES if any(word in skip.reason.lower() for skip in found)]
    return [
        facts.finding(
            "cuda-graph-skip",
            f"CUDA graphs were skipped {counted(count, 'time')}",
            f"Inductor was asked for CUDA graphs and left them out: {listed(reasons, 3)}. These graphs"
            " launch their"
            " kernels one by one.",
            " ".join(fixes) or "Remove what the message names from the compiled function.",
            severity="medium",
        )
    ]


def profiler_distortion(facts: Facts) -> list[Finding]:
    """Steps take longer with the profiler than without: the times of this trace are too long."""
    capture = facts.capture
    if capture is None:
        return []
    profiled = capture.steady_profiled_ns()
    # Not the mean with the steps timed after it: those are slower where the profiler leaves something behind.
    timed = next((name for name in ("before", "after") if capture.steps_of(name) >= _FEWEST), None)
    unprofiled = None if timed is None else capture.mean_step_ns(timed)
    if profiled is None or unprofiled is None or capture.steps_of("profiled") < _FEWEST:
        return []
    slower = profiled / unprofiled - 1
    if slower < _SLOWER:
        return []
    longer = f"{percent(slower)} longer than" if slower < 1 else f"{slower + 1:.1f} times as long as"
    compiling = len(capture.compiling_steps)
    left_out = f" (without {counted(compiling, 'step')} in which something compiled)" if compiling else ""
    return [
        facts.finding(
            "profiler-distortion",
            f"Profiled steps are {longer} unprofiled ones",
            f"A step took {duration(profiled)} under the profiler{left_out} and {duration(unprofiled)}"
            f" without it (mean of {counted(capture.steps_of(timed or ''), 'step')} timed {timed} it). CPU"
            " times of this trace, and idle time of the device that they cause, are too long by as much;"
            " times of single kernels are not.",
            "Compare captures with captures. Leave out --record-shapes, --with-stack and --profile-memory"
            " unless you need them: they cost most.",
            severity="medium" if slower >= _MUCH_SLOWER else "low",
        )
    ]


ALL = (cuda_graph_skip, profiler_distortion)
