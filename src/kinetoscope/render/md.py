"""Pieces of GitHub-flavoured Markdown that no text can break out of."""

from __future__ import annotations

import re

from kinetoscope.render import units
from kinetoscope.render.page import Column, Table, shorten

_LEAD = re.compile(r"^(?:[+\-=]|\d{1,9}(?=[.)](?:\s|$)))")
_SPECIAL = re.compile(r"[\\`*\[\]|~$#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_BLANK = "&nbsp;"


def words(text: str) -> str:
    """``text`` as plain words: nothing in it is markup, wherever in a line it stands."""
    text = " ".join(text.split())
    escaped = _SPECIAL.sub(lambda found: "\\" + found.group(), text).translate(_ENTITIES)
    lead = _LEAD.match(escaped)
    if lead is None:
        return escaped
    # Would start a list or an underline at the start of a line.
    first = lead.group()
    return f"{first}\\{escaped[len(first) :]}" if first[0].isdigit() else "\\" + escaped


def code(name: str) -> str:
    """A name in a code span, safe in a table cell too."""
    if name and name == name.strip() and not re.search(r"[`|]|\\$", name) and "  " not in name:
        return f"`{name}`"
    # A code span can hold neither its own fence nor, in a table, a bar: HTML with entities can hold all.
    held = "".join(c if c.isalnum() or c == " " or not c.isascii() else f"&#{ord(c)};" for c in name)
    return f"<code>{held.replace('  ', _BLANK * 2)}</code>" if name.strip() else _BLANK


def table(table: Table, *, rows: int, longest: int) -> list[str]:
    """The lines of a table; names are cut to ``longest`` characters, and what is left out is said below."""
    columns = table.shown
    if not columns:
        return []
    shown = min(len(table), rows)
    lines = [
        _row([words(column.title) for column in columns]),
        _row(["---:" if column.role == "number" else "---" for column in columns]),
    ]
    lines += [_row([_cell(column, row, longest) for column in columns]) for row in range(shown)]
    if shown < len(table):
        lines += ["", f"{units.counted(len(table) - shown, 'more row')} left out."]
    elif table.more:
        lines += ["", words(table.more) + "."]
    return lines


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(column: Column, row: int, longest: int) -> str:
    cell = column.cells[row]
    if cell is None:
        return units.UNKNOWN
    if column.role != "name":
        return words(shorten(cell, longest * 2))
    depth = column.indents[row] if column.indents else 0
    indent = _BLANK * 2 * (depth - 1) + "└ " if depth else ""
    return indent + code(shorten(cell, longest))
