"""The viewer's figures: opening beside peers, viewport answers, memory, frames a second.

    python benchmarks/viewer.py TRACE... [--peer-venv DIR] [--table PAGE] [--synthetic 30000000]

A trace is opened from the store, as every time but the first. Needs playwright and Chromium. Peers
(``pip install viztracer torch-tb-profiler tensorboard`` into an environment of their own) are measured in the
same run, ours before and after them. The ``perfetto`` package is no peer: it downloads its program.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import ingest
import numpy as np
import viewer_opening as opening

SRC = opening.SRC
PIXELS = 2000
MARKS = ("<!-- benchmark: viewer begin -->\n", "<!-- benchmark: viewer end -->\n")
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
    add = parser.add_argument
    add("traces", type=Path, nargs="*", metavar="TRACE")
    add("--peers", action="store_true", help="open the traces with the peers that are installed as well")
    add(
        "--peer-venv",
        type=Path,
        metavar="DIR",
        help="their environment; else they are looked for on PATH",
    )
    add("--table", type=Path, metavar="PAGE", help="put the openings as a table into this page")
    add("--synthetic", type=int, default=0, metavar="N", help="also N made-up slices")
    add("--windows", type=int, default=200, help="viewports asked of the server")
    options = parser.parse_args()
    sys.path.insert(0, str(SRC))
    results = [(trace, openings(trace, options)) for trace in options.traces]
    found: dict[str, Any] = {
        "opened": [[str(trace), *map(asdict, opened)] for trace, opened in results],
        "viewport": [viewport(trace, options.windows) for trace in options.traces],
        "frames": [frames(trace) for trace in options.traces],
    }
    if options.synthetic:
        found["synthetic"] = synthetic(options.synthetic, options.windows)
    print(json.dumps(found, indent=2))
    if options.table is not None:
        text = f"{ingest.machine()}; load {os.getloadavg()[0]:.1f} at the end.\n\n{opening.table(results)}\n"
        ingest.put(text, options.table, MARKS)


def openings(trace: Path, options: argparse.Namespace) -> list[opening.Opened]:
    """Every viewer on one trace, ours twice: before the peers, and after."""
    from playwright.sync_api import sync_playwright

    subprocess.run(  # writes the store, as the first report or view of a trace does
        [sys.executable, "-m", "kinetoscope", "report", "--format", "json", "-o", os.devnull, str(trace)],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        check=True,
    )
    with sync_playwright() as playwright:

        def browse() -> Any:
            return opening.browser_page(playwright)

        found = opening.kinetoscope(trace, browse)
        if options.peers or options.peer_venv:
            found += opening.peers(trace, options.peer_venv, browse)
            found = _means(found, opening.kinetoscope(trace, browse))
    return found


def _means(before: list[opening.Opened], again: list[opening.Opened]) -> list[opening.Opened]:
    """Of our own two rounds, the mean time."""
    means = {
        (each.viewer, each.what): replace(each, seconds=(each.seconds + other.seconds) / 2)
        for each in before
        for other in again
        if (each.viewer, each.what) == (other.viewer, other.what) and each.seconds and other.seconds
    }
    return [means.get((each.viewer, each.what), each) for each in before]


def frames(trace: Path) -> dict[str, Any]:
    """Frames a second while panning and zooming."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, opening.browser_page(playwright) as page:
        process = opening.started([sys.executable, "-m", "kinetoscope", "view", "--no-browser", str(trace)])
        try:
            page.goto(f"{opening.address(process)}#/timeline")
            page.wait_for_selector(".timeline[data-settled=true]")
            page.evaluate("kinetoscope.view.zoom(0.25)")
            page.wait_for_timeout(1000)
            return {kind: page.evaluate(FRAMES, [4, kind]) for kind in ("pan", "zoom")}
        finally:
            opening.stop(process)


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


if __name__ == "__main__":
    main()
