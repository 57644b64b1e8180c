"""Choosing the steps to profile while the program runs, and measuring around them.

The phases, in order; each boundary between two steps may end one:

    warmup     until compilation has settled, or ``--warmup`` steps
    before     steps timed without a profiler
    arming     steps with the profiler prepared: its slow start is over then, and an idle device warm again
    profiling  the window
    after      steps timed once the profiler is off
    variants   a few steps each under a profiler of the CPU only, of the device only (their times are kept)
    done       nothing of ours is in the way any more

``cold`` replaces all of them: the first call is profiled, compilation included.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Final

from kinetoscope.capturing import calibrate, environment
from kinetoscope.capturing.compile_log import CompileLog
from kinetoscope.capturing.counting import StepCount
from kinetoscope.capturing.directory import CaptureDirectory
from kinetoscope.capturing.hooks import StepHooks
from kinetoscope.capturing.lookahead import STEPS_LOOKED_AT
from kinetoscope.capturing.options import RunOptions
from kinetoscope.capturing.plan import Plan, RankAgreement
from kinetoscope.capturing.session import (
    Kinds,
    ProfileSession,
    device_module,
    is_capturing_graph,
    profiler_is_running,
    synchronize,
)
from kinetoscope.capturing.steps import EventKind
from kinetoscope.capturing.warmup import Warmup
from kinetoscope.capturing.whole import DEVICE_NOT_SEEN, UNSEEN_THREAD, Watchdog, WholeProfile

__all__ = ["ProgramStopped", "Window"]

_MOST_ARMING_STEPS: Final = 20
_ARMING_NS: Final = 100_000_000
_VARIANT_STEPS: Final = 5
_VARIANTS_NS: Final = 5e9


class ProgramStopped(SystemExit):
    """Raised in the program by ``--stop``: it ends as if it had called ``sys.exit(0)``."""


class Window:
    """Hears of every event of the program and runs the phases."""

    def __init__(
        self,
        options: RunOptions,
        directory: CaptureDirectory,
        log: CompileLog,
        warn: Callable[[str], None],
        agreement: RankAgreement,
        on_window_saved: Callable[[], None],
    ) -> None:
        self.phase = "waiting"
        self.note: dict[str, Any] = {"kind": None, "source": None}
        """What the manifest says about the window."""
        self.times: dict[str, Any] = {"before": None, "profiled": None, "after": None, "variants": {}}
        self.calibration: dict[str, Any] = {}
        self.model: dict[str, int | None] | None = None
        self.hooks: StepHooks | None = None
        self.steps = StepCount()
        self.whole = WholeProfile(options, warn)
        self.start_trace: Any = None
        self.window_trace: Any = None
        self._options = options
        self._directory = directory
        self._log = log
        log.on_record = self.steps.compilations.record_written
        self._warn = warn
        self._warmup = Warmup(options, agreement, warn)
        self._on_window_saved = on_window_saved
        self._busy = self._unseen_thread = False
        self._model_kind: EventKind | None = None
        self._watchdog = Watchdog(self.limit_passed)
        self._session: ProfileSession | None = None
        self._plan = Plan(0, 0, 0)
        self._variants: list[Kinds] = []
        self._armed_ns = self._arming_steps = 0

    # --- beginning and end ---

    def begin(self) -> None:
        """torch has been imported: from now on the program can be seen."""
        self.phase = "warmup"
        self._warmup.begin()
        if not self._options.cold and not profiler_is_running():
            self.whole.start()
            limits = self._options.limits
            self._watchdog.arm(limits.program_seconds, limits.growth_bytes)

    def may_change_thread(self) -> bool:
        """Whether steps of another thread may be followed: none was seen, and no profiler forbids it."""
        if self.phase != "warmup" or self.steps.number >= 0 or self._busy:
            return False
        self._unseen_thread = not self.whole.lets_others_stop_it
        return not self._unseen_thread

    def device_initialised(self) -> None:
        """The program has initialised its device. One that will have steps is recorded from the first on."""
        if self.steps.number >= 0 or not self._warmup.expects_steps(sys._getframe(1)):
            self._guarded(self.whole.record_device)

    def foreign_profiler(self) -> None:
        """The program starts a profiler of its own: ours gives way, with what it has."""
        if self.phase in ("done", "waiting"):
            return
        self.steps.catch_up()
        if self._session is not None and self.phase in ("profiling", "cold"):
            self._guarded(lambda: self._close_window("the program started its own profiler"))
        elif self.whole.running:
            self._guarded(lambda: self._keep_whole("the program started its own profiler", detach=False))
        elif self._session is not None:
            self._guarded(self._session.stop)
        self._finish()

    def program_ended(self) -> None:
        """The program is over: save what is being recorded."""
        if self._unseen_thread and self.steps.number < 0:
            self._warn(UNSEEN_THREAD)
        if self.whole.missed_device:
            self._warn(DEVICE_NOT_SEEN)
        self.steps.catch_up()
        if self.phase in ("profiling", "cold"):
            self._guarded(lambda: self._close_window("the program ended"))
        elif self.whole.running:
            self._guarded(lambda: self._keep_whole("the program ended"))
        elif self._session is not None:
            self._guarded(self._session.stop)
        if self.phase not in ("done", "waiting"):
            self.note.setdefault("steps_seen", self.steps.number + 1)
        self._finish()

    def limit_passed(self) -> None:
        """A profile has been open for longer than it may be, or the process has grown too much."""
        reached = self._watchdog.passed()
        if reached is None or self._busy or (self.hooks and not self.hooks.is_program_thread()):
            return
        self._watchdog.disarm()
        self.note["limit_reached"] = reached
        if self.phase in ("profiling", "cold"):
            self._guarded(lambda: self._close_window(f"limit of {reached}"))
        elif self.whole.running:
            self._guarded(lambda: self._keep_whole(f"limit of {reached}"))

    # --- events ---

    def on_event(self, kind: EventKind, key: int, subject: Any) -> None:
        """An optimizer stepped, or a compiled function or module is about to be called at the top."""
        if self._busy or self.phase in ("done", "waiting"):
            return
        began = self.steps.event(kind, key)
        if began and self._session is not None:
            self._session.end_step()  # at once, so that what is done here stands between two steps
        if self.phase == "warmup" and self.steps.number < STEPS_LOOKED_AT:
            self._warmup.look(sys._getframe(1), self.steps.number, began=began)
        if self._watchdog.past_deadline():
            self.limit_passed()
        # An optimizer knows the parameters that are trained: it is believed before a module.
        if kind != "compiled" and self._model_kind != "optimizer" and kind != self._model_kind:
            self.model, self._model_kind = calibrate.model_size(subject), kind
        if began and not is_capturing_graph():
            self._guarded(self._boundary)
        self.steps.count_ahead(self._idle_steps())

    def _idle_steps(self) -> int:
        """How many steps from here on may begin with nothing to do but to note the time."""
        if self.phase == "warmup" and not self.whole.running and not self._options.cold:
            return self._warmup.idle_steps(self.steps.number)
        if self.phase == "before":
            return self._plan.before - self.steps.timer.counted - 1
        if self.phase == "after":
            return self._plan.after - self.steps.timer.counted - 1
        return 0

    def _guarded(self, action: Callable[[], None]) -> None:
        """Run our own code inside the program: it must never make the program fail."""
        if self._busy:
            return
        self._busy = True
        try:
            action()
        except ProgramStopped:
            raise
        except Exception as error:
            self._warn(f"capturing stopped in phase {self.phase}: {type(error).__name__}: {error}")
            self._finish()
        finally:
            self._busy = False

    def _boundary(self) -> None:
        if self.steps.begin(time.perf_counter_ns()):
            self._warmup.restart()
        if self.phase == "warmup":
            self._warmup_boundary()
        elif self.phase == "cold":
            self._cold_boundary()
        elif self.phase == "before":
            if self.steps.timer.counted >= self._plan.before:
                self._end_before()
        elif self.phase == "arming":
            self._arming_steps -= 1
            if self._arming_steps <= 0 or time.perf_counter_ns() - self._armed_ns > _ARMING_NS:
                self._open_window()
        elif self.phase == "profiling":
            self._window_boundary()
        elif self.phase == "after":
            if self.steps.timer.counted >= self._plan.after:
                self._end_after()
        elif self.phase == "variants":
            self._variant_boundary()
        elif self.phase == "between variants":
            self._next_variant()

    def _warmup_boundary(self) -> None:
        if self.whole.running:
            if self._warmup.looks_long():
                self.whole.discard()
                self._watchdog.disarm()
            else:
                self.whole.record_device()
                self.whole.mark_step(self.steps.number)
        if self._options.cold:
            self._cold_boundary()
            return
        step, usual_ns = self.steps.number, self.steps.timer.usual_ns
        quiet = self.steps.compilations.quiet_steps(step)
        plan = self._warmup.plan(step, quiet, usual_ns, whole=self.whole.running)
        if plan is not None:
            self.note["settled"] = self._warmup.settled
            self._begin_before(plan)

    def _begin_before(self, plan: Plan) -> None:
        if self.whole.running:
            # The program has proven to be long enough. What was recorded stays until there is a window.
            self._keep_whole("the window begins", final=False)
        self._plan = plan
        only_key = self.steps.freeze()
        if self.hooks is not None:
            self.hooks.only_key = only_key
            self.hooks.narrow_modules()
        self.note.update(source=self.steps.unit, warmup_steps=self.steps.number, planned_steps=plan.profiled)
        if plan.before > 0:
            self._time_steps("before")
        else:
            self._arm()

    def _time_steps(self, phase: str) -> None:
        self.phase = phase
        synchronize()
        self.steps.timer.begin()

    # --- the window ---

    def _end_before(self) -> None:
        synchronize()
        self.times["before"] = self.steps.timer.end()
        # Not sooner: a device that idled meanwhile has cooled, and runs the next steps faster than usual.
        self.calibration["device_before"] = environment.device_state()
        self.calibration["before"] = calibrate.measure_costs()
        self._arm()

    def _arm(self) -> None:
        if profiler_is_running():
            self._warn("another profiler is on; no second one was started")
            self._finish()
            return
        self._session = self._new_session()
        self._session.prepare()
        self._watchdog.arm(self._options.limits.window_seconds)
        if device_module() is None:
            self._open_window()
        else:
            self.phase = "arming"
            self._armed_ns = time.perf_counter_ns()
            self._arming_steps = max(1, min(_MOST_ARMING_STEPS, self._plan.after // 2))

    def _new_session(self) -> ProfileSession:
        asked = self._options
        names = ("record_shapes", "with_stack", "profile_memory")
        return ProfileSession(**{name: getattr(asked, name) for name in names})

    def _open_window(self) -> None:
        assert self._session is not None
        self.phase = "profiling"
        self.note.update(kind="steps", first_step=self.steps.number, activities=self._session.activities)
        synchronize()
        self._session.start()
        self.steps.timer.begin()
        self.steps.pulse.closing = self._session.end_step
        self._session.mark_step(self.steps.number)

    def _window_boundary(self) -> None:
        assert self._session is not None
        if self.steps.timer.counted < self._plan.profiled:
            self._session.mark_step(self.steps.number)
            return
        self._close_window("complete")
        if self._plan.after > 0:
            self._time_steps("after")
        else:
            self._finish(stop=self._options.stop)

    def _close_window(self, why: str) -> None:
        session, self._session = self._session, None
        assert session is not None
        self._watchdog.disarm()
        cold = self.phase == "cold"
        self.phase = "closing"
        self.steps.pulse.closing = None
        session.end_step()
        synchronize()
        self.times["profiled"] = self.steps.timer.end(whole=why == "complete")
        session.stop()
        self.note.update(ended=why, steps=max(int(cold), self.steps.timer.counted))
        path = self._directory.temporary_trace()
        session.save(path)
        self.window_trace = path
        self._on_window_saved()

    def _end_after(self) -> None:
        synchronize()
        self.times["after"] = self.steps.timer.end()
        self.calibration["device_after"] = environment.device_state()
        self.calibration["after"] = calibrate.measure_costs()
        self.calibration["profiled"] = calibrate.measure_profiled_costs()
        step_ns = self.times["after"]["mean_ns"] or 0
        kinds: list[Kinds] = ["cpu"] if device_module() is None else ["cpu", "device"]
        if step_ns * _VARIANT_STEPS * len(kinds) < _VARIANTS_NS and not self._options.stop:
            self._variants = kinds
        self._next_variant()

    def _next_variant(self) -> None:
        if not self._variants or profiler_is_running():
            self._finish(stop=self._options.stop)
            return
        self.phase = "variants"
        self._session = ProfileSession(self._variants[0])
        self._session.start()
        self.steps.timer.begin()

    def _variant_boundary(self) -> None:
        if self.steps.timer.counted < _VARIANT_STEPS:
            return
        session, self._session = self._session, None
        assert session is not None
        synchronize()
        self.times["variants"][self._variants.pop(0)] = self.steps.timer.end()
        session.stop()
        self.phase = "between variants"  # what is open here must not close in the next profile

    # --- other windows ---

    def _cold_boundary(self) -> None:
        if self.phase == "warmup":
            from kinetoscope.capturing.cold import throw_away_compile

            with self._log.muted():
                self.note["throw_away_compile"] = throw_away_compile(self._warn)
            self._session = self._new_session()
            self.phase = "cold"
            self.note.update(kind="cold", first_step=0, activities=self._session.activities)
            self._session.start()
            self.steps.timer.begin()
            self._session.mark_step(0)
            self._watchdog.arm(self._options.limits.cold_seconds)
        elif self.steps.number > 0:
            self.note["source"] = self.steps.unit
            self._close_window("complete")
            self._finish(stop=self._options.stop)

    def _keep_whole(self, why: str, *, final: bool = True, detach: bool = True) -> None:
        self._watchdog.disarm()
        steps = self.whole.marked
        path = self._directory.path / f".start.{self._directory.temporary_trace().name}"
        activities = self.whole.activities
        self.whole.keep(path, detach=detach)
        self.start_trace = {"path": path, "steps": steps, "ended": why, "activities": activities}
        if final:
            self.note["source"] = self.steps.unit

    def _finish(self, *, stop: bool = False) -> None:
        self.phase = "done"
        self._watchdog.disarm()
        if self.hooks is not None:
            self.hooks.stop()
        if stop:
            raise ProgramStopped(0)
