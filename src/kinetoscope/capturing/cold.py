"""The throw-away compile before a first call is profiled.

The first compilation of a process also imports the compiler, starts its workers and initialises the device's
libraries. A throw-away compile takes that on itself, so that the profile of the program's first call shows
the program's own compilation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kinetoscope.capturing.session import device_module

__all__ = ["throw_away_compile"]


def throw_away_compile(warn: Callable[[str], None]) -> dict[str, Any]:
    """Compile and run a tiny function, forward and backward, on the program's device.

    It draws no random numbers. It takes compile ids: the program's first frame is then not 0.
    """
    import torch

    began = time.perf_counter_ns()
    device = device_module()
    name = "cpu" if device is None else device[0]
    error = None
    try:
        with torch.enable_grad():
            value = torch.ones((2, 2), device=name, requires_grad=True)
            torch.compile(_throw_away)(value).sum().backward()
            if device is not None:
                device[1].synchronize()
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}".splitlines()[0]
        warn(f"the throw-away compile failed ({error}); the first call's profile holds initialisation")
    return {"device": name, "ns": time.perf_counter_ns() - began, "error": error}


def _throw_away(value: Any) -> Any:
    return value.sin().relu()
