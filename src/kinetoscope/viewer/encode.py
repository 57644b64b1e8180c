"""One viewport as bytes: a header in JSON, then typed arrays that the page reads in place.

Layout, little-endian: uint32 length of the header, the header (padded to 4 bytes), then for all
pieces together ``x0`` and ``x1`` (float32, in pixels from the window's start), ``count``, ``row`` and
``name`` (uint32), ``busy``, ``meaning`` and ``hit`` (uint8, each padded to 4 bytes). The header's ``lanes``
says how many pieces each lane has, in order; ``names`` holds the texts of pieces wide enough for one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kinetoscope.render import words
from kinetoscope.render.escape import clean
from kinetoscope.trace import Int64, Strings, UInt8
from kinetoscope.viewer.tiles import Pieces

#: a narrower piece has no room for a label
_LABEL_PIXELS = 14.0
_LABEL_CHARS = 160
#: what reaches further than this out of the window is cut, so that float32 stays exact inside it
_BEYOND_PIXELS = 20_000.0


@dataclass(frozen=True, eq=False)
class Drawn:
    """Pieces with everything that is drawn of them."""

    pieces: Pieces
    lane: Int64  # as the page numbers lanes
    start_ns: Int64
    end_ns: Int64
    row: npt.NDArray[Any]
    name: npt.NDArray[Any]
    meaning: UInt8
    hit: UInt8


def label(name: str) -> str:
    """A name as the timeline writes it."""
    short = words.kernel(name) if "(" in name or "::" in name else name
    return clean(short[:_LABEL_CHARS])


def viewport(
    parts: Sequence[Drawn],
    names: Sequence[str] | Strings,
    begin_ns: float,
    pixel_ns: float,
    extra: dict[str, Any],
) -> bytes:
    """The bytes of one answer."""
    x0 = _joined([_pixels(part.start_ns, begin_ns, pixel_ns) for part in parts], np.float32)
    x1 = _joined([_pixels(part.end_ns, begin_ns, pixel_ns) for part in parts], np.float32)
    count = _joined([part.pieces.count for part in parts], np.uint32)
    row = _joined([part.row for part in parts], np.uint32)
    name = _joined([part.name for part in parts], np.uint32)
    busy = _joined([_busy(part) for part in parts], np.uint8)
    meaning = _joined([part.meaning for part in parts], np.uint8)
    hit = _joined([part.hit for part in parts], np.uint8)
    wide = (x1 - x0 >= _LABEL_PIXELS) & (count == 1)
    header = {
        **extra,
        "begin_ns": begin_ns,
        "pixel_ns": pixel_ns,
        "pieces": len(x0),
        "lanes": [pair for part in parts for pair in _runs(part.lane)],
        "names": {str(number): label(names[number]) for number in np.unique(name[wide]).tolist()},
    }
    packed = msgspec.json.encode(header)
    packed += b" " * (-len(packed) % 4)
    chunks = [struct.pack("<I", len(packed)), packed]
    for array in (x0, x1, count, row, name, busy, meaning, hit):
        data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        chunks.append(data + b"\0" * (-len(data) % 4))
    return b"".join(chunks)


def _joined(arrays: list[npt.NDArray[Any]], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    if not arrays:
        return np.empty(0, dtype)
    return np.concatenate(arrays).astype(dtype, copy=False)


def _pixels(time_ns: Int64, begin_ns: float, pixel_ns: float) -> npt.NDArray[Any]:
    x = np.clip((time_ns - begin_ns) / pixel_ns, -_BEYOND_PIXELS, 2 * _BEYOND_PIXELS)
    return np.asarray(x, np.float32)


def _busy(part: Drawn) -> npt.NDArray[Any]:
    """Share of a piece that is covered by slices, 0 to 255; never 0."""
    length = np.maximum(part.end_ns - part.start_ns, 1)
    return np.asarray(np.clip(part.pieces.busy_ns * 255 // length, 1, 255), np.uint8)


def _runs(lane: Int64) -> list[tuple[int, int]]:
    if len(lane) == 0:
        return []
    first = np.append(0, np.flatnonzero(np.diff(lane)) + 1)
    counts = np.diff(np.append(first, len(lane)))
    return list(zip(lane[first].tolist(), counts.tolist(), strict=True))
