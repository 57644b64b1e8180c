"""What a trace's header says about itself: device kind, versions, rank, and notes as warnings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np

from kinetoscope.errors import NotATraceError
from kinetoscope.ingest.assemble import Body
from kinetoscope.ingest.reader import Reading
from kinetoscope.ingest.text import shown
from kinetoscope.schema import DeviceKind
from kinetoscope.trace import Category, Device, Info, TraceWarning

_NOTES: Mapping[str, str] = {
    "repaired-escape": "backslashes that JSON does not allow (Windows paths) were kept as they are",
    "repaired-number": "values that are not JSON (nan, inf, N/A) count as not given",
    "repaired-control-character": "control characters inside names or arguments were kept as escapes",
    "repaired-utf8": "bytes that are not UTF-8 were replaced in names or arguments",
    "repaired-comma": "commas missing between entries were put in",
    "repaired-quotes": "names with quotes that are not escaped were read to where the event goes on",
    "event-lost": "events were too broken to read; no number here includes them",
    "header-damaged": "what the file says of devices and versions is broken, and was left out",
    "string-timestamp": "times are written as strings; they were read as numbers, to the last digit",
    "not-an-object": "entries among the events are no events, and were left out",
    "unreadable-duration": "durations that are no numbers: these events are counted but not measured",
    "no-timestamp": "events without a readable time were left out",
    "phase-missing": "entries among the events do not say what they are (no ph), and were left out",
}
#: what stands for an entry that is no event, which has a note already
_NO_EVENT = "phase-?"
_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])(?:rank|worker)[-_ ]?(\d{1,7})(?!\d)", re.IGNORECASE)


#: in the header of an export: false where the end of what it was made from is missing
INPUT_COMPLETE = "inputComplete"


def describe(path: str, reading: Reading, *, ends_early: str | None) -> Info:
    """The `Info` of a trace that was read.

    Raises:
        NotATraceError: the events are not a profiler's.
    """
    header, body = reading.header, reading.body
    _refuse_others(header, body)
    notes = sorted((code, count) for code, count in reading.notes.items() if code != _NO_EVENT)
    warnings = [*body.warnings, *(_note(code, count) for code, count in notes)]
    is_of_cut = header.get(INPUT_COMPLETE) is False
    if is_of_cut or not reading.complete:
        why = ends_early or "the end of the file is missing or damaged"
        if reading.complete:
            why = "this was exported from a trace whose end is missing"
        warnings.insert(
            0, TraceWarning("truncated", f"PARTIAL: {why}; the report covers what came before", 1)
        )
    rank, world_size = _rank(header)
    if rank is None and (found := _RANK_IN_NAME.search(_basename(path))) is not None:
        rank = int(found.group(1))
        warnings.append(
            TraceWarning("rank-from-name", f"rank {rank} was taken from the file's name; the trace has none")
        )
    if body.tracks and any(track.pid in ("CPU functions", "CUDA functions") for track in body.tracks):
        warnings.append(
            TraceWarning(
                "legacy-format",
                "this is an export of torch.autograd.profiler: it has no launches, streams or compiled "
                "regions; use torch.profiler to see them",
            )
        )
    stacks = int((body.slices.category == Category.PYTHON).sum())
    if stacks:
        share = 100 * stacks / max(1, len(body.slices))
        warnings.append(
            TraceWarning(
                "with-stack",
                f"Python stack events are {share:.0f} % of the complete events; recording them (with_stack) "
                "makes small operators up to 2.5 times slower than they are without",
                stacks,
            )
        )
    base = header.get("baseTimeNanoseconds")
    return Info(
        path=path,
        events=body.events,
        complete_events=len(body.slices),
        complete=reading.complete and not is_of_cut,
        device_kind=_device_kind(reading),
        devices=_devices(header),
        versions=_versions(header),
        rank=rank,
        world_size=world_size,
        base_time_ns=base if _is_number(base) else None,
        header=header,
        warnings=tuple(warnings),
    )


def _note(code: str, count: int) -> TraceWarning:
    if code in _NOTES:
        return TraceWarning(code, _NOTES[code], count)
    return TraceWarning(
        "phase-unknown",
        f"events of phase {code.removeprefix('phase-')!a}, of which no use is made, were left out",
        count,
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
    cats = ", ".join(shown(cat[:40]) for cat in sorted({cat for cat in body.cats if cat})[:6]) or "none"
    raise NotATraceError(
        f"a Chrome trace, but not from torch.profiler: no event category is known (found: {cats})"
    )


def _device_kind(reading: Reading) -> DeviceKind | None:
    """What ran the program: events decide, and the header only where they do not tell."""
    header, body = reading.header, reading.body
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
    properties = header.get("deviceProperties")
    has_devices = not isinstance(properties, list) or bool(properties)  # the list came late: unknown
    says_cuda = any(key.startswith(("cuda_", "cupti_")) for key in header)
    if called or (has_device_work and (says_cuda or has_devices)):
        return "cuda"
    # what a cut file does not hold any more may well have been device work
    cut = (not reading.complete or reading.header.get(INPUT_COMPLETE) is False) and (
        says_cuda or bool(properties)
    )
    return "cpu" if bool((category == Category.CPU_OP).any()) and not has_device_work and not cut else None


def _devices(header: Mapping[str, Any]) -> tuple[Device, ...]:
    properties = header.get("deviceProperties")
    found = []
    for entry in properties if isinstance(properties, list) else []:
        if isinstance(entry, dict) and _is_number(entry.get("id")):
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
        rank if _is_number(rank) and rank >= 0 else None,
        world if _is_number(world) and world > 0 else None,
    )


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _basename(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]
