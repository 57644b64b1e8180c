"""The checks of ``kinetoscope doctor``; each finds one thing out and never raises."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from kinetoscope.capturing import environment
from kinetoscope.capturing.switches import INDUCTOR_SWITCHES, Switch, apply_inductor_switches

__all__ = ["Check", "examine"]

_OLDEST_TORCH: Final = (2, 6)
_ANALYSE: Final = ("msgspec", "numpy", "polars", "isal", "rich", "typer")
_TIGHT_BYTES: Final = 2 << 30


@dataclass(frozen=True)
class Check:
    """One finding: ``problem`` stands in the way of something, ``note`` is good to know."""

    group: str
    name: str
    state: Literal["ok", "note", "problem"]
    found: str
    advice: str = ""

    def as_json(self) -> dict[str, Any]:
        """The check as plain values."""
        return asdict(self)


def examine() -> list[Check]:
    """Run every check."""
    checks: list[Check] = []
    torch = _import_torch()
    for group, check in (
        ("Program", lambda: _versions(torch)),
        ("Device", lambda: _device(torch)),
        ("Compiler", lambda: _compiler(torch)),
        ("Switches that a capture turns on", lambda: _switches(torch)),
        ("Hooks into torch", lambda: _hooks(torch)),
        ("Surroundings", _surroundings),
    ):
        checks += _safely(group, check)
    return checks


def _safely(group: str, check: Callable[[], Iterator[Check]]) -> list[Check]:
    found: list[Check] = []
    try:
        found.extend(Check(group, *entry[1:]) for entry in map(_fields, check()))
    except Exception as error:
        found.append(Check(group, "check", "note", f"could not be made: {type(error).__name__}: {error}"))
    return found


def _fields(check: Check) -> tuple[str, str, Literal["ok", "note", "problem"], str, str]:
    return check.group, check.name, check.state, check.found, check.advice


def _import_torch() -> Any:
    try:
        import torch
    except Exception as error:  # a broken installation raises OSError and worse
        return error
    return torch


def _versions(torch: Any) -> Iterator[Check]:
    yield Check("", "python", "ok", platform.python_version())
    if isinstance(torch, Exception):
        found = f"cannot be imported: {torch}".splitlines()[0]
        yield Check("", "torch", "problem", found, "nothing can be captured here; reports can still be made")
    else:
        numbers = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
        old = numbers < _OLDEST_TORCH
        yield Check(
            "",
            "torch",
            "problem" if old else "ok",
            str(torch.__version__),
            "captures need torch 2.6 or newer; traces of older ones can be read" if old else "",
        )
    missing = [name for name in _ANALYSE if importlib.util.find_spec(name) is None]
    if missing:
        advice = "run --no-report here, and report where they are (pip install kinetoscope)"
        yield Check("", "packages", "note", f"for reports, {', '.join(missing)} missing", advice)
    else:
        yield Check("", "packages", "ok", "reports can be made here")


def _device(torch: Any) -> Iterator[Check]:
    driver = environment.driver_version()
    if driver:
        yield Check("", "driver", "ok", f"NVIDIA {driver}")
    if isinstance(torch, Exception):
        return
    found = False
    for name in ("cuda", "xpu"):
        module = getattr(torch, name, None)
        if module is None or not module.is_available():
            continue
        found = True
        is_rocm = name == "cuda" and getattr(torch.version, "hip", None)
        for index in range(module.device_count()):
            yield Check("", f"{'rocm' if is_rocm else name} {index}", "ok", module.get_device_name(index))
        activity = getattr(torch.profiler.ProfilerActivity, name.upper(), None)
        supported = activity in torch.profiler.supported_activities()
        advice = "" if supported else "this build of torch records no device events"
        yield Check("", "profiler", "ok" if supported else "problem", f"{name} activity", advice)
        if name == "cuda" and not is_rocm:
            yield from _cuda(torch, driver)
    if not found:
        advice = "the driver is there and torch cannot use it: is this a CPU build?" if driver else ""
        yield Check("", "device", "note", "no accelerator: the CPU is profiled", advice)


def _cuda(torch: Any, driver: str | None) -> Iterator[Check]:
    needed = environment.needs_empty_profile(driver, torch.version.cuda)
    found = "needed, and made before the first graph" if needed else "not needed"
    yield Check("", "empty profile", "note" if needed else "ok", f"{found} (CUDA {torch.version.cuda})")
    with contextlib.suppress(OSError):
        text = Path("/proc/driver/nvidia/params").read_text(encoding="utf-8", errors="replace")
        if "RmProfilingAdminOnly: 1" in text and hasattr(os, "geteuid") and os.geteuid() != 0:
            yield Check(
                "",
                "counters",
                "note",
                "hardware counters are for root only; tracing does not need them",
                "Nsight Compute does: set NVreg_RestrictProfilingToAdminUsers=0, or run it as root",
            )
    yield _device_events(torch)


def _device_events(torch: Any) -> Check:
    """Make a tiny profile and see whether the device's side arrives."""
    from kinetoscope.capturing.session import ProfileSession

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "trace.json"
        tensor = torch.ones(8, device="cuda")
        session = ProfileSession()
        session.start()
        tensor.add_(1)
        session.stop()
        session.save(path)
        seen = '"cat": "kernel"' in path.read_text(encoding="utf-8", errors="replace")
    if seen:
        return Check("", "CUPTI", "ok", "device events arrive")
    advice = "another tool may hold CUPTI (nsys, ncu, DCGM), or the container lacks permissions"
    return Check("", "CUPTI", "problem", "no device events arrive", advice)


def _compiler(torch: Any) -> Iterator[Check]:
    name = os.environ.get("CXX") or next(filter(shutil.which, ("g++", "clang++", "c++")), None)
    if name is None or shutil.which(name) is None:
        yield Check(
            "", "C++", "problem", f"{name or 'no compiler'} not found", "Inductor needs one: install g++"
        )
    else:
        done = subprocess.run([name, "--version"], capture_output=True, text=True, timeout=30, check=False)
        yield Check("", "C++", "ok", (done.stdout.splitlines() or [name])[0])
    if isinstance(torch, Exception):
        return
    if importlib.util.find_spec("triton") is None:
        gpu = torch.cuda.is_available()
        advice = "Inductor needs it for GPU kernels: pip install triton" if gpu else ""
        yield Check("", "Triton", "problem" if gpu else "ok", "not installed", advice)
    else:
        triton: Any = importlib.import_module("triton")
        yield Check("", "Triton", "ok", str(triton.__version__))


def _switches(torch: Any) -> Iterator[Check]:
    user_log = os.environ.get("TORCH_TRACE")
    if user_log:
        yield Check("", "compile_log", "note", f"TORCH_TRACE={user_log} is yours; its log is copied")
    else:
        yield Check("", "compile_log", "ok", "TORCH_TRACE into the capture, while torch is imported")
    if isinstance(torch, Exception):
        for switch in INDUCTOR_SWITCHES:
            yield Check("", switch.name, "note", f"cannot be looked at without torch: {switch.why}")
        return
    import torch._inductor.config as config

    for applied in apply_inductor_switches(config, lambda _: None):
        yield _described(applied)


def _described(switch: Switch) -> Check:
    if switch.state == "missing":
        return Check("", switch.name, "problem", "this torch does not have it", f"lost: what {switch.why}")
    cache = "; changes cache keys: the first captured run compiles anew" if switch.changes_cache_key else ""
    if switch.state == "left":
        return Check("", switch.name, "note", f"{switch.value}, left as {switch.by} set it; {switch.why}")
    decided = "turned on" if switch.by == "kinetoscope" else "on already"
    return Check("", switch.name, "ok", f"{decided}; {switch.why}{cache}")


_HOOKS: Final = (
    ("torch.optim.optimizer", "register_optimizer_step_post_hook", "steps told by optimizers"),
    ("torch._dynamo.eval_frame", "OptimizeContext", "steps told by compiled calls"),
    ("torch.nn", "Module", "steps told by module calls"),
    ("torch._inductor.cudagraph_utils", "log_cudagraph_skip_and_bump_counter", "why CUDA graphs are skipped"),
    ("torch._dynamo.utils", "counters", "counters.json"),
    ("torch._dynamo.utils", "compile_times", "compile_times.txt"),
    ("torch.autograd.profiler", "_prepare_profiler", "giving way to a profiler of the program"),
    ("torch.cuda", "_lazy_init", "hearing of the first use of the device"),
    ("torch.profiler._utils", "_init_for_cuda_graphs", "the work-around for old drivers"),
)


def _hooks(torch: Any) -> Iterator[Check]:
    if isinstance(torch, Exception):
        return
    for module, name, purpose in _HOOKS:
        try:
            present = hasattr(importlib.import_module(module), name)
        except ImportError:
            present = False
        state: Literal["ok", "problem"] = "ok" if present else "problem"
        yield Check(
            "", f"{name}", state, purpose if present else "not there", "" if present else f"lost: {purpose}"
        )


def _surroundings() -> Iterator[Check]:
    here = Path.cwd()
    writable = os.access(here, os.W_OK)
    advice = "" if writable else "choose a directory with run -o"
    yield Check("", "directory", "ok" if writable else "problem", str(here), advice)
    free = shutil.disk_usage(here).free
    tight = free < _TIGHT_BYTES
    advice = "a trace of a large program takes gigabytes while it is written" if tight else ""
    yield Check("", "disk", "problem" if tight else "ok", f"{free / 1e9:.1f} GB free", advice)
    for name, why in (
        ("TORCHDYNAMO_DISABLE", "nothing is compiled"),
        ("TORCH_COMPILE_DISABLE", "nothing is compiled"),
        ("TEARDOWN_CUPTI", "decides whether the profiler stays attached after a profile"),
        ("KINETO_CONFIG", "changes what the profiler records"),
        ("KINETO_USE_DAEMON", "another program may start profiles in this one"),
        ("CUDA_LAUNCH_BLOCKING", "every launch waits: times are not those of the program"),
        ("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "every run compiles anew"),
    ):
        if os.environ.get(name):
            yield Check("", name, "note", f"{os.environ[name]}: {why}")
    if sys.gettrace() is not None:
        yield Check(
            "", "debugger", "note", "a Python tracer is active: CPU times are not those of the program"
        )
    cpu = environment.cpu()
    if cpu["governor"] not in (None, "performance"):
        yield Check("", "governor", "note", f"{cpu['governor']}: CPU-bound times vary with the clock")
