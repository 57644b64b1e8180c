"""Bytes to `Trace`."""

from __future__ import annotations

import os
from contextlib import closing

from kinetoscope.errors import InputError, KinetoscopeError, UsageError
from kinetoscope.ingest.assemble import freeze
from kinetoscope.ingest.containers import Source, find_sources
from kinetoscope.ingest.describe import describe
from kinetoscope.ingest.pool import decoder_for
from kinetoscope.ingest.reader import ExtentArgs, Progress, Reading, read_document
from kinetoscope.ingest.text import shown
from kinetoscope.trace import Trace

__all__ = ["Source", "find_sources", "load", "load_source"]

#: smaller inputs cannot hold enough events to be worth looking for in the store
_STORE_FROM_BYTES = 1 << 20


def load(path: str | os.PathLike[str], *, progress: Progress | None = None, use_store: bool = True) -> Trace:
    """The one trace at ``path``.

    Raises:
        InputError: it cannot be read, or holds several traces.
        UsageError: it is no path.
    """
    try:
        path = os.fsdecode(path)
    except TypeError:
        raise UsageError(f"a path is needed, not {type(path).__name__}") from None
    sources = find_sources(path)
    if len(sources) > 1:
        names = ", ".join(shown(source.member or source.label) for source in sources[:4])
        more = ", ..." if len(sources) > 4 else ""
        raise InputError(f"{shown(path)} holds {len(sources)} traces ({names}{more}); load them one by one")
    return load_source(sources[0], progress=progress, use_store=use_store)


def load_source(source: Source, *, progress: Progress | None = None, use_store: bool = True) -> Trace:
    """Read one trace, from the store where it has it.

    Raises:
        InputError: it cannot be read; the text names the file.
    """
    try:
        stored = use_store and source.file is not None and source.file.stat().st_size >= _STORE_FROM_BYTES
        reading, ends_early = _from_store(source, progress) if stored else _read(source, progress)
        info = describe(source.label, reading, ends_early=ends_early)
    except OSError as error:
        raise InputError(f"cannot read {shown(source.label)}: {error.strerror or error}") from None
    except KinetoscopeError as error:
        if shown(source.label) in str(error):
            raise
        raise type(error)(f"{shown(source.label)}: {error}") from None
    return freeze(reading.body, info, ExtentArgs(source.open, reading.extents))


def _read(source: Source, progress: Progress | None) -> tuple[Reading, str | None]:
    with closing(source.open()) as text:
        reading = read_document(text, decoder_for(text.expected_bytes), progress)
        return reading, text.ends_early


def _from_store(source: Source, progress: Progress | None) -> tuple[Reading, str | None]:
    from kinetoscope.ingest.saving import in_background
    from kinetoscope.ingest.store import MIN_EVENTS, Before, default_store

    assert source.file is not None
    file, store = source.file, default_store()
    if store is None:
        return _read(source, progress)
    found = store.find(file, source.member)
    if found is not None:
        return found.reading, found.ends_early
    before = Before.of(file)
    reading, ends_early = _read(source, progress)
    if reading.body.events >= MIN_EVENTS:
        in_background(lambda go_on: store.save(file, source.member, before, reading, ends_early, go_on))
    return reading, ends_early
