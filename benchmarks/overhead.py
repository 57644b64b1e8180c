"""What watching costs: steps under ``kinetoscope run`` beside the same steps without it.

Runs ``overhead_program.py`` in fresh processes, started together and timed one by one, in turn
plain, profiled by torch.profiler alone, and under ``kinetoscope run``, and prints the ratios of
medians with a bootstrap 95 % interval:

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
import time
from pathlib import Path

PROGRAM = Path(__file__).with_name("overhead_program.py")


class Run:
    """One process, started at once and let into its timed steps later."""

    def __init__(self, command: list[str], where: Path, name: str, extra: list[str]) -> None:
        self.out = where / f"{name}.json"
        self.gate = where / name
        self.process = subprocess.Popen(
            [*command, str(PROGRAM), str(self.out), "--gate", str(self.gate), *extra],
            stdout=subprocess.DEVNULL,
        )

    def wait_ready(self) -> None:
        while not self.gate.with_suffix(".ready").exists():
            if self.process.poll() is not None:
                raise SystemExit(f"{self.process.args}: exit status {self.process.returncode}")
            time.sleep(0.05)

    def times(self) -> list[float]:
        """Let it run to its end, alone; the milliseconds of its steps."""
        self.gate.with_suffix(".go").touch()
        if self.process.wait() != 0:
            raise SystemExit(f"{self.process.args}: exit status {self.process.returncode}")
        found: list[float] = json.loads(self.out.read_text())
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
        started: list[tuple[str, Run, Path]] = []

        def start(kind: str, name: str) -> None:
            capture = where / f"capture-{name}"
            command = [sys.executable]
            if kind == "run":
                command += ["-m", "kinetoscope", "run", "--no-report", "--warmup", "40", "-o", str(capture)]
            extra = [*options.program, *(["--profile"] if kind == "torch" else [])]
            started.append((kind, Run(command, where, name, extra), capture))

        for kind in ("plain", "run"):  # fill the caches: the two sides have keys of their own
            start(kind, f"fill-{kind}")
        for _, run, _ in started:
            run.wait_ready()
            run.times()
        started.clear()
        for number in range(options.rounds):
            for kind in ("plain", "torch", "run"):
                start(kind, f"{number}-{kind}")
        for _, run, _ in started:
            run.wait_ready()
        for kind, run, capture in started:
            runs[kind].append(run.times())
            if kind == "run":
                windows.append(window_of(capture))
    rng = random.Random(0)
    if options.out:
        Path(options.out).write_text(json.dumps({"windows": windows, "step_ms": runs}))
    before = min(first for first, _ in windows)
    plain = [statistics.median(times[8:before]) for times in runs["plain"]]
    watched = [statistics.median(times[8:before]) for times in runs["run"]]
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
    print(json.dumps(table, indent=1))
    if options.out:
        Path(options.out).write_text(json.dumps({**table, "step_ms": runs}, indent=1))


if __name__ == "__main__":
    main()
