"""What a trace's header says about itself: device kind, versions, rank, and notes as warnings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from kinetoscope.errors import NotATraceError
from kinetoscope.ingest.assemble import Body
from kinetoscope.ingest.reader import Reading
from kinetoscope.schema import DeviceKind
from kinetoscope.trace import Category, Device, Info, TraceWarning

_NOTES: Mapping[str, str] = {
    "repaired-escape": "illegal escapes in strings were read as plain backslashes",
    "repaired-number": "values that are not JSON (nan, inf, N/A) were read as null",
    "repaired-control-character": "control characters in strings were kept as escapes",
    "repaired-utf8": "bytes that are not UTF-8 were replaced",
    "repaired-quotes": "unescaped quotes in names were repaired",
    "event-lost": "events were too broken to read and are missing",
    "header-damaged": "the header before the events is broken and was left out",
    "string-timestamp": "times written as strings were read as numbers",
    "not-an-object": "entries of traceEvents that are no events were left out",
    "no-timestamp": "events without a readable time were left out",
    "phase-missing": "entries without a phase (ph) were left out",
}
_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])(?:rank|worker)[-_ ]?(\d+)", re.IGNORECASE)


def describe(path: str, reading: Reading, *, ends_early: str | None) -> Info:
    """The `Info` of a trace that was read.

    Raises:
        NotATraceError: the events are not a profiler's.
    """
    header, body = reading.header, reading.body
    _refuse_others(header, body)
    warnings = [*body.warnings, *(_note(code, count) for code, count in sorted(reading.notes.items()))]
    if not reading.complete:
        why = ends_early or "the end of the file is missing"
        warnings.insert(
            0, TraceWarning("truncated", f"PARTIAL: {why}; the report covers what came before", 1)
        )
    rank, world_size = _rank(header)
    if rank is None and (found := _RANK_IN_NAME.search(_basename(path))) is not None:
        rank = int(found.group(1))
        warnings.append(TraceWarning("rank-from-name", f"rank {rank} was taken from the file's name", 1))
    if body.tracks and any(track.pid in ("CPU functions", "CUDA functions") for track in body.tracks):
        warnings.append(
            TraceWarning(
                "legacy-format",
                "a torch.autograd.profiler export: it has no launches, streams or compiled regions; "
                "use torch.profiler to see them",
            )
        )
    stacks = int((body.slices.category == Category.PYTHON).sum())
    if stacks:
        share = 100 * stacks / max(1, len(body.slices))
        warnings.append(
            TraceWarning(
                "with-stack",
                f"Python stack events are {share:.0f} % of the complete events; recording them (with_stack) "
                "slows small operators",
                stacks,
            )
        )
    base = header.get("baseTimeNanoseconds")
    return Info(
        path=path,
        events=body.events,
        complete_events=len(body.slices),
        complete=reading.complete,
        device_kind=_device_kind(header, body),
        devices=_devices(header),
        versions=_versions(header),
        rank=rank,
        world_size=world_size,
        base_time_ns=base if isinstance(base, int) and not isinstance(base, bool) else None,
        header=header,
        warnings=tuple(warnings),
    )


def _note(code: str, count: int) -> TraceWarning:
    if code in _NOTES:
        return TraceWarning(code, _NOTES[code], count)
    return TraceWarning(
        "phase-unknown", f"events of phase {code.removeprefix('phase-')!r} were left out", count
    )


def _refuse_others(header: Mapping[str, Any], body: Body) -> None:
    known = body.slices.category != Category.OTHER
    if known.any():
        return
    processes = [track.process_name or "" for track in body.tracks]
    metadata = header.get("metadata")
    if (isinstance(metadata, dict) and "highres-ticks" in metadata) or any(
        name.startswith(("/device:", "/host:")) for name in processes
    ):
        raise NotATraceError("this looks like a JAX/XLA (XProf) trace, not a torch.profiler trace")
    if "schemaVersion" in header or "deviceProperties" in header or "distributedInfo" in header:
        return
    cats = ", ".join(sorted({cat for cat in body.cats if cat})[:6]) or "none"
    raise NotATraceError(
        f"a Chrome trace, but not from torch.profiler: no event category is known (found: {cats})"
    )


def _device_kind(header: Mapping[str, Any], body: Body) -> DeviceKind | None:
    category = body.slices.category
    has_device_work = bool((category >= Category.KERNEL).any())
    cats = {cat.lower() for cat in body.cats}
    if any(cat.startswith("xpu") for cat in cats):
        return "xpu"
    if any(cat.startswith("mtia") for cat in cats):
        return "mtia"
    calls = np.unique(body.slices.name[(category == Category.RUNTIME) | (category == Category.DRIVER)])
    called = [body.names[int(number)] for number in calls]
    if any("roctracer" in key or "hip_" in key or "rocprof" in key for key in header):
        return "rocm"
    if any(name.startswith(("hip", "hsa_")) for name in called):
        return "rocm"
    if any(name.startswith(("acl", "Node@launch")) for name in called) or any("npu" in cat for cat in cats):
        return "npu"
    if called or any(key.startswith(("cuda_", "cupti_")) for key in header):
        if has_device_work or called:
            return "cuda"
    elif has_device_work:
        properties = header.get("deviceProperties")
        if not isinstance(properties, list) or properties:
            return "cuda"
    return "cpu" if bool((category == Category.CPU_OP).any()) and not has_device_work else None


def _devices(header: Mapping[str, Any]) -> tuple[Device, ...]:
    properties = header.get("deviceProperties")
    found = []
    for entry in properties if isinstance(properties, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("id"), int):
            name = entry.get("name")
            found.append(Device(entry["id"], name if isinstance(name, str) and name else None))
    return tuple(found)


def _versions(header: Mapping[str, Any]) -> Mapping[str, str | None]:
    def version(*keys: str) -> str | None:
        for key in keys:
            value = header.get(key)
            if isinstance(value, (int, float, str)) and not isinstance(value, bool) and value != "":
                return str(value)
        return None

    return {
        "torch": version("torch_version", "pytorch_version"),
        "cuda_runtime": _dotted(version("cuda_runtime_version")),
        "cuda_driver": _dotted(version("cuda_driver_version")),
        "cupti": version("cupti_version"),
        "hip_runtime": version("hip_runtime_version"),
        "hip_driver": version("hip_driver_version"),
    }


def _dotted(version: str | None) -> str | None:
    """CUDA writes 13.0 as 13000."""
    if version is None or not version.isdecimal() or len(version) < 4:
        return version
    number = int(version)
    return f"{number // 1000}.{number % 1000 // 10}"


def _rank(header: Mapping[str, Any]) -> tuple[int | None, int | None]:
    about = header.get("distributedInfo")
    if not isinstance(about, dict):
        return None, None
    rank, world = about.get("rank"), about.get("world_size")
    return (
        rank if isinstance(rank, int) and rank >= 0 else None,
        world if isinstance(world, int) and world > 0 else None,
    )


def _basename(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]
