"""Small programs, each run twice into one cache: the report says what the program's first line says.

The lines marked ``# BREAK``, ``# SKIPPED`` and ``# LIMIT`` are where the report has to put them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers import TRACES

ROOT = TRACES.parents[1]
PROGRAMS = sorted((TRACES.parent / "programs").glob("*.py"))
MARKS = {"break": "BREAK", "skipped_frame": "SKIPPED", "limit": "LIMIT"}


def expected(program: Path) -> tuple[dict[str, Any], dict[str, list[int]]]:
    lines = program.read_text().splitlines()
    match = re.search(r"EXPECT (\{.*\})", lines[0])
    assert match is not None
    places = {
        kind: [number for number, line in enumerate(lines, 1) if re.search(rf"# .*\b{mark}\b", line)]
        for kind, mark in MARKS.items()
    }
    return json.loads(match.group(1)), places


@pytest.mark.needs("torch")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.stem))
def test_a_program_is_reported_as_its_first_line_says(program: Path, tmp_path: Path) -> None:
    wanted, places = expected(program)
    passed = wanted.pop("hits", None)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
    }
    for cache in ("cold", "warm"):
        out = tmp_path / f"{cache}.json"
        command = [
            sys.executable,
            "-m",
            "kinetoscope",
            "run",
            "-o",
            str(tmp_path / cache),
            "--report",
            str(out),
        ]
        done = subprocess.run(
            [*command, str(program)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        report = json.loads(out.read_text())
        sites = report["graph_breaks"]["sites"]
        found = {kind: sorted(s["line"] for s in sites if s["kind"] == kind) for kind in MARKS}
        assert found == places, cache
        assert {
            "verdict": report["compiled"]["verdict"],
            "breaks": report["graph_breaks"]["count"],
            "skipped": len(found["skipped_frame"]),
            "recompiles": report["recompiles"]["count"],
            "limit": len(found["limit"]),
        } == wanted, (cache, report["compiled"]["evidence"])
        hits = [site["hits"] for site in sites if site["kind"] == "break"]
        assert all(hits) if passed is None else hits == passed, cache
