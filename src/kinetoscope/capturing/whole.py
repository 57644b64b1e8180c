"""Profiling a program from its start, for as long as it may prove to be a short one.

A short program has no settled steps, and a program without anything that marks a step has none that can be
seen: both are profiled whole. Which programs they are is known only later, so the profiler is on from the
start and goes off as soon as the loops of the program, or its steps so far, say that it is a long one.

The device is recorded from the first step on, once that step has said that the program may be short: what
attaches to a device for a profile is never gone for certain, launches are slower while it is there, and a
program that is busy with its device while it goes can crash. A program that does not seem to compile anything
may have no steps, and is recorded from its device's beginning.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kinetoscope.capturing.options import RunOptions
from kinetoscope.capturing.session import ProfileSession, device_module, synchronize

__all__ = ["CANNOT_BEGIN", "DEVICE_NOT_SEEN", "UNSEEN_THREAD", "Watchdog", "WholeProfile", "resident_bytes"]

UNSEEN_THREAD: Final = (
    "the program's steps ran in another thread than the one that imported torch, and this torch (before 2.7)"
    " profiles only that one; lost: the steps"
)

DEVICE_NOT_SEEN: Final = (
    "the program used a device and speaks of compiling, but nothing compiled was called and no other steps"
    " were seen; lost: what the device did. Put kinetoscope.capture around the part that is to be recorded"
)

CANNOT_BEGIN: Final = (
    "the device was first used inside an operator or a record_function, where this torch (before 2.7) cannot"
    " begin to record it; lost: the profile of the whole program, which a short one needs"
)

_TICK_SECONDS: Final = 0.2
_DETACH_SECONDS, _DETACH_CALLS = 0.3, 30


def resident_bytes() -> int:
    """Resident memory of this process; 0 where it cannot be read."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


class WholeProfile:
    """The profile of a program from its start, within limits."""

    def __init__(self, options: RunOptions, warn: Callable[[str], None]) -> None:
        self._options = options
        self._warn = warn
        self._session: ProfileSession | None = None
        self.activities: list[str] = []
        self.started_s = 0.0
        self.recorded_device = False
        """Whether the device was ever recorded; what attached to it for that may still be there."""
        self._had_device = False
        self.marked = 0
        """Steps marked in the trace so far."""

    @property
    def running(self) -> bool:
        """Whether the profiler is on."""
        return self._session is not None

    @property
    def missed_device(self) -> bool:
        """Whether the program uses a device that this profile does not record."""
        return self._session is not None and not self._had_device and device_module() is not None

    @property
    def lets_others_stop_it(self) -> bool:
        """Whether another thread than the one that turned it on may turn the profiler off."""
        return self._session is None or self._session.all_threads

    def start(self, *, all_threads: bool = True) -> None:
        """Turn the profiler on, for the device too if the program has initialised one."""
        options = self._options
        self._had_device = device_module() is not None
        session = ProfileSession(
            record_shapes=options.record_shapes,
            with_stack=options.with_stack,
            profile_memory=options.profile_memory,
            # The thread that trains may be another than the one that imported torch.
            all_threads=all_threads,
        )
        session.start()
        self._session = session
        self.activities = session.activities
        self.recorded_device |= self.activities != ["CPU"]
        self.started_s = time.monotonic()
        self.marked = 0

    def mark_step(self, number: int) -> None:
        """A step begins."""
        if self._session is not None:
            self._session.mark_step(number)
            self.marked += 1

    def record_device(self) -> None:
        """Record the device too, if the program has initialised one since the start."""
        session = self._session
        if session is None or not self.missed_device:
            return
        self.discard(detach=False)
        is_open = session.left_open()
        if is_open and not session.all_threads:
            self._warn(CANNOT_BEGIN)
            return
        self.start(all_threads=not is_open)

    def discard(self, *, detach: bool = True) -> None:
        """Turn the profiler off and forget what it recorded."""
        session, self._session = self._session, None
        if session is not None:
            with detaching_cupti(detach and session.activities != ["CPU"]):
                session.stop()

    def keep(self, path: Path, *, detach: bool = True) -> None:
        """Turn the profiler off and write the trace to ``path``.

        Without ``detach`` where another profiler starts at once: one that starts while CUPTI is still
        being detached records nothing of the device (seen with torch 2.11 on an H200).
        """
        session, self._session = self._session, None
        if session is not None:
            with detaching_cupti(detach and session.activities != ["CPU"]):
                session.stop()
                session.save(path)


@contextlib.contextmanager
def detaching_cupti(wanted: bool = True) -> Any:
    """Have Kineto detach CUPTI when this profile ends.

    Attached, CUPTI slows every launch of the steps that are to be timed without a profiler. It is asked for
    only here, before the program has recorded a CUDA graph: with graphs, detaching has crashed.
    """
    device = device_module()
    if not wanted or device is None or device[0] != "cuda" or "TEARDOWN_CUPTI" in os.environ:
        yield
        return
    os.environ["TEARDOWN_CUPTI"] = "1"
    try:
        yield
        # Kineto detaches in a thread of its own, at the end of a call of the CUDA runtime, and does not say
        # when it is done. A profile that started meanwhile would see nothing of the device, and steps of a
        # fraction of a millisecond soon start one.
        for _ in range(_DETACH_CALLS):
            synchronize()
            time.sleep(_DETACH_SECONDS / _DETACH_CALLS)
    finally:
        os.environ.pop("TEARDOWN_CUPTI", None)


class Watchdog:
    """Calls back in the main thread when a limit is passed and no step tells the time.

    The profiler must be stopped by the thread that started it. Python runs a pending call in the main thread,
    between two bytecodes, without touching the program's signal handlers.
    """

    def __init__(self, callback: Callable[[], None]) -> None:
        self._deadline_s: float | None = None
        self._ceiling_bytes: int | None = None
        self._watching = False
        self._wake = threading.Event()

        def run(_: Any) -> int:
            # An exception must not reach ctypes, which would print it.
            with contextlib.suppress(Exception):
                callback()
            return 0

        self._pending = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(run)

    def arm(self, seconds: float, growth_bytes: int | None = None) -> None:
        """Bound the profile that begins now."""
        self._deadline_s = time.monotonic() + seconds
        self._ceiling_bytes = None if growth_bytes is None else resident_bytes() + growth_bytes
        if not self._watching:
            self._watching = True
            # Below `threading`, so that a program that looks at its threads sees its own.
            _thread.start_new_thread(self._watch, (self._wake,))

    def disarm(self) -> None:
        """The profile has ended; the thread ends too."""
        self._deadline_s = self._ceiling_bytes = None
        self._wake.set()
        self._watching = False
        self._wake = threading.Event()

    def passed(self) -> str | None:
        """Which limit is passed: ``seconds``, ``memory`` or None."""
        # Read once: the program's thread may disarm while the watching one is here.
        deadline_s, ceiling_bytes = self._deadline_s, self._ceiling_bytes
        if deadline_s is not None and time.monotonic() > deadline_s:
            return "seconds"
        if ceiling_bytes is not None and resident_bytes() > ceiling_bytes:
            return "memory"
        return None

    def past_deadline(self) -> bool:
        """Whether time is up; cheap enough to be asked at every event."""
        deadline_s = self._deadline_s
        return deadline_s is not None and time.monotonic() > deadline_s

    def _watch(self, wake: threading.Event) -> None:
        while not wake.wait(_TICK_SECONDS):
            if self.passed():
                ctypes.pythonapi.Py_AddPendingCall(self._pending, None)
                wake.wait(1.0)
