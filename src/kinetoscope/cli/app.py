"""The command line: every verb, and what they share.

Verbs import what they need when they run, so that ``--help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kinetoscope import __version__
from kinetoscope.cli import export, kernel, report, view, whatif
from kinetoscope.cli.errors import INTERRUPTED
from kinetoscope.errors import UsageError

_WHOLE = 1_000  # more letters than a summary has


class _Verbs(TyperGroup):
    """Lists the verbs with their summaries in whole: on more lines where they are long, not cut."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = [(name, verb.get_short_help_str(_WHOLE)) for name, verb in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


app = typer.Typer(
    name="kinetoscope",
    cls=_Verbs,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run(arguments: Sequence[str]) -> int:
    """Parse and run; wrong usage is raised as `UsageError`."""
    command = typer.main.get_command(app)
    try:
        status = command.main(list(arguments) or ["--help"], prog_name="kinetoscope", standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    except Exception as error:
        # The parser's own errors; which package they come from depends on typer's version.
        if not hasattr(error, "format_message"):
            raise
        raise UsageError(f"{_sentence(error)}; {_help_of(error, arguments)} says what there is") from None
    return status if isinstance(status, int) else 0


def _sentence(error: Any) -> str:
    said = " ".join(str(error.format_message()).split()).rstrip(".")
    # Some versions of typer name the class of the error that told them.
    return said.replace(": Value error, ", ": ", 1)


def _help_of(error: Any, arguments: Sequence[str]) -> str:
    context = getattr(error, "ctx", None)
    if context is not None:
        return f"{context.command_path} --help"
    # an option without its value does not say whose it is
    verbs = [command.name for command in app.registered_commands]
    return " ".join(["kinetoscope", *(verb for verb in arguments[:1] if verb in verbs), "--help"])


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kinetoscope {__version__}")
        raise typer.Exit


@app.callback()
def _kinetoscope(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Explain the performance of torch.compile programs: what is slow, where, and what a fix is worth."""


app.command("report")(report.report)
app.command("view")(view.view)
app.command("export")(export.export)
app.command("kernel")(kernel.kernel)
app.command("whatif")(whatif.whatif)


# `run` and `doctor` are dispatched before this module is imported; these stand for them in the help.
@app.command("run", context_settings={"ignore_unknown_options": True}, add_help_option=False)
def _run() -> None:
    """Run a program under capture, then report what it did."""


@app.command("doctor", add_help_option=False)
def _doctor() -> None:
    """Say what this machine can capture, and what is in the way."""
