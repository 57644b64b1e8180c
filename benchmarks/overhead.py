"""What watching costs: steps under ``kinetoscope run`` beside the same steps without it.

Runs ``overhead_program.py`` in fresh processes, alternating plain, profiled by torch.profiler alone,
and under ``kinetoscope run``, and prints the ratios of medians with a bootstrap 95 % interval:

* an unprofiled step under run (before the window), over the same steps of the plain program;
* a profiled step under run, over a step profiled by torch.profiler alone.

Usage: python benchmarks/overhead.py [--rounds 5] [--out table.json] [-- program options]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = Path(__file__).with_name("overhead_program.py")


def times_of(command: list[str], where: Path, extra: list[str]) -> list[float]:
    out = where / "times.json"
    subprocess.run([*command, str(PROGRAM), str(out), *extra], check=True, stdout=subprocess.DEVNULL)
    found: list[float] = json.loads(out.read_text())
    return found


def window_of(capture: Path) -> tuple[int, int]:
    """First profiled step and the one after the last, from the capture's manifest."""
    manifest = json.loads((capture / "manifest.json").read_text())
    window = manifest["window"]
    first = int(window["first_step"])
    return first, first + int(window["steps"])


def ratio(above: list[float], below: list[float], rng: random.Random) -> dict[str, float]:
    """Ratio of medians over runs, and the 95 % interval of resampled runs."""
    point = statistics.median(above) / statistics.median(below)
    drawn = sorted(
        statistics.median(rng.choices(above, k=len(above)))
        / statistics.median(rng.choices(below, k=len(below)))
        for _ in range(4000)
    )
    return {"ratio": point, "low": drawn[100], "high": drawn[-101]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out")
    parser.add_argument("program", nargs="*", help="options of the program, after --")
    options = parser.parse_args()
    runs: dict[str, list[list[float]]] = {"plain": [], "torch": [], "run": []}
    windows: list[tuple[int, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(where / "cache"))
        for number in range(options.rounds + 1):
            capture = where / f"capture{number}"
            under = [sys.executable, "-m", "kinetoscope", "run", "--no-report", "-o", str(capture)]
            made = {
                "plain": times_of([sys.executable], where, options.program),
                "torch": times_of([sys.executable], where, [*options.program, "--profile"]),
                "run": times_of(under, where, options.program),
            }
            if number == 0:
                continue  # fills the caches
            windows.append(window_of(capture))
            for kind, times in made.items():
                runs[kind].append(times)
    rng = random.Random(0)
    before = min(first for first, _ in windows)
    plain = [statistics.median(times[15:before]) for times in runs["plain"]]
    watched = [statistics.median(times[15:before]) for times in runs["run"]]
    alone = [statistics.median(times[42:60]) for times in runs["torch"]]
    profiled = [
        statistics.median(times[first + 2 : last])
        for times, (first, last) in zip(runs["run"], windows, strict=True)
    ]
    table = {
        "steps_ms": {
            "plain": statistics.median(plain),
            "under run, before the window": statistics.median(watched),
            "torch.profiler alone": statistics.median(alone),
            "profiled under run": statistics.median(profiled),
        },
        "unprofiled_over_plain": ratio(watched, plain, rng),
        "profiled_over_torch_profiler": ratio(profiled, alone, rng),
        "windows": windows,
        "runs": {"plain": plain, "run": watched, "torch": alone, "profiled": profiled},
    }
    text = json.dumps(table, indent=1)
    print(text)
    if options.out:
        Path(options.out).write_text(text)


if __name__ == "__main__":
    main()
