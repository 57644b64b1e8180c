"""kinetoscope explains the performance of torch.compile programs.

Public names are imported on first use, so that ``import kinetoscope`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kinetoscope.api import Report as Report
    from kinetoscope.api import report as report
    from kinetoscope.capturing.profiler import capture as capture
    from kinetoscope.capturing.profiler import trace_handler as trace_handler
    from kinetoscope.errors import KinetoscopeError as KinetoscopeError
    from kinetoscope.ingest import load as load
    from kinetoscope.trace import Trace as Trace

_HOMES = {
    "Report": "kinetoscope.api",
    "report": "kinetoscope.api",
    "capture": "kinetoscope.capturing.profiler",
    "trace_handler": "kinetoscope.capturing.profiler",
    "KinetoscopeError": "kinetoscope.errors",
    "Trace": "kinetoscope.trace",
    "load": "kinetoscope.ingest",
}
__all__ = ["KinetoscopeError", "Report", "Trace", "__version__", "capture", "load", "report", "trace_handler"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
