"""What several tests need: where traces lie, and traces written out by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import kinetoscope
from kinetoscope.link import Links, link
from kinetoscope.link.select import select
from kinetoscope.trace import Trace

TRACES = Path(__file__).parent / "traces"
#: measured inputs that are not part of the project; tests that need them are skipped without
SHARED = Path(__file__).parents[1].parent / "shared"
HAS_SHARED = (SHARED / "traces").is_dir()
NO_SHARED = "../shared is not here"

Event = dict[str, Any]
CPU, GPU = 100, 0  # pids


def references() -> list[tuple[Path, Path]]:
    """Pairs of a trace and its reference numbers: shipped ones, then those of ../shared."""
    pairs = [
        (TRACES / reference.name.replace(".reference.json", ".trace.json.gz"), reference)
        for reference in sorted(TRACES.glob("*.reference.json"))
    ]
    for reference in sorted((SHARED / "traces").rglob("*.reference.json")) if HAS_SHARED else []:
        stem = reference.name.removesuffix(".reference.json")
        candidates = [reference.with_name(stem + ending) for ending in (".json.gz", ".json")]
        pairs.append((next(path for path in candidates if path.exists()), reference))
    return pairs


def shipped(name: str) -> Links:
    """Links of a trace under tests/traces."""
    return link(kinetoscope.load(str(TRACES / f"{name}.trace.json.gz"), use_store=False))


def shared_trace(path: str) -> Links:
    """Links of a trace under ../shared."""
    import pytest

    if not HAS_SHARED:
        pytest.skip(NO_SHARED)
    return link(kinetoscope.load(str(SHARED / path), use_store=False))


def window(links: Links, start_ns: int, end_ns: int) -> Links:
    """Links of the part of a trace between two times."""
    return link(select(links.trace, [(start_ns, end_ns)], links.launches.launch_of_row))


def annotation_window(links: Links, name: str) -> Links:
    """Links of the part of a trace inside the one annotation of this name."""
    c = links.trace.columns
    number = links.trace.names.index[name]
    (row,) = np.flatnonzero((c.name == number) & (c.category == 2)).tolist()
    return window(links, int(c.start_ns[row]), int(c.end_ns[row]))


def trace_of(tmp_path: Path, events: Sequence[Event], **header: Any) -> Trace:
    """A trace of these events."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, **header, "traceEvents": list(events)}))
    return kinetoscope.load(str(path), use_store=False)


def links_of(tmp_path: Path, events: Sequence[Event], **header: Any) -> Links:
    """Links of a trace of these events."""
    return link(trace_of(tmp_path, events, **header))


def event(
    cat: str, name: str, start_us: float, dur_us: float, pid: Any = CPU, tid: Any = 1, **args: Any
) -> Event:
    """A complete event; arguments with spaces in their names are written with underscores."""
    spaced = {"external_id": "External id", "sequence_number": "Sequence number"}
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": start_us,
        "dur": dur_us,
        "args": {spaced.get(key, key): value for key, value in args.items()},
    }


def op(name: str, start_us: float, dur_us: float, tid: int = 1, **args: Any) -> Event:
    """An operator."""
    return event("cpu_op", name, start_us, dur_us, tid=tid, **args)


def note(name: str, start_us: float, dur_us: float, tid: int = 1) -> Event:
    """An annotation of the user."""
    return event("user_annotation", name, start_us, dur_us, tid=tid)


def region(compile_id: str, start_us: float, dur_us: float, tid: int = 1) -> Event:
    """A call of a compiled region."""
    return op(f"Torch-Compiled Region: {compile_id}", start_us, dur_us, tid=tid)


def call(correlation: int | None, start_us: float, dur_us: float = 2, tid: int = 1, **args: Any) -> Event:
    """A runtime call; ``name`` and ``cat`` can be given."""
    given = {} if correlation is None else {"correlation": correlation}
    name, cat = args.pop("name", "cudaLaunchKernel"), args.pop("cat", "cuda_runtime")
    return event(cat, name, start_us, dur_us, tid=tid, **given, **args)


def kernel(
    correlation: int | None, start_us: float, dur_us: float, *, name: str = "k", stream: int = 7, **args: Any
) -> Event:
    """A kernel on device 0, if not said otherwise."""
    given = {} if correlation is None else {"correlation": correlation}
    device = args.pop("device", 0)
    cat = args.pop("cat", "kernel")
    return event(
        cat, name, start_us, dur_us, pid=device, tid=stream, device=device, stream=stream, **given, **args
    )


def flow(phase: str, number: int, time_us: float, cat: str = "ac2g", pid: Any = CPU, tid: Any = 1) -> Event:
    """One end of an arrow."""
    return {"ph": phase, "id": number, "cat": cat, "name": cat, "pid": pid, "tid": tid, "ts": time_us}


def launched(
    first: int, names: Sequence[str], start_us: float, every_us: float = 10, tid: int = 1
) -> list[Event]:
    """Operators that each launch one kernel, one after the other."""
    events: list[Event] = []
    for number, name in enumerate(names):
        at = start_us + every_us * number
        events += [
            op(f"aten::{name}", at, every_us - 2, tid=tid),
            call(first + number, at + 1, 2, tid=tid),
            kernel(first + number, at + 4, 3, name=name),
        ]
    return events
