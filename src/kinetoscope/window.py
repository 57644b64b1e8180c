"""The part of a trace that was asked for, as the command line says it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kinetoscope.errors import UsageError

_RANGE = re.compile(r"([0-9]{0,18})\.\.([0-9]{0,18})")
_NUMBER = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class WindowSpec:
    """One of three ways to name a window; the other two are None.

    Attributes:
        steps: first and last step, counted from 0, both included; None: from the first, to the last.
        annotation: name of a ``record_function`` range; its calls are the window.
        span_ns: start and end in nanoseconds from the trace's start; None: its own start, its own end.
    """

    steps: tuple[int | None, int | None] | None = None
    annotation: str | None = None
    span_ns: tuple[int | None, int | None] | None = None


def parse(steps: str | None, annotation: str | None, window: str | None) -> WindowSpec | None:
    """The window that ``--steps``, ``--annotation`` and ``--window`` ask for; None: the whole trace."""
    given = {"--steps": steps, "--annotation": annotation, "--window": window}
    asked = [option for option, value in given.items() if value is not None]
    if not asked:
        return None
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} both name a window; give one of them")
    if annotation is not None:
        if not annotation:
            raise UsageError("--annotation needs a name")
        return WindowSpec(annotation=annotation)
    if steps is not None:
        return WindowSpec(steps=_steps(steps))
    assert window is not None  # the only one left
    return WindowSpec(span_ns=_span(window))


def _steps(text: str) -> tuple[int | None, int | None]:
    if _NUMBER.fullmatch(text):
        return int(text), int(text)
    first, last = _range("--steps", text, "3..7, 3.., ..7 or 3")
    if first is not None and last is not None and first > last:
        raise UsageError(f"--steps {text}: the first step comes after the last")
    return first, last


def _span(text: str) -> tuple[int | None, int | None]:
    start, end = _range("--window", text, "START..END, in ns from the trace's start")
    if start is not None and end is not None and start >= end:
        raise UsageError(f"--window {text}: it ends before it starts")
    return start, end


def _range(option: str, text: str, form: str) -> tuple[int | None, int | None]:
    found = _RANGE.fullmatch(text.replace("_", ""))
    if found is None or not any(found.groups()):
        raise UsageError(f"{option} {text}: not understood; write it as {form}")
    first, last = (int(value) if value else None for value in found.groups())
    return first, last
