"""Read one trace text into a `Trace`: split, decode on every core, prove the borders, assemble."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kinetoscope.errors import EmptyTraceError, InputError, NotATraceError
from kinetoscope.ingest import document
from kinetoscope.ingest.assemble import Body, Gathered, build
from kinetoscope.ingest.document import BORDER, NeedMoreError, Opening
from kinetoscope.ingest.events import EventColumns
from kinetoscope.ingest.forms import MalformedError, any_value
from kinetoscope.ingest.repair import decode_mended, mend_tokens, salvage, strip_comma
from kinetoscope.ingest.text import Text

#: small enough that the objects of a chunk stay in a core's cache
CHUNK_BYTES = 2 << 20
_WINDOW_BYTES = 1 << 16
_HEADER_LIMIT_BYTES = 64 << 20
_HEADER_SEARCH_BYTES = 1 << 20
#: called with bytes read so far and bytes in all (None: unknown)
Progress = Callable[[int, "int | None"], None]


@dataclass(frozen=True)
class Extent:
    """Where the text of consecutive events lies, so that they can be read again."""

    offset: int
    length: int
    first_event: int
    events: int
    salvaged: bool


@dataclass(frozen=True, eq=False)
class Reading:
    """What reading a document gave: its events, where they lie, and what surrounds them."""

    body: Body
    header: Mapping[str, Any]
    extents: tuple[Extent, ...]
    complete: bool
    notes: Mapping[str, int]


@dataclass(frozen=True)
class Piece:
    """A stretch of the document between two (supposed) borders, not decoded yet."""

    offset: int
    length: int


#: decodes pieces, in order, perhaps ahead and elsewhere: columns, or None where a piece is malformed
DecodePieces = Callable[[Text, Iterator[Piece]], Generator[tuple[Piece, "EventColumns | None"], None, None]]


def decode_here(
    text: Text, pieces: Iterator[Piece]
) -> Generator[tuple[Piece, EventColumns | None], None, None]:
    """Decode piece by piece in this process."""
    for piece in pieces:
        try:
            yield piece, decode_mended(text.read_at(piece.offset, piece.length))
        except MalformedError:
            yield piece, None


def read_document(
    text: Text, decode_pieces: DecodePieces = decode_here, progress: Progress | None = None
) -> Reading:
    """Read a whole trace document.

    Raises:
        NotATraceError: it is something else.
        EmptyTraceError: not one whole event is in it.
        InputError: it cannot be read.
    """
    opening = _open(text)
    run = _Run(text, opening, progress)
    splitter = _Splitter(text, opening.start)
    with closing(decode_pieces(text, splitter.pieces())) as decoded:
        for piece, columns in decoded:
            run.take(piece, columns)
    trailer, closed = run.finish(splitter.tail)
    notes = dict(run.gathered.notes)
    if opening.header_damaged:
        notes["header-damaged"] = 1
    if run.lost:
        notes["event-lost"] = run.lost
    if run.gathered.events == 0:
        raise EmptyTraceError(
            "the trace holds no events"
            if closed
            else "the trace ends before its first event does; was the program killed while writing it?"
        )
    return Reading(
        body=build(run.gathered.tables()),
        header={**opening.header, **(trailer or {})},
        extents=tuple(run.extents),
        complete=closed and trailer is not None and text.ends_early is None,
        notes=notes,
    )


def _open(text: Text) -> Opening:
    length = 1 << 16
    while True:
        prefix = text.read_at(0, length)
        try:
            return document.find_events(prefix, whole=len(prefix) < length or length >= _HEADER_LIMIT_BYTES)
        except NeedMoreError:
            length *= 4


class _Splitter:
    """Cuts the events into pieces at supposed borders, leaving the last stretch as ``tail``."""

    def __init__(self, text: Text, start: int) -> None:
        self._text = text
        self.tail = Piece(start, 0)
        self._at = start

    def pieces(self) -> Iterator[Piece]:
        """Pieces from the front; after the last, ``tail`` is what remains up to the end of the text."""
        while (cut := self._next_cut()) is not None:
            piece = Piece(self._at, cut - self._at)
            self._at = cut
            yield piece
        self.tail = Piece(self._at, 0)

    def _next_cut(self) -> int | None:
        look_at = self._at + CHUNK_BYTES
        window = _WINDOW_BYTES
        while True:
            data = self._text.read_at(look_at, window)
            # the very last piece keeps at least one window, so that it holds the closing bracket
            at_end = len(data) < window
            found = BORDER.search(data)
            if found is not None and not at_end:
                return look_at + found.end()
            if at_end:
                return None
            look_at += window - min(512, window // 2)  # a border may straddle two windows
            window = min(window * 2, max(_WINDOW_BYTES, CHUNK_BYTES))


class _Run:
    """Accepts pieces in order and proves their borders."""

    def __init__(self, text: Text, opening: Opening, progress: Progress | None) -> None:
        self._text = text
        self._is_array = opening.is_array
        self._progress = progress
        self.gathered = Gathered()
        self.extents: list[Extent] = []
        self.lost = 0
        self._pending: Piece | None = None  # text that does not decode yet: its end is no true border

    def take(self, piece: Piece, columns: EventColumns | None) -> None:
        """The next piece, with its columns if it decoded."""
        if self._pending is not None:
            # what was decoded started at a border that is not proved
            self._recover(Piece(self._pending.offset, self._pending.length + piece.length), final=False)
        elif columns is not None:
            self._accept(piece, columns)
        else:
            self._recover(piece, final=False)
        if self._progress is not None:
            self._progress(*self._text.progress)
        self._text.release(self._pending.offset if self._pending else piece.offset + piece.length)

    def finish(self, tail: Piece) -> tuple[Mapping[str, Any] | None, bool]:
        """The last text: returns the trailer (None if damaged) and whether the array was closed."""
        start = self._pending.offset if self._pending else tail.offset
        data = self._text.read_to_end(start)
        self._pending = None
        self._refuse_second(start, data)
        for events_text, trailer in document.closings(data, is_array=self._is_array):
            try:
                columns = decode_mended(events_text)
            except MalformedError:
                continue
            self._accept(Piece(start, len(events_text)), columns)
            return trailer, True
        return self._finish_broken(start, data)

    def _finish_broken(self, start: int, data: bytes) -> tuple[Mapping[str, Any] | None, bool]:
        closing_at = _plain_closing(data, is_array=self._is_array)
        closed = closing_at is not None
        events_text = data[:closing_at] if closed else data
        trailer = (
            document.parse_trailer(data[closing_at + 1 :], is_array=self._is_array)
            if closing_at is not None
            else None
        )
        salvaged = salvage(events_text, final=True)
        # the event that the end of the file cut off is not a broken one
        lost = salvaged.lost - (1 if salvaged.cut and not closed else 0)
        self._accept_salvaged(Piece(start, len(events_text)), salvaged.pieces, lost)
        return trailer, closed

    def _recover(self, piece: Piece, *, final: bool) -> None:
        data = self._text.read_at(piece.offset, piece.length)
        self._pending = None
        try:
            self._accept(piece, decode_mended(data))
            return
        except MalformedError:
            pass
        self._refuse_second(piece.offset, data)
        salvaged = salvage(data, final=final)
        used = piece.length - len(salvaged.rest)
        self._accept_salvaged(Piece(piece.offset, used), salvaged.pieces, salvaged.lost)
        if salvaged.rest:
            self._pending = Piece(piece.offset + used, len(salvaged.rest))

    def _refuse_second(self, offset: int, data: bytes) -> None:
        """Refuse two documents in a row: they are two traces, and nothing says which one is meant."""
        for end, start in document.joints(data):
            if self._starts_another(offset + start) and self._ends(data[:end]):
                at = offset + start
                raise InputError(
                    "two documents, one after the other: the second starts at byte "
                    f"{at} of the unpacked text; give each a file of its own "
                    f"(head -c {at} is the first, tail -c +{at + 1} the second)"
                )

    def _starts_another(self, offset: int) -> bool:
        prefix = self._text.read_at(offset, _HEADER_SEARCH_BYTES)
        try:
            opening = document.find_events(prefix, whole=False)
        except (NeedMoreError, NotATraceError):
            return False
        return not opening.header_damaged

    def _ends(self, text: bytes) -> bool:
        for events_text, trailer in document.closings(text, is_array=self._is_array):
            if trailer is None:
                continue
            try:
                decode_mended(events_text)
            except MalformedError:
                continue
            return True
        return False

    def _accept(self, piece: Piece, columns: EventColumns) -> None:
        self.extents.append(Extent(piece.offset, piece.length, self.gathered.events, columns.events, False))
        self.gathered.add(columns)

    def _accept_salvaged(self, piece: Piece, pieces: Sequence[tuple[bytes, EventColumns]], lost: int) -> None:
        first = self.gathered.events
        for _, columns in pieces:
            self.gathered.add(columns)
        self.lost += lost
        self.extents.append(Extent(piece.offset, piece.length, first, self.gathered.events - first, True))


#: keys that exporters write after the events
_TRAILER_KEYS = frozenset(
    {
        "traceName",
        "displayTimeUnit",
        "baseTimeNanoseconds",
        "schemaVersion",
        "deviceProperties",
        "distributedInfo",
    }
)


def _plain_closing(data: bytes, *, is_array: bool) -> int | None:
    """Position of the bracket that closes an array whose events do not decode as a whole.

    A bracket inside a cut event can look the same: it counts only if the last event before it
    decodes, or if what follows are keys that exporters write there.
    """
    at = len(data)
    nearby = BORDER.search(data, max(0, at - _WINDOW_BYTES))
    start = nearby.end() if nearby is not None and at > _WINDOW_BYTES else 0
    for _ in range(64):
        at = data.rfind(b"]", 0, at)
        if at < 0:
            return None
        trailer = document.parse_trailer(data[at + 1 :], is_array=is_array)
        if trailer is None:
            continue
        if _TRAILER_KEYS & set(trailer):
            return at
        before = salvage(data[start:at], final=True)
        whole = [columns for _, columns in before.pieces if "phase-missing" not in columns.notes]
        if whole and not before.cut:
            return at
    return None


class ExtentArgs:
    """An `ArgsSource` that reads events again from the text."""

    def __init__(self, open_text: Callable[[], Text], extents: Sequence[Extent]) -> None:
        self._open_text = open_text
        self._extents = extents
        self._starts = [extent.first_event for extent in extents]

    def __call__(self, events: Sequence[int]) -> list[dict[str, Any]]:
        """The JSON objects of these events."""
        from bisect import bisect_right

        wanted: dict[int, list[int]] = {}
        for event in events:
            wanted.setdefault(bisect_right(self._starts, event) - 1, []).append(event)
        found: dict[int, dict[str, Any]] = {}
        with closing(self._open_text()) as text:
            for number in sorted(wanted):
                extent = self._extents[number]
                text.release(extent.offset)  # they are read front to back
                raws = _raw_events(text.read_at(extent.offset, extent.length), extent)
                for event in wanted[number]:
                    found[event] = _object(raws[event - extent.first_event])
        return [found[event] for event in events]

    def texts(self) -> Iterator[list[bytes]]:
        """The JSON text of every event, in order, some hundreds at a time; what was broken is mended."""
        with closing(self._open_text()) as text:
            for extent in self._extents:
                text.release(extent.offset)
                yield _raw_events(text.read_at(extent.offset, extent.length), extent)

    def texts_with(self, word: bytes) -> Iterator[tuple[int, list[bytes] | None]]:
        """First event and texts of each stretch of the file; None for those where ``word`` is nowhere.

        The word is in lower case, and found in any case. Looking for it is much faster than taking the
        stretch apart.
        """
        with closing(self._open_text()) as text:
            for extent in self._extents:
                text.release(extent.offset)
                data = text.read_at(extent.offset, extent.length)
                is_there = word in data.lower()
                yield extent.first_event, _raw_events(data, extent) if is_there else None


def _raw_events(data: bytes, extent: Extent) -> list[bytes]:
    from kinetoscope.ingest.forms import raw_events

    if extent.salvaged:
        texts = [text for text, _ in salvage(data, final=True).pieces]
    else:
        texts = [strip_comma(data)]
    raws: list[bytes] = []
    for text in texts:
        try:
            raws += raw_events(text)
        except MalformedError:
            raws += raw_events(mend_tokens(text)[0])
    return raws


def _object(raw: bytes) -> dict[str, Any]:
    import msgspec

    for attempt in (raw, mend_tokens(raw)[0]):
        try:
            value = any_value(attempt)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if isinstance(value, dict):
            return value
    return {}


__all__ = ["Extent", "ExtentArgs", "Piece", "Reading", "decode_here", "read_document"]
