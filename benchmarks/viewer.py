"""The viewer's figures: opening, viewport answers, memory, frames a second.

    python benchmarks/viewer.py TRACE [--synthetic 30000000] [--windows 200]

TRACE is opened twice, so that the second time it comes from the store. Peers are measured in the same
run where they are installed: the trace processor of the ``perfetto`` package, if its binary is there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

SRC = Path(__file__).resolve().parents[1] / "src"
PIXELS = 2000
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
FRAMES = """async ([seconds, kind]) => {
    const { view, tiles } = globalThis.kinetoscope;
    const begin = performance.now(), times = [];
    let last = begin, turn = 0, most = 0;
    while (last - begin < seconds * 1000) {
        turn++;
        if (kind === "pan") view.pan(Math.floor(turn / 60) % 2 ? -0.01 : 0.01);
        else view.zoom(Math.floor(turn / 40) % 2 ? 1.03 : 1 / 1.03);
        const now = await new Promise(requestAnimationFrame);
        times.push(now - last);
        last = now;
        most = Math.max(most, tiles.current?.x0.length ?? 0);
    }
    times.shift();
    times.sort((one, other) => one - other);
    return { frames: times.length, per_second: 1000 * times.length / times.reduce((a, b) => a + b, 0),
        p95_ms: times[Math.floor(times.length * 0.95)], pieces: most };
}"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path, nargs="?")
    parser.add_argument("--synthetic", type=int, default=0, metavar="N", help="also N made-up slices")
    parser.add_argument("--windows", type=int, default=200)
    parser.add_argument("--no-browser", action="store_true")
    options = parser.parse_args()
    sys.path.insert(0, str(SRC))
    found: dict[str, Any] = {}
    if options.trace is not None:
        found["opened"] = [opened(options.trace, browse=not options.no_browser) for _ in range(2)]
        found["viewport"] = viewport(options.trace, options.windows)
        found["peer"] = peer(options.trace)
    if options.synthetic:
        found["synthetic"] = synthetic(options.synthetic, options.windows)
    print(json.dumps(found, indent=2))


def opened(trace: Path, *, browse: bool) -> dict[str, Any]:
    """Start the viewer as a person does; from there to what is on the screen."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "kinetoscope", "view", "--no-browser", str(trace)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )
    try:
        assert process.stdout is not None
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address is not None
        found: dict[str, Any] = {"address_s": round(time.perf_counter() - began, 3)}
        if browse:
            found |= browsed(address.group(0), began)
        while (state := status(address.group(0)))["state"] not in ("ready", "failed"):
            time.sleep(0.05)
        found |= {"state": state["state"], "server": state["took"], "server_rss_mb": rss_mb(process.pid)}
        return found
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(120)  # the store may still be written


def status(address: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{address}api/status") as answer:
        return json.load(answer)  # type: ignore[no-any-return]


def rss_mb(pid: int) -> dict[str, int]:
    """Highest resident memory so far; of it what is not the mapped store."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = {name: int(value) // 1024 for name, value in re.findall(r"(VmHWM|RssAnon):\s+(\d+)", text)}
    return {"peak": found["VmHWM"], "anonymous": found["RssAnon"]}


def browsed(address: str, began: float) -> dict[str, Any]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return {"browser": "playwright is not installed"}
    if chromium is None:
        return {"browser": "chromium is not installed"}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        started = time.perf_counter()
        page = browser.new_page(viewport={"width": 1920, "height": 1080})
        page.set_default_timeout(180_000)
        page.goto(f"{address}#/timeline")
        page.wait_for_selector(".loading, .timeline")
        found: dict[str, Any] = {
            "browser_start_s": round(started - began, 3),
            "something_after_s": round(time.perf_counter() - started, 3),
        }
        page.wait_for_selector(".timeline[data-settled=true]")
        found["timeline_after_s"] = round(time.perf_counter() - started, 3)
        page.goto(f"{address}#/overview")
        page.wait_for_selector(".overview h1")
        found["overview_after_s"] = round(time.perf_counter() - started, 3)
        page.goto(f"{address}#/timeline")
        page.wait_for_selector(".timeline[data-settled=true]")
        page.evaluate("kinetoscope.view.zoom(0.25)")
        page.wait_for_timeout(1000)
        found["frames"] = {kind: page.evaluate(FRAMES, [4, kind]) for kind in ("pan", "zoom")}
        browser.close()
    return found


def viewport(trace: Path, windows: int) -> dict[str, Any]:
    """Whole answers of the server, bytes made, without the way to the browser."""
    from kinetoscope.ingest.capture_directory import LogShelf, find_inputs
    from kinetoscope.viewer import api
    from kinetoscope.viewer.session import Session

    session = Session(find_inputs([str(trace)])[0], LogShelf())
    session.run()
    timeline = session.timeline
    lanes = f"0-{len(timeline.lanes) + 8}"
    sizes: list[int] = []

    def ask(begin: float, end: float) -> None:
        wanted = {"begin": begin, "end": end, "pixel": (end - begin) / PIXELS, "lanes": lanes}
        sizes.append(len(api.tiles(session, {name: str(value) for name, value in wanted.items()})))

    found = timed(ask, timeline.extent_ns, windows)
    return {
        "slices": len(timeline.lanes.row),
        "lanes": len(timeline.lanes),
        **found,
        "max_kb": max(sizes) // 1000,
    }


def synthetic(count: int, windows: int) -> dict[str, Any]:
    """Pieces of made-up lanes: bursts, gaps of every size, 28 lanes."""
    from kinetoscope.viewer.lanes import single_lanes
    from kinetoscope.viewer.pyramid import build
    from kinetoscope.viewer.tiles import query

    random = np.random.default_rng(0)
    groups = []
    for _ in range(28):
        size = count // 28
        dur = random.lognormal(8, 1.2, size).astype(np.int64) + 1
        gap = random.exponential(2000, size).astype(np.int64)
        gap[random.random(size) < 1e-4] += 3_000_000
        end = np.cumsum(dur + gap)
        groups.append((end - dur, end))
    lanes = single_lanes(groups)
    del groups
    began = time.perf_counter()
    pyramid = build(lanes)
    built = time.perf_counter() - began
    wanted = np.arange(len(lanes))
    extent = int(lanes.start_ns.min()), int(lanes.end_ns.max())

    def ask(begin: float, end: float) -> None:
        query(pyramid, wanted, begin, end, (end - begin) / PIXELS)

    return {
        "slices": len(lanes.row),
        "build_s": round(built, 2),
        "pyramid_mb": pyramid.nbytes // 10**6,
        **timed(ask, extent, windows),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def timed(ask: Any, extent: tuple[int, int], windows: int) -> dict[str, float]:
    random = np.random.default_rng(3)
    low, high = extent
    spent = []
    for _ in range(windows):
        width = (high - low) * 10 ** random.uniform(-5, 0)
        begin = low + random.uniform(0, 1) * (high - low - width)
        start = time.perf_counter()
        ask(begin, begin + width)
        spent.append((time.perf_counter() - start) * 1000)
    median, high95 = np.percentile(spent, [50, 95])
    return {"median_ms": round(median, 1), "p95_ms": round(high95, 1), "max_ms": round(max(spent), 1)}


def peer(trace: Path) -> dict[str, Any] | str:
    binary = shutil.which("trace_processor_shell") or shutil.which("trace_processor")
    if binary is None:
        return "no trace processor is installed"
    began = time.perf_counter()
    subprocess.run([binary, "-Q", "select count(*) from slice", str(trace)], check=True, capture_output=True)
    return {"trace_processor_s": round(time.perf_counter() - began, 1)}


if __name__ == "__main__":
    main()
