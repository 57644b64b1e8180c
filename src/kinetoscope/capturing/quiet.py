"""Keeping Kineto from writing to the program's stderr.

Kineto announces each profile on stderr. The program would not have printed that, so its voice is turned off
while a profiler of ours starts and stops, and only then: a program that profiles itself keeps its lines.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from typing import Any, Final

__all__ = ["KinetoVoice"]

_VARIABLE: Final = "KINETO_LOG_LEVEL"
_SILENT: Final = 99
# What Kineto takes when the variable is not set: errors only, and the announcements.
_DEFAULT: Final = 4
_SYMBOL: Final = "_ZN9libkineto6Logger14severityLevel_E"


class KinetoVoice:
    """Kineto's log level, found in torch's library; by the environment where it is not found there."""

    def __init__(self) -> None:
        self._level: Any = None
        self._looked = False
        self._first = True

    def off(self) -> None:
        """Write nothing from now on."""
        if not self._looked:
            self._looked = True
            self._level = _find()
        if self._first and _VARIABLE not in os.environ:
            # Kineto reads the variable when the first profile is prepared, and never again.
            os.environ[_VARIABLE] = str(_SILENT)
        if self._level is not None:
            self._level.value = _SILENT

    def on(self) -> None:
        """Write as the program would have it."""
        if self._first:
            self._first = False
            if os.environ.get(_VARIABLE) == str(_SILENT):
                del os.environ[_VARIABLE]
        if self._level is not None:
            self._level.value = _users_level()


def _users_level() -> int:
    try:
        return int(os.environ[_VARIABLE])
    except (KeyError, ValueError):
        return _DEFAULT


def _find() -> Any:
    torch = sys.modules.get("torch")
    directory = os.path.join(os.path.dirname(getattr(torch, "__file__", None) or ""), "lib")
    for name in ("libtorch_cpu.so", "libtorch_cpu.dylib"):
        path = os.path.join(directory, name)
        if os.path.exists(path):
            with contextlib.suppress(OSError, ValueError):
                return ctypes.c_int.in_dll(ctypes.CDLL(path), _SYMBOL)
    return None
