"""Run a command in a process of its own; its time, and the memory of it and everything it starts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

EVERY_S = 0.02


@dataclass(frozen=True)
class Measured:
    """One run. Memory is the highest sum over the process tree seen at one moment, in bytes.

    ``anonymous_bytes`` is RssAnon + RssShmem: what the programs hold, without the pages of files that
    the system can drop. ``resident_bytes`` has those too. None: not to be had on this system.
    """

    seconds: float
    anonymous_bytes: int | None
    resident_bytes: int | None
    status: int
    stderr: str


def run(command: Sequence[str], env: Mapping[str, str] | None = None, timeout: float = 1800) -> Measured:
    """Run a command to its end."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        env=dict(env or os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    watch = Watch(process.pid)
    watch.start()
    try:
        _, stderr = process.communicate(timeout=timeout)
        seconds = time.perf_counter() - start
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    finally:
        watch.stop()
    return Measured(seconds, watch.anonymous or None, watch.resident or None, process.returncode, stderr)


class Watch(threading.Thread):
    """Sums the memory of a process tree every so often; the highest sums, and the one at its start."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._done = threading.Event()
        self.anonymous = 0
        self.resident = 0
        self.anonymous_before = sum(_memory(each)[0] for each in _tree(pid))

    def run(self) -> None:
        if not sys.platform.startswith("linux"):
            return
        while True:
            anonymous = resident = 0
            for pid in _tree(self._pid):
                found = _memory(pid)
                anonymous += found[0]
                resident += found[1]
            self.anonymous = max(self.anonymous, anonymous)
            self.resident = max(self.resident, resident)
            if self._done.wait(EVERY_S):
                return

    def stop(self) -> None:
        self._done.set()
        self.join()


def _tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                with contextlib.suppress(OSError):
                    found += map(int, (task / "children").read_text().split())
    return found


def _memory(pid: int) -> tuple[int, int]:
    """Anonymous and shared, and all resident memory of one process, in bytes."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # it has ended
        return 0, 0
    sizes = {
        key: int(value.split()[0]) * 1024
        for key, _, value in (line.partition(":") for line in text.splitlines())
        if key in ("RssAnon", "RssShmem", "VmRSS")
    }
    return sizes.get("RssAnon", 0) + sizes.get("RssShmem", 0), sizes.get("VmRSS", 0)
