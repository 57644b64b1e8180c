"""The guide's programs, captured on an H200 by ``kinetoscope run``: programs in tests/programs/guide.

The programs run ``torch.profiler`` themselves, so the traces are their own exports. Of the compile
logs only what these tests need is kept.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from kinetoscope import report
from kinetoscope.schema import Report

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs" / "guide"


def captured(name: str) -> Report:
    return report(HERE / "traces" / "guide" / name, use_store=False)


def lines_marked(program: str, mark: str) -> list[int]:
    text = (PROGRAMS / f"{program}.py").read_text()
    return [number for number, line in enumerate(text.splitlines(), 1) if mark in line]


def test_three_breaks_named_by_line() -> None:
    made = captured("graph_breaks")
    assert (made.graph_breaks.count, made.graph_breaks.source, made.graph_breaks.bound) == (3, "log", "exact")
    sites = made.graph_breaks.sites
    assert sorted(site.line or 0 for site in sites) == lines_marked("graph_breaks", "# BREAK")
    assert {site.kind for site in sites} == {"break"}
    assert {Path(site.file or "").name for site in sites} == {"graph_breaks.py"}
    # three profiled steps pass each break once
    assert [site.hits for site in sites] == [3, 3, 3]
    assert made.compiled.verdict == "yes"
    assert {region.function for region in made.regions} == {"Broken.forward"}


def test_a_training_step_of_resnet18() -> None:
    made = captured("resnet_step")
    assert made.compiled.verdict == "yes"
    assert (made.graph_breaks.count, made.graph_breaks.source) == (0, "log")
    assert [region.function for region in made.regions] == ["ResNet.forward"]
    assert made.steps.count == 3
    assert made.kernels is not None
    origins = {part.origin: part.count for part in made.kernels.by_origin}
    # the same program captured without us has these counts (checked by hand)
    assert origins["inductor_triton"] == 528
    assert origins["compiled_extern"] == 291
    assert origins["compiled_fallback"] == 3
    assert origins["eager"] == 192


@pytest.mark.parametrize("name", ["graph_breaks", "resnet_step"])
def test_a_program_that_profiles_itself_keeps_its_device_events(name: str) -> None:
    """The profile of a program from its start gives way to the program's own, which must see the device."""
    trace = json.loads(gzip.decompress((HERE / "traces" / "guide" / name / "trace.json.gz").read_bytes()))
    kernels = sum(event.get("cat") == "kernel" for event in trace["traceEvents"])
    assert kernels > 100
    manifest = json.loads((HERE / "traces" / "guide" / name / "manifest.json").read_text())
    assert manifest["profiler"]["program_has_its_own"]
    assert manifest["status"] == "complete"
