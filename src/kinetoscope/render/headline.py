"""The first lines of a report: was it compiled, where does a step's time go."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from kinetoscope.render import units, words
from kinetoscope.render.page import Fact, Tone
from kinetoscope.schema import Finding, Report, Step

# Below the first the CPU sets the pace, above the second the device does; between them it is both.
_HOST_BOUND, _DEVICE_BOUND = 0.5, 0.9
# By so much a mean of steps without the profiler can lie above one with it by chance.
_NO_PROFILER_DOES = 1.25
_EVIDENCE = 3
_ORIGINS = 3
_CAUSES = 3


def title(report: Report) -> list[str]:
    """What was read: path, devices, steps, events."""
    trace = report.trace
    devices = list(dict.fromkeys(device.name for device in trace.devices if device.name))
    used = len(report.device_time)
    parts = [", ".join(devices[:2]) or (trace.device_kind or "")]
    if used > 1:
        parts[0] = f"{used} devices: {parts[0]}" if parts[0] else f"{used} devices"
    if trace.rank is not None:
        of = "" if trace.world_size is None else f" of {units.count(trace.world_size)}"
        parts.append(f"rank {trace.rank}{of}")
    if trace.versions.torch:
        parts.append(f"torch {trace.versions.torch}")
    if report.steps.count is not None:
        parts.append(units.counted(report.steps.count, "step"))
    parts.append(units.counted(trace.events, "event"))
    return [part for part in parts if part]


def facts(report: Report) -> list[Fact]:
    """The headline, one line each."""
    lines = [Fact("Compiled", *_compiled(report))]
    lines += [Fact("", sentence, "quiet") for sentence in _shares(report)]
    if report.compiled.verdict != "yes":
        lines += [Fact("", sentence, "quiet") for sentence in report.compiled.evidence[:_EVIDENCE]]
    lines.append(_step(report))
    lines += [Fact("", sentence, "warn") for sentence in _odd_times(report)]
    origins = _origins(report)
    if origins:
        lines.append(Fact(f"{words.device(report)} work", origins))
    if report.idle is not None and report.idle.by_cause:
        causes = [f"{cause.cause} {units.share(cause.share)}" for cause in report.idle.by_cause[:_CAUSES]]
        lines.append(Fact(f"{words.device(report)} idle", ", ".join(causes)))
    lines.append(_compile(report))
    if report.cuda_graphs.used:
        replays = units.counted(report.cuda_graphs.replays, "replay")
        lines.append(Fact("CUDA graphs", f"used, {replays}"))
    return lines


def partial(report: Report) -> str | None:
    """What to say first where the end of the file is missing."""
    if report.trace.complete:
        return None
    return "PARTIAL: the end of the file is missing; every number below is of the part that could be read."


def window(report: Report) -> str | None:
    """The window that was asked for."""
    asked = report.trace.window
    if asked is None:
        return None
    span = f"{units.duration(asked.start_ns)} to {units.duration(asked.end_ns)}"
    name = asked.annotation
    if asked.steps is not None:
        first, last = asked.steps
        name = f"step {first}" if first == last else f"steps {first} to {last}"
    return f"Window: {span}" if name is None else f"Window: {name} ({span})"


def counted_steps(report: Report) -> list[Step]:
    """The steps that means and medians are made of: whole ones, without the first of more than two."""
    steps = report.steps.list
    whole = [step for step in steps if step.complete] or steps
    return [step for step in whole if step is not steps[0]] if len(steps) > 2 else whole


def step_busy_ns(report: Report) -> int | None:
    """Device time of the step in the middle, whose length is the median; None where any step's is not known.

    Of the two in the middle it is the mean, where there are two. A median of the device times would be that
    of another step: of one, say, that waited for another rank in a collective.
    """
    steps = sorted(counted_steps(report), key=lambda step: step.dur_ns)
    busy = [step.device_busy_ns for step in steps]
    known = [ns for ns in busy if ns is not None]
    if not known or len(known) < len(busy):
        return None
    return round(statistics.mean(known[(len(known) - 1) // 2 : len(known) // 2 + 1]))


def busy_share(report: Report) -> float | None:
    """Device time of a step over its length; over the devices' spans where there are no steps."""
    busy = step_busy_ns(report)
    if report.steps.median_ns:
        # Several devices can be busy at once: then a share of one step says nothing.
        return busy / report.steps.median_ns if busy is not None and len(report.device_time) < 2 else None
    span = sum(device.span_ns for device in report.device_time)
    return sum(device.busy_ns for device in report.device_time) / span if span else None


def not_recorded(report: Report) -> bool:
    """Whether work was launched and the device's side of it is missing."""
    return report.kernels is None and report.launches.launch_calls > 0


def _compiled(report: Report) -> tuple[str, Tone]:
    verdict = report.compiled.verdict
    if verdict == "no":
        return "NO: nothing compiled ran here", "bad"
    if verdict == "unknown":
        return "unknown: the trace does not tell", "warn"
    return f"{verdict}{_pieces(report)}", "good" if verdict == "yes" else "warn"


def _pieces(report: Report) -> str:
    breaks = report.graph_breaks
    regions = len(report.regions)
    if breaks.count is None:
        said = "graph breaks unknown"
    elif breaks.count == 0:
        said = "no graph breaks seen" if breaks.bound == "estimate" else "no graph breaks"
    else:
        said = units.counted(breaks.count, "graph break")
        said += " (estimate)" if breaks.bound == "estimate" else ""
    if not regions:
        return "" if not breaks.count else f": {said}"
    outer = sum(region.calls > region.nested_calls for region in report.regions)
    if breaks.count and outer == 1 and regions == breaks.count + 1:
        return f", in {units.count(regions)} pieces: {said}"
    return f": {units.counted(regions, 'compiled region')}, {said}"


def _shares(report: Report) -> list[str]:
    compiled = report.compiled
    parts = []
    if compiled.device_share is not None:
        parts.append(f"{units.share(compiled.device_share)} of {words.device(report)} time")
    if compiled.cpu_share is not None:
        parts.append(f"{units.share(compiled.cpu_share)} of the steps' CPU time")
    return [f"{' and '.join(parts)} in compiled code"] if parts and compiled.verdict != "no" else []


def _step(report: Report) -> Fact:
    steps = report.steps
    work = _work(report)
    if steps.median_ns is None:
        label = "Step" if not report.device_time else "Time"
        return Fact(label, "no steps found" + (f"; {work}" if work else ""))
    counted = counted_steps(report)
    # the report's own rule: where the device lags behind, its period is longer and is the step
    by_device = bool(counted) and steps.median_ns > statistics.median(step.dur_ns for step in counted) + 1
    what = "median device period" if by_device else f"median of {len(counted)}"
    of = f" ({what})" if len(counted) > 1 else ""
    unprofiled = steps.unprofiled_ns
    without = "" if unprofiled is None else f", {units.duration(unprofiled)} without the profiler"
    said = f"{units.duration(steps.median_ns)}{of}{without}"
    return Fact("Step", said + (f"   {work}" if work else ""))


def _odd_times(report: Report) -> list[str]:
    """A profiler makes no step shorter: where it seems to, the times are not of the program alone."""
    unprofiled, profiled = report.steps.unprofiled_mean_ns, report.steps.mean_ns
    if unprofiled is None or not profiled or unprofiled <= _NO_PROFILER_DOES * profiled:
        return []
    return [
        f"Steps took longer without the profiler than with it ({units.duration(profiled)} on average): other "
        "work slowed the machine down, or steps differ. Measure again before you rely on these times."
    ]


def times_of(findings: Sequence[Finding]) -> str | None:
    """Which steps the costs and savings of these numbered findings are of; None where there are none."""
    costs = {n: f.basis for n, f in enumerate(findings, 1) if f.cost_ns_per_step is not None}
    bases = [*costs.values(), *(f.saving_basis for f in findings if f.saving_ns_per_step is not None)]
    if not bases:
        return None
    if "unprofiled" not in bases:
        return "Times are of the profiled run; the profiler slows small operators."
    profiled = [n for n, basis in costs.items() if basis == "profiled"]
    if not profiled:
        return "Times are of steps without the profiler, which the capture timed."
    if len(profiled) == len(costs):
        return "Savings are of steps without the profiler, costs of the profiled run, which is slower."
    which = ", ".join(map(str, profiled))
    return (
        f"Times are of steps without the profiler; the costs of {which} of the profiled run, which is slower."
    )


def _work(report: Report) -> str:
    device = words.device(report)
    if not_recorded(report):
        return f"{device} activity was not recorded"
    if not report.device_time:
        return "no device events in this trace"
    share = busy_share(report)
    busy = step_busy_ns(report)
    if report.steps.median_ns is None:
        busy = sum(entry.busy_ns for entry in report.device_time)
    many = f" over {len(report.device_time)} devices" if len(report.device_time) > 1 else ""
    said = f"{device} busy {units.duration(busy)}" + (f" ({units.share(share)})" if share is not None else "")
    bound = ""
    if share is not None and report.steps.median_ns is not None:
        if share < _HOST_BOUND:
            bound = "   host-bound"
        elif share >= _DEVICE_BOUND:
            bound = f"   {device}-bound"
    return said + many + bound


def _origins(report: Report) -> str | None:
    if report.kernels is None or not report.kernels.by_origin:
        return None
    # who launched a collective tells nothing of the code: it waits for other ranks
    spent = {
        words.ORIGINS[entry.origin]: entry.total_ns - entry.communication_ns
        for entry in report.kernels.by_origin
    }
    spent["communication"] = sum(entry.communication_ns for entry in report.kernels.by_origin)
    ranked = sorted((name for name in spent if spent[name]), key=lambda name: -spent[name])
    # of all device time: the report's shares leave copies out of the whole, except in their own
    whole = max(1, report.kernels.all_device_ns)
    return ", ".join(f"{name} {units.share(spent[name] / whole)}" for name in ranked[:_ORIGINS]) or None


def _compile(report: Report) -> Fact:
    time = report.compile_time
    if time.in_window_ns is None and time.total_ns is None:
        return Fact("Compile", units.UNKNOWN)
    inside = time.in_window_ns if time.in_window_ns is not None else time.total_ns
    said = "none in this window" if not inside else f"{units.duration(inside)} in this window"
    if time.total_ns is not None and time.total_ns != inside:
        said += f", {units.duration(time.total_ns)} in all"
    if report.recompiles.count:
        said += f", {units.counted(report.recompiles.count, 'recompile')}"
    return Fact("Compile", said, "warn" if inside else "plain")
