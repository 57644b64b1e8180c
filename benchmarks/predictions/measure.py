"""Measure every pair here: truths in processes without a profiler, and captures of each *before*.

Usage: python benchmarks/predictions/measure.py OUT [--captures 3] [--repeats 3] [--seconds N]
                                                [--only PAIR ...]

Needs a GPU, torch and the standard library. A truth comes from a process that was forked from one which
had only imported torch, so that no profiler ever ran in it; sides alternate. All processes of a batch start
side by side and are then timed one by one; a pair stays on one device, and each device is fed from cores of
its own. One process is some percent faster than the next, so there are several of each side, and several
captures, all made by `kinetoscope run`: OUT/<pair>/ is the one whose step without a profiler is nearest to
the median of the truths of that side (which says nothing of the other side), of the calm ones if one of these
is near. Where others slowed the cores down meanwhile, it is measured again, until there are so many calm ones
or the time is up. A later run with the same OUT goes on. Programs that failed are named on stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs import Job, Lane, captured, forked, gates_in, lanes, run_all

_HERE = Path(__file__).resolve().parent
_STEPS = 20
# Of a fixed loop, against its usual time on this machine.
_CALM = 1.25
# A capture on a core that others slowed down is chosen only if no other is as near to the truths as this:
# what slows memory or the device down is not seen in a loop.
_NEAR = 0.15
_CALM_ROUND = 1.15
# Of parts of the steps that a capture timed, the slowest against the median.
_EVEN, _PARTS = 1.15, 4
# A program whose steps differ on their own is not captured for ever.
_TRIES = 3
# Less is not enough for a round.
_ROUND_S = 60.0
_BEGAN = time.monotonic()


@dataclass
class Measured:
    """What there is so far: {pair: {side: [what `_summary` says of each process]}}."""

    folder: Path
    usual_spin_ns: float
    truths: dict[str, dict[str, list[Any]]]
    lock: threading.Lock = field(default_factory=threading.Lock)

    def without_truths(self, names: Sequence[str], wanted: int) -> list[str]:
        """Pairs that have fewer calm processes of a side than this."""
        return [name for name in names if min(map(len, self.truths[name].values())) < wanted]

    def without_captures(self, names: Sequence[str], wanted: int) -> list[str]:
        """Pairs that have fewer calm captures than this, and have not been tried often."""
        missing = []
        for name in names:
            found = candidates(self.folder, name, self.usual_spin_ns)
            if sum(each.is_calm for each in found) < wanted and len(found) < _TRIES * wanted:
                missing.append(name)
        return missing

    def save(self) -> None:
        result = {"pairs": self.truths, "machine": _machine(), "usual_spin_ns": self.usual_spin_ns}
        (self.folder / "truths.json").write_text(json.dumps(result))


@dataclass(frozen=True, order=True)
class Candidate:
    """A capture of a pair: its step without a profiler, and whether the machine was calm."""

    before_ns: int
    is_calm: bool
    path: Path


def candidates(folder: Path, pair: str, usual_spin_ns: float) -> list[Candidate]:
    """The captures of a pair that there are, the fastest first."""
    found = []
    for manifest in sorted((folder / "candidates").glob(f"{pair}.*/manifest.json")):
        said = json.loads(manifest.read_text())
        before = (said.get("steps") or {}).get("before") or {}
        if said["status"] != "complete" or not before.get("mean_ns"):
            continue
        spins = [
            said["calibration"][when]["spin_ns"]
            for when in ("before", "after")
            if when in said["calibration"]
        ]
        is_calm = all(spin <= _CALM * usual_spin_ns for spin in spins) and is_even(before["host_ns"])
        found.append(Candidate(before["mean_ns"], is_calm, manifest.parent))
    return sorted(found)


def is_even(host_ns: Sequence[int]) -> bool:
    """Whether no part of the timed steps was much slower than the others."""
    size = max(1, len(host_ns) // _PARTS)
    parts = [statistics.fmean(host_ns[at : at + size]) for at in range(0, size * _PARTS, size)]
    return max(parts) <= _EVEN * statistics.median(parts)


def nearest(found: Sequence[Candidate], usual_ns: float) -> Candidate:
    """The capture that is kept."""

    def off(one: Candidate) -> float:
        return abs(one.before_ns - usual_ns)

    calm = [one for one in found if one.is_calm and off(one) <= _NEAR * usual_ns]
    return min(calm or found, key=off)


def choose(measured: Measured, pair: str) -> None:
    """Keep as OUT/<pair> the capture whose step without a profiler is nearest to the truths of that side."""
    folder = measured.folder
    found = candidates(folder, pair, measured.usual_spin_ns)
    truths = measured.truths[pair]["before"]
    if found and truths:
        usual_ns = 1e6 * statistics.median(each["median_ms"] for each in truths)
        chosen = nearest(found, usual_ns).path
        shutil.rmtree(folder / pair, ignore_errors=True)
        shutil.copytree(chosen, folder / pair, ignore=shutil.ignore_patterns("compile_log"))
        steps = " ".join(f"{one.before_ns / 1e6:.3f}{'' if one.is_calm else ' (not calm)'}" for one in found)
        _say(f"{pair}: {steps} ms, kept {chosen.name}")


def _say(text: str) -> None:
    print(f"{time.monotonic() - _BEGAN:6.1f} s  {text}", file=sys.stderr, flush=True)


def batches(names: Sequence[str], size: int, end: float) -> Iterator[Sequence[str]]:
    """So many at a time, while there is time for one."""
    for first in range(0, len(names), size):
        if time.monotonic() + _ROUND_S / 2 < end:
            yield names[first : first + size]


def make_captures(folder: Path, where: dict[str, Lane], warmups: dict[str, int], end: float) -> None:
    """One more of each of these pairs, in its lane."""
    gates = gates_in(folder)
    jobs = []
    for name, lane in where.items():
        into = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=folder / "candidates"))
        options = ("--warmup", str(warmups[name]), "--steps", str(_STEPS))
        jobs.append(captured(name, lane, gates, into, options, 3 * warmups[name] + 5 * _STEPS))
    run_all(jobs, lambda job: None, end)


def measure_truths(measured: Measured, where: dict[str, Lane], end: float) -> None:
    """One more process of each side of these pairs, each pair in its lane."""
    gates = gates_in(measured.folder)
    jobs, known = [], {}
    for name, lane in where.items():
        for side in ("before", "after"):
            job_name = f"{name}-{side}"
            times = gates / f"{job_name}.json"
            known[job_name] = (name, side, times)
            jobs.append(forked(job_name, lane, gates, [name, side, "--times", str(times)]))

    def done(job: Job) -> None:
        name, side, times = known[job.name]
        summary = _summary(json.loads(times.read_text()), measured.usual_spin_ns)
        if summary is not None:
            with measured.lock:
                measured.truths[name][side].append(summary)

    run_all(jobs, done, end)
    measured.save()


def _summary(rounds: Sequence[dict[str, float]], usual_spin_ns: float) -> dict[str, float] | None:
    """Milliseconds a step of the rounds in which the core had its usual speed; None if it never had."""
    calm = [each["ms"] for each in rounds if each["spin_ns"] <= _CALM_ROUND * usual_spin_ns]
    if not calm:
        return None
    return {
        "median_ms": round(statistics.median(calm), 5),
        "low_ms": round(min(calm), 5),
        "high_ms": round(max(calm), 5),
        "calm_rounds": len(calm),
        "rounds": len(rounds),
    }


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
    parser.add_argument("--repeats", type=int, default=3, help="calm processes of each side")
    parser.add_argument("--captures", type=int, default=3, help="calm captures of each pair")
    parser.add_argument("--only", nargs="*")
    parser.add_argument(
        "--batch", type=int, default=15, help="pairs whose processes wait at their gates at once"
    )
    parser.add_argument("--lanes", type=int, default=2, help="devices that are used at once, at most")
    parser.add_argument("--seconds", type=float, default=3600.0, help="time for all")
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

    usual = min(min(core_speeds().values()) for _ in range(3))
    os.environ["PREDICTIONS_SPIN_NS"] = str(usual)
    if torch.cuda.is_initialized():
        raise SystemExit("the device was initialised by an import: processes cannot be forked from this")
    names = options.only or list(PAIRS)
    warmups = {name: pair.warmup for name, pair in PAIRS.items()}
    used = lanes(options.lanes)
    # always the same device for a pair, whichever are measured
    where = {name: used[number % len(used)] for number, name in enumerate(PAIRS)}
    kept = folder / "truths.json"
    known = json.loads(kept.read_text())["pairs"] if kept.exists() else {}
    measured = Measured(folder, usual, {name: {"before": [], "after": []} for name in names} | known)
    (folder / "candidates").mkdir(exist_ok=True)
    end = _BEGAN + options.seconds
    # every pair gets its first before any gets its second
    captures = truths = 1
    while time.monotonic() + _ROUND_S < end and (captures <= options.captures or truths <= options.repeats):
        some = measured.without_captures(names, captures) if captures <= options.captures else []
        for batch in batches(some, options.batch, end):
            make_captures(folder, {name: where[name] for name in batch}, warmups, end)
            _say(f"captures {captures}: {len(batch)} more")
        captures += not some
        some = measured.without_truths(names, truths) if truths <= options.repeats else []
        for batch in batches(some, options.batch, end):
            measure_truths(measured, {name: where[name] for name in batch}, end)
            _say(f"truths {truths}: {len(batch)} more")
        truths += not some
    for name in names:
        choose(measured, name)
    _say("measured")


if __name__ == "__main__":
    main()
