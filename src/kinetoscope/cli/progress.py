"""A progress bar on stderr, only where a person watches."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

Advance: TypeAlias = "Callable[[int, int | None], None]"

_REDRAW_S = 0.1


@contextlib.contextmanager
def bar(title: str = "Reading") -> Iterator[Advance | None]:
    """A callback that takes bytes done and bytes in all; None where nobody would see the bar."""
    if not _is_terminal():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,  # no thread: the reader may fork
    )
    task = shown.add_task(title, total=None)
    drawn = 0.0

    def advance(done: int, total: int | None) -> None:
        nonlocal drawn
        shown.update(task, completed=done, total=total or None)
        shown.start()  # with the first bytes, so that an error before them leaves no trace of a bar
        now = time.monotonic()
        if now - drawn >= _REDRAW_S or done == total:
            drawn = now
            shown.refresh()

    try:
        yield advance
    finally:
        shown.stop()


def _is_terminal() -> bool:
    return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()
