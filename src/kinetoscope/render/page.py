"""What a page is made of, before any format: sections of sentences and tables.

`headline` and the ``sections`` modules turn a report into these; the text and the Markdown
renderer lay them out. Cells are finished strings; a cell that is None is not known, and a column
in which nothing is known is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from kinetoscope.render import units

Role = Literal["name", "text", "number"]
Tone = Literal["plain", "good", "warn", "bad", "quiet"]

MORE = "--format json lists all"


@dataclass(frozen=True)
class Column:
    """One column. ``role``: a name is shortened in the middle, text wraps, numbers are never cut.

    ``optional`` columns go first (highest first) where the page is too narrow to give the others what
    they need: ``least`` cells of a name or text. ``indents`` draws a tree.
    """

    title: str
    cells: tuple[str | None, ...]
    role: Role
    optional: int = 0
    least: int = 12
    indents: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known in this column."""
        return all(cell is None for cell in self.cells)


def names(
    title: str,
    cells: Iterable[str | None],
    *,
    optional: int = 0,
    least: int = 12,
    indents: Sequence[int] = (),
) -> Column:
    """A column of names from the trace."""
    return Column(title, tuple(cells), "name", optional, least, tuple(indents))


def texts(title: str, cells: Iterable[str | None], *, optional: int = 0) -> Column:
    """A column of words."""
    return Column(title, tuple(cells), "text", optional)


def numbers(title: str, cells: Iterable[str | None], *, optional: int = 0) -> Column:
    """A column of numbers that are already written out."""
    return Column(title, tuple(cells), "number", optional)


def times(title: str, values: Iterable[int | None], *, optional: int = 0) -> Column:
    """A column of times, in one unit."""
    return Column(title, tuple(units.durations(values)), "number", optional)


def counts(title: str, values: Iterable[int | None], *, optional: int = 0) -> Column:
    """A column of counts."""
    return Column(title, tuple(None if v is None else units.count(v) for v in values), "number", optional)


def shares(title: str, values: Iterable[float | None], *, optional: int = 0) -> Column:
    """A column of shares, in percent."""
    return Column(title, tuple(None if v is None else units.share(v) for v in values), "number", optional)


@dataclass(frozen=True)
class Table:
    """Columns of one length. ``more`` says what was left out below."""

    columns: tuple[Column, ...]
    more: str | None = None

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns in which something is known."""
        return tuple(column for column in self.columns if not column.is_empty)

    def __len__(self) -> int:
        return len(self.columns[0].cells) if self.columns else 0


@dataclass(frozen=True)
class Section:
    """A title, sentences, tables."""

    title: str
    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Fact:
    """One line of the headline; an empty label continues the line above."""

    label: str
    value: str
    tone: Tone = "plain"


def more(shown: int, total: int, what: str) -> str | None:
    """The line that says how many rows were left out."""
    return f"{units.count(total - shown)} more {what}: {MORE}" if total > shown else None


def shorten(text: str, limit: int, width: Callable[[str], int] = len) -> str:
    """``text`` in at most ``limit`` cells, its middle left out: both ends of a name say something."""
    if limit < 1:
        return ""
    if len(text) <= 4 * limit and width(text) <= limit:
        return text
    tail = (limit - 1) // 4
    end = _take(reversed(text[-4 * limit :]), tail, width)[::-1] if tail else ""
    return _take(iter(text), limit - 1 - tail, width) + "…" + end


_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\S)")


def whole_sentences(text: str, limit: int) -> str:
    """As many whole sentences of ``text`` as fit ``limit`` characters; of the first at least a part."""
    if len(text) <= limit:
        return text
    kept = ""
    for sentence in _SENTENCE_END.split(text):
        longer = f"{kept} {sentence}" if kept else sentence
        if len(longer) > limit:
            break
        kept = longer
    return kept or shorten(text, limit)


def shorten_apart(texts: Sequence[str], limit: int, width: Callable[[str], int] = len) -> list[str]:
    """Each of ``texts`` as `shorten` has it; different ones that would look alike are cut to differ."""
    short = [shorten(text, limit, width) for text in texts]
    alike: dict[str, set[str]] = {}
    for text, cut in zip(texts, short, strict=True):
        alike.setdefault(cut, set()).add(text)
    for position, text in enumerate(texts):
        group = alike[short[position]]
        if len(group) > 1:
            short[position] = _around(text, _common(min(group), max(group)), limit, width)
    return short


def _common(one: str, other: str) -> int:
    """How many characters two texts have in common at their start."""
    length = min(len(one), len(other))
    return next((i for i in range(length) if one[i] != other[i]), length)


def _around(text: str, where: int, limit: int, width: Callable[[str], int]) -> str:
    """A piece of ``text`` that shows what is at ``where``, with the start of it if there is room."""
    start = _take(text, limit // 4, width)
    begin = max(where - limit // 4, len(start))
    middle = limit - width(start) - 1
    rest = text[begin:]
    if len(rest) > 4 * limit or width(rest) > middle:
        rest = _take(rest, middle - 1, width) + "…"
    return f"{start}…{rest}"


def _take(chars: Iterable[str], limit: int, width: Callable[[str], int]) -> str:
    taken: list[str] = []
    used = 0
    for char in chars:
        used += width(char)
        if used > limit:
            break
        taken.append(char)
    return "".join(taken)
