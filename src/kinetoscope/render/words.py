"""The words of a report: what origins, breaks and devices are called, and kernel names made short."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kinetoscope import schema

ORIGINS: Mapping[schema.Origin, str] = {
    "inductor_triton": "Inductor Triton",
    "user_triton": "user Triton",
    "inductor_cpp": "Inductor C++",
    "autotune": "autotuning",
    "compiled_extern": "library calls of compiled code",
    "compiled_fallback": "fall-backs in compiled code",
    "eager": "eager",
    "memory": "memory copies and fills",
    "unknown": "unknown",
}

STEP_SOURCES: Mapping[schema.StepSource, str] = {
    "profiler_step": "prof.step() marks",
    "annotation": "a repeated annotation",
    "region": "a repeated compiled region",
    "optimizer": "optimizer steps",
    "repetition": "a repeated sequence of launches",
}

BREAK_KINDS: Mapping[schema.BreakKind, str] = {
    "break": "graph break",
    "skipped_frame": "frame skipped",
    "limit": "recompile limit",
    "framework": "in torch's own code",
}

_NAMESPACES = re.compile(r"\(anonymous namespace\)::|\b(?:at|c10|cuda|cutlass|native|std|thrust|torch)::")


def device(report: schema.Report) -> str:
    """What the device of this trace is called in a sentence."""
    kind = report.trace.device_kind
    return "GPU" if kind in ("cuda", "rocm", "xpu") else "CPU" if kind == "cpu" else "device"


def kernel(name: str) -> str:
    """A kernel's name without return type, argument list and the usual namespaces.

    >>> kernel("void at::native::fill_kernel<4, at::native::Fill<float> >(int, float*)")
    'fill_kernel<4, Fill<float>>'
    """
    start = 5 if name.startswith("void ") else 0
    end = _arguments(name) if name.endswith(")") else len(name)
    short = _NAMESPACES.sub("", name[start:end]).replace("> >", ">>")
    return short or name


def place(file: str | None, line: int | None) -> str | None:
    """``file:line``, as far as it is known."""
    if file is None:
        return None
    return file if line is None else f"{file}:{line}"


def _arguments(name: str) -> int:
    """Where the argument list of a C++ name starts; its length where there is none."""
    depth = 0
    for position, char in enumerate(name):
        if char == "<":
            depth += 1
        elif char == ">":
            depth -= 1
        elif char == "(" and depth == 0 and position:
            before = name[position - 1]
            called = before.isalnum() or before in "_>" or name[:position].endswith("> ")
            if called and not name[:position].endswith("operator"):
                return position
    return len(name)
