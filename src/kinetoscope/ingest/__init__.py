"""Bytes to `Trace`."""

from __future__ import annotations

from contextlib import closing

from kinetoscope.errors import InputError, KinetoscopeError
from kinetoscope.ingest.assemble import freeze
from kinetoscope.ingest.containers import Source, find_sources
from kinetoscope.ingest.describe import describe
from kinetoscope.ingest.reader import ExtentArgs, Progress, read_document
from kinetoscope.trace import Trace

__all__ = ["Source", "find_sources", "load", "load_source"]


def load(path: str, *, progress: Progress | None = None, use_store: bool = True) -> Trace:
    """The one trace at ``path``.

    Raises:
        InputError: it cannot be read, or holds several traces.
    """
    sources = find_sources(path)
    if len(sources) > 1:
        names = ", ".join(source.label for source in sources[:4])
        raise InputError(f"{path} holds {len(sources)} traces ({names} ...); load them one by one")
    return load_source(sources[0], progress=progress, use_store=use_store)


def load_source(source: Source, *, progress: Progress | None = None, use_store: bool = True) -> Trace:
    """Read one trace.

    Raises:
        InputError: it cannot be read; the text names the file.
    """
    try:
        with closing(source.open()) as text:
            reading = read_document(text, progress=progress)
            ends_early = text.ends_early
        info = describe(source.label, reading, ends_early=ends_early)
    except KinetoscopeError as error:
        if source.label in str(error):
            raise
        raise type(error)(f"{source.label}: {error}") from None
    return freeze(reading.body, info, ExtentArgs(source.open, reading.extents))
