"""Lay a table out for a terminal: never wider than the page, numbers never cut."""

from __future__ import annotations

from rich.cells import cell_len
from rich.table import Table as RichTable
from rich.text import Text

from kinetoscope.render import units
from kinetoscope.render.page import Column, Table, shorten, shorten_apart

GAP = 2
_USUAL = 80
_LONGEST = 400  # of a text that wraps


def lay_out(table: Table, width: int) -> RichTable:
    """``table`` as a rich table that is ``width`` cells wide at most."""
    columns = fit(table.shown, width)
    widths = _widths(columns, width)
    laid = RichTable(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_edge=False, header_style="dim")
    for column, cells in zip(columns, widths, strict=True):
        laid.add_column(
            Text(shorten(column.title, cells, cell_len)),
            width=cells,
            justify="right" if column.role == "number" else "left",
            no_wrap=column.role != "text",
            overflow="fold" if column.role == "text" else "crop",
        )
    cut = [_cells(column, cells) for column, cells in zip(columns, widths, strict=True)]
    for row in zip(*cut, strict=True):
        laid.add_row(*row)
    return laid


def fit(columns: tuple[Column, ...], width: int) -> list[Column]:
    """The columns that fit, the optional ones given up first."""
    kept = list(columns)
    while _least(kept) > width:
        optional = [column for column in kept if column.optional]
        if optional:
            kept.remove(max(optional, key=lambda column: column.optional))
        elif len(kept) > 1:
            # Too narrow for what matters: what stands last is kept, it is what the table is ordered by.
            kept.pop(-2)
        else:
            break
    return kept


def _least(columns: list[Column]) -> int:
    cells = (_natural(c) if c.role == "number" else min(_natural(c), c.least) for c in columns)
    return sum(cells) + GAP * (len(columns) - 1)


def _natural(column: Column) -> int:
    shown = (_label(column, row) for row in range(len(column.cells)))
    return max(cell_len(column.title), *(cell_len(text[:_LONGEST]) for text in shown), 1)


def _widths(columns: list[Column], width: int) -> list[int]:
    """Numbers get what they need; the others share the rest, the short ones first."""
    natural = [_natural(column) for column in columns]
    given = dict.fromkeys((i for i, c in enumerate(columns) if c.role == "number"), 0)
    for i in given:
        given[i] = min(natural[i], width)
    flexible = sorted((i for i in range(len(columns)) if i not in given), key=lambda i: natural[i])
    left = width - GAP * (len(columns) - 1) - sum(given.values())
    for position, i in enumerate(flexible):
        given[i] = max(1, min(natural[i], left // (len(flexible) - position)))
        left -= given[i]
    # The first column takes what is left, so that numbers end at the margin of a usual page; on a wider one
    # that would part them too far from the names they belong to.
    spare = min(left, _USUAL - (width - left))
    if flexible and spare > 0:
        given[min(flexible)] += spare
    return [given[i] for i in range(len(columns))]


def _label(column: Column, row: int) -> str:
    cell = column.cells[row]
    text = units.UNKNOWN if cell is None else cell
    depth = column.indents[row] if column.indents else 0
    return "  " * (depth - 1) + "└ " + text if depth else text


def _cells(column: Column, cells: int) -> list[Text]:
    labels = [_label(column, row) for row in range(len(column.cells))]
    cut = shorten_apart(labels, _LONGEST if column.role == "text" else cells, cell_len)
    return [
        Text(text, style="dim" if cell is None else "") for text, cell in zip(cut, column.cells, strict=True)
    ]
