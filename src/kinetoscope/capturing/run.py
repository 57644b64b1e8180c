"""``kinetoscope run``: a program under capture, from before its first line until after its last."""

from __future__ import annotations

import os
import signal
import sys
import time
from types import ModuleType
from typing import Any

from kinetoscope.capturing import environment
from kinetoscope.capturing.compile_log import CompileLog, CudagraphSkips
from kinetoscope.capturing.directory import CaptureDirectory
from kinetoscope.capturing.first_use import after_first_use
from kinetoscope.capturing.foreign import ForeignProfiler
from kinetoscope.capturing.hooks import StepHooks
from kinetoscope.capturing.importing import ImportWatcher
from kinetoscope.capturing.manifest import (
    CACHE_NOTE,
    LAUNCHER_NOTE,
    NO_SOURCE_NOTE,
    ONCE_NOTE,
    SHORT_NOTE,
    SOURCE_NOTE,
    Manifest,
)
from kinetoscope.capturing.options import RunOptions, world
from kinetoscope.capturing.plan import RankAgreement
from kinetoscope.capturing.program import Outcome, join_threads, run_program
from kinetoscope.capturing.session import give_way_with, our_profiler
from kinetoscope.capturing.switches import Switch, apply_inductor_switches, final_state
from kinetoscope.capturing.window import Window

__all__ = ["ProgramRun"]

# So many compiled functions that are each called once are a loop that compiles anew, not a short program.
_MANY = 8
_LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
# Files of ours that may run while Dynamo is tracing in the same thread (a limit was passed): it must not look
# into them. Not cold.py, whose function is there to be compiled.
_SKIPPED_BY_DYNAMO = (
    "calibrate",
    "compilations",
    "counting",
    "directory",
    "environment",
    "foreign",
    "manifest",
    "pulse",
    "quiet",
    "session",
    "steps",
    "timing",
    "whole",
    "window",
)


class ProgramRun:
    """One run of a program under capture."""

    def __init__(self, options: RunOptions) -> None:
        self.options = options
        rank, self.world_size = world(dict(os.environ))
        self.directory = CaptureDirectory(options.directory, rank)
        self.directory.prepare()
        self.manifest = Manifest(self.directory, "run", self.world_size)
        warn = self.manifest.warn
        self.log = CompileLog(self.directory, keep_source=options.keep_source, warn=warn)
        self.skips = CudagraphSkips(warn)
        self._agreement = RankAgreement(self.directory, self.world_size)
        self.window = Window(options, self.directory, self.log, warn, self._agreement, self._save_window)
        may_adopt = self.window.may_change_thread
        self.hooks = StepHooks(self.window.on_event, warn, may_adopt, self.window.steps.pulse)
        self.window.hooks = self.hooks
        self.foreign = ForeignProfiler(self.directory, self.window.foreign_profiler, warn)
        self._watcher = ImportWatcher(lambda name, error: warn(f"hooks for {name} failed: {error}"))
        self._switches: list[Switch] = []
        self._inductor_config: ModuleType | None = None
        self._empty_profile: dict[str, Any] = {"needed": None, "done": False}
        self._finished = False
        self._pid = os.getpid()
        self._began_ns = time.perf_counter_ns()

    def run(self) -> Outcome:
        """Run the program, and save what was captured however it ends."""
        options = self.options
        self.manifest.values["options"] = options.as_json()
        self.manifest.values["program"] = {
            "target": options.target,
            "arguments": list(options.arguments),
            "is_module": options.is_module,
            "exit_status": None,
            "error": None,
        }
        self.manifest.note(SOURCE_NOTE if options.keep_source else NO_SOURCE_NOTE)
        if options.is_module and options.target in _LAUNCHERS:
            self.manifest.note(LAUNCHER_NOTE)
        self.manifest.write()
        self._install()
        outcome = run_program(options.target, options.arguments, is_module=options.is_module)
        if self.is_child():
            return outcome
        self.window.program_ended()
        try:
            join_threads()
        except KeyboardInterrupt:
            outcome = Outcome(1, interrupted=True, error="KeyboardInterrupt")
        self.finish(outcome)
        return outcome

    def is_child(self) -> bool:
        """A process that the program forked and that came back out of the program's code."""
        return os.getpid() != self._pid

    # --- hooks ---

    def _install(self) -> None:
        watcher = self._watcher
        watcher.before("torch", self.log.before_import)
        watcher.after("torch._inductor.config", self._inductor_imported)
        watcher.after("torch._inductor.cudagraph_utils", self.skips.watch)
        watcher.after("torch._dynamo.eval_frame", self.hooks.watch_compiled)
        watcher.after(
            "torch._dynamo.exc", lambda exc: self.log.frames.hide_from_messages(exc, self.manifest.warn)
        )
        watcher.after("torch._dynamo.trace_rules", self._keep_dynamo_out)
        watcher.after("torch", self._torch_imported)
        watcher.install()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)
        give_way_with(self.foreign.began)
        self._handle_sigterm()

    def _torch_imported(self, torch: ModuleType) -> None:
        self.log.after_import()
        self._switches.append(
            Switch(
                "compile_log",
                "left" if self.log.users_directory else "on",
                self.log.users_directory or "compile_log",
                "user (TORCH_TRACE)" if self.log.users_directory else "kinetoscope",
                "reasons of graph breaks and recompilations, compile times, generated code",
            )
        )
        autograd_profiler = sys.modules.get("torch.autograd.profiler")
        if autograd_profiler is not None:
            self.foreign.watch(autograd_profiler)
        kineto_profiler = sys.modules.get("torch.profiler.profiler")
        if kineto_profiler is not None:
            self.foreign.watch_kineto(kineto_profiler)
        self.hooks.watch_optimizers()
        self.hooks.watch_modules()
        self._wait_for_device(torch)
        self.window.begin()

    def _wait_for_device(self, torch: Any) -> None:
        cuda = getattr(torch, "cuda", None)
        if cuda is None or getattr(torch.version, "cuda", None) is None:
            return
        if not after_first_use(cuda, self._device_initialised):
            self.manifest.warn(
                "torch.cuda has no _lazy_init; lost: the work-around for old drivers, and what the device"
                " does before the first step"
            )

    def _device_initialised(self) -> None:
        if self.is_child():
            return
        try:
            self._profile_emptily()
        except Exception as error:
            self.manifest.warn(f"the empty-profiler work-around failed: {error}")
        try:
            self.window.device_initialised()
        except Exception as error:
            self.manifest.warn(f"the first use of the device could not be followed: {error}")

    def _profile_emptily(self) -> None:
        torch = sys.modules["torch"]
        cuda = getattr(torch.version, "cuda", None)
        needed = environment.needs_empty_profile(environment.driver_version(), cuda)
        self._empty_profile["needed"] = needed
        if needed:
            from torch.profiler import _utils

            with our_profiler():
                _utils._init_for_cuda_graphs()
            self._empty_profile["done"] = True

    def _inductor_imported(self, config: ModuleType) -> None:
        self._inductor_config = config
        self._switches += apply_inductor_switches(config, self.manifest.warn)

    def _keep_dynamo_out(self, trace_rules: ModuleType) -> None:
        add = getattr(trace_rules, "add", None)
        if add is not None:
            for name in _SKIPPED_BY_DYNAMO:
                add(f"kinetoscope.capturing.{name}")

    def _forked(self) -> None:
        """In a forked child: capture nothing, and die of SIGTERM as if we had never been."""
        self.window.phase = "done"
        self.hooks.stop()
        self._watcher.remove()
        if signal.getsignal(signal.SIGTERM) == self._on_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _handle_sigterm(self) -> None:
        try:
            if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._on_sigterm)
        except ValueError:
            self.manifest.warn("not in the main thread: SIGTERM ends the program without saving")

    def _on_sigterm(self, number: int, frame: Any) -> None:
        self.window.program_ended()
        self.finish(Outcome(128 + number, error="SIGTERM"))
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    # --- saving ---

    def _save_window(self) -> None:
        """The window has closed: store its trace at once, since the program may be killed later."""
        self._store_trace()
        self.manifest.describe_machine()
        self._fill()
        self.manifest.write()

    def _store_trace(self) -> None:
        raw, self.window.window_trace = self.window.window_trace, None
        if raw is not None:
            note = self.window.note
            entry = {"kind": note["kind"], "steps": note.get("steps"), "activities": note.get("activities")}
            self.manifest.add_trace(raw, "trace", entry)

    def finish(self, outcome: Outcome) -> None:
        """Write everything that is not written yet."""
        if self._finished or self.is_child():
            return
        self._finished = True
        self._watcher.remove()
        self.hooks.stop()
        self._store_trace()
        self.foreign.finish()
        self._store_start_trace()
        self._store_foreign_traces()
        values = self.manifest.values
        values["program"].update(exit_status=outcome.status, error=outcome.error)
        values["program"]["seconds"] = round((time.perf_counter_ns() - self._began_ns) / 1e9, 3)
        if "torch" not in sys.modules:
            self.manifest.note("the program did not import torch: nothing was captured")
        else:
            self.manifest.describe_machine()
            self.manifest.write_compiler_state(self.skips.as_json())
            values["files"]["compile_log"] = self.log.collect()
        self.log.detach()
        self._fill()
        self._agreement.finish()
        self.manifest.write("complete")

    def _store_start_trace(self) -> None:
        """The profile from the program's start is the capture's trace where there is no better one."""
        start, self.window.start_trace = self.window.start_trace, None
        if start is None:
            return
        path = start.pop("path")
        traces = self.manifest.values["traces"]
        has_window = any(trace["kind"] == "steps" and trace["steps"] for trace in traces)
        if has_window or self.foreign.traces:
            path.unlink(missing_ok=True)
            return
        if traces:
            # A window without one whole step tells less than the program's start.
            old = traces.pop()
            (self.directory.path / old["file"]).unlink(missing_ok=True)
            self.manifest.values["files"].pop("trace", None)
        ended = start.get("ended")
        self.window.note.update(kind="program", ended=ended, steps=start["steps"])
        self.manifest.add_trace(path, "trace", {"kind": "program", **start})

    def _store_foreign_traces(self) -> None:
        for number, (path, name) in enumerate(self.foreign.traces, 1):
            # Ours, if there is one, is the trace of this capture; else the last that the program exported is.
            last = number == len(self.foreign.traces)
            own = "trace" in self.manifest.values["files"]
            stem = "trace" if last and not own else f"trace.program-{number}"
            self.manifest.add_trace(path, stem, {"kind": "program_profiler", "name": name, "steps": None})

    def _fill(self) -> None:
        window, values = self.window, self.manifest.values
        values["window"] = {**window.note, "phase_at_end": window.phase}
        values["steps"] = window.times
        values["calibration"] = window.calibration
        values["model"] = window.model
        values["compilations"] = {
            "total": self.log.compilations,
            "per_step": window.steps.compilations_per_step(),
            "log_records": self.log.activity,
        }
        skipped = sum(self.skips.reasons.values())
        values["cuda_graphs"] = {"empty_profile": self._empty_profile, "skips": skipped}
        values["profiler"] = {
            "program_has_its_own": self.foreign.seen,
            "profiled_from_start": self.window.whole.started_s > 0,
            "device_recorded_before": self.window.whole.recorded_device,
            "teardown_cupti": os.environ.get("TEARDOWN_CUPTI"),
            "disable_cupti_lazy_reinit": os.environ.get("DISABLE_CUPTI_LAZY_REINIT"),
        }
        switches = final_state(self._switches, self._inductor_config)
        values["switches"] = [switch.as_json() for switch in switches]
        if any(switch.changes_cache_key and switch.state == "on" for switch in switches):
            self.manifest.note(CACHE_NOTE)
        nothing = not values["traces"] and self._finished and "torch" in sys.modules
        if nothing:
            once = window.steps.called_once()
            self.manifest.note(SHORT_NOTE if once < _MANY else ONCE_NOTE.format(once))
