"""Capturing from inside a program, and hooks that are not there."""

from __future__ import annotations

import gzip
import json
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from conftest import unexpected  # noqa: E402
from kinetoscope.capturing import calibrate  # noqa: E402
from kinetoscope.capturing.compile_log import CompileLog, CudagraphSkips  # noqa: E402
from kinetoscope.capturing.directory import CaptureDirectory  # noqa: E402
from kinetoscope.capturing.foreign import ForeignProfiler  # noqa: E402
from kinetoscope.capturing.hooks import StepHooks  # noqa: E402
from kinetoscope.capturing.profiler import capture, trace_handler  # noqa: E402
from kinetoscope.capturing.session import ProfileSession, profiler_is_running  # noqa: E402
from kinetoscope.capturing.switches import apply_inductor_switches  # noqa: E402
from kinetoscope.errors import CaptureError, UsageError  # noqa: E402

if TYPE_CHECKING:
    from conftest import Runner

pytestmark = pytest.mark.filterwarnings("default")


def manifest(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "manifest.json").read_text())
    return found


def names(path: Path, file: str = "trace.json.gz") -> list[str]:
    with gzip.open(path / file) as stream:
        return [event.get("name", "") for event in json.load(stream)["traceEvents"]]


@pytest.fixture
def warnings() -> list[str]:
    return []


# --- capture() ---


def test_capture_steps(tmp_path: Path) -> None:
    x = torch.ones(4)
    with capture(tmp_path, warmup=3, active=4, record_shapes=True) as section:
        for _ in range(12):
            x.sin()
            section.step()
    found = manifest(tmp_path)
    assert found["status"] == "complete"
    assert found["window"] | {"kind": "steps", "steps": 4, "first_step": 3} == found["window"]
    assert [found["steps"][part]["steps"] for part in ("before", "profiled", "after")] == [3, 4, 5]
    assert names(tmp_path).count("aten::sin") == 4
    assert sorted(n for n in names(tmp_path) if n.startswith("ProfilerStep")) == [
        f"ProfilerStep#{i}" for i in range(3, 7)
    ]


def test_capture_without_steps(tmp_path: Path) -> None:
    with capture(tmp_path):
        torch.ones(4).cos()
    assert manifest(tmp_path)["window"]["kind"] == "program"
    assert names(tmp_path).count("aten::cos") == 1


def test_capture_saves_what_it_has_when_the_block_fails(tmp_path: Path) -> None:
    def work() -> None:
        with capture(tmp_path, warmup=1, active=5) as section:
            for step in range(3):
                section.step()
                torch.ones(4).cos()
                1 / (2 - step)

    with pytest.raises(ZeroDivisionError):
        work()
    assert manifest(tmp_path)["window"]["ended"] == "the block ended"
    assert manifest(tmp_path)["program"]["error"] == "ZeroDivisionError"
    assert names(tmp_path).count("aten::cos") == 3


def test_capture_that_ends_in_warmup_says_so(tmp_path: Path) -> None:
    with capture(tmp_path, warmup=5) as section:
        section.step()
    assert "after 1 of 5 steps" in unexpected(manifest(tmp_path))[0]
    assert manifest(tmp_path)["traces"] == []


def test_capture_refuses_a_second_profiler_and_nonsense(tmp_path: Path) -> None:
    with torch.profiler.profile(), pytest.raises(CaptureError, match="profiler is on already"):
        capture(tmp_path).__enter__()
    with pytest.raises(UsageError):
        capture(tmp_path, warmup=-1)
    with pytest.raises(UsageError):
        capture(tmp_path, warmup=1, cold=True)


def test_trace_handler(tmp_path: Path) -> None:
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    with torch.profiler.profile(schedule=schedule, on_trace_ready=trace_handler(tmp_path)) as profile:
        for _ in range(9):
            torch.ones(4).cos()
            profile.step()
    found = manifest(tmp_path)
    assert [trace["file"] for trace in found["traces"]] == ["trace.json.gz", "trace.cycle-2.json.gz"]
    assert found["files"]["trace"] == "trace.json.gz"
    for trace in found["traces"]:
        assert names(tmp_path, trace["file"]).count("aten::cos") == 2


def test_capture_inside_a_captured_program(runner: Runner) -> None:
    script = runner.script(
        "import torch\nfrom kinetoscope.capturing.profiler import capture\n"
        "with capture('inner') as section: torch.ones(4).cos()\n"
    )
    outer = runner.capture(script)
    assert outer.ran.status == 0, outer.ran.stderr
    assert names(runner.directory / "inner").count("aten::cos") == 1
    assert unexpected(outer.manifest()) == []


# --- hooks that a torch does not have ---


def test_without_optimize_context(warnings: list[str]) -> None:
    hooks = StepHooks(lambda *_: None, warnings.append, lambda: False)
    hooks.watch_compiled(types.ModuleType("eval_frame"))
    assert "lost: steps told by compiled calls" in warnings[0]


def test_without_optimizer_hooks(warnings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys.modules["torch.optim.optimizer"], "_global_optimizer_post_hooks")
    hooks = StepHooks(lambda *_: None, warnings.append, lambda: False)
    hooks.watch_optimizers()
    assert "lost: steps told by optimizers" in warnings[0]
    hooks.stop()


def test_without_the_cudagraph_hook(warnings: list[str]) -> None:
    CudagraphSkips(warnings.append).watch(types.ModuleType("cudagraph_utils"))
    assert "lost: the reasons why CUDA graphs were skipped" in warnings[0]


def test_without_inductors_switches(warnings: list[str]) -> None:
    switches = apply_inductor_switches(types.ModuleType("config"), warnings.append, {})
    assert {switch.state for switch in switches} == {"missing"}
    assert any("lost: source lines of kernels" in warning for warning in warnings)


def test_without_the_log(warnings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("torch._logging._internal.LazyTraceHandler")
    CompileLog(CaptureDirectory(tmp_path), keep_source=True, warn=warnings.append).attach()
    assert "lost: reasons of graph breaks" in warnings[0]


def test_without_the_profilers_inner_functions(warnings: list[str], tmp_path: Path) -> None:
    foreign = ForeignProfiler(CaptureDirectory(tmp_path), lambda: None, warnings.append)
    foreign.watch(types.ModuleType("profiler"))
    assert len(warnings) == 2


HIDDEN = """\
import sys
from kinetoscope.capturing.hooks import StepHooks
watch = StepHooks.watch_compiled
def watch_compiled(self, module):
    kept = module.OptimizeContext
    del module.OptimizeContext
    watch(self, module)
    module.OptimizeContext = kept
StepHooks.watch_compiled = watch_compiled
from kinetoscope.cli.run import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_program_is_captured_although_a_hook_is_missing(runner: Runner) -> None:
    script = runner.script(
        "import torch\nf = torch.compile(lambda x: x.cos(), backend='eager')\n"
        "for _ in range(5): f(torch.ones(2))\n"
    )
    path = runner.directory / "capture"
    ran = runner.python("-c", HIDDEN, "--no-report", "-o", path, script)
    assert (ran.stdout, ran.stderr, ran.status) == ("", "", 0)
    found = manifest(path)
    assert "lost: steps told by compiled calls" in unexpected(found)[0]
    assert found["window"]["kind"] == "program"
    assert names(path).count("aten::cos") >= 5


# --- costs ---


@pytest.fixture
def hooks() -> Iterator[StepHooks]:
    made = StepHooks(lambda *_: None, lambda _: None, lambda: False)
    yield made
    made.stop()


def test_hooks_cost_little(hooks: StepHooks) -> None:
    import time

    hooks.watch_optimizers()
    enter = hooks._entering(1)
    best = float("inf")
    for _ in range(20):
        began = time.perf_counter_ns()
        for _ in range(1000):
            enter()()
        best = min(best, (time.perf_counter_ns() - began) / 1000)
    # 1 % of a step of 2 ms is 20 microseconds.
    assert best < 5_000


def test_module_calls_are_seen_without_a_frame_of_ours(hooks: StepHooks) -> None:
    events: list[tuple[str, Any]] = []
    hooks._on_event = lambda kind, key, subject: events.append((kind, subject))
    stacks: list[list[str]] = []

    class Inner(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            frame = sys._getframe()
            files = []
            while frame.f_back is not None:
                files.append(frame.f_code.co_filename)
                frame = frame.f_back
            stacks.append(files)
            return x

    original = torch.nn.Module.__call__
    net = torch.nn.Sequential(Inner(), torch.nn.Sequential(Inner()))
    hooks.watch_modules()
    for _ in range(3):
        net(1)
    hooks.narrow_modules()
    assert "__call__" not in Inner.__dict__
    net(1)
    hooks.stop()
    net(1)
    assert events == [("module", net)] * 4
    assert torch.nn.Module.__call__ is original
    assert "__call__" not in torch.nn.Sequential.__dict__
    assert not any("kinetoscope/capturing" in file for files in stacks for file in files)


def test_costs_are_measured() -> None:
    state = torch.random.get_rng_state()
    costs = calibrate.measure_costs()
    profiled = calibrate.measure_profiled_costs()
    assert costs["spin_ns"]
    assert costs["cpu_operator_ns"]
    assert profiled["cpu"]["cpu_operator_ns"]
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("short_way", [True, False])
def test_the_slow_first_mark_of_a_process_is_not_in_the_window(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, short_way: bool
) -> None:
    """The first mark of a process takes milliseconds, which are whole steps: it is made before recording."""
    made: list[tuple[str, bool]] = []
    where: Any = torch.autograd if short_way else torch.profiler
    name = "_record_function_with_args_enter" if short_way else "record_function"
    original = getattr(where, name)

    def noting(name: str) -> Any:
        made.append((name, profiler_is_running()))
        return original(name)

    monkeypatch.setattr(where, name, noting)
    if not short_way:
        monkeypatch.delattr(torch.autograd, "_record_function_with_args_enter")
    session = ProfileSession()
    session.prepare()
    session.start()
    session.mark_step(1)
    session.mark_step(2)
    session.stop()
    assert made == [("ProfilerStep", False), ("ProfilerStep#1", True), ("ProfilerStep#2", True)]
    session.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    marks = [(e["name"], e["cat"]) for e in events if str(e.get("name")).startswith("ProfilerStep")]
    assert marks == [("ProfilerStep#1", "user_annotation"), ("ProfilerStep#2", "user_annotation")]


def test_no_warning_of_events_lost_between_cycles() -> None:
    """torch 2.10 to 2.12 give it at every profile that does not ask to keep events, also of one cycle."""
    assert ProfileSession("cpu")._profile.acc_events


def test_a_profile_knows_what_was_open_when_it_stopped() -> None:
    for all_threads in (False, True):
        for is_open in (False, True):
            session = ProfileSession("cpu", all_threads=all_threads)
            session.start()
            mark = torch.profiler.record_function("outer")
            if is_open:
                mark.__enter__()
            for _ in range(100):
                torch.ones(4) + 1
            session.stop()
            assert session.left_open() is is_open
            if is_open:
                mark.__exit__(None, None, None)


CLOSED_IN_THE_NEXT = """\
import ctypes, gc, torch
from kinetoscope.capturing import whole
from kinetoscope.capturing.options import RunOptions
profile = whole.WholeProfile(RunOptions(target="p", directory="d"), print)
profile.start()
# what an operator is to the profiler, and as many as show what is written into freed memory
marks = [torch.autograd._record_function_with_args_enter(str(n)) for n in range(10000)]
for _ in range(3000): torch.ones(4)
whole.device_module = lambda: ("stand-in", torch)
profile.record_device()
gc.collect()
ctypes.CDLL(None).malloc_trim(0)
for mark in reversed(marks): torch.autograd._record_function_with_args_exit(mark)
profile.discard(detach=False)
print("done")
"""


def test_an_operator_that_closes_in_the_next_profile_does_no_harm(runner: Runner) -> None:
    """Of the same kind, that crashes torch 2.13 in most runs."""
    ran = runner.python("-c", CLOSED_IN_THE_NEXT)
    assert (ran.stdout, ran.status) == ("done\n", 0), ran.stderr


STILL_OPEN = """\
import sys, torch
from kinetoscope.capturing.session import ProfileSession
kind = {"all_threads": sys.argv[1] == "all"}
def marks():  # in a generator, as much of what stays open is
    for number in range(2000):
        with torch.profiler.record_function(str(number)): yield
first = ProfileSession("cpu", **kind)
first.start()
opened = [marks() for _ in range(2000)]
for each in opened: next(each)
first.stop()
del first
second = torch.profiler.profile() if sys.argv[2] == "own" else ProfileSession("cpu", **kind)
second.start()
kept = [torch.ones(n) for n in range(5000)]
for each in reversed(opened): each.close()
second.stop()
print("done")
"""


@pytest.mark.parametrize(("kind", "then"), [("this", "ours"), ("all", "ours"), ("this", "own")])
def test_a_mark_that_closes_in_a_later_profile_does_no_harm(runner: Runner, kind: str, then: str) -> None:
    """As an epoch that began in the window and ends in a later profile of ours or of the program."""
    ran = runner.python("-c", STILL_OPEN, kind, then)
    assert (ran.stdout, ran.status) == ("done\n", 0), ran.stderr


def test_a_mark_that_was_open_is_as_good_as_new(tmp_path: Path) -> None:
    mark = torch.profiler.record_function("used again")
    first = ProfileSession("cpu")
    first.start()
    with mark:
        first.stop()
    second = ProfileSession("cpu")
    second.start()
    with mark:
        time.sleep(0.02)
    torch.ones(4)
    second.stop()
    second.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    (again,) = [event for event in events if event.get("name") == "used again"]
    assert 20_000 <= again["dur"] < 1_000_000  # microseconds
