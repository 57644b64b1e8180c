"""How many steps are timed and profiled, and how ranks agree on where to begin."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

from kinetoscope.capturing.directory import CaptureDirectory
from kinetoscope.capturing.options import RunOptions

__all__ = ["SHORT_PROGRAM_STEPS", "Plan", "RankAgreement", "make_plan"]

SHORT_PROGRAM_STEPS: Final = 6
"""With fewer steps than this there is nothing left to measure once compilation has settled."""
_FEW: Final = 10
_MANY: Final = 50
_MANY_NS: Final = 200_000_000
# Shorter steps are timed for this long: a CPU's speed varies from moment to moment, not from step to step.
_LONG_ENOUGH_NS: Final = 100_000_000
_MOST: Final = 400
_MIN_PROFILED: Final = 3


@dataclass(frozen=True)
class Plan:
    """Numbers of steps: timed before the profiler starts, profiled, timed after it stopped."""

    before: int
    profiled: int
    after: int


def make_plan(options: RunOptions, step_ns: float, remaining: int | None) -> Plan:
    """Plan the steps from here on, given how long one takes and how many may be left (None: unknown)."""
    limit_ns = options.limits.steps_seconds * 1e9
    profiled = options.steps
    if step_ns > 0 and step_ns * profiled > limit_ns:
        profiled = min(profiled, max(_MIN_PROFILED, int(limit_ns / step_ns)))
    before = _FEW if step_ns < 50e6 else 5 if step_ns < 1e9 else 2
    if remaining is not None and step_ns > 0:
        room = (remaining - profiled) // 4
        many = max(min(_MANY, int(_MANY_NS / step_ns)), min(_MOST, int(_LONG_ENOUGH_NS / step_ns)))
        before = max(before, min(room, many))
    after = before
    if remaining is not None and remaining < before + profiled + after:
        # The profile comes first, then the steps before it, then the ones after.
        before = max(1, min(before, remaining // 4)) if remaining > 1 else 0
        profiled = max(1, min(profiled, remaining - before))
        after = max(0, min(after, remaining - before - profiled))
    return Plan(before, profiled, after)


class RankAgreement:
    """Lets rank 0 decide when all ranks begin, through a file in the directory that they share.

    Ranks run in step, and a capture is of use for comparing them only if all profile the same steps. The
    file names the launch that wrote it, so that one left by an earlier launch is not believed.
    """

    # Ranks may be this many steps apart when the file is written.
    MARGIN_STEPS: Final = 2
    # A file older than this when the rank started is of an earlier launch.
    _STALE_SECONDS: Final = 60.0

    def __init__(self, directory: CaptureDirectory, world_size: int | None) -> None:
        self._directory = directory
        self._path = directory.path / ".window.json"
        self._started = time.time()
        self.active = directory.rank is not None and (world_size or 1) > 1
        self.leads = directory.rank == 0
        if self.active and self.leads:
            self._path.unlink(missing_ok=True)

    def propose(self, step: int, plan: Plan) -> tuple[int, Plan]:
        """Rank 0: all ranks begin with ``plan`` some steps from ``step``."""
        begin = step + self.MARGIN_STEPS
        content = {"launch": _launch(), "begin": begin, "plan": asdict(plan)}
        with self._directory.writing(self._path) as stream:
            stream.write(json.dumps(content).encode())
        return begin, plan

    def look(self) -> tuple[int, Plan] | None:
        """Other ranks: what rank 0 has decided, None before it has."""
        try:
            if self._path.stat().st_mtime < self._started - self._STALE_SECONDS:
                return None
            content: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if content.get("launch") != _launch():
            return None
        return int(content["begin"]), Plan(**content["plan"])

    def finish(self) -> None:
        """Rank 0: take the file away when the program ends."""
        if self.active and self.leads:
            self._path.unlink(missing_ok=True)


def _launch() -> list[str | None]:
    elastic = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    names = (*elastic, "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID")
    return [os.environ.get(name) for name in names]
