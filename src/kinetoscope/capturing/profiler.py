"""Capturing from inside a program: :class:`capture` around a section, :func:`trace_handler` for a profiler
that is already there.

Both are thin layers over ``torch.profiler``: they choose nothing and hide nothing. What they add is the
capture directory, with the compile log and the state of the compiler beside the trace.
"""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import Any

from kinetoscope.capturing.compile_log import CompileLog, CudagraphSkips
from kinetoscope.capturing.directory import CaptureDirectory
from kinetoscope.capturing.importing import ImportWatcher
from kinetoscope.capturing.manifest import CACHE_NOTE, NO_SOURCE_NOTE, SOURCE_NOTE, Manifest
from kinetoscope.capturing.options import world
from kinetoscope.capturing.session import ProfileSession, make_way, profiler_is_running, synchronize
from kinetoscope.capturing.switches import Switch, apply_inductor_switches, final_state
from kinetoscope.capturing.timing import StepTimer
from kinetoscope.errors import CaptureError, UsageError

__all__ = ["TraceHandler", "capture", "trace_handler"]


class _Surroundings:
    """What a capture records besides the trace: compile log, switches, reasons for skipped CUDA graphs."""

    def __init__(self, directory: str | os.PathLike[str], command: str, *, keep_source: bool) -> None:
        rank, world_size = world(dict(os.environ))
        self.directory = CaptureDirectory(directory, rank)
        self.manifest = Manifest(self.directory, command, world_size)
        self.log = CompileLog(self.directory, keep_source=keep_source, warn=self.manifest.warn)
        self._keep_source = keep_source
        self._skips = CudagraphSkips(self.manifest.warn)
        self._switches: list[Switch] = []
        self._config: Any = None
        self._watcher = ImportWatcher(lambda name, error: self.manifest.warn(f"hooks for {name}: {error}"))

    def enter(self) -> None:
        try:
            import torch.profiler  # noqa: F401  (the profiler must be there before anything is changed)
        except ImportError as error:
            raise CaptureError(
                "torch is not installed here: capturing needs it, analysing does not"
            ) from error
        self.directory.prepare()
        self.manifest.note(SOURCE_NOTE if self._keep_source else NO_SOURCE_NOTE)
        self.manifest.write()
        self.log.attach()
        self._watcher.after("torch._inductor.config", self._inductor_imported)
        self._watcher.after("torch._inductor.cudagraph_utils", self._skips.watch)
        self._watcher.install()

    def _inductor_imported(self, config: Any) -> None:
        self._config = config
        self._switches = apply_inductor_switches(config, self.manifest.warn)

    def write(self) -> None:
        manifest = self.manifest
        manifest.describe_machine()
        manifest.write_compiler_state(self._skips.as_json())
        manifest.values["files"]["compile_log"] = self.log.collect()
        manifest.values["compilations"] = {"total": self.log.compilations, "log_records": self.log.activity}
        manifest.values["switches"] = [s.as_json() for s in final_state(self._switches, self._config)]
        if any(switch.changes_cache_key and switch.state == "on" for switch in self._switches):
            manifest.note(CACHE_NOTE)
        manifest.write("complete")

    def leave(self) -> None:
        self._watcher.remove()
        self.log.remove_handler()


class capture:
    """Profile a section of a program into a capture directory.

    ::

        with kinetoscope.capture("my-capture", warmup=3, active=10) as section:
            for batch in batches:
                train(batch)
                section.step()

    ``warmup`` steps are timed and not profiled; then ``active`` steps are profiled (None: all until the block
    ends); steps after that are timed again. Without calls of :meth:`step` the whole block is profiled, which
    needs ``warmup=0``. ``cold`` compiles a throw-away function first and profiles from the block's beginning,
    compilation included. ``record_shapes``, ``with_stack`` and ``profile_memory`` are torch.profiler's.

    Switches of the compiler that make traces tell more stay on after the block: see the manifest.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        warmup: int = 0,
        active: int | None = None,
        cold: bool = False,
        record_shapes: bool = False,
        with_stack: bool = False,
        profile_memory: bool = False,
        keep_source: bool = True,
    ) -> None:
        if warmup < 0 or (active is not None and active < 1):
            raise UsageError("capture: warmup must be 0 or more, active 1 or more")
        if cold and warmup:
            raise UsageError(
                "capture: cold profiles the first call, so there is no warmup; give one of the two"
            )
        self._around = _Surroundings(directory, "capture", keep_source=keep_source)
        self._options = {
            "record_shapes": record_shapes,
            "with_stack": with_stack,
            "profile_memory": profile_memory,
        }
        self._warmup, self._active, self._cold = warmup, active, cold
        self._step = 0
        self._session: ProfileSession | None = None
        self._timer = StepTimer()
        self._began_s = 0.0
        self._times: dict[str, Any] = {"before": None, "profiled": None, "after": None, "variants": {}}
        self._window: dict[str, Any] = {"kind": "cold" if cold else "steps", "source": "capture"}

    @property
    def directory(self) -> str:
        """The capture directory."""
        return str(self._around.directory.path)

    def __enter__(self) -> capture:
        make_way()
        if "torch" in sys.modules and profiler_is_running():
            raise CaptureError("a profiler is on already: end it before kinetoscope.capture begins")
        self._began_s = time.monotonic()
        self._around.enter()
        self._around.manifest.values["options"] = {
            **self._options,
            "warmup": self._warmup,
            "active": self._active,
            "cold": self._cold,
        }
        if self._cold:
            from kinetoscope.capturing.cold import throw_away_compile

            with self._around.log.muted():
                self._window["throw_away_compile"] = throw_away_compile(self._around.manifest.warn)
        if self._warmup == 0:
            self._open()
        else:
            synchronize()
            self._timer.begin()
        return self

    def step(self) -> None:
        """A step has ended and the next one begins."""
        self._step += 1
        self._timer.boundary(time.perf_counter_ns())
        if self._session is not None:
            if self._active is not None and self._timer.counted >= self._active:
                self._close("complete")
                self._timer.begin()
            else:
                self._session.mark_step(self._step)
        elif self._times["profiled"] is None and self._step >= self._warmup:
            synchronize()
            self._times["before"] = self._timer.end()
            self._open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        manifest = self._around.manifest
        try:
            if self._session is not None:
                self._close("the block ended")
            elif self._times["profiled"] is None:
                manifest.warn(f"the block ended in warm-up, after {self._step} of {self._warmup} steps")
            elif self._timer.counted:
                synchronize()
                self._times["after"] = self._timer.end(whole=False)
            manifest.values["program"] = {
                "target": sys.argv[0] if sys.argv else None,
                "error": None if kind is None else kind.__name__,
                "seconds": round(time.monotonic() - self._began_s, 3),
            }
            manifest.values["window"] = self._window
            manifest.values["steps"] = self._times
            self._around.write()
        finally:
            self._around.leave()

    def _open(self) -> None:
        self._session = ProfileSession("both", **self._options)
        self._window.update(first_step=self._step, activities=self._session.activities)
        self._session.prepare()
        synchronize()
        self._session.start()
        self._timer.begin()
        self._session.mark_step(self._step)

    def _close(self, why: str) -> None:
        session, self._session = self._session, None
        assert session is not None
        session.end_step()
        synchronize()
        self._times["profiled"] = self._timer.end(whole=why == "complete")
        session.stop()
        if self._timer.counted == 0 and not self._cold:
            self._window["kind"] = "program"
        self._window.update(ended=why, steps=self._timer.counted)
        path = self._around.directory.temporary_trace()
        session.save(path)
        entry = {key: self._window.get(key) for key in ("kind", "steps", "activities")}
        self._around.manifest.add_trace(path, "trace", entry)


class TraceHandler:
    """Stores what a ``torch.profiler.profile`` of the program has recorded; see :func:`trace_handler`."""

    def __init__(self, directory: str | os.PathLike[str], *, keep_source: bool = True) -> None:
        self._around = _Surroundings(directory, "trace_handler", keep_source=keep_source)
        self._around.enter()
        self._around.manifest.values["window"] = {"kind": "program_profiler", "source": "torch.profiler"}
        self._cycles = 0

    def __call__(self, profile: Any) -> None:
        """Store the trace of the cycle that has just ended; torch.profiler calls this."""
        self._cycles += 1
        path = self._around.directory.temporary_trace()
        profile.export_chrome_trace(str(path))
        stem = "trace" if self._cycles == 1 else f"trace.cycle-{self._cycles}"
        self._around.manifest.add_trace(path, stem, {"kind": "program_profiler", "steps": None})
        self._around.write()


def trace_handler(directory: str | os.PathLike[str], *, keep_source: bool = True) -> TraceHandler:
    """Make an ``on_trace_ready`` for code that profiles already: it writes a capture directory.

    ::

        with torch.profiler.profile(schedule=..., on_trace_ready=kinetoscope.trace_handler("my-capture")):

    Make it before the program compiles anything, since the compile log begins here. The trace of the first
    cycle becomes ``trace.json.gz``, later ones ``trace.cycle-2.json.gz`` and so on.
    """
    return TraceHandler(directory, keep_source=keep_source)
