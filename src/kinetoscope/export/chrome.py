"""A trace as Chrome trace JSON: the file's own events as they are, with what was found beside them.

The text of an event is copied, never decoded and written again, so that its times and args stay what
they were to the last digit. Two things are added: tracks of their own (`tracks`), and to the args of
device work one key ``kinetoscope``. Everything added has the category ``kinetoscope``, and the reader
of this package takes an export for what the trace was. Some megabytes are in memory at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import msgspec
import numpy as np
from isal import isal_zlib

from kinetoscope import __version__
from kinetoscope.errors import InputError
from kinetoscope.export.kernels import KernelArgs
from kinetoscope.export.pairs import stretches_inside
from kinetoscope.export.part import Part
from kinetoscope.export.tracks import Event, tracks
from kinetoscope.findings import Facts
from kinetoscope.ingest.describe import INPUT_COMPLETE
from kinetoscope.ingest.reader import ExtentArgs
from kinetoscope.schema import Report

_AT_ONCE = 2000
_GZIP = 31  # isal_zlib: a gzip header and checksum around the stream
#: what is told of a file that holds events of other phases than the trace's own: begins and ends among them
_UNREAD = "phase-unknown"
_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENCODER = msgspec.json.Encoder()


def chrome(facts: Facts, report: Report, part: Part) -> Iterator[bytes]:
    """The JSON text of a part of the trace, in pieces.

    ``facts`` and ``report`` are those of the whole trace.

    Raises:
        InputError: the trace's file cannot be read (again).
    """
    yield _head(facts)
    separator = b"\n"
    for texts in _own_events(facts, part):
        yield separator + b",\n".join(texts)
        separator = b",\n"
    added: list[bytes] = []
    origin = facts.trace.origin_ns
    for event in tracks(facts.links, report, part):
        added.append(_encoded(event, origin))
        if len(added) >= _AT_ONCE:
            yield separator + b",\n".join(added)
            separator = b",\n"
            added = []
    yield (separator + b",\n".join(added) if added else b"") + b"\n]}\n"


def gzipped(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same, packed; as large pieces as are worth sending."""
    packer = isal_zlib.compressobj(1, isal_zlib.DEFLATED, _GZIP)
    for piece in pieces:
        packed = packer.compress(piece)
        if packed:
            yield packed
    yield packer.flush()


def _head(facts: Facts) -> bytes:
    header = {key: value for key, value in facts.trace.info.header.items() if key != "traceEvents"}
    info = facts.trace.info
    if info.rank is not None and not isinstance(header.get("distributedInfo"), dict):
        # it was in the file's name, which an export has not
        header["distributedInfo"] = {"rank": info.rank}
    header["exportedBy"] = f"kinetoscope {__version__}"
    if not info.complete:
        header[INPUT_COMPLETE] = False
    return json.dumps(header)[:-1].encode() + b',\n"traceEvents": ['


def _own_events(facts: Facts, part: Part) -> Iterator[list[bytes]]:
    """The texts of the file's events that belong to the part."""
    source = facts.trace.args_source
    if not isinstance(source, ExtentArgs):
        raise InputError("this trace has no file to be exported from")
    args = _Args(facts)
    stretches = _stretches(source, part)
    first = 0
    for texts in source.texts():
        last = first + len(texts)
        for at in (np.flatnonzero((args.piece_of_event[first:last] >= 0) & part.events[first:last])).tolist():
            texts[at] = args.put(texts[at], int(args.piece_of_event[first + at]))
        kept = part.events[first:last].copy()
        for at in np.flatnonzero(~part.known[first:last]).tolist():
            number = first + at
            kept[at] = stretches[number] if number in stretches else part.holds(texts[at])
        chosen = texts if kept.all() else [texts[at] for at in np.flatnonzero(kept).tolist()]
        if chosen:
            yield chosen
        first = last


def _stretches(source: ExtentArgs, part: Part) -> dict[int, bool]:
    """Which begins and ends belong to a part: they have to be seen together, so the file is read twice."""
    if part.is_whole or all(warning.code != _UNREAD for warning in part.trace.warnings):
        return {}
    numbered = enumerate(chain.from_iterable(source.texts()))
    unread = ((number, text) for number, text in numbered if not part.known[number])
    return stretches_inside(unread, part.trace, part.intervals)


class _Args:
    """Puts what is known of a piece of work into the text of its event."""

    def __init__(self, facts: Facts) -> None:
        work = facts.work
        self._known = KernelArgs(facts)
        self.piece_of_event = np.full(facts.trace.info.events, -1, np.int32)
        if work.on_device:
            self.piece_of_event[facts.trace.columns.event[work.rows]] = np.arange(len(work.rows))

    def put(self, text: bytes, piece: int) -> bytes:
        try:
            event = _RAW.decode(text)
            args = _RAW.decode(event["args"]) if "args" in event else {}
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return text  # no object, or args that are none: left as they are
        args["kinetoscope"] = msgspec.Raw(_json(self._known.of(piece)))
        event["args"] = msgspec.Raw(_ENCODER.encode(args))
        return _ENCODER.encode(event)


def _encoded(event: Event, origin_ns: int) -> bytes:
    """An added event; its times, in ns, as the file has them: absolute, in microseconds."""
    if "ts" in event:
        event = {**event, "ts": _microseconds(event["ts"] + origin_ns)}
        if "dur" in event:
            event["dur"] = _microseconds(event["dur"])
    return _json(event)


def _microseconds(ns: int) -> msgspec.Raw:
    whole, rest = divmod(abs(ns), 1000)
    return msgspec.Raw(f"{'-' if ns < 0 else ''}{whole}.{rest:03d}".encode())


def _json(value: Any) -> bytes:
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:  # half surrogates, which programs do put into names
        return _ENCODER.encode(_writable(value))


def _writable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_writable(key): _writable(each) for key, each in value.items()}
    return [_writable(each) for each in value] if isinstance(value, list) else value
