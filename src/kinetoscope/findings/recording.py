"""Findings about the recording itself: what is missing from the file, and what that means for the numbers."""

from __future__ import annotations

import numpy as np

from kinetoscope.analyses.kernel_names import is_nameless
from kinetoscope.analyses.wording import counted, duration, percent
from kinetoscope.findings.facts import Facts
from kinetoscope.schema import Finding

# What records device activity, by device: wording must name the right one.
_RECORDER = {
    "cuda": "CUPTI, which records the GPU's side, delivered nothing. Usual causes: no permission to use it"
    " (NVreg_RestrictProfilingToAdminUsers), another profiler that holds it, or a driver too old for the"
    " CUDA version.",
    "rocm": "rocprofiler, which records the GPU's side, delivered nothing. Usual causes: another profiler"
    " that"
    " holds it, or a ROCm version that differs from the one PyTorch was built with.",
    "xpu": "The tracing layer of the XPU driver, which records the GPU's side, delivered nothing. Usual"
    " causes:"
    " PyTorch built without its profiler for XPU, or tracing switched off in the environment.",
}
_ANY_RECORDER = (
    "What records the device's side delivered nothing: it may lack permission, or another profiler holds it."
)
# Below this share of unmatched launches, missing records are what every recording has.
_LOST = 0.05


def device_events_missing(facts: Facts) -> list[Finding]:
    """Launches whose device work was not recorded: nothing can be said of the device's idle time."""
    launches, trace = facts.links.launches, facts.trace
    calls, events = len(launches.call_rows), len(launches.device_rows)
    if calls == 0:
        return []
    alone = launches.call_rows[launches.events_per_call == 0]
    if not launches.are_device_events_recorded:
        kind = trace.info.device_kind or ""
        return [
            facts.finding(
                "device-events-missing",
                "Device activity was not recorded",
                f"{counted(calls, 'launch', 'launches')} and {counted(events, 'device event')} are in the"
                " trace."
                f" {_RECORDER.get(kind, _ANY_RECORDER)} What the CPU did is still right;"
                " how busy the device was is unknown.",
                "Record again with ProfilerActivity for the device, alone on the machine;"
                " `kinetoscope doctor` says what stands in the way.",
                severity="high",
                rows=alone,
            )
        ]
    if not trace.info.complete or not events or len(alone) < max(2, _LOST * calls):
        return []
    return [
        facts.finding(
            "device-events-missing",
            "Some device activity was not recorded",
            f"{counted(len(alone), 'launch', 'launches')} of {calls:,} ({percent(len(alone) / calls)})"
            " have no"
            " device event. Idle time of the device may be work that was lost from the recording.",
            "Record fewer steps, so that the profiler's buffers suffice, and leave some idle time before"
            " it stops.",
            severity="low",
            rows=alone,
        )
    ]


def trace_incomplete(facts: Facts) -> list[Finding]:
    """The end of the file is missing."""
    info, launches = facts.trace.info, facts.links.launches
    if info.complete:
        return []
    alone = int((launches.events_per_call == 0).sum()) if len(launches.device_rows) else 0
    lost = (
        f" {counted(alone, 'launch', 'launches')} without a device event: put down to the missing end,"
        " not to a lost recording."
        if alone
        else ""
    )
    return [
        facts.finding(
            "trace-incomplete",
            "The end of the file is missing",
            f"{counted(info.events, 'whole event')} could be read, over {duration(facts.trace.span_ns)};"
            f" every number is of that part.{lost}",
            "Let the program end, or the profiler's export return, before the file is copied."
            " Counts and times of this report are lower bounds.",
            severity="medium",
        )
    ]


def kernel_names(facts: Facts) -> list[Finding]:
    """Inductor's kernels carry names that do not say what they compute."""
    work, trace = facts.work, facts.trace
    generated = work.of("inductor_triton")
    if not generated.any():
        return []
    nameless = generated & trace.names.where(is_nameless)[trace.columns.name[work.rows]]
    count, total = int(nameless.sum()), int(generated.sum())
    if 2 * count <= total:
        return []
    rows = work.rows[nameless]
    return [
        facts.finding(
            "kernel-names",
            "Kernel names do not say what they compute",
            f"{count:,} of the {counted(total, 'kernel')} that Inductor generated are called like"
            f" `{trace.name_of(int(rows[np.argmax(trace.columns.dur_ns[rows])]))}`; they take"
            f" {duration(int(work.dur_ns[nameless].sum()))}. Their kind, and the operators they come from,"
            " stay unknown.",
            "Set TORCHINDUCTOR_UNIQUE_KERNEL_NAMES=1 (or torch._inductor.config.triton.unique_kernel_names"
            " = True) and"
            ' torch._inductor.config.triton.descriptive_names = "original_aten", clear the compile cache,'
            " record again.",
            severity="info",
            rows=rows,
        )
    ]


ALL = (device_events_missing, trace_incomplete, kernel_names)
