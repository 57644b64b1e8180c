"""What the names of a trace stand for: every distinct name is looked at once.

A mark says only that a name reads like something; whoever uses it also asks for the right
`Category`. None of these names is a public API of PyTorch, so they are compared loosely.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from kinetoscope.trace import Bool, Strings, UInt32


class Mark:
    """Bits that `mark_names` gives a name."""

    REGION = 1 << 0  # Torch-Compiled Region[: id]
    GRAPH = 1 << 1  # ## Call CompiledFxGraph KEY ##
    FORWARD = 1 << 2  # CompiledFunction
    BACKWARD = 1 << 3  # CompiledFunctionBackward
    LOOKUP = 1 << 4  # TorchDynamo Cache Lookup
    PREGRAPH = 1 << 5  # Pregraph bytecode
    PROLOGUE = 1 << 6  # AOTDispatcher Runtime Wrapper Prologue
    PHASE = 1 << 7  # X (dynamo_timed)
    PHASE_DATA = 1 << 8  # X_data: compile_id=0/0: a marker beside a phase
    LAUNCH = 1 << 9  # a call that launches kernels, a graph or a memory operation
    GRAPH_LAUNCH = 1 << 10
    SYNC = 1 << 11  # a call that waits for the device
    COLLECTIVE = 1 << 12  # a kernel that communicates between devices
    OPTIMIZER = 1 << 13  # Optimizer.step#Class.step
    STEP = 1 << 14  # ProfilerStep#N


_LAUNCH = re.compile(
    r"Launch(Cooperative)?Kernel|LaunchKernelEx|GraphLaunch|Memcpy|Memset|EnqueueKernelLaunch|EnqueueUSM",
    re.IGNORECASE,
)
_GRAPH_LAUNCHES = frozenset({"cudaGraphLaunch", "hipGraphLaunch", "cuGraphLaunch"})
_SYNC = re.compile(r"Synchronize|^ur(EventWait|QueueFinish)$")
_COLLECTIVE = re.compile(
    r"nccl|rccl|oneccl|hccl|cross_device_reduce|multimem_|all_?reduce|all_?gather|reduce_?scatter"
    r"|all_?to_?all|nvshmem|deep_ep",
    re.IGNORECASE,
)
_GRAPH = re.compile(r"^## Call CompiledFxGraph (\S+) ##$")
_PHASE = re.compile(r"^(.*\S) ?\(dynamo_timed\)$", re.DOTALL)
# The marker's own name ends in _data; what follows is a list of key=value.
_PHASE_DATA = re.compile(r"^(\S+)_data: (?=\w+=)", re.DOTALL)
_COMPILE_ID = re.compile(r"\bcompile_id=([^\s,]+)")
_REGION_PREFIX = "Torch-Compiled Region"

_TESTS: tuple[tuple[int, Callable[[str], object]], ...] = (
    (Mark.REGION, lambda name: name.startswith(_REGION_PREFIX)),
    (Mark.GRAPH, _GRAPH.search),
    (Mark.FORWARD, lambda name: name == "CompiledFunction"),
    (Mark.BACKWARD, lambda name: name == "CompiledFunctionBackward"),
    (Mark.LOOKUP, lambda name: name.startswith("TorchDynamo Cache Lookup")),
    (Mark.PREGRAPH, lambda name: name.startswith("Pregraph bytecode")),
    (Mark.PROLOGUE, lambda name: name.startswith("AOTDispatcher Runtime Wrapper Prologue")),
    (Mark.PHASE, _PHASE.search),
    (Mark.PHASE_DATA, _PHASE_DATA.search),
    (Mark.LAUNCH, _LAUNCH.search),
    (Mark.GRAPH_LAUNCH, lambda name: name in _GRAPH_LAUNCHES),
    (Mark.SYNC, _SYNC.search),
    (Mark.COLLECTIVE, _COLLECTIVE.search),
    (Mark.OPTIMIZER, lambda name: name.startswith("Optimizer.step#")),
    (Mark.STEP, lambda name: name.startswith("ProfilerStep#")),
)


def mark_names(names: Strings) -> UInt32:
    """Bits of `Mark` for each distinct name, to be indexed with a column of names."""
    marks = np.zeros(len(names), np.uint32)
    for number, name in enumerate(names):
        bits = 0
        for bit, test in _TESTS:
            if test(name):
                bits |= bit
        marks[number] = bits
    return marks


def marked(marks: UInt32, column: UInt32, bits: int) -> Bool:
    """Which rows have a name with any of ``bits``."""
    found: Bool = ((marks & np.uint32(bits)) != 0)[column]
    return found


def region_id(name: str) -> str:
    """``0/0`` of ``Torch-Compiled Region: 0/0``; empty for a bare name."""
    return name.partition(": ")[2]


def graph_key(name: str) -> str:
    """``KEY`` of ``## Call CompiledFxGraph KEY ##``."""
    found = _GRAPH.search(name)
    return found.group(1) if found else ""


def phase_name(name: str) -> str:
    """``X`` of ``X (dynamo_timed)``."""
    found = _PHASE.search(name)
    return found.group(1) if found else name


def marker_of(name: str) -> tuple[str, str | None]:
    """Phase and compile id of a marker ``X_data: ..., compile_id=0/0``."""
    phase = _PHASE_DATA.search(name)
    compile_id = _COMPILE_ID.search(name)
    found = compile_id.group(1) if compile_id else None
    return phase.group(1) if phase else name, None if found in ("None", "") else found
