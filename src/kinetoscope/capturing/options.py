"""What a run was asked to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Limits", "RunOptions", "world"]


@dataclass(frozen=True)
class Limits:
    """Bounds on what one capture records; times in seconds."""

    program_seconds: float = 30.0
    """Longest time that a program is profiled whole."""
    window_seconds: float = 60.0
    """Longest time that a window of steps stays open, should its last step never end."""
    cold_seconds: float = 900.0
    """Longest time that a first call is profiled."""
    growth_bytes: int = 2 << 30
    """Growth of the process's memory at which profiling a whole program stops."""
    warmup_seconds: float = 120.0
    """A program that has not settled after this long, or ``warmup_steps``, is profiled all the same."""
    warmup_steps: int = 12
    steps_seconds: float = 20.0
    """Fewer steps are profiled when so many would take longer than this."""


@dataclass(frozen=True)
class RunOptions:
    """Options of ``kinetoscope run``."""

    target: str = ""
    arguments: tuple[str, ...] = ()
    is_module: bool = False
    directory: Path = Path("kinetoscope-capture")
    steps: int = 20
    warmup: int | None = None
    """Steps before measuring begins; None: until compilation has settled."""
    cold: bool = False
    stop: bool = False
    record_shapes: bool = False
    with_stack: bool = False
    profile_memory: bool = False
    keep_source: bool = True
    limits: Limits = field(default_factory=Limits)

    def as_json(self) -> dict[str, Any]:
        """The options as the manifest holds them."""
        values = asdict(self)
        values["directory"] = str(self.directory)
        return values


def world(environ: dict[str, str]) -> tuple[int | None, int | None]:
    """Rank and world size as torchrun sets them, (None, None) in a program that runs alone."""
    try:
        rank, size = int(environ["RANK"]), int(environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return None, None
    return rank, size
