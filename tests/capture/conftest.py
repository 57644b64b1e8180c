"""Programs run as a user runs them: in a process of their own, with and without kinetoscope."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

try:
    import torch  # noqa: F401
except ImportError:
    if os.environ.get("CI") == "true":
        raise
    collect_ignore_glob = ["test_*torch*.py"]

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "programs"
# Times, process ids and thread ids differ between two runs of anything.
_VARIES = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \d+:\d+|[VIWE]\d{4} \d\d:\d\d:\d\d\.\d+ \d+|0x[0-9a-f]+"
)


def unexpected(manifest: dict[str, Any]) -> list[str]:
    """The warnings of a capture, without those about what this version of torch does not have yet."""
    import torch

    old = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 7)
    return [each for each in manifest["warnings"] if not (old and each.startswith("inductor_provenance: "))]


@dataclass(frozen=True)
class Ran:
    """What a process left behind."""

    stdout: str
    stderr: str
    status: int

    def comparable(self) -> tuple[str, str, int]:
        return _VARIES.sub("*", self.stdout), _VARIES.sub("*", self.stderr), self.status


@dataclass(frozen=True)
class Capture:
    """A run under kinetoscope and its capture directory."""

    ran: Ran
    path: Path

    def manifest(self, rank: int | None = None) -> dict[str, Any]:
        name = "manifest.json" if rank is None else f"manifest.rank{rank}.json"
        manifest: dict[str, Any] = json.loads((self.path / name).read_text())
        return manifest

    def events(self, name: str = "trace.json.gz") -> list[dict[str, Any]]:
        with gzip.open(self.path / name) as stream:
            events: list[dict[str, Any]] = json.load(stream)["traceEvents"]
        return events

    def names(self, name: str = "trace.json.gz") -> list[str]:
        return [event.get("name", "") for event in self.events(name)]

    def log(self) -> str:
        return "".join(path.read_text() for path in sorted((self.path / "compile_log").iterdir()))


class Runner:
    """Runs programs in one working directory, with Inductor's caches kept between runs."""

    def __init__(self, directory: Path, cache: Path) -> None:
        self.directory = directory
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("TORCH", "KINETO", "INDUCTOR"))},
            "PYTHONPATH": str(ROOT / "src"),
            "TORCHINDUCTOR_CACHE_DIR": str(cache),
            # Several runs share two cores: threads that spin for work make each other slow.
            "OMP_NUM_THREADS": "1",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        }

    def script(self, text: str, name: str = "program.py") -> Path:
        path = self.directory / name
        path.write_text(text)
        return path

    def python(self, *arguments: object, env: dict[str, str] | None = None, timeout: float = 170) -> Ran:
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=self.directory,
            env={**self.environment, **(env or {})},
            timeout=timeout,
            check=False,
        )
        return Ran(done.stdout, done.stderr, done.returncode)

    def capture(
        self, *arguments: object, env: dict[str, str] | None = None, name: str = "capture"
    ) -> Capture:
        """``kinetoscope run --no-report -o DIR`` with these arguments."""
        path = self.directory / name
        command = ("-m", "kinetoscope", "run", "--no-report", "-o", path, *arguments)
        return Capture(self.python(*command, env=env), path)


@pytest.fixture(scope="session")
def inductor_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("inductor")


@pytest.fixture
def runner(tmp_path: Path, inductor_cache: Path) -> Runner:
    return Runner(tmp_path, inductor_cache)


@pytest.fixture(scope="session")
def shared_runner(tmp_path_factory: pytest.TempPathFactory, inductor_cache: Path) -> Runner:
    return Runner(tmp_path_factory.mktemp("shared"), inductor_cache)
