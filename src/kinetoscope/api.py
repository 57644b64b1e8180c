"""What users call from Python: `report`, and the report as an object that shows itself."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

import msgspec

from kinetoscope import reporting, schema
from kinetoscope import window as windows
from kinetoscope.trace import Trace

if TYPE_CHECKING:
    from kinetoscope.ingest.compile_log import CompileLog


class Report(schema.Report, frozen=True, kw_only=True):
    """A report (fields as in the JSON) that renders itself in terminals and notebooks."""

    def to_json(self) -> str:
        """Strict JSON, as ``kinetoscope report --format json`` prints it."""
        from kinetoscope import render

        return render.json(self)

    def to_dict(self) -> dict[str, Any]:
        """The same as built-in types."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return made

    def to_text(self, width: int = 80) -> str:
        """The report of the terminal, without colour."""
        from kinetoscope import render

        return render.text(self, width=width)

    def to_markdown(self, *, brief: bool = False) -> str:
        """The report as Markdown."""
        from kinetoscope import render

        return render.markdown(self, brief=brief)

    def __str__(self) -> str:
        return self.to_text()

    def __rich__(self) -> Any:
        """For ``rich.print(report)``."""
        from rich.text import Text

        from kinetoscope import render

        return Text.from_ansi(render.text(self, color=True))

    def _repr_markdown_(self) -> str:
        """For notebooks."""
        return self.to_markdown()


def _log_of(trace: Trace, compile_log: str | PathLike[str] | None) -> CompileLog | None:
    if compile_log is None:
        return None
    from kinetoscope.ingest.compile_log import read_compile_log

    log = read_compile_log(str(compile_log))
    return log.for_rank(trace.info.rank) if len(log.ranks) > 1 else log


def report(
    source: str | PathLike[str] | Trace,
    *,
    compile_log: str | PathLike[str] | None = None,
    steps: str | None = None,
    annotation: str | None = None,
    window: str | None = None,
    use_store: bool = True,
) -> Report:
    """Analyse a path or a loaded `Trace`; the window options are those of the command line.

    Raises:
        KinetoscopeError: the input cannot be read, or the window is not in it.
    """
    spec = windows.parse(steps, annotation, window)
    if isinstance(source, Trace):
        made = reporting.report_of(source, window=spec, log=_log_of(source, compile_log))
    else:
        made = reporting.analyse(
            [str(source)],
            compile_log=None if compile_log is None else str(compile_log),
            window=spec,
            use_store=use_store,
        )
    return Report(**{name: getattr(made, name) for name in made.__struct_fields__})
