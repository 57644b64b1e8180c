"""The page's pure modules, imported by the page itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Open = Callable[..., Any]


@pytest.fixture
def call(open_page: Open) -> Callable[..., Any]:
    """Call a function of a module: ``call("format.js", "duration", 1500)``."""
    page = open_page("seed_breaks")
    page.wait_for_selector(".overview h1")

    def of(module: str, name: str, *arguments: Any) -> Any:
        return page.evaluate(
            """async ([module, name, given]) => {
                const found = await import(new URL(`static/${module}`, location.href.split("#")[0]).href);
                return found[name](...given);
            }""",
            [module, name, list(arguments)],
        )

    of.page = page  # type: ignore[attr-defined]
    return of


def test_numbers_as_people_read_them(call: Callable[..., Any]) -> None:
    for ns, said in (
        (0, "0 ns"),
        (950, "950 ns"),
        (1_500, "1.50 us"),
        (999_400, "999 us"),
        (999_600, "1.00 ms"),
        (4_600_000, "4.60 ms"),
        (2_345_678_901, "2.35 s"),
        (None, "unknown"),
    ):
        assert call("format.js", "duration", ns) == said
    for value, said in ((0, "0 %"), (0.0001, "<0.1 %"), (0.0318, "3.2 %"), (0.9996, ">99.9 %"), (1, "100 %")):
        assert call("format.js", "share", value) == said
    assert call("format.js", "bytes", 3 * 2**20) == "3.00 MiB"
    assert call("format.js", "counted", 1, "step") == "1 step"
    assert call("format.js", "counted", 1210, "event") == "1,210 events"
    assert call("format.js", "columnUnit", 12_345)["unit"] == "us"
    assert call("format.js", "columnUnit", 5e9)["unit"] == "s"


def test_ranges_of_numbers(call: Callable[..., Any]) -> None:
    assert call("net.js", "ranges", [0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"
    assert call("net.js", "ranges", []) == ""


def test_ticks_are_round(call: Callable[..., Any]) -> None:
    for least, step in ((1, 1), (1.1, 2), (3, 5), (7e5, 1e6), (1200, 2000)):
        assert call("timeline/strips.js", "nice", least) == step


def test_the_address_keeps_values(call: Callable[..., Any]) -> None:
    assert call("address.js", "link", "timeline", {"b": 1, "q": "a&b=c", "x": None, "y": ""}) == (
        "#/timeline?b=1&q=a%26b%3Dc"
    )


def test_a_view_stays_inside_what_there_is(call: Callable[..., Any]) -> None:
    page = call.page  # type: ignore[attr-defined]
    found = page.evaluate(
        """async () => {
            const base = location.href.split("#")[0];
            const { View } = await import(new URL("static/timeline/view.js", base).href);
            const view = new View(0, 1000, () => {});
            const seen = [];
            for (const move of [
                () => view.zoom(1e-9), () => view.zoom(1e9), () => view.pan(1e6), () => view.pan(-1e6),
                () => view.set(400, 400), () => view.show(100, 200, 0.5), () => view.all(),
            ]) {
                move();
                seen.push([view.begin, view.end]);
            }
            view.set(100, 300);
            view.zoom(0.5, 150);
            seen.push([view.begin, view.end]);
            return seen;
        }"""
    )
    for begin, end in found:
        assert end - begin >= 20
        assert end - begin <= 1120.001
        assert begin < 1000
        assert end > 0
    assert found[-1] == [125, 225]


def test_pieces_are_found_at_a_place(call: Callable[..., Any]) -> None:
    page = call.page  # type: ignore[attr-defined]
    found = page.evaluate(
        """async () => {
            const base = location.href.split("#")[0];
            const { pieceAt } = await import(new URL("static/timeline/tiles.js", base).href);
            const tile = { begin: 1000, pixel: 10, ranges: new Map([[3, [0, 3]]]),
                x0: Float32Array.of(0, 10, 30), x1: Float32Array.of(5, 20, 31) };
            return [[3, 1000], [3, 1049], [3, 1070], [3, 1150], [3, 1305], [3, 9000], [4, 1000]].map(
                ([lane, time]) => pieceAt(tile, lane, time, 10));
        }"""
    )
    assert found == [0, 0, -1, 1, 2, -1, -1]
