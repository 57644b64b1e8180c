"""``kinetoscope report``: analyse traces and say what was found."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from kinetoscope.cli import output, progress
from kinetoscope.cli.options import Inputs, NoStore, OfAnnotation, OfLog, OfSteps, OfWindow, OutFile
from kinetoscope.errors import UsageError

if TYPE_CHECKING:
    from kinetoscope.schema import Report


class Format(str, Enum):
    """How a report is written."""

    text = "text"
    json = "json"
    md = "md"


_ENDINGS = {".txt": Format.text, ".json": Format.json, ".md": Format.md, ".markdown": Format.md}


def report(
    inputs: Inputs = None,
    format: Annotated[
        Format | None,
        typer.Option("--format", help="Default: by the ending of -o, else text.", show_default=False),
    ] = None,
    out: OutFile = None,
    compile_log: OfLog = None,
    steps: OfSteps = None,
    annotation: OfAnnotation = None,
    window: OfWindow = None,
    brief: Annotated[bool, typer.Option("--brief", help="With md: under 2,000 words.")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of a report and exit.")
    ] = False,
    no_store: NoStore = False,
) -> int:
    """Say what was compiled, where time goes, and what to fix.

    INPUT is a trace file as torch.profiler exports it; its content decides, not its name. Several
    inputs are ranks of one job: each is reported, and they are never added up.
    """
    out = None if out == "-" else out
    if schema:
        from kinetoscope.render import json_schema

        output.write(json_schema(), out)
        return 0
    if not inputs:
        raise UsageError("report needs an INPUT: a trace file, a capture directory or -; see report --help")
    from kinetoscope import window as windows

    chosen = _format(format, out)
    if brief and chosen is not Format.md:
        raise UsageError("--brief is for Markdown: add --format md")
    output.refuse_own_input(out, inputs)
    asked = windows.parse(steps, annotation, window)
    from kinetoscope.reporting import analyse

    with progress.bar() as advance:
        made = analyse(
            inputs, compile_log=compile_log, window=asked, progress=advance, use_store=not no_store
        )
    _write(made, chosen, out, brief=brief)
    return 0


def write_report(
    input_path: str | Path,
    *,
    format: str | None = None,
    output: str | Path | None = None,
    stream: TextIO | None = None,
) -> None:
    """Analyse one input and write its report: to ``output``, else to ``stream``, else to stdout."""
    from kinetoscope.reporting import analyse

    where = None if output is None else str(output)
    try:
        chosen = _format(None if format is None else Format(format), where)
    except ValueError:
        raise UsageError(f"format {format}: there is text, json and md") from None
    with progress.bar() as advance:
        made = analyse([str(input_path)], compile_log=None, window=None, progress=advance, use_store=True)
    _write(made, chosen, where, stream=stream)


def _write(
    report: Report, format: Format, out: str | None, *, brief: bool = False, stream: TextIO | None = None
) -> None:
    from kinetoscope import render

    if format is Format.json:
        text = render.json(report)
    elif format is Format.md:
        text = render.markdown(report, brief=brief)
    else:
        page = output.page(out, stream)
        text = render.text(report, width=page.width, color=page.color, ascii_only=page.ascii_only)
    output.write(text, out, stream)


def _format(format: Format | None, out: str | None) -> Format:
    """The format asked for, else the one that the file's ending names."""
    if format is not None:
        return format
    ending = Path(out).suffix.lower() if out else ""
    if ending in (".html", ".htm"):
        raise UsageError(f"{out}: this version writes no HTML; give --format text, json or md")
    return _ENDINGS.get(ending, Format.text)
