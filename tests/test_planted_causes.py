"""GPU programs that each plant one cause of idle time: the cause has to be found, and little else.

The programs are in ``programs/planted``; their first line says what they plant, so what is expected does not
come from the analysis. ``capture.py`` there records them on a machine with a device; those in
``traces/planted`` are from an NVIDIA H200 with torch 2.11.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kinetoscope
from helpers import TRACES
from kinetoscope import analyses
from kinetoscope.analyses.idle_causes_names import CAUSES
from kinetoscope.link import link

PROGRAMS = Path(__file__).parent / "programs" / "planted"
CAPTURES = TRACES / "planted"
PLANTED = sorted(path for path in PROGRAMS.glob("*.py") if path.stem not in ("capture", "planting"))
#: of the idle time, what the planted cause must be given
LEAST_SHARE = 0.8
#: of the device's span, what must be idle for the cause to have been planted at all; a program in which the
#: device sets the pace names its own figure and the reason
LEAST_IDLE = 0.1

#: causes that no program can plant alone, and why; `test_idle_causes` has traces of them written by hand
NOT_PLANTED = {
    "unknown": "it is what is left when a trace does not tell",
    "profiler overhead": "the profiler makes it, not the program",
}


def planted(program: Path) -> str:
    """The cause that the program's first line names."""
    found = re.match(r"# PLANTS: ([^.]+)\. \S", program.read_text(encoding="utf-8"))
    assert found is not None, f"{program.name} does not say what it plants"
    return found.group(1)


def least_idle(program: Path) -> float:
    """What the program says must be idle, else `LEAST_IDLE`."""
    found = re.search(r"^# IDLE: (\d+) %, \w", program.read_text(encoding="utf-8"), re.MULTILINE)
    return int(found.group(1)) / 100 if found else LEAST_IDLE


def test_every_cause_is_planted_or_cannot_be() -> None:
    assert {planted(program) for program in PLANTED} | set(NOT_PLANTED) == set(CAUSES)
    assert not {planted(program) for program in PLANTED} & set(NOT_PLANTED)


@pytest.mark.parametrize("program", PLANTED, ids=lambda path: str(path.stem))
def test_a_planted_cause_is_given_the_idle_time(program: Path) -> None:
    capture = CAPTURES / program.stem / "trace.json.gz"
    assert capture.exists(), "not captured: run programs/planted/capture.py where there is a GPU"
    found = analyses.idle(link(kinetoscope.load(str(capture), use_store=False)))
    assert found is not None
    shares = {cause.cause: round(cause.share, 3) for cause in found.by_cause}
    assert found.share >= least_idle(program), f"only {found.share:.1%} of the device's time is idle"
    assert shares.get(planted(program), 0.0) >= LEAST_SHARE, shares


@pytest.mark.needs("torch")
def test_the_programs_run_and_their_steps_are_seen(tmp_path: Path) -> None:
    """One of them on a CPU, through the gate: no device is idle there, but the capture is made."""
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "capture.py"), str(tmp_path), "--only", "python_between_regions"],
        env={**os.environ, "PLANTED_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 captured" in done.stdout
    report = kinetoscope.report(str(tmp_path / "captures" / "python_between_regions"))
    assert report.steps.count == 12
