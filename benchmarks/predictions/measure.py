"""Measure every pair here: truths in processes without a profiler, and captures of each *before*.

Usage: python benchmarks/predictions/measure.py OUT [--captures 3] [--repeats 3] [--seconds N]
                                                [--only PAIR ...]

Needs a GPU, torch and the standard library. A truth comes from a process that was forked from one which
had only imported torch, so that no profiler ever ran in it; sides alternate. All processes of a batch start
side by side and are then timed one by one. One process is some percent faster than the next, so there are
several of each side, and several captures, all made by `kinetoscope run`: OUT/<pair>/ is the one whose step
without a profiler is the median of them. A later run with the same OUT adds truths to OUT/truths.json and
captures to choose from. Programs that failed are named on stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_SOURCE = _HERE.parents[1] / "src"
_START_S, _RUN_S = 150.0, 60.0
_STEPS = 20
# A capture on a core that others slowed down is chosen only if all were.
_CALM = 1.25
_CALM_ROUND = 1.15


@dataclass
class Job:
    """A process that waits at its gate: what it writes, and how to see whether it lives."""

    name: str
    gate: Path
    log: Path
    poll: Callable[[], int | None]
    kill: Callable[[], None]

    def is_ready(self, until: float) -> bool:
        """Whether it stands at its gate, by this time at the latest."""
        while not self.gate.with_name(self.gate.name + ".ready").exists():
            if self.poll() is not None or time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True

    def go(self) -> bool:
        """Let it through and wait for its end; whether it ended well."""
        self.gate.with_name(self.gate.name + ".go").touch()
        until = time.monotonic() + _RUN_S
        while (status := self.poll()) is None:
            if time.monotonic() > until:
                self.kill()
                return False
            time.sleep(0.01)
        return status == 0

    def complain(self) -> None:
        """What it said last."""
        said = self.log.read_text(errors="replace").strip().splitlines()[-12:] if self.log.exists() else []
        print(f"FAILED {self.name} (status {self.poll()}):", *said, sep="\n  ", file=sys.stderr, flush=True)
        self.kill()


def _forked(name: str, gates: Path, arguments: Sequence[str]) -> Job:
    gate, log = gates / name, gates / f"{name}.log"
    child = os.fork()
    if child == 0:
        status = 1
        try:
            target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(target, 1)
            os.dup2(target, 2)
            import program

            program.main([*arguments, "--gate", str(gate)])
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    ended: list[int] = []

    def poll() -> int | None:
        if not ended:
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                ended.append(os.waitstatus_to_exitcode(status))
        return ended[0] if ended else None

    def kill() -> None:
        if poll() is None:
            os.kill(child, signal.SIGKILL)

    return Job(name, gate, log, poll, kill)


def _captured(pair: str, warmup: int, folder: Path) -> Job:
    # nothing of an earlier run may open it
    gates = Path(tempfile.mkdtemp(prefix="gates-", dir=folder))
    gate, log = gates / pair, gates / f"{pair}.log"
    into = Path(tempfile.mkdtemp(prefix=f"{pair}.", dir=folder / "candidates"))
    with log.open("w") as stream:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "kinetoscope", "run", "--no-report", "-o", str(into)),
                *("--warmup", str(warmup), "--steps", str(_STEPS)),
                *(str(_HERE / "program.py"), pair, "before", "--gate", str(gate)),
                *("--steps", str(3 * warmup + 5 * _STEPS)),
            ],
            env={**os.environ, "PYTHONPATH": str(_SOURCE)},
            stdout=stream,
            stderr=stream,
        )
    return Job(pair, gate, log, process.poll, process.kill)


def choose(folder: Path, pair: str) -> None:
    """Keep the median of the pair's captures, by its steps without a profiler, as OUT/<pair>."""
    found = []
    for manifest in sorted((folder / "candidates").glob(f"{pair}.*/manifest.json")):
        said = json.loads(manifest.read_text())
        before = (said.get("steps") or {}).get("before") or {}
        spins = [
            said["calibration"][when]["spin_ns"]
            for when in ("before", "after")
            if when in said["calibration"]
        ]
        if said["status"] == "complete" and before.get("mean_ns"):
            is_calm = all(spin <= _CALM * _usual_spin_ns() for spin in spins)
            found.append((before["mean_ns"], is_calm, said["started"], manifest.parent))
    calm = sorted(one for one in found if one[1]) or sorted(found)
    if calm:
        # of two in the middle the one made first, which is neither the faster nor the slower on purpose
        middle = calm[(len(calm) - 1) // 2 : len(calm) // 2 + 1]
        chosen = min(middle, key=lambda one: one[2])[3]
        shutil.rmtree(folder / pair, ignore_errors=True)
        shutil.copytree(chosen, folder / pair, ignore=shutil.ignore_patterns("compile_log"))
        steps = " ".join(f"{one[0] / 1e6:.3f}{'' if one[1] else ' (not calm)'}" for one in found)
        _say(f"{pair}: {steps} ms, kept {chosen.name}")


def _run(jobs: Sequence[Job], on_done: Callable[[Job], None]) -> None:
    """Wait until all are ready, then let them through one by one."""
    until = time.monotonic() + _START_S
    ready = []
    for job in jobs:
        if job.is_ready(until):
            ready.append(job)
        else:
            job.complain()
    for job in ready:
        if job.go():
            on_done(job)
        else:
            job.complain()


_BEGAN = time.perf_counter()


def _say(text: str) -> None:
    print(f"{time.perf_counter() - _BEGAN:6.1f} s  {text}", file=sys.stderr, flush=True)


def measure_truths(folder: Path, names: Sequence[str], repeats: int, batch: int, seconds: float) -> None:
    """Adds to OUT/truths.json: {pair: {side: [what `_summary` says of each process]}}."""
    kept = folder / "truths.json"
    truths: dict[str, dict[str, list[Any]]] = json.loads(kept.read_text())["pairs"] if kept.exists() else {}
    for name in names:
        truths.setdefault(name, {"before": [], "after": []})
    longest = 0.0
    for repeat in range(repeats):
        for first in range(0, len(names), batch // 2):
            began = time.perf_counter()
            if began - _BEGAN + longest > seconds:
                _say("no time for more")
                return
            jobs, where = [], {}
            gates = Path(tempfile.mkdtemp(prefix="gates-", dir=folder))
            for name in names[first : first + batch // 2]:
                for side in ("before", "after"):
                    job_name = f"{name}-{side}"
                    times = gates / f"{job_name}.json"
                    where[job_name] = (name, side, times)
                    jobs.append(_forked(job_name, gates, [name, side, "--times", str(times)]))

            def done(job: Job, where: dict[str, tuple[str, str, Path]] = where) -> None:
                name, side, times = where[job.name]
                summary = _summary(json.loads(times.read_text()))
                if summary is not None:
                    truths[name][side].append(summary)

            _run(jobs, done)
            _say(f"truths: round {repeat + 1} of {repeats}, {min(first + batch // 2, len(names))} pairs")
            result = {"pairs": truths, "machine": _machine(), "usual_spin_ns": _usual_spin_ns()}
            kept.write_text(json.dumps(result))
            longest = max(longest, time.perf_counter() - began)


def _summary(rounds: Sequence[dict[str, float]]) -> dict[str, float] | None:
    """Milliseconds a step of the rounds in which the core had its usual speed; None if it never had."""
    calm = [each["ms"] for each in rounds if each["spin_ns"] <= _CALM_ROUND * _usual_spin_ns()]
    if not calm:
        return None
    return {
        "median_ms": round(statistics.median(calm), 5),
        "low_ms": round(min(calm), 5),
        "high_ms": round(max(calm), 5),
        "calm_rounds": len(calm),
        "rounds": len(rounds),
    }


def _usual_spin_ns() -> float:
    return float(os.environ["PREDICTIONS_SPIN_NS"])


def _machine() -> dict[str, str]:
    import torch

    known = {"torch": torch.__version__, "python": sys.version.split()[0]}
    command = shutil.which("nvidia-smi")
    if command is not None:
        asked = "--query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu"
        said = subprocess.run(
            [command, asked, "--format=csv,noheader"], capture_output=True, text=True, check=False
        )
        known["device"] = said.stdout.strip()
    return known


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--batch", type=int, default=30)
    parser.add_argument("--captures", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing that ends later")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    folder = options.out.resolve()
    # one process compiles alone: pools of compiling processes would fill the machine
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder / "cache"))
    sys.path.insert(0, str(_HERE))
    os.environ["PYTHONPATH"] = str(_HERE)
    # asks for the device without initialising it: an initialised one does not survive a fork
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    import torch._dynamo
    import torch._inductor.compile_fx
    from catalogue import PAIRS
    from program import core_speeds

    os.environ["PREDICTIONS_SPIN_NS"] = str(min(min(core_speeds().values()) for _ in range(3)))
    names = options.only or list(PAIRS)
    (folder / "candidates").mkdir(exist_ok=True)
    longest = 0.0
    for number in range(options.captures):
        began = time.perf_counter()
        if began - _BEGAN + longest > options.seconds:
            break
        _run([_captured(name, PAIRS[name].warmup, folder) for name in names], lambda job: None)
        longest = max(longest, time.perf_counter() - began)
        _say(f"captures: round {number + 1} of {options.captures}")
    for name in names:
        choose(folder, name)
    if torch.cuda.is_initialized():
        raise SystemExit("the device was initialised by an import: processes cannot be forked from this")
    measure_truths(folder, names, options.repeats, options.batch, options.seconds)


if __name__ == "__main__":
    main()
