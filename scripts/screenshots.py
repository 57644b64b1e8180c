"""Take the pictures of the viewer from the sample: docs/img/viewer-*.webp, light and dark.

    python scripts/screenshots.py [--to DIRECTORY] [--only NAME]

Needs playwright and Chromium. Fonts differ between machines, so that pictures are never compared by
their pixels: a test takes them anew and looks at what they show.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = "samples/graph_breaks"
TARGET = ROOT / "docs" / "img"
LIMIT_BYTES = 150_000
SCHEMES = ("light", "dark")
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_SCALE = 1.5
_QUALITY = (90, 80, 70, 60, 50)
_PATIENCE_MS = 30_000


@dataclass(frozen=True)
class Shot:
    """One picture: a place of the viewer, and what a person did there.

    ``ready`` is a selector of what has to be there. ``kernel`` is a part of the name of a kernel, of which
    the last run in ``view_ns`` is clicked; that stretch is then shown.
    """

    name: str
    place: str
    ready: str
    width: int = 1280
    height: int = 720
    kernel: str | None = None
    view_ns: tuple[int, int] = (0, 0)


SHOTS = (
    Shot("overview", "overview", ".overview .bar", height=900),
    Shot(
        "timeline",
        "timeline",
        ".timeline[data-settled=true]",
        height=900,
        kernel="triton_poi_fused_addmm_relu_0",
        view_ns=(9_600_000, 13_400_000),
    ),
)


def take(directory: Path, only: str | None = None) -> list[Path]:
    """Take every picture (or one, by its name) in both schemes; the files."""
    from playwright.sync_api import sync_playwright

    directory.mkdir(parents=True, exist_ok=True)
    found = []
    with served() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=list(_FLAGS))
        for shot in SHOTS:
            for scheme in SCHEMES if only in (None, shot.name) else ():
                page = browser.new_page(
                    viewport={"width": shot.width, "height": shot.height},
                    color_scheme=scheme,
                    device_scale_factor=_SCALE,
                )
                page.set_default_timeout(_PATIENCE_MS)
                prepare(page, url, shot)
                found.append(_save(page, directory / file_name(shot, scheme)))
                page.close()
        browser.close()
    return found


def file_name(shot: Shot, scheme: str) -> str:
    """Name of a picture's file."""
    return f"viewer-{shot.name}-{scheme}.webp"


def prepare(page: Any, url: str, shot: Shot) -> None:
    """Bring a page to where its picture is taken."""
    page.goto(f"{url}#/{shot.place}")
    page.wait_for_selector(shot.ready)
    if shot.kernel is not None:
        page.evaluate(_ready())
        page.evaluate(_SELECT, [shot.kernel, *shot.view_ns])
        page.wait_for_selector(".details h2")
    page.wait_for_selector(shot.ready)
    page.wait_for_timeout(600)  # args and arrows of the selection


def _ready() -> str:
    return """async () => {
        while (!globalThis.kinetoscope?.ready) await new Promise(requestAnimationFrame);
    }"""


#: the last run of a kernel in a stretch of time, selected as a click does, and the stretch in view
_SELECT = """async ([name, begin, end]) => {
    const { view, selection, scroll } = globalThis.kinetoscope;
    const asked = new URLSearchParams({ q: name, time: end, direction: "back" });
    const { hit } = await (await fetch(`api/search-step?${asked}`)).json();
    await selection.select(hit.row, true);
    view.set(begin, end);
    scroll.scrollTop = 0;
}"""


def _save(page: Any, path: Path) -> Path:
    """Write a picture as WebP, as good as fits into the limit."""
    session = page.context.new_cdp_session(page)
    clip = {"x": 0, "y": 0, **page.viewport_size, "scale": _SCALE}
    for quality in _QUALITY:
        wanted = {"format": "webp", "quality": quality, "clip": clip}
        answer = session.send("Page.captureScreenshot", wanted)
        data = base64.b64decode(answer["data"])
        if len(data) <= LIMIT_BYTES:
            path.write_bytes(data)
            return path
    raise SystemExit(f"{path.name}: {len(data)} bytes even at quality {_QUALITY[-1]}")


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The viewer of the sample; the address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kinetoscope", "view", "--no-browser", SAMPLE],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        if found is None:
            raise SystemExit("the viewer did not start")
        yield found.group(0)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)
        if process.stdout is not None:
            process.stdout.close()


def _chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if (path := shutil.which(name)) is not None:
            return path
    raise SystemExit("Chromium is not installed")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=TARGET, metavar="DIRECTORY")
    parser.add_argument("--only", choices=[shot.name for shot in SHOTS])
    options = parser.parse_args(arguments)
    for path in take(options.to, options.only):
        print(f"{path}: {path.stat().st_size // 1000} kB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
