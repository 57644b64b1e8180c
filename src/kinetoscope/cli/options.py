"""Arguments and options that several commands take, declared once: they mean the same everywhere."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Optional

import typer

__all__ = [
    "AnyInput",
    "Format",
    "Inputs",
    "NoStore",
    "OfAnnotation",
    "OfLog",
    "OfSteps",
    "OfWindow",
    "OneInput",
    "OutFile",
]


class Format(str, Enum):
    """How an answer is written."""

    text = "text"
    json = "json"


_ANY = "A trace (.json, .json.gz, .zip, .tar.gz), a capture directory, a directory of ranks, or -."

AnyInput = Annotated[str, typer.Argument(metavar="INPUT", help=_ANY, show_default=False)]
Inputs = Annotated[
    Optional[list[str]],  # noqa: UP045 - evaluated on Python 3.10
    typer.Argument(metavar="INPUT", help=_ANY, show_default=False),
]
OneInput = Annotated[
    str, typer.Argument(metavar="INPUT", help="A trace, or a capture directory.", show_default=False)
]
OutFile = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("-o", "--output", metavar="FILE", help="Write there, not to stdout."),
]
OfLog = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(metavar="PATH", help="The TORCH_TRACE log (a file or its directory) of the same run."),
]
OfSteps = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(metavar="A..B", help="Only these steps, counted from 0; B is included."),
]
OfAnnotation = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(metavar="NAME", help="Only inside this record_function range."),
]
OfWindow = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(metavar="START..END", help="Only this time, in ns from the trace's start."),
]
NoStore = Annotated[
    bool, typer.Option("--no-store", help="Neither use nor write the store that makes opening again fast.")
]
