"""Programs that warm up side by side and are then timed one by one on each device."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Job", "Lane", "captured", "forked", "gates_in", "lanes", "run_all"]

_HERE = Path(__file__).resolve().parent
_SOURCE = _HERE.parents[1] / "src"
_START_S, _RUN_S = 150.0, 60.0


@dataclass(frozen=True)
class Lane:
    """A device, and the cores from which it is fed: what runs in one lane does not disturb another."""

    device: str
    cores: frozenset[int]


def lanes(most: int) -> list[Lane]:
    """One for each device that may be used. A shared core stays within one lane: siblings are neighbours."""
    import torch

    shown = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(torch.cuda.device_count())))
    devices = shown.split(",")[:most]
    cores = sorted(os.sched_getaffinity(0))
    size = len(cores) // len(devices)
    return [
        Lane(device, frozenset(cores[number * size : (number + 1) * size]))
        for number, device in enumerate(devices)
    ]


@dataclass
class Job:
    """A process that waits at its gate: what it writes, and how to see whether it lives."""

    name: str
    lane: Lane
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
        said = self.log.read_text(errors="replace").strip().splitlines()[-25:] if self.log.exists() else []
        print(f"FAILED {self.name} (status {self.poll()}):", *said, sep="\n  ", file=sys.stderr, flush=True)
        self.kill()


def gates_in(folder: Path) -> Path:
    """A new folder for gates, since nothing of an earlier run may open them."""
    return Path(tempfile.mkdtemp(prefix="gates-", dir=folder))


def forked(name: str, lane: Lane, gates: Path, arguments: Sequence[str]) -> Job:
    """`program.py`, without a profiler, in a child of this process, which has imported torch."""
    gate, log = gates / name, gates / f"{name}.log"
    child = os.fork()
    if child == 0:
        status = 1
        try:
            target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(target, 1)
            os.dup2(target, 2)
            os.environ["CUDA_VISIBLE_DEVICES"] = lane.device
            os.sched_setaffinity(0, lane.cores)
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

    return Job(name, lane, gate, log, poll, kill)


def captured(pair: str, lane: Lane, gates: Path, into: Path, options: Sequence[str], steps: int) -> Job:
    """`kinetoscope run` of the pair's *before*."""
    gate, log = gates / pair, gates / f"{pair}.log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "kinetoscope", "run", "--no-report", "-o", str(into), *options),
                *(str(_HERE / "program.py"), pair, "before", "--gate", str(gate), "--steps", str(steps)),
            ],
            env={
                **os.environ,
                "PYTHONPATH": str(_SOURCE),
                "PYTHONFAULTHANDLER": "1",
                "CUDA_VISIBLE_DEVICES": lane.device,
            },
            stdout=stream,
            stderr=stream,
        )
    # before it has started its threads, which take over what it may use
    os.sched_setaffinity(process.pid, lane.cores)
    return Job(pair, lane, gate, log, process.poll, process.kill)


def run_all(jobs: Sequence[Job], on_done: Callable[[Job], None], end: float) -> None:
    """Wait until all are ready, then let them through one by one in each lane; those left at the end go."""
    until = min(end, time.monotonic() + _START_S)
    ready = []
    for job in jobs:
        if job.is_ready(until):
            ready.append(job)
        else:
            job.complain()

    def through(lane: Lane) -> None:
        for job in ready:
            if job.lane != lane:
                continue
            if time.monotonic() > end:
                job.kill()
            elif job.go():
                on_done(job)
            else:
                job.complain()

    used = {job.lane: None for job in ready}
    with ThreadPoolExecutor(max_workers=max(1, len(used))) as pool:
        list(pool.map(through, used))
    for gates in {job.gate.parent for job in jobs}:
        shutil.rmtree(gates, ignore_errors=True)
