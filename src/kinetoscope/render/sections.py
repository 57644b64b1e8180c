"""The body of a report as sections: regions, kernels, steps, devices, launches, idle time, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kinetoscope.render import units, words
from kinetoscope.render.headline import counted_steps
from kinetoscope.render.page import (
    Section,
    Table,
    counts,
    more,
    names,
    numbers,
    shares,
    texts,
    times,
)
from kinetoscope.render.sections_compile import SECTIONS as COMPILE_SECTIONS
from kinetoscope.schema import Region, Report, TopKernel

_ROWS = 20  # of a table that can grow without end
_TOP = 10
_STEPS = 8
_DEPTH = 8  # a deeper tree is drawn at this depth


def sections(report: Report) -> list[Section]:
    """Every section that has something to say, in reading order."""
    made = (make(report) for make in _SECTIONS)
    return [section for section in made if section is not None]


def region_tree(regions: Sequence[Region]) -> list[tuple[int, Region]]:
    """Regions with their depth, each under the parent it was called from most; loops are cut."""
    known = {region.id for region in regions}
    children: dict[str | None, list[Region]] = {}
    for region in regions:
        parents = [(calls, id) for id, calls in region.parents.items() if id in known and id != region.id]
        inside = parents and region.nested_calls * 2 > region.calls
        children.setdefault(max(parents)[1] if inside else None, []).append(region)
    placed: dict[str, None] = {}

    def walk(of: str | None) -> Iterator[tuple[int, Region]]:
        pending = [(0, region) for region in reversed(children.get(of, []))]
        while pending:
            depth, region = pending.pop()
            if region.id in placed:
                continue
            placed[region.id] = None
            yield depth, region
            pending += [(depth + 1, child) for child in reversed(children.get(region.id, []))]

    tree = list(walk(None))
    # Regions that only call each other have no way in from outside: the first stands for it.
    for region in regions:
        if region.id not in placed:
            placed[region.id] = None
            tree.append((0, region))
            tree += [(depth + 1, child) for depth, child in walk(region.id)]
    return tree


def _regions(report: Report) -> Section | None:
    if not report.regions:
        return None
    tree = region_tree(report.regions)
    shown = [region for _, region in tree[:_ROWS]]
    device = words.device(report)
    table = Table(
        (
            names(
                "Region",
                [region.id or "(no id)" for region in shown],
                indents=[min(depth, _DEPTH) for depth, _ in tree[:_ROWS]],
            ),
            names("Function", [region.function for region in shown]),
            names("Where", [words.place(region.file, region.line) for region in shown], optional=2),
            counts("Calls", [region.calls for region in shown]),
            times("Total", [region.total_ns for region in shown]),
            times("Self", [region.self_ns for region in shown], optional=1),
            *((times(device, [region.device_ns for region in shown]),) if report.device_time else ()),
        ),
        more(len(shown), len(tree), "regions"),
    )
    line = "CPU time of each region"
    if report.device_time:
        line += f"; {device}: the work launched while it was the innermost"
    return Section("Compiled regions", (line,), (table,))


def _origins(report: Report) -> Section | None:
    kernels = report.kernels
    if kernels is None or not kernels.by_origin:
        return None
    replayed = ""
    if kernels.graph_replay_ns:
        replayed = f", {units.duration(kernels.graph_replay_ns)} of it replayed from CUDA graphs"
    total = f"{units.counted(kernels.count, 'kernel')}, {units.duration(kernels.total_ns)}{replayed}"
    whole = max(1, kernels.all_device_ns)
    if kernels.all_device_ns > kernels.total_ns:
        total += f"; with copies and fills {units.duration(kernels.all_device_ns)}"
    origins = Table(
        (
            texts("Who wrote it", [words.ORIGINS[entry.origin] for entry in kernels.by_origin]),
            counts("Count", [entry.count for entry in kernels.by_origin]),
            times("Total", [entry.total_ns for entry in kernels.by_origin]),
            shares("Share", [entry.total_ns / whole for entry in kernels.by_origin]),
        )
    )
    return Section("Kernels by origin", (total,), (origins,))


def _kinds(report: Report) -> Section | None:
    kernels = report.kernels
    if kernels is None or not kernels.by_kind:
        return None
    kinds = Table(
        (
            texts("What it computes", [entry.kind for entry in kernels.by_kind]),
            counts("Count", [entry.count for entry in kernels.by_kind]),
            times("Total", [entry.total_ns for entry in kernels.by_kind]),
            shares("Share", [entry.share for entry in kernels.by_kind]),
        )
    )
    return Section("Kernels by kind", tables=(kinds,))


def _top(report: Report) -> Section | None:
    kernels = report.kernels
    if kernels is None or not kernels.top:
        return None
    shown = kernels.top[:_TOP]
    whole = max(1, kernels.all_device_ns)
    table = Table(
        (
            names("Kernel", [words.kernel(kernel.name) for kernel in shown], least=36),
            texts("Origin", [_origin(kernel) for kernel in shown], optional=1),
            names("Operator", [kernel.op for kernel in shown], optional=3),
            names("Source", [_source(kernel) for kernel in shown], optional=5),
            numbers("Speed", [_speed(kernel) for kernel in shown], optional=4),
            counts("Count", [kernel.count for kernel in shown]),
            times("Mean", [kernel.mean_ns for kernel in shown], optional=2),
            times("Total", [kernel.total_ns for kernel in shown]),
            shares("Share", [kernel.total_ns / whole for kernel in shown]),
        ),
        more(len(shown), len(kernels.top), "names"),
    )
    return Section("Kernels that take the most time", tables=(table,))


def _origin(kernel: TopKernel) -> str:
    return kernel.origin + (", replayed" if kernel.in_graph_replay else "")


def _source(kernel: TopKernel) -> str | None:
    if not kernel.source:
        return None
    place = words.place(kernel.source[0].file, kernel.source[0].line)
    return f"{place} (cached, can be out of date)" if kernel.source_state == "cached" else place


def _speed(kernel: TopKernel) -> str | None:
    if kernel.tflop_per_s is not None:
        return units.rate(kernel.tflop_per_s, "TFLOP/s")
    return None if kernel.gb_per_s is None else units.rate(kernel.gb_per_s, "GB/s")


def _left_out(report: Report) -> str:
    """Which steps are not in the median and the mean."""
    left = [step for step in report.steps.list if step not in counted_steps(report)]
    which = ["first step"] if any(step.complete for step in left) else []
    which += ["steps that were cut"] if any(not step.complete for step in left) else []
    return f", {' and '.join(which)} left out" if which else ""


def _steps(report: Report) -> Section | None:
    steps = report.steps
    if not steps.list:
        return None
    found = f"found by {words.STEP_SOURCES[steps.source]}" if steps.source else "source unknown"
    summary = (
        f"{units.counted(steps.count, 'step')}, {found}: median {units.duration(steps.median_ns)}, "
        f"mean {units.duration(steps.mean_ns)}{_left_out(report)}"
    )
    shown = steps.list[:_STEPS]
    busy = [
        None if step.device_busy_ns is None or not step.dur_ns else step.device_busy_ns / step.dur_ns
        for step in shown
    ]
    table = Table(
        (
            names("Step", [step.name + ("" if step.complete else " (cut)") for step in shown]),
            times("Start", [step.start_ns for step in shown], optional=1),
            times("Time", [step.dur_ns for step in shown]),
            times(f"{words.device(report)} busy", [step.device_busy_ns for step in shown]),
            shares("Busy", busy),
        ),
        more(len(shown), len(steps.list), "steps"),
    )
    return Section("Steps", (summary,), (table,))


def _devices(report: Report) -> Section | None:
    devices = report.device_time
    if not devices:
        return None
    communicates = any(device.communication_ns for device in devices)
    copies = any(device.memcpy_ns for device in devices)
    columns = [
        names("Device", [device.device for device in devices[:_ROWS]]),
        counts("Events", [device.events for device in devices[:_ROWS]], optional=3),
        times("Span", [device.span_ns for device in devices[:_ROWS]]),
        times("Busy", [device.busy_ns for device in devices[:_ROWS]]),
        times("Idle", [device.idle_ns for device in devices[:_ROWS]]),
        counts("Gaps", [device.gaps for device in devices[:_ROWS]], optional=2),
        times("Compute", [device.compute_ns for device in devices[:_ROWS]], optional=1),
    ]
    tables = [Table(tuple(columns), more(min(len(devices), _ROWS), len(devices), "devices"))]
    parts = [names("Device", [device.device for device in devices[:_ROWS]])]
    if communicates:
        parts.append(times("Communication", [device.communication_ns for device in devices[:_ROWS]]))
        parts.append(times("exposed", [device.exposed_communication_ns for device in devices[:_ROWS]]))
    if copies:
        parts.append(times("Copies", [device.memcpy_ns for device in devices[:_ROWS]]))
        parts.append(times("exposed", [device.exposed_memcpy_ns for device in devices[:_ROWS]]))
    if len(parts) > 1:
        tables.append(Table(tuple(parts)))
    return Section("Device time", tables=tuple(tables))


def _launches(report: Report) -> Section | None:
    launches = report.launches
    if not (launches.launch_calls or launches.device_events):
        return None
    calls = units.counted(launches.launch_calls, "launch call")
    if not launches.launch_calls and launches.launch_ns is None:
        calls = "launch calls were not recorded"
    elif report.steps.count:
        calls += f" ({launches.launch_calls / report.steps.count:,.0f} a step)"
    if launches.launch_ns is not None:
        calls += f", {units.duration(launches.launch_ns)} of CPU time"
    if launches.median_launch_ns is not None:
        calls += f", median {units.duration(launches.median_launch_ns)} each"
    lines = [calls]
    if launches.graph_launches:
        events = launches.device_events_per_graph_launch
        spread = "" if not events else f", {_between(events[0], events[-1])} device events each"
        lines.append(f"{units.counted(launches.graph_launches, 'graph launch', 'graph launches')}{spread}")
    linked = (
        f"{units.counted(launches.device_events, 'device event')}, "
        f"{units.count(launches.linked)} linked to their launch"
    )
    if launches.launched_before_window:
        linked += f", {units.count(launches.launched_before_window)} launched before the window"
    lost = launches.unlinked - launches.launched_before_window
    if lost > 0:
        linked += f", {units.count(lost)} without a launch"
    lines.append(linked)
    waits: tuple[tuple[int | None, str], ...] = (
        (launches.median_queue_ns, "from launch to start (median)"),
        (launches.sync_ns, "waiting in synchronising calls"),
        (launches.lookup_ns, "checking guards"),
    )
    said = [f"{units.duration(ns)} {what}" for ns, what in waits if ns]
    if said:
        lines.append(", ".join(said))
    return Section("Launches", tuple(lines))


def _between(low: int, high: int) -> str:
    return units.count(low) if low == high else f"{units.count(low)} to {units.count(high)}"


def _idle(report: Report) -> Section | None:
    idle = report.idle
    if idle is None:
        return None
    gaps = units.counted(idle.gaps, "gap")
    lines = (f"{units.duration(idle.total_ns)} ({units.share(idle.share)}) in {gaps}",)
    tables = []
    if idle.by_cause:
        tables.append(
            Table(
                (
                    texts("Why", [cause.cause for cause in idle.by_cause]),
                    counts("Gaps", [cause.gaps for cause in idle.by_cause]),
                    times("Total", [cause.total_ns for cause in idle.by_cause]),
                    shares("Share", [cause.share for cause in idle.by_cause]),
                )
            )
        )
    longest = idle.longest[:5]
    if longest:
        tables.append(
            Table(
                (
                    times("Longest gaps start at", [gap.start_ns for gap in longest]),
                    names("Device", [gap.device for gap in longest]),
                    texts("Cause", [gap.cause for gap in longest]),
                    texts("Detail", [gap.detail for gap in longest], optional=1),
                    times("Length", [gap.dur_ns for gap in longest]),
                )
            )
        )
    return Section("Device idle time", lines, tuple(tables))


def _memory(report: Report) -> Section | None:
    memory = report.memory
    if memory is None:
        return None
    lines = [
        f"device {device.device}: at most {units.size(device.peak_allocated_bytes)} allocated, "
        f"{units.size(device.peak_reserved_bytes)} reserved"
        for device in memory.device[:_ROWS]
    ]
    if memory.cpu_peak_allocated_bytes is not None:
        lines.append(f"CPU: at most {units.size(memory.cpu_peak_allocated_bytes)} allocated")
    return Section("Memory", tuple(lines)) if lines else None


_SECTIONS: tuple[Callable[[Report], Section | None], ...] = (
    _regions,
    *COMPILE_SECTIONS[:2],  # graph breaks and recompiles belong beside the regions that they cut
    _origins,
    _kinds,
    _top,
    _steps,
    _devices,
    _launches,
    _idle,
    *COMPILE_SECTIONS[2:],
    _memory,
)
