"""``kinetoscope export``: the trace, with what was found in it, for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kinetoscope.cli import output, progress
from kinetoscope.cli.errors import say
from kinetoscope.cli.options import NoStore, OfAnnotation, OfLog, OfSteps, OfWindow, OneInput
from kinetoscope.errors import UsageError

if TYPE_CHECKING:
    from kinetoscope.trace import Trace
    from kinetoscope.window import WindowSpec

_PACKED = (".gz", ".gzip")


#: what can be written
_TO = ("chrome", "parquet")


def export(
    input: OneInput,
    out: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="PATH",
            help="Write there: a file, packed where it ends in .gz; with parquet a directory.",
            show_default=False,
        ),
    ],
    to: Annotated[str, typer.Option("--to", metavar="|".join(_TO), help="What to write.")] = "chrome",
    compile_log: OfLog = None,
    steps: OfSteps = None,
    annotation: OfAnnotation = None,
    window: OfWindow = None,
    no_store: NoStore = False,
) -> int:
    """Write the trace with what was found in it, for Perfetto or a data frame.

    chrome is JSON for Perfetto and chrome://tracing: the events as they were, tracks for steps, idle
    time by cause, graph breaks, compile phases and regions, and in the args of each kernel its origin,
    region, step and, with a compile log, source lines. parquet is the tables slices, flows, tracks.
    """
    from kinetoscope import window as windows
    from kinetoscope.ingest import load_source
    from kinetoscope.ingest.capture_directory import LogShelf, find_inputs

    _refuse_others(to)
    asked = windows.parse(steps, annotation, window)
    output.refuse_own_input(out, [input])
    inputs = find_inputs([input], compile_log)
    if len(inputs) > 1:
        names = ", ".join(item.source.label for item in inputs[:4])
        raise UsageError(f"{input} holds {len(inputs)} traces ({names} ...); name one of them")
    (item,) = inputs
    with progress.bar() as advance:
        trace = load_source(item.source, progress=advance, use_store=not no_store)
    if not trace.info.complete:
        say(f"{item.source.label}: the end of this trace is missing; the export is partial too, and says so")
    if to == "parquet":
        _write_parquet(_part_of(trace, asked), out)
        return 0
    from kinetoscope.export.chrome import chrome, gzipped
    from kinetoscope.export.part import part, whole
    from kinetoscope.link import link
    from kinetoscope.link.window import intervals_of
    from kinetoscope.reporting import report_and_facts

    log, _ = LogShelf().log_for(item, trace)
    links = link(trace)
    report, facts = report_and_facts(links, log=log, capture=item.capture)
    chosen = whole(trace) if asked is None else part(links, intervals_of(links, asked))
    pieces = chrome(facts, report, chosen)
    output.write_pieces(gzipped(pieces) if out.lower().endswith(_PACKED) else pieces, out)
    return 0


def _refuse_others(to: str) -> None:
    if to == "perfetto":
        raise UsageError(
            "--to perfetto: Perfetto's own binary format is not written; "
            "--to chrome is JSON, which Perfetto opens"
        )
    if to not in _TO:
        raise UsageError(f"--to {to}: there is {' and '.join(_TO)}")


def _part_of(trace: Trace, asked: WindowSpec | None) -> Trace:
    from kinetoscope.link import link
    from kinetoscope.link.window import windowed

    return trace if asked is None else windowed(link(trace), asked)[0].trace


def _write_parquet(trace: Trace, out: str) -> None:
    from kinetoscope import __version__
    from kinetoscope.ingest.describe import INPUT_COMPLETE

    where = Path(out)
    about = {"exportedBy": f"kinetoscope {__version__}"}
    if not trace.info.complete:
        about[INPUT_COMPLETE] = "false"
    try:
        where.mkdir(parents=True, exist_ok=True)
        for name, frame in (("slices", trace.slices), ("flows", trace.flows), ("tracks", trace.tracks)):
            frame.write_parquet(where / f"{name}.parquet", metadata=about)
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from None
