"""Capture the planted programs on the machine that has the device, one after the other.

    python tests/programs/planted/capture.py OUT [--only NAME ...] [--ranks] [--seconds N]

Needs torch and the standard library. All programs are started at once, so that they warm up side by side, and
wait at a gate; then each is let through alone. A program that fails or hangs does not stop the others. OUT gets
the capture directories under ``captures/``, and ``planted.tar`` with the traces, which the tests read from
``tests/traces/planted``. Programs that want several devices run only with ``--ranks``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[2] / "src"
SHARED = {"planting", "capture"}
#: the trace of a capture: of one process, or of the first of several
TRACES = ("trace.json.gz", "trace.rank0.json.gz")
LARGEST_BYTES = 300_000
POLL_SECONDS = 0.02


@dataclass
class Program:
    """One program, and its process while it runs."""

    path: Path
    options: list[str]
    ranks: int
    devices: int
    out: Path
    process: subprocess.Popen[bytes] | None = None
    outcome: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def gate(self) -> Path:
        return self.out / "gates" / self.name

    @property
    def directory(self) -> Path:
        return self.out / "captures" / self.name

    @property
    def trace(self) -> Path | None:
        """The trace, if there is one."""
        return next((self.directory / name for name in TRACES if (self.directory / name).exists()), None)

    @property
    def log(self) -> Path:
        return self.out / "logs" / f"{self.name}.txt"

    def command(self) -> list[str]:
        run = ["-m", "kinetoscope", "run", "--no-report", *self.options, "-o", str(self.directory)]
        if self.ranks == 1:
            return [sys.executable, *run, str(self.path)]
        launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={self.ranks}"]
        launcher += ["--master-addr=127.0.0.1", f"--master-port={free_port()}"]
        return [sys.executable, *launcher, *run, str(self.path)]

    def start(self) -> None:
        """Start it in a process group of its own, so that it can be ended with all that it starts."""
        environment = {
            "OMP_NUM_THREADS": "1",
            **os.environ,
            "PYTHONPATH": str(SOURCE),
            "PLANTED_GATE": str(self.gate),
            # shared caches would make one program's warm-up depend on another's
            "TORCHINDUCTOR_CACHE_DIR": str(self.out / "inductor" / self.name),
        }
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                self.command(),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def is_ready(self) -> bool:
        return self.gate.with_name(f"{self.name}.ready").exists()

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def let_through(self) -> None:
        self.gate.with_name(f"{self.name}.go").touch()

    def end(self) -> None:
        """End it, politely first: what it has captured is then saved."""
        assert self.process is not None
        for number, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
                return


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def marks(path: Path) -> dict[str, str]:
    """The comments at the top: ``# NAME: text``."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"# ([A-Z]+): (.*)", line)
        if match is None:
            break
        found[match.group(1)] = match.group(2)
    return found


def programs(out: Path, only: list[str], *, ranks: bool) -> list[Program]:
    """The programs to capture: those named, else all for which there are devices."""
    chosen = []
    for path in sorted(HERE.glob("*.py")):
        if path.stem in SHARED or (only and path.stem not in only):
            continue
        told = marks(path)
        count = re.match(r"(\d+)(?: DEVICES: (\d+))?", told.get("RANKS", "1"))
        assert count is not None, f"{path.name}: RANKS"
        devices = int(count.group(2) or 1)
        if devices > 1 and not ranks and not only:
            continue
        chosen.append(Program(path, told["RUN"].split(), int(count.group(1)), devices, out))
    unknown = set(only) - {program.name for program in chosen}
    if unknown:
        raise SystemExit(f"no such program: {', '.join(sorted(unknown))}")
    return chosen


def wait_for(condition: object, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        if time.monotonic() > end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def warm_up(chosen: list[Program], at_once: int, seconds: float) -> None:
    """Start all, so many at a time, until each waits at its gate, has ended, or took too long."""
    end = time.monotonic() + seconds
    waiting = list(chosen)
    warming: list[Program] = []
    while waiting or warming:
        warming = [program for program in warming if program.is_running() and not program.is_ready()]
        while waiting and len(warming) < at_once:
            program = waiting.pop(0)
            program.start()
            warming.append(program)
        if time.monotonic() > end:
            for program in warming:
                program.notes.append(f"not ready after {seconds:.0f} s")
                program.end()
            for program in waiting:
                program.notes.append("not started: the warm-up of the others took too long")
            return
        time.sleep(POLL_SECONDS)


def measure(program: Program, seconds: float) -> None:
    """Let one program through its gate and wait until it has ended."""
    if program.process is None:
        return
    began = time.monotonic()
    if program.is_running():
        program.let_through()
        if not wait_for(lambda: not program.is_running(), seconds):
            program.notes.append(f"ended after {seconds:.0f} s")
            program.end()
    program.outcome = f"exit {program.process.returncode}, {time.monotonic() - began:.1f} s"


def describe(program: Program) -> bool:
    """Print how one went; whether it left a trace."""
    size = program.trace.stat().st_size if program.trace else 0
    told = "; ".join([program.outcome or "did not run", *program.notes])
    print(f"{program.name:28} {told:24} trace {size:>9,} bytes", flush=True)
    is_good = size > 0 and program.outcome.startswith("exit 0") and not program.notes
    if not is_good and program.log.exists():
        lines = program.log.read_text(encoding="utf-8", errors="replace").splitlines()
        print("\n".join(f"    {line}" for line in lines[-12:]), flush=True)
    return is_good


def pack(chosen: list[Program], out: Path) -> None:
    """One tar of what the tests need; what is too large for a repository stays out."""
    target = out / "planted.tar"
    with tarfile.open(target, "w") as tar:
        for program in chosen:
            if program.trace is None:
                continue
            if program.trace.stat().st_size > LARGEST_BYTES:
                print(f"{program.name}: its trace is too large and not packed")
                continue
            tar.add(program.trace, f"{program.name}/{TRACES[0]}")
    print(f"{target}: {target.stat().st_size:,} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path, help="directory for captures, logs and the tar")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these programs alone")
    parser.add_argument("--ranks", action="store_true", help="also the programs for several devices")
    parser.add_argument("--seconds", type=float, default=45, help="limit for one program after its gate")
    parser.add_argument("--warm-up-seconds", type=float, default=240, help="limit for all before their gates")
    parser.add_argument(
        "--at-once", type=int, default=os.cpu_count() or 1, help="programs that warm up at once"
    )
    given = parser.parse_args()
    out: Path = given.out.absolute()
    for name in ("captures", "gates", "logs", "inductor"):
        shutil.rmtree(out / name, ignore_errors=True)
        (out / name).mkdir(parents=True)
    chosen = programs(out, given.only, ranks=given.ranks)
    began = time.monotonic()
    try:
        warm_up(chosen, given.at_once, given.warm_up_seconds)
        ready = sum(program.is_ready() for program in chosen)
        print(f"{ready} of {len(chosen)} at the gate after {time.monotonic() - began:.0f} s", flush=True)
        good = []
        for program in chosen:
            measure(program, given.seconds)
            good.append(describe(program))
    finally:
        for program in chosen:
            if program.is_running():
                program.end()
    pack(chosen, out)
    print(f"{sum(good)} of {len(chosen)} captured in {time.monotonic() - began:.0f} s")
    return 0 if all(good) else 1


if __name__ == "__main__":
    raise SystemExit(main())
