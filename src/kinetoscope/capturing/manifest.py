"""The manifest of a capture: what was recorded, on what, how, and what is missing."""

from __future__ import annotations

import datetime
import os
import platform
import sys
from pathlib import Path
from typing import Any, Final

from kinetoscope.capturing import environment
from kinetoscope.capturing.directory import SCHEMA, CaptureDirectory

__all__ = ["SOURCE_NOTE", "Manifest"]

SOURCE_NOTE: Final = (
    "compile_log holds source code of the program, generated code, and paths of this machine; "
    "capture with --no-source to leave the code out"
)
NO_SOURCE_NOTE: Final = "captured with --no-source: compile_log holds paths and function names, and no code"
CACHE_NOTE: Final = (
    "switches with changes_cache_key are part of the keys of Inductor's caches: the first captured run "
    "compiles anew, later ones find what it compiled"
)
SHORT_NOTE: Final = (
    "the program ended before a window of settled steps: run it longer, or with --warmup 0, or with --cold "
    "to profile its first call"
)
ONCE_NOTE: Final = (
    "{} compiled functions were called once each, so there are no steps to tell: torch.compile in a loop "
    "makes another one each time; call it once, before the loop, and call what it returns"
)


LAUNCHER_NOTE: Final = (
    "this is the launcher's process; to capture the program, launch kinetoscope: "
    "torchrun ... -m kinetoscope run SCRIPT"
)


class Manifest:
    """Collects what the manifest says, and writes it whenever something was added."""

    def __init__(self, directory: CaptureDirectory, command: str, world_size: int | None) -> None:
        self._directory = directory
        self._warnings: list[str] = []
        self.values: dict[str, Any] = {
            "schema": SCHEMA,
            "status": "running",
            "kinetoscope": _own_version(),
            "command": command,
            "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
            "host": platform.node(),
            "pid": os.getpid(),
            "rank": directory.rank,
            "world_size": world_size,
            "program": None,
            "options": None,
            "versions": None,
            "device": None,
            "cpu": None,
            "environment": None,
            "switches": [],
            "window": None,
            "steps": None,
            "calibration": None,
            "model": None,
            "compilations": None,
            "cuda_graphs": None,
            "profiler": None,
            "traces": [],
            "files": {},
            "warnings": self._warnings,
            "notes": [],
        }

    def warn(self, message: str) -> None:
        """Something could not be recorded; said once."""
        if message not in self._warnings:
            self._warnings.append(message)

    def note(self, message: str) -> None:
        """Something that a reader of the capture should know."""
        if message not in self.values["notes"]:
            self.values["notes"].append(message)

    def describe_machine(self) -> None:
        """Versions, devices, processor and environment, as they are now."""
        self.values.update(
            versions=environment.versions(),
            device=environment.accelerator(),
            cpu=environment.cpu(),
            environment=environment.relevant_environment(),
        )

    def add_trace(self, raw: Path, stem: str, entry: dict[str, Any]) -> None:
        """Store a trace under ``stem`` and list it; the one called ``trace`` is the capture's own."""
        try:
            path, events = self._directory.take_trace(raw, stem)
        except (OSError, EOFError) as error:
            self.warn(f"a trace could not be stored: {error}")
            return
        listed = {"file": path.name, **entry, "events": events, "bytes": path.stat().st_size}
        self.values["traces"].append(listed)
        if stem == "trace":
            self.values["files"]["trace"] = path.name

    def write(self, status: str = "running") -> None:
        """Write the manifest in one go."""
        self.values["status"] = status
        self._directory.write_json("manifest", self.values)

    def write_compiler_state(self, skips: list[dict[str, Any]]) -> None:
        """Write ``counters.json``, ``compile_times.txt`` and ``cudagraph_skips.json``."""
        files = self.values["files"]
        files["cudagraph_skips"] = self._directory.write_json("cudagraph_skips", skips).name
        utils = sys.modules.get("torch._dynamo.utils")
        if utils is None:
            return
        try:
            counters = {group: dict(counts) for group, counts in utils.counters.items() if counts}
            files["counters"] = self._directory.write_json("counters", counters).name
        except Exception as error:
            self.warn(f"torch._dynamo.utils.counters could not be read ({error}); lost: counters.json")
        try:
            table = utils.compile_times()
            files["compile_times"] = self._directory.write_text("compile_times", f"{table}\n").name
        except Exception as error:
            self.warn(f"torch._dynamo.utils.compile_times() failed ({error}); lost: compile_times.txt")


def _own_version() -> str | None:
    version = getattr(sys.modules.get("kinetoscope"), "__version__", None)
    return None if version is None else str(version)
