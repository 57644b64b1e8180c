"""The causes of idle time, and what the names of CPU slices say about them.

Every moment of a CPU thread has one *state*: what the innermost slice that says something was
doing. States are decided from the outside in. What compiles, loads data or waits in a
collective keeps that name for everything inside it, because nothing inside would run without it.
A compiled graph keeps its operators for the same reason. Calls of the runtime (launches, waits,
copies, allocations) are named apart wherever else they are made: they are what a user can
remove. Everything that says nothing (annotations, queries of the runtime) is part of what is
around it.
"""

from __future__ import annotations

import re
from enum import IntEnum

import numpy as np

from kinetoscope.link.names import Mark
from kinetoscope.trace import Strings, UInt8, UInt32


class Cause(IntEnum):
    """Why a device was idle. The texts of `CAUSES` are stable; the numbers are not."""

    UNKNOWN = 0
    PYTHON = 1
    EAGER = 2
    GRAPH = 3
    WRAPPER = 4
    GUARD = 5
    BREAK = 6
    LAUNCH = 7
    QUEUED = 8
    STREAM = 9
    SYNC = 10
    COPY = 11
    ALLOC = 12
    COLLECTIVE = 13
    DATA = 14
    COMPILE = 15
    PROFILER = 16


#: text of each cause, in the order of `Cause`
CAUSES: tuple[str, ...] = (
    "unknown",
    "Python between regions",
    "eager operator overhead",
    "host code of compiled graphs",
    "region prologue and wrapper",
    "guard lookup",
    "graph break",
    "launch call",
    "between queued kernels",
    "other stream's dependency",
    "synchronisation",
    "host-device copy",
    "allocation",
    "collective or another rank",
    "data loading",
    "compilation",
    "profiler overhead",
)


class State(IntEnum):
    """What a CPU thread is doing, as far as its innermost telling slice says."""

    NOTHING = 0  # no slice is open, or only annotations
    EAGER = 1
    GRAPH = 2
    WRAPPER = 3
    REGION = 4  # in a region, in nothing else
    BROKEN = 5  # the same, of a region that a break divides
    CONTINUED = 6  # the same, of a region behind a break
    BREAK = 7  # what is only there because of a break
    GUARD = 8
    LAUNCH = 9
    SYNC = 10
    COPY = 11
    ALLOC = 12
    COLLECTIVE = 13
    DATA = 14
    COMPILE = 15


class Kind(IntEnum):
    """What a slice says, by its name."""

    SILENT = 0
    OPERATOR = 1
    GRAPH = 2
    FUNCTION = 3  # CompiledFunction, its backward, and the engine's call of it
    PART = 4  # prologue and bytecode before a graph
    REGION = 5
    BROKEN = 6
    CONTINUED = 7
    LOOKUP = 8
    LAUNCH = 9
    SYNC = 10
    COPY = 11
    ALLOC = 12
    COLLECTIVE = 13
    DATA = 14
    PHASE = 15
    ENTRY = 16  # a FUNCTION or PART behind a break that there would be without it


#: the cause that stands for a state in which the thread kept the device waiting
CAUSE_OF_STATE: UInt8 = np.array(
    [
        Cause.PYTHON,
        Cause.EAGER,
        Cause.GRAPH,
        Cause.WRAPPER,
        Cause.WRAPPER,
        Cause.WRAPPER,  # until its first graph has ended; then BREAK: see `idle_causes_host`
        Cause.BREAK,
        Cause.BREAK,
        Cause.GUARD,
        Cause.LAUNCH,
        Cause.SYNC,
        Cause.COPY,
        Cause.ALLOC,
        Cause.COLLECTIVE,
        Cause.DATA,
        Cause.COMPILE,
    ],
    np.uint8,
)
#: causes that are nothing but the program's own pace
ORDINARY = np.isin(
    np.arange(len(Cause)),
    [
        Cause.PYTHON,
        Cause.EAGER,
        Cause.GRAPH,
        Cause.WRAPPER,
        Cause.GUARD,
        Cause.BREAK,
        Cause.LAUNCH,
    ],
)
#: states in which the thread waits for the device, or for something that does
WAITS = (State.SYNC, State.COPY, State.ALLOC, State.COLLECTIVE)

_DATA = re.compile(r"^enumerate\(DataLoader\)")
_COLLECTIVE = re.compile(r"^(c10d|_c10d_functional|c10d_functional)::|^(nccl|gloo|mpi|ucc|xccl|hccl):")
_ALLOC = re.compile(
    r"^(cuda|hip|cu)(Malloc|Free(?!Async$)|HostAlloc|HostRegister|HostUnregister|MemAlloc|MemFree|MemCreate"
    r"|MemMap$|MemUnmap|MemSetAccess|MemAddress|MemRelease)|^(zeMemAlloc|zeMemFree|ur(USM\w*Alloc|USMFree))"
)
_MEMCPY = re.compile("Memcpy|EnqueueUSMMemcpy", re.IGNORECASE)
_COPY_OPS = frozenset(("copy_", "_to_copy", "_copy_from", "_copy_from_and_resize", "_foreach_copy_"))


class Name:
    """Bits that say of a name what its kind does not."""

    CALL_MEMCPY = 1
    COPIES = 2  # an operator that copies tensors


def kinds_of_names(names: Strings, marks: UInt32, has_graphs: bool) -> tuple[UInt8, UInt8, UInt8]:
    """For each distinct name: its `Kind` as an operator or annotation, as a call, and bits of `Name`."""
    as_slice = np.zeros(len(names), np.uint8)
    as_call = np.zeros(len(names), np.uint8)
    bits = np.zeros(len(names), np.uint8)
    for number, (name, mark) in enumerate(zip(names, marks.tolist(), strict=True)):
        as_slice[number] = _slice_kind(name, mark, has_graphs)
        as_call[number] = _call_kind(name, mark)
        if mark & Mark.LAUNCH and _MEMCPY.search(name):
            bits[number] |= Name.CALL_MEMCPY
        namespace, _, short = name.rpartition("::")
        if namespace == "aten" and short in _COPY_OPS:
            bits[number] |= Name.COPIES
    return as_slice, as_call, bits


def _slice_kind(name: str, mark: int, has_graphs: bool) -> Kind:
    if mark & Mark.PHASE:
        return Kind.PHASE
    if mark & Mark.REGION:
        return Kind.REGION
    if mark & Mark.GRAPH:
        return Kind.GRAPH
    if mark & (Mark.FORWARD | Mark.BACKWARD):
        return Kind.FUNCTION if has_graphs else Kind.GRAPH
    if mark & Mark.LOOKUP:
        return Kind.LOOKUP
    if mark & (Mark.PREGRAPH | Mark.PROLOGUE):
        return Kind.PART
    if name.startswith("autograd::engine") and name.endswith("CompiledFunctionBackward"):
        return Kind.FUNCTION
    if _DATA.search(name):
        return Kind.DATA
    if _COLLECTIVE.search(name):
        return Kind.COLLECTIVE
    return Kind.OPERATOR


def _call_kind(name: str, mark: int) -> Kind:
    if mark & Mark.LAUNCH:
        return Kind.LAUNCH
    if mark & Mark.SYNC:
        return Kind.SYNC
    return Kind.ALLOC if _ALLOC.search(name) else Kind.SILENT


def transitions(has_graphs: bool) -> UInt8:
    """``[kind, state around]``: the state inside a slice of this kind."""
    table = np.empty((len(Kind), len(State)), np.uint8)
    for kind in Kind:
        for state in State:
            table[kind, state] = _inside(kind, state, has_graphs)
    return table


_KEEP_ALL = frozenset((State.COMPILE, State.DATA))
_CALLS = frozenset((State.LAUNCH, State.SYNC, State.COPY, State.ALLOC))
_OF_REGION = {Kind.REGION: State.REGION, Kind.BROKEN: State.BROKEN, Kind.CONTINUED: State.CONTINUED}
_OF_CALL = {
    Kind.LAUNCH: State.LAUNCH,
    Kind.SYNC: State.SYNC,
    Kind.COPY: State.COPY,
    Kind.ALLOC: State.ALLOC,
}


def _inside(kind: Kind, around: State, has_graphs: bool) -> State:
    if kind is Kind.SILENT or around is State.COMPILE:
        return around
    if kind is Kind.PHASE:
        return State.COMPILE
    if around in _KEEP_ALL or (around in _CALLS and kind not in _OF_CALL):
        return around
    if kind is Kind.DATA:
        return State.DATA
    if kind is Kind.COLLECTIVE or (around is State.COLLECTIVE and kind is not Kind.LAUNCH):
        return State.COLLECTIVE
    if kind in _OF_CALL:
        # a call inside a call (driver in runtime) is part of it
        return around if around in _CALLS else _OF_CALL[kind]
    if kind is Kind.ENTRY:
        return State.WRAPPER
    behind_break = around in (State.CONTINUED, State.BREAK)
    if kind in _OF_REGION:
        return _OF_REGION[kind]
    if kind is Kind.GRAPH:
        return State.GRAPH
    if kind is Kind.FUNCTION or kind is Kind.PART:
        return State.BREAK if behind_break else State.WRAPPER
    if kind is Kind.LOOKUP:
        return State.BREAK if behind_break or around is State.BROKEN else State.GUARD
    # an operator: of the graph, of the wrapper, or eager
    if around in (State.NOTHING, State.REGION, State.BROKEN, State.CONTINUED):
        in_region = around is not State.NOTHING
        return State.GRAPH if in_region and not has_graphs else State.EAGER
    return around
