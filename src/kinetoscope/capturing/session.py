"""One profile: ``torch.profiler`` started and stopped between two moments, without its post-processing."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from kinetoscope.capturing.quiet import KinetoVoice
from kinetoscope.errors import CaptureError

__all__ = [
    "Kinds",
    "ProfileSession",
    "device_module",
    "give_way_with",
    "is_capturing_graph",
    "is_ours",
    "make_way",
    "our_profiler",
    "profiler_is_running",
    "synchronize",
]

Kinds = Literal["both", "cpu", "device"]

# The clocks of the profiler and of Python tell the same moment with this difference, at most.
_CLOCKS_DIFFER_NS = 20_000

# torch has one profiler a process, so who is using it is known once a process too.
_ours = 0
_voice = KinetoVoice()
_give_way: Callable[[], None] | None = None


@contextlib.contextmanager
def our_profiler() -> Iterator[None]:
    """Mark calls into the profiler as ours, so that they are not taken for the program's."""
    global _ours
    _ours += 1
    if _ours == 1:
        _voice.off()
    try:
        yield
    finally:
        _ours -= 1
        if _ours == 0:
            _voice.on()


def give_way_with(callback: Callable[[], None] | None) -> None:
    """Name what makes way when the program begins a capture of its own (a run in progress), or None."""
    global _give_way
    _give_way = callback


def make_way() -> None:
    """Ask whatever is recording for kinetoscope to stop: another capture begins."""
    if _give_way is not None:
        _give_way()


def is_ours() -> bool:
    """Whether the profiler is being called by kinetoscope."""
    return _ours > 0


def device_module() -> tuple[str, Any] | None:
    """The accelerator that the program has begun to use, as (name, torch module); None on a CPU.

    An accelerator that was not initialised stays so: initialising one would break programs that fork later.
    """
    torch = sys.modules.get("torch")
    for name in ("cuda", "xpu", "mtia"):
        module = getattr(torch, name, None)
        try:
            if module is not None and module.is_initialized():
                return name, module
        except (AttributeError, RuntimeError):
            continue
    return None


def synchronize() -> None:
    """Wait for the accelerator, if the program uses one and is not recording a graph on it."""
    device = device_module()
    if device is not None and not is_capturing_graph():
        device[1].synchronize()


def is_capturing_graph() -> bool:
    """Whether the current CUDA stream is being captured: nothing may synchronise or allocate then."""
    device = device_module()
    if device is None or device[0] != "cuda":
        return False
    try:
        return bool(device[1].is_current_stream_capturing())
    except (AttributeError, RuntimeError):
        return False


def profiler_is_running() -> bool:
    """Whether some profiler is on in this thread, ours or another's."""
    try:
        from torch._C._autograd import _profiler_enabled
    except ImportError:
        return False
    return bool(_profiler_enabled())


def _all_threads() -> Any:
    """Settings of a profile of all threads; None where this torch has none (before 2.7)."""
    try:
        from torch._C._profiler import _ExperimentalConfig

        return _ExperimentalConfig(profile_all_threads=True)
    except (ImportError, TypeError):
        return None


def _marks() -> tuple[Callable[[str], Any], Callable[[Any], None]]:
    """What begins a mark of this name, and what ends it.

    The short way where torch has it: a mark of `record_function` takes several times as long to end, and the
    end of a step's mark is a part of the step.
    """
    import torch

    begin = getattr(torch.autograd, "_record_function_with_args_enter", None)
    end = getattr(torch.autograd, "_record_function_with_args_exit", None)
    if begin is not None and end is not None:
        return begin, end
    from torch.profiler import record_function

    def begin_slowly(name: str) -> Any:
        mark = record_function(name)
        mark.__enter__()
        return mark

    return begin_slowly, lambda mark: mark.__exit__(None, None, None)


def _end_unheard() -> None:
    """Have every `record_function` that is open now end without telling a profiler.

    Its end would be written into what it began in. It keeps its place, with a record that has ended already;
    the record that it had is never given up, since torch ends one that goes.
    """
    import torch

    kind: Any = torch.autograd.profiler.record_function
    kinds = {kind, *kind.__subclasses__()}
    marks = [thing for thing in gc.get_objects() if type(thing) in kinds]
    marks = [mark for mark in marks if mark.__dict__.get("record") is not None]
    if not marks:
        return
    core: Any = torch._C
    with core.DisableTorchFunction(), core._DisableTorchDispatch():  # modes of the program's
        ended = torch.ops.profiler._record_function_enter_new("", None)
        torch.ops.profiler._record_function_exit._RecordFunction(ended)
    for mark in marks:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(mark.record))
        mark.record = ended


def _quietly(profile: Callable[..., Any]) -> dict[str, bool]:
    """What keeps torch 2.10 to 2.12 from warning, at every profile, of events lost between several cycles.

    There is one cycle here, and a warning that is given once would be missing where the program earns it.
    """
    return {"acc_events": True} if "acc_events" in inspect.signature(profile).parameters else {}


class ProfileSession:
    """A profile of this thread, from :meth:`start` to :meth:`stop`.

    ``all_threads`` asks for a profile of every thread, which any thread may stop; where this torch has none
    it becomes one of this thread.

    What is open when a profile stops (an operator, a `record_function`) tells its end to the profile that is
    on when it closes: if that is of the same kind, of all threads or of this one, torch takes it for the
    first, whose memory is free by now, and writes into that. A `record_function` that is open at :meth:`stop`
    therefore tells nobody. An operator does, so a profile must not follow one of its kind within the same
    call of the program: see :meth:`left_open`.
    """

    def __init__(
        self,
        kinds: Kinds = "both",
        *,
        record_shapes: bool = False,
        with_stack: bool = False,
        profile_memory: bool = False,
        all_threads: bool = False,
    ) -> None:
        import torch

        profiler: Any = torch.profiler
        activities = []
        device = device_module()
        if kinds != "device":
            activities.append(profiler.ProfilerActivity.CPU)
        if kinds != "cpu" and device is not None:
            activity = getattr(profiler.ProfilerActivity, device[0].upper(), None)
            if activity is not None and activity in profiler.supported_activities():
                activities.append(activity)
        if not activities:
            raise CaptureError("this torch cannot profile the device in use")
        self.activities = sorted(activity.name for activity in activities)
        self._stopped_ns = 0
        self.start_ns = 0
        """``time.perf_counter_ns()`` when recording began, once it has."""
        self._thread = threading.get_ident()
        self._prepared = False
        self._begin_mark, self._end_mark = _marks()
        self._mark: Any = None
        settings = _all_threads() if all_threads else None
        self.all_threads = settings is not None
        with our_profiler():
            self._profile = profiler.profile(
                activities=activities,
                record_shapes=record_shapes,
                with_stack=with_stack,
                profile_memory=profile_memory,
                experimental_config=settings,
                **_quietly(profiler.profile),
            )

    def prepare(self) -> None:
        """Do what is slow about starting (CUPTI's first start takes a second) without recording yet."""
        # The first mark of a process takes milliseconds, which would lie inside the first recorded step.
        self._end_mark(self._begin_mark("ProfilerStep"))
        with our_profiler():
            self._profile.prepare_trace()
            self._prepared = True

    def start(self) -> None:
        """Begin to record."""
        if not self._prepared:
            self.prepare()
        with our_profiler():
            self._profile.start_trace()
        self.start_ns = time.perf_counter_ns()

    def mark_step(self, number: int) -> None:
        """End the step that is open, if one is, and begin ``ProfilerStep#<number>``."""
        self.end_step()
        self._mark = self._begin_mark(f"ProfilerStep#{number}")

    def end_step(self) -> None:
        """End the step that is open."""
        if self._mark is not None:
            mark, self._mark = self._mark, None
            self._end_mark(mark)

    def stop(self) -> None:
        """Wait for the device, and record no more."""
        if not self.all_threads and threading.get_ident() != self._thread:
            raise CaptureError("a profile can be ended only by the thread that began it")
        self.end_step()
        with our_profiler():
            inner = getattr(self._profile, "profiler", None)
            if inner is not None and hasattr(inner, "_parse_kineto_results"):
                # Some versions build Python objects of all events when stopping; a million take ten seconds.
                inner._parse_kineto_results = lambda *_, **__: []
            if self.start_ns == 0:
                self._profile.start_trace()
            # what has ended has then ended sooner, on any clock
            time.sleep(2e-9 * _CLOCKS_DIFFER_NS)
            self._stopped_ns = time.time_ns()
            self._profile.stop_trace()
        if "CPU" in self.activities:
            _end_unheard()

    def left_open(self) -> bool:
        """Whether something of the program was open when this profile stopped. Takes some us an event."""
        results = getattr(getattr(self._profile, "profiler", None), "kineto_results", None)
        if results is None:
            return True
        closed_ns = self._stopped_ns - _CLOCKS_DIFFER_NS
        return any(not event.start_ns() <= event.end_ns() < closed_ns for event in results.events())

    def save(self, path: Path) -> None:
        """Write the trace as Chrome JSON."""
        with our_profiler():
            self._profile.export_chrome_trace(str(path))
