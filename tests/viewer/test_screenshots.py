"""The pictures of the documentation: there, small, shown somewhere, and made by the script that says so."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from viewer.conftest import IN_CI, ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _script() -> Any:
    spec = importlib.util.spec_from_file_location("screenshots", ROOT / "scripts" / "screenshots.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["screenshots"] = module  # where its dataclass looks for its names
    spec.loader.exec_module(module)
    return module


screenshots = _script()
NAMES = [screenshots.file_name(shot, scheme) for shot in screenshots.SHOTS for scheme in screenshots.SCHEMES]


def size(path: Path) -> tuple[int, int]:
    """Width and height of an extended WebP picture, which is what Chromium writes."""
    data = path.read_bytes()
    assert (data[:4], data[8:16]) == (b"RIFF", b"WEBPVP8X")
    return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")


@pytest.mark.parametrize("name", NAMES)
def test_every_picture_is_there_small_and_shown(name: str) -> None:
    path = screenshots.TARGET / name
    assert path.is_file(), "run: python scripts/screenshots.py"
    assert path.stat().st_size <= screenshots.LIMIT_BYTES
    assert size(path)[0] == 1920
    assert any(f"img/{name}" in page.read_text(encoding="utf-8") for page in PAGES)


def test_every_picture_that_is_shown_is_made_here() -> None:
    shown = {
        name
        for page in PAGES
        for name in re.findall(r"img/(viewer-[\w-]+\.\w+)", page.read_text(encoding="utf-8"))
    }
    assert shown == set(NAMES)
    assert {path.name for path in screenshots.TARGET.glob("viewer-*")} == shown


def test_every_picture_is_described() -> None:
    for page in PAGES:
        for tag in re.findall(r"<img [^>]*viewer-[^>]*>", page.read_text(encoding="utf-8")):
            described = re.search(r'alt="([^"]+)"', tag)
            assert described is not None
            assert len(described[1]) > 40


@pytest.mark.skipif(
    not IN_CI and shutil.which("chromium") is None and shutil.which("google-chrome") is None,
    reason="Chromium is not installed",
)
def test_the_script_takes_them(tmp_path: Path) -> None:
    if not IN_CI:
        pytest.importorskip("playwright")
    # a process of its own: the tests' browser is driven in this one
    script = [sys.executable, str(ROOT / "scripts" / "screenshots.py")]
    subprocess.run([*script, "--to", str(tmp_path), "--only", "timeline"], check=True, timeout=60)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == ["viewer-timeline-dark.webp", "viewer-timeline-light.webp"]
    assert all(size(tmp_path / name) == (1920, 1350) for name in made)


def test_the_timeline_s_picture_shows_a_kernel_with_its_line(browser: Any) -> None:
    shot = next(shot for shot in screenshots.SHOTS if shot.name == "timeline")
    page = browser.new_page(viewport={"width": shot.width, "height": shot.height})
    with screenshots.served() as url:
        screenshots.prepare(page, url, shot)
        details = page.inner_text(".details")
        assert shot.kernel in details
        assert re.search(r"Source\s+workloads\.py:\d+", details)
        assert page.evaluate("kinetoscope.arrows().length") > 0
        assert page.evaluate("kinetoscope.scroll.scrollTop") == 0
    page.close()
