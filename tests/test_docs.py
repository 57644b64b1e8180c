"""The documentation: what it shows is what the program does, and every command in it runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from kinetoscope import schema
from kinetoscope.analyses.idle_causes_names import CAUSES

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import commands  # noqa: E402
import docs  # noqa: E402
import picture  # noqa: E402

PAGES = docs.documents()
BLOCKS = [block for page in PAGES for block in commands.blocks(page)]
RUN = [
    block
    for block in BLOCKS
    if block.language in ("sh", "python") and block.needs in (None, "torch") and not block.file
]
LINK = re.compile(r"(?<!`)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
#: where a block that is not run may say that it would go
OUTSIDE = (
    "the network",
    "a GPU",
    "torch",
    "trace.json of",
    "the dev extra",
    "to be read",
    "Nsight",
    "a browser",
)


def where(block: commands.Block) -> str:
    return f"{block.page.relative_to(ROOT)}:{block.line}"


@pytest.fixture(scope="session")
def workplaces(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """A directory a page: its blocks run there one after another, beside a copy of the samples."""
    made = {}
    for page in PAGES:
        made[page] = tmp_path_factory.mktemp(page.stem)
        (made[page] / "samples").symlink_to(ROOT / "samples")
    return made


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with ``kinetoscope`` in it, as an installation puts it on the path."""
    directory = tmp_path_factory.mktemp("bin")
    script = directory / "kinetoscope"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kinetoscope "$@"\n')
    script.chmod(0o755)
    return directory


def parameters() -> Iterator[object]:
    for block in RUN:
        marks = [pytest.mark.needs("torch")] if block.needs == "torch" else []
        yield pytest.param(block, id=where(block), marks=marks)


@pytest.mark.parametrize("block", list(parameters()))
def test_every_block_runs(block: commands.Block, workplaces: dict[Path, Path], program: Path) -> None:
    for file in BLOCKS:
        if file.page == block.page and file.file is not None:
            (workplaces[block.page] / file.file).write_text(file.text)
    command = ["bash", "-euo", "pipefail", "-c"] if block.language == "sh" else [sys.executable, "-c"]
    done = subprocess.run(
        [*command, block.text],
        cwd=workplaces[block.page],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **os.environ,
            "PATH": f"{program}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "HOME": str(workplaces[block.page]),
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_block_that_is_not_run_says_why() -> None:
    left_out = [b for b in BLOCKS if b.language in ("sh", "python") and b not in RUN and not b.file]
    assert left_out
    for block in left_out:
        assert block.needs is not None
        assert block.needs.startswith(OUTSIDE), where(block)


def test_the_readme_has_its_two_commands_each_on_one_line() -> None:
    for name in ("try", "test"):
        line = commands.command(ROOT / "README.md", name)
        assert line.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert docs.SAMPLE in commands.command(ROOT / "README.md", "try")


def test_the_first_screen_of_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = text[: text.index("<!-- command: test -->")]
    assert first.count(".svg)") == 1
    assert len(first.split()) < 110


@pytest.fixture(scope="module")
def made() -> dict[Path, str]:
    return docs.pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_generated_parts_are_as_the_code_says(page: Path, made: dict[Path, str]) -> None:
    assert page.read_text(encoding="utf-8") == made.get(page, page.read_text(encoding="utf-8")), (
        "run: python scripts/docs.py"
    )


def test_the_picture_shows_the_report_of_today() -> None:
    assert picture.is_fresh(), "run: python scripts/picture.py"


def test_the_picture_asks_nothing_of_the_network() -> None:
    text = picture.TARGET.read_text(encoding="utf-8")
    for reference in ("href", "src=", "url(http", "@import", "@font-face", "<script", "<image"):
        assert reference not in text, reference


def test_fields_and_options_are_all_described(made: dict[Path, str]) -> None:
    cli = made[ROOT / "docs" / "cli.md"]
    for option in (
        "-o, --output FILE",
        "--format text\\|json\\|md",
        "--compile-log PATH",
        "--cold",
        "-m MODULE",
    ):
        assert f"| `{option}" in cli, option
    assert made[ROOT / "docs" / "json.md"].count("\n### ") > 30


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as the usual Markdown sites make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    heads = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    explicit = re.findall(r'<a (?:id|name)="([^"]+)"', text)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads} | set(explicit)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for match in LINK.finditer(page.read_text(encoding="utf-8")):
        target, _, anchor = match["target"].partition("#")
        if "://" in target:
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), match[0]
        if anchor:
            assert anchor in anchors(file), match[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_is_reached_from_the_index(page: Path) -> None:
    if page.parent.name == "docs" and page.name != "index.md":
        assert f"({page.name})" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


def test_what_the_first_report_takes_up_is_in_the_sample() -> None:
    text = (ROOT / "docs" / "first-report.md").read_text(encoding="utf-8")
    codes = set(re.findall(r"^(?:Take|Or) `([a-z-]+)`:", text, re.MULTILINE))
    assert len(codes) == 2
    assert codes <= {finding.code for finding in docs.sample_report().findings}


def test_every_cause_of_idle_time_and_every_finding_has_its_words() -> None:
    idle = (ROOT / "docs" / "idle.md").read_text(encoding="utf-8")
    for cause in CAUSES:
        assert f"\n| {cause} | " in idle, cause
    findings = anchors(ROOT / "docs" / "findings.md")
    for code in get_args(schema.FindingCode):
        assert code in findings, code
