"""The exact next command for a kernel-level tool: the right filter, the right launch, the right program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from kinetoscope.analyses.one_kernel import KernelDetails
from kinetoscope.analyses.origins import Work
from kinetoscope.trace import Category, Int64

__all__ = ["ToolCommand", "function_name", "tool_commands"]

_PROGRAM = "python your_program.py"
_REPORT = "kinetoscope-kernel"


class ToolCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command to type, what it does, and what it assumes."""

    tool: str
    command: str
    note: str


def tool_commands(
    work: Work, found: KernelDetails, device_kind: str | None, manifest: Mapping[str, Any]
) -> list[ToolCommand]:
    """Commands for this kernel on this device; the program is the captured one where a manifest names it."""
    program = _program(manifest)
    if not work.on_device or device_kind == "cpu":
        return [*_benchmark(found, program), *_vtune_cpu(found, program)]
    if device_kind == "rocm":
        return [*_rocm(found, program), *_benchmark(found, program)]
    if device_kind == "xpu":
        return [*_vtune_gpu(found, program), *_benchmark(found, program)]
    if device_kind not in (None, "cuda"):
        return _benchmark(found, program)
    return [_nsight(work, found, program, manifest), *_benchmark(found, program)]


def _program(manifest: Mapping[str, Any]) -> str:
    """The captured program as it was called, without us."""
    about = manifest.get("program")
    if not isinstance(about, Mapping) or not about.get("target"):
        return _PROGRAM
    given = about.get("arguments")
    words = [str(about["target"]), *map(str, given if isinstance(given, list) else [])]
    module = ["-m"] if about.get("is_module") else []
    return shlex.join(["python", *module, *words])


def function_name(name: str) -> str:
    """The bare function of a C++ name, which is what Nsight Compute filters by.

    >>> function_name("void at::native::(anonymous namespace)::fill<4, at::F<int> >(int, float*)")
    'fill'
    """
    text = name.replace("(anonymous namespace)", "anonymous")
    depth, kept = 0, []
    for position, char in enumerate(text):
        if char == "<":
            depth += 1
        elif char == ">" and depth:
            depth -= 1
        elif depth == 0:
            if char == "(" and position:
                break
            kept.append(char)
    words = "".join(kept).split()
    return words[-1].rpartition("::")[2] if words else name


def _nsight(work: Work, found: KernelDetails, program: str, manifest: Mapping[str, Any]) -> ToolCommand:
    base = function_name(found.name)
    skip, chosen_of_step, each_step = _launch(work, found.name, base)
    before = _steps_before(manifest)
    note = [f"Nsight Compute counts launches of `{base}` from the start of the program."]
    others = _alike(work, base)
    if others > 1:
        note.append(
            f"{others} kernels of this trace share that name; the count of launches tells them apart."
        )
    if each_step and before:
        skip += before * each_step
        note.append(f"The program ran {before} steps before this trace, with {each_step} such launches each.")
    elif each_step:
        note.append(
            f"The skip counts from the trace's first step: add {each_step} for every step that the program"
            " runs"
            " before it."
        )
    note.append(
        "Launches made while compiling (autotuning) come on top: run the program once before, so that the"
        " caches"
        " are filled."
    )
    if chosen_of_step:
        note.append("The launch chosen is the one of median duration in a whole step.")
    replay = ["--graph-profiling", "node"] if any(run.in_graph_replay for run in found.runs) else []
    words = ["ncu", "--set", "full", "--import-source", "yes", "--kernel-name-base", "function"]
    words += ["--kernel-name", base, "--launch-skip", str(skip), "--launch-count", "1", *replay]
    words += ["--export", _REPORT]
    return ToolCommand(tool="Nsight Compute", command=f"{shlex.join(words)} {program}", note=" ".join(note))


def _launch(work: Work, name: str, base: str) -> tuple[int, bool, int]:
    """Launches of the function to skip, whether steps decided, and how many launches a whole step makes."""
    trace = work.links.trace
    c = trace.columns
    kernels = np.flatnonzero(work.is_kernel & (c.category[work.rows] == Category.KERNEL))
    same = trace.names.where(lambda other: function_name(other) == base)[c.name[work.rows[kernels]]]
    # as the device ran them: on one stream, which is the order of their launches
    alike = kernels[same]
    alike = alike[np.argsort(c.start_ns[work.rows[alike]], kind="stable")]
    mine = c.name[work.rows[alike]] == trace.names.index[name]
    if not mine.any():
        return 0, False, 0
    step = _step_of(work)[alike]
    usual = _usual_step(work, step[mine])
    candidates = np.flatnonzero(mine & (step == usual)) if usual is not None else np.flatnonzero(mine)
    durations = work.dur_ns[alike[candidates]]
    chosen = int(candidates[np.argsort(durations, kind="stable")[len(durations) // 2]])
    each = int((step == usual).sum()) if usual is not None else 0
    return chosen, usual is not None, each


def _step_of(work: Work) -> Int64:
    launched = work.launched_from
    start = work.links.trace.columns.start_ns[np.maximum(launched, 0)]
    at = work.links.steps.at(start)
    return np.where(launched >= 0, at, -1)


def _usual_step(work: Work, steps: Int64) -> int | None:
    """A whole step in which the kernel ran, the second if there is one: the first can be unusual."""
    complete = work.links.steps.complete
    whole = [number for number in np.unique(steps).tolist() if number >= 0 and complete[number]]
    if not whole:
        return None
    return int(whole[1] if len(whole) > 1 else whole[0])


def _alike(work: Work, base: str) -> int:
    trace = work.links.trace
    names = np.unique(trace.columns.name[work.rows])
    return sum(function_name(trace.names[int(number)]) == base for number in names)


def _steps_before(manifest: Mapping[str, Any]) -> int:
    window = manifest.get("window")
    first = window.get("first_step") if isinstance(window, Mapping) else None
    return first if isinstance(first, int) and first > 0 else 0


def _rocm(found: KernelDetails, program: str) -> list[ToolCommand]:
    base = function_name(found.name)
    workload = re.sub(r"\W+", "_", base)[:40].strip("_") or "kernel"
    profile = shlex.join(["rocprof-compute", "profile", "--name", workload, "--kernel", base, "--"])
    return [
        ToolCommand(
            tool="rocprof-compute",
            command=f"{profile} {program}",
            note=f"Runs the program several times, and records counters of kernels whose name holds `{base}`;"
            f" rocprof-compute analyze -p workloads/{workload}/* shows them.",
        ),
        ToolCommand(
            tool="rocprof-sys",
            command=f"rocprof-sys-sample -- {program}",
            note="A timeline of CPU and GPU (the successor of Omnitrace), for what lies around the kernel.",
        ),
    ]


def _vtune_gpu(found: KernelDetails, program: str) -> list[ToolCommand]:
    base = function_name(found.name)
    return [
        ToolCommand(
            tool="VTune",
            command=f"vtune -collect gpu-hotspots -result-dir {_REPORT} -- {program}",
            note=f"Then: vtune -report hotspots -group-by computing-task -result-dir {_REPORT}; the row is"
            f" `{base}`.",
        )
    ]


def _vtune_cpu(found: KernelDetails, program: str) -> list[ToolCommand]:
    generated = any(run.origin == "inductor_cpp" for run in found.runs)
    where = (
        "Inductor's C++ kernels are functions called `kernel`, each in a library of its own in Inductor's"
        " cache."
        if generated
        else f"Look for what `{found.name}` calls."
    )
    return [
        ToolCommand(
            tool="VTune",
            command=f"vtune -collect uarch-exploration -result-dir {_REPORT} -- {program}",
            note=f"Then: vtune -report hotspots -group-by function -result-dir {_REPORT}. {where}",
        )
    ]


def _benchmark(found: KernelDetails, program: str) -> list[ToolCommand]:
    """Inductor's own benchmark, of kernels that it wrote."""
    origins = {run.origin for run in found.runs}
    if not origins & {"inductor_triton", "inductor_cpp"}:
        return []
    paths = [place.file_path for place in found.places if place.file_path]
    made = [
        ToolCommand(
            tool="Inductor's benchmark of the graph",
            command=shlex.join(["python", path]),
            note="Times the whole generated graph with random inputs; the file lies in the cache of the"
            " machine that compiled it.",
        )
        for path in paths[:1]
    ]
    if "inductor_triton" not in origins:
        return made
    return [
        ToolCommand(
            tool="Inductor's benchmark of each kernel",
            command=f"TORCHINDUCTOR_BENCHMARK_KERNEL=1 TORCH_LOGS=output_code {program}",
            note="Compiles anew, with a benchmark in the generated code, and prints where it is written; then"
            " python THAT_FILE --benchmark-kernels times every kernel alone, with its bandwidth.",
        ),
        *made,
    ]
