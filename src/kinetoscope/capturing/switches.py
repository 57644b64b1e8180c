"""The switches of torch that make a trace tell more, and what each one does to the program.

Every switch is set once its module is imported, never by an environment variable that child processes would
inherit (TORCH_TRACE is set only while torch itself is being imported). A switch that the user set, on or off,
is left as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from types import ModuleType
from typing import Any, Final

__all__ = ["INDUCTOR_SWITCHES", "InductorSwitch", "Switch", "apply_inductor_switches", "final_state"]


@dataclass(frozen=True)
class Switch:
    """One switch as the manifest and ``doctor`` list it."""

    name: str
    state: str
    """``on``, ``off``, ``left`` (the user's own setting) or ``missing`` (this torch does not have it)."""
    value: Any
    by: str
    """Who decided: ``kinetoscope``, ``user`` or ``default``."""
    why: str
    changes_cache_key: bool = False
    """On, it changes the keys of Inductor's caches: the first captured run compiles anew."""
    at_end: Any = None
    """The value when the program ended, should the program have changed it."""

    def as_json(self) -> dict[str, Any]:
        """The switch as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class InductorSwitch:
    """A switch in ``torch._inductor.config``: its names, and what is lost without it."""

    name: str
    paths: tuple[str, ...]
    """Dotted names below the config module, the newest first."""
    wanted: Any
    environment: tuple[str, ...]
    """Variables by which a user decides about it."""
    why: str
    lost: str
    changes_cache_key: bool
    only_if_false: bool = False
    """Any true value will do (descriptive names have several styles)."""


INDUCTOR_SWITCHES: Final = (
    InductorSwitch(
        "inductor_provenance",
        ("trace.provenance_tracking_level", "trace.provenance_tracking"),
        1,
        ("INDUCTOR_PROVENANCE",),
        "links a kernel to graph nodes and source lines",
        "source lines of kernels",
        changes_cache_key=True,
    ),
    InductorSwitch(
        "unique_kernel_names",
        ("triton.unique_kernel_names",),
        True,
        ("TORCHINDUCTOR_UNIQUE_KERNEL_NAMES",),
        "gives every Triton kernel its own name",
        "telling apart kernels that share the name triton_",
        changes_cache_key=True,
    ),
    InductorSwitch(
        "descriptive_names",
        ("triton.descriptive_names",),
        "original_aten",
        (),
        "puts the fused operators into kernel names",
        "the operators in kernel names",
        changes_cache_key=True,
        only_if_false=True,
    ),
    InductorSwitch(
        "cpp_kernel_profile",
        ("cpp.enable_kernel_profile",),
        True,
        ("TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE",),
        "makes Inductor's C++ kernels appear in the trace",
        "Inductor's C++ kernels in the trace",
        changes_cache_key=True,
    ),
)


def apply_inductor_switches(
    config: ModuleType, warn: Callable[[str], None], environ: Mapping[str, str] = os.environ
) -> list[Switch]:
    """Turn on the switches of Inductor that the user has not decided about."""
    return [_apply(switch, config, warn, environ) for switch in INDUCTOR_SWITCHES]


def _apply(
    switch: InductorSwitch, config: ModuleType, warn: Callable[[str], None], environ: Mapping[str, str]
) -> Switch:
    holder, attribute = _find(switch, config)
    described = Switch(switch.name, "missing", None, "default", switch.why, switch.changes_cache_key)
    if holder is None:
        warn(f"{switch.name}: this torch has no {' or '.join(switch.paths)}; lost: {switch.lost}")
        return described
    value = getattr(holder, attribute)
    decided = [name for name in switch.environment if name in environ]
    if decided:
        by = f"user ({decided[0]})"
        return replace(described, state="left", value=value, by=by, changes_cache_key=False)
    if value == switch.wanted or (switch.only_if_false and value):
        return replace(described, state="on", value=value, changes_cache_key=False)
    wanted = True if isinstance(value, bool) else switch.wanted
    try:
        setattr(holder, attribute, wanted)
    except Exception as error:
        warn(f"{switch.name} could not be set ({error}); lost: {switch.lost}")
        return replace(described, state="off", value=value)
    return replace(described, state="on", value=wanted, by="kinetoscope")


def _find(switch: InductorSwitch, config: ModuleType) -> tuple[Any, str]:
    for path in switch.paths:
        *parents, attribute = path.split(".")
        holder: Any = config
        for parent in parents:
            holder = getattr(holder, parent, None)
        if holder is not None and hasattr(holder, attribute):
            return holder, attribute
    return None, ""


def final_state(switches: list[Switch], config: ModuleType | None) -> list[Switch]:
    """The switches with the values that they had when the program ended."""
    if config is None:
        return switches
    known = {switch.name: switch for switch in INDUCTOR_SWITCHES}
    result = []
    for switch in switches:
        inductor = known.get(switch.name)
        holder, attribute = _find(inductor, config) if inductor else (None, "")
        result.append(switch if holder is None else replace(switch, at_end=getattr(holder, attribute, None)))
    return result
