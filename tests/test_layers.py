"""What may import what, as pyproject.toml says it; import-linter reads the code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def lint(directory: Path, source: Path) -> subprocess.CompletedProcess[str]:
    code = "from importlinter.cli import lint_imports_command as run; run()"
    return subprocess.run(
        [sys.executable, "-c", code, "--no-cache", "--config", str(directory / "pyproject.toml")],
        capture_output=True,
        text=True,
        cwd=directory,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(source)},
    )


def test_imports_go_down_the_layers() -> None:
    done = lint(ROOT, ROOT / "src")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("errors.py", "import kinetoscope.trace"),
        ("ingest/extra.py", "import kinetoscope.analyses"),
        ("capturing/extra.py", "import kinetoscope.trace"),
        ("capturing/extra.py", "import numpy"),
        ("link/extra.py", "import torch"),
        ("unplaced.py", ""),
    ],
)
def test_a_wrong_import_is_noticed(tmp_path: Path, module: str, text: str) -> None:
    for file in (ROOT / "src").rglob("*.py"):
        copy = tmp_path / "src" / file.relative_to(ROOT / "src")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    changed = tmp_path / "src" / "kinetoscope" / module
    before = changed.read_text() if changed.exists() else '"""."""\n'
    changed.write_text(f"{before}\n{text}\n")
    done = lint(tmp_path, tmp_path / "src")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout
