"""The timeline as a person uses it, and waiting for what it does."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from kinetoscope.link import Links


def until(page: Any, expression: str, arg: Any = None, seconds: float = 8.0) -> Any:
    """Ask a page until an expression holds; its own policy forbids it to evaluate texts by itself."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = page.evaluate(expression, arg)
        except Exception as error:
            if "context was destroyed" not in str(error):
                raise
            found = None  # the page is being loaded again
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"never true: {expression} ({arg})")
        time.sleep(0.02)


def rows_named(links: Links, name: str) -> list[int]:
    """Rows of the slices of a name, in the trace's order."""
    number = links.trace.names.index[name]
    return [int(row) for row in np.flatnonzero(links.trace.columns.name == number)]


SELECTED = "(row) => kinetoscope.selection.row === row"


class TimelinePage:
    """The timeline as a person uses it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.settle()

    def settle(self) -> None:
        """Wait until everything in view is drawn and the overlays are there."""
        self.page.wait_for_selector(".timeline[data-settled=true]")
        until(self.page, "globalThis.kinetoscope?.ready")
        until(self.page, "globalThis.kinetoscope.tiles.current?.analysed")
        self.page.wait_for_selector(".timeline[data-settled=true]")

    @property
    def window(self) -> tuple[float, float]:
        """Begin and end of what is shown, in ns."""
        found = self.page.evaluate("[kinetoscope.view.begin, kinetoscope.view.end]")
        return found[0], found[1]

    @property
    def row(self) -> int | None:
        """The selected slice."""
        found: int | None = self.page.evaluate("kinetoscope.selection.row")
        return found

    def press(self, key: str) -> None:
        """One press, with the keyboard on the page and not in a field."""
        self.page.keyboard.press(key)

    def point(self, row: int) -> tuple[float, float]:
        """Bring a slice into view; the place of its middle on the screen."""
        data = self.page.evaluate(
            """async (row) => {
                const k = globalThis.kinetoscope;
                const data = await (await fetch(`api/slice?row=${row}`)).json();
                const all = k.rows.all.find((each) => each.lanes.includes(data.lane));
                if (k.rows.isFolded(all)) { k.rows.toggled.add(all.id); k.rows.layout(); }
                const length = Math.max(data.dur_ns, 20);
                k.view.set(data.start_ns - length * 8, data.end_ns + length * 8);
                const y = k.rows.laneY(data.lane, 0);
                k.scroll.scrollTop = Math.max(0, y - k.scroll.clientHeight / 2);
                return { lane: data.lane, start: data.start_ns, end: data.end_ns };
            }""",
            row,
        )
        self.settle()
        place = self.page.evaluate(
            """(data) => {
                const k = globalThis.kinetoscope;
                const box = document.querySelector(".body > canvas").getBoundingClientRect();
                const y = box.top + k.rows.laneY(data.lane, k.scroll.scrollTop) + 9;
                return [box.left + k.view.x((data.start + data.end) / 2), y];
            }""",
            data,
        )
        return place[0], place[1]

    def click(self, row: int) -> None:
        """Click the slice where it is drawn."""
        x, y = self.point(row)
        self.page.mouse.click(x, y)
        until(self.page, SELECTED, row)

    @property
    def details(self) -> str:
        """Text of the details panel."""
        return str(self.page.inner_text(".details"))

    @property
    def arrows(self) -> list[dict[str, Any]]:
        """Arrows that are drawn."""
        found: list[dict[str, Any]] = self.page.evaluate(
            "kinetoscope.arrows().map((a) => "
            "({ kind: a.kind, source: a.source, target: a.target, strong: a.strong }))"
        )
        return found

    @property
    def box(self) -> dict[str, float]:
        """Where the rows are drawn on the screen."""
        found: dict[str, float] = self.page.eval_on_selector(
            ".body > canvas",
            "(c) => c.getBoundingClientRect().toJSON()",
        )
        return found
