"""Reports of the inputs in tests/cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope.__main__ import main

CASES = Path(__file__).parent / "cases"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["report", *arguments])
    out, err = capsys.readouterr()
    return status, out, err
