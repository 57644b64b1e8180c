"""What is installed: its names, its metadata, what it imports, and how fast it answers."""

from __future__ import annotations

import importlib.metadata
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import kinetoscope

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "samples" / "graph_breaks"
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
#: the public names; a change here is a change for users, and belongs in the changelog
PUBLIC = [
    "KinetoscopeError",
    "Report",
    "Trace",
    "__version__",
    "capture",
    "load",
    "report",
    "trace_handler",
]


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
    )


def test_public_names() -> None:
    assert sorted(kinetoscope.__all__) == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(kinetoscope, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(kinetoscope, "nothing_of_the_kind")


def test_types_are_shipped() -> None:
    assert (Path(kinetoscope.__file__).parent / "py.typed").exists()


def test_the_sample_is_a_real_capture_and_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLE.rglob("*")) < 128 << 10
    report = kinetoscope.report(SAMPLE, use_store=False)
    assert report.trace.devices[0].name == "NVIDIA H200"
    assert report.trace.versions.cuda_runtime is not None
    assert report.trace.warnings == []
    assert report.compiled.verdict == "yes"
    assert (report.graph_breaks.count, report.graph_breaks.bound) == (3, "exact")
    assert [(site.line, site.hits) for site in report.graph_breaks.sites] == [(69, 3), (73, 3), (71, 3)]


def test_the_samples_report_takes_under_a_second_from_the_shell() -> None:
    command = ["-m", "kinetoscope", "report", str(SAMPLE)]
    python(*command)  # the first time Python writes its caches
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = python(*command)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # Time of the processor: the clock on the wall also shows what else the machine does.
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert done.returncode == 0, done.stderr
    assert min(seconds) < 1.0


def test_reading_and_reporting_import_neither_torch_nor_what_captures() -> None:
    code = (
        "import sys, kinetoscope; kinetoscope.report(sys.argv[1]).to_markdown();"
        "print(sorted(name for name in sys.modules if name.split('.')[0] == 'torch' or 'capturing' in name))"
    )
    assert python("-c", code, str(SAMPLE)).stdout == "[]\n"


def test_import_is_cheap_and_without_numbers() -> None:
    code = (
        "import sys, kinetoscope;"
        "print(sorted({'numpy', 'polars', 'msgspec', 'rich', 'typer', 'torch'} & set(sys.modules)))"
    )
    assert python("-W", "error", "-c", code).stdout == "[]\n"


def test_version_and_changelog() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", kinetoscope.__version__)
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## (Unreleased|{re.escape(kinetoscope.__version__)})", changes, re.MULTILINE)


def test_every_dependency_is_used() -> None:
    (block,) = re.findall(r"^dependencies = \[(.*?)^\]", PYPROJECT, re.MULTILINE | re.DOTALL)
    names = re.findall(r'"([a-z]+)', block)
    assert "torch" not in names
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for name in names:
        assert re.search(rf"^\s*(import|from) {name}\b", code, re.MULTILINE), name


def test_the_licence_is_the_one_that_is_named() -> None:
    assert 'license = "Apache-2.0"' in PYPROJECT
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_installed_metadata_is_of_this_version() -> None:
    try:
        installed = importlib.metadata.version("kinetoscope")
    except importlib.metadata.PackageNotFoundError:
        return  # run from the sources
    assert installed == kinetoscope.__version__


def test_no_python_file_has_grown_into_two_ideas() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in (ROOT / "src").rglob("*.py")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 450
    }
    assert not long, long
