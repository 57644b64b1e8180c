"""What a capture notes about the machine: versions, devices, driver, processor, clocks.

Nothing here initialises a device: a program that forks later would break. Facts about a device are read only
once the program uses it; ``doctor``, which has a process of its own, may look further.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from kinetoscope.capturing.session import device_module

__all__ = [
    "accelerator",
    "cpu",
    "device_state",
    "driver_version",
    "needs_empty_profile",
    "relevant_environment",
    "versions",
]

# Older drivers, or CUDA before 12, lose events or fail when a graph was captured before the first profile.
_FIXED_DRIVER: Final = (525, 85, 12)
_PREFIXES: Final = (
    "TORCH",
    "PYTORCH",
    "INDUCTOR",
    "TRITON",
    "CUDA_",
    "NCCL_",
    "OMP_",
    "MKL_",
    "KINETO",
    "TEARDOWN_CUPTI",
    "DISABLE_CUPTI",
    "HIP_",
    "ROCR_",
    "HSA_",
)
_SMI_FIELDS: Final = (
    ("clocks.sm", "sm_mhz"),
    ("clocks.mem", "memory_mhz"),
    ("clocks.max.sm", "max_sm_mhz"),
    ("power.draw", "power_w"),
    ("power.limit", "power_limit_w"),
    ("temperature.gpu", "temperature_c"),
    ("persistence_mode", "persistence_mode"),
    ("pstate", "pstate"),
)


def versions() -> dict[str, Any]:
    """Versions of Python, torch and what torch was built with; None for what is absent."""
    torch = sys.modules.get("torch")
    built = getattr(torch, "version", None)
    triton = sys.modules.get("triton")
    return {
        "python": platform.python_version(),
        "torch": getattr(torch, "__version__", None) and str(getattr(torch, "__version__", "")),
        "torch_git": getattr(built, "git_version", None),
        "cuda": getattr(built, "cuda", None),
        "hip": getattr(built, "hip", None),
        "xpu": getattr(built, "xpu", None),
        "triton": getattr(triton, "__version__", None),
        "system": platform.platform(),
    }


def driver_version() -> str | None:
    """The NVIDIA kernel driver's version, without starting a process where the kernel tells it."""
    with contextlib.suppress(OSError):
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
        found = re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", text)
        if found:
            return found.group(1)
    rows = _smi("driver_version")
    return rows[0][0] if rows else None


def needs_empty_profile(driver: str | None, cuda: str | None) -> bool:
    """Whether profiling with CUDA graphs needs an empty profile before the first graph."""
    if cuda is not None and int(cuda.split(".")[0]) < 12:
        return True
    if driver is None:
        return False
    numbers = tuple(int(part) for part in re.findall(r"\d+", driver)[:3])
    return numbers < _FIXED_DRIVER


def accelerator() -> dict[str, Any] | None:
    """The devices that the program uses, None on a CPU."""
    device = device_module()
    if device is None:
        return None
    name, module = device
    torch = sys.modules["torch"]
    devices = []
    for index in range(module.device_count()):
        entry: dict[str, Any] = {"index": index, "name": None}
        with contextlib.suppress(Exception):
            properties = module.get_device_properties(index)
            entry["name"] = getattr(properties, "name", None)
            for key, attribute in (
                ("memory_bytes", "total_memory"),
                ("multiprocessors", "multi_processor_count"),
                ("capability_major", "major"),
                ("capability_minor", "minor"),
                ("architecture", "gcnArchName"),
            ):
                if hasattr(properties, attribute):
                    entry[key] = getattr(properties, attribute)
        devices.append(entry)
    current = None
    with contextlib.suppress(Exception):
        current = module.current_device()
    is_rocm = getattr(torch.version, "hip", None) is not None
    runtime = None
    with contextlib.suppress(Exception):
        runtime = torch._C._cuda_getDriverVersion() if name == "cuda" and not is_rocm else None
    return {
        "kind": "rocm" if name == "cuda" and is_rocm else name,
        "current": current,
        "devices": devices,
        "driver": driver_version() if name == "cuda" and not is_rocm else None,
        "driver_api": runtime,
    }


def device_state() -> list[dict[str, Any]] | None:
    """Clocks, power and temperature of NVIDIA devices now; None where they cannot be read."""
    device = device_module()
    if device is None or device[0] != "cuda":
        return None
    rows = _smi("index", *(field for field, _ in _SMI_FIELDS))
    if not rows:
        return None
    names = ["index", *(key for _, key in _SMI_FIELDS)]
    return [{key: _number(value) for key, value in zip(names, row, strict=False)} for row in rows]


def cpu() -> dict[str, Any]:
    """The processor: model, how many of its cores this process may use, and the frequency governor."""
    model = None
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
        model = found.group(1) if found else None
    governor = None
    with contextlib.suppress(OSError):
        governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").read_text().strip()
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    torch = sys.modules.get("torch")
    threads = None
    with contextlib.suppress(Exception):
        threads = torch.get_num_threads() if torch is not None else None
    return {
        "model": model or platform.processor() or None,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "usable_cores": None if usable is None else len(usable),
        "affinity": usable,
        "pinned": None if usable is None else len(usable) < (os.cpu_count() or 0),
        "governor": governor,
        "torch_threads": threads,
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
    }


def relevant_environment() -> dict[str, str]:
    """Environment variables that change what torch, its compiler or the drivers do."""
    secret = re.compile(r"TOKEN|SECRET|KEY|PASSWORD|CREDENTIAL", re.IGNORECASE)
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_PREFIXES) and not secret.search(name)
    }


def _smi(*fields: str) -> list[list[str]]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [[part.strip() for part in line.split(",")] for line in done.stdout.splitlines() if line.strip()]


def _number(text: str) -> float | int | str | None:
    if text.startswith("[") or text == "N/A":
        return None
    try:
        value = float(text)
    except ValueError:
        return text
    return int(value) if value.is_integer() else value
