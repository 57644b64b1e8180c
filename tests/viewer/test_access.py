"""Accessible, in both themes and all widths; and the page's own code has sound types."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from viewer.conftest import IN_CI
from viewer.driving import TimelinePage, until

Open = Callable[..., Any]
HERE = Path(__file__).parent
STATIC = HERE.parents[1] / "src" / "kinetoscope" / "viewer" / "static"


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``node_modules`` of this directory's package.json: in CI installed where it is missing."""
    if (HERE / "node_modules").is_dir():
        return HERE / "node_modules"
    if not IN_CI:
        pytest.skip("npm install in tests/viewer brings axe-core and TypeScript")
    npm = shutil.which("npm")
    if npm is None:
        pytest.fail("npm is not installed, and CI runs every test", pytrace=False)
    where = tmp_path_factory.mktemp("node")
    shutil.copy(HERE / "package.json", where)
    command = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock"]
    subprocess.run(command, cwd=where, check=True, timeout=300, capture_output=True)
    return where / "node_modules"


def test_types(modules: Path) -> None:
    done = subprocess.run(
        ["node", str(modules / "typescript" / "bin" / "tsc"), "-p", str(HERE / "tsconfig.json")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout


def test_no_file_is_two_ideas() -> None:
    for path in [*STATIC.rglob("*.js"), *STATIC.rglob("*.css"), *STATIC.parent.glob("*.py")]:
        assert len(path.read_text().splitlines()) <= 400, path


def shown(page: Any, place: str) -> None:
    if place.startswith("timeline"):
        TimelinePage(page)
    elif place == "query":
        page.wait_for_selector(".schema details")
    elif place == "overview":
        page.wait_for_selector(".overview .bar")
    else:
        page.wait_for_selector("article h1, article .tools")
    page.wait_for_timeout(100)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("place", ["overview", "timeline?sel=640", "kernels", "compile", "query"])
def test_axe_finds_nothing(open_page: Open, modules: Path, scheme: str, place: str) -> None:
    page = open_page("seed_breaks", place, scheme=scheme, bypass_csp=True)
    shown(page, place)
    page.evaluate((modules / "axe-core" / "axe.min.js").read_text())
    found = page.evaluate("async () => (await axe.run(document)).violations")
    said = [f"{each['id']}: {node['html'][:160]}" for each in found for node in each["nodes"]]
    assert said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_dialog(open_page: Open, modules: Path, scheme: str) -> None:
    page = open_page("seed_breaks", "timeline?b=9758298&e=13298521", scheme=scheme, bypass_csp=True)
    shown(page, "timeline")
    page.click("text=Open in Perfetto")
    page.wait_for_selector("dialog.perfetto[open]")
    page.evaluate((modules / "axe-core" / "axe.min.js").read_text())
    found = page.evaluate("async () => (await axe.run(document.querySelector('dialog[open]'))).violations")
    assert [f"{each['id']}: {node['html'][:160]}" for each in found for node in each["nodes"]] == []


@pytest.mark.parametrize(
    ("width", "height", "scale"), [(420, 800, 1), (1280, 720, 1), (1920, 1080, 2), (3840, 2160, 1)]
)
@pytest.mark.parametrize("place", ["overview", "timeline", "kernels", "compile", "query"])
def test_it_fits_every_width(open_page: Open, place: str, width: int, height: int, scale: int) -> None:
    page = open_page("seed_breaks", place, width=width, height=height, device_scale_factor=scale)
    shown(page, place)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(
        "document.querySelector('main').scrollWidth <= document.querySelector('main').clientWidth"
    )
    # the bar on top does not scroll: what does not fit there cannot be read
    assert page.eval_on_selector("#top", "(e) => e.scrollWidth <= e.clientWidth")
    page.wait_for_selector("#top dt:has-text('Step')")
    assert page.eval_on_selector("#top dl", "(e) => e.getBoundingClientRect().right <= innerWidth")
    if place == "kernels" and width >= 1280:
        assert page.eval_on_selector(".table", "(t) => t.scrollWidth <= t.clientWidth")
    if place == "query":
        assert page.eval_on_selector(".editor textarea", "(e) => e.clientWidth > 300")
    if place == "timeline":
        assert page.eval_on_selector(".body > canvas", "(c) => c.clientWidth > 0.6 * innerWidth")
        sizes = page.eval_on_selector(".body > canvas", "(c) => [c.width, c.getBoundingClientRect().width]")
        assert sizes[0] == pytest.approx(sizes[1] * scale, abs=1)


@pytest.mark.parametrize("name", ["user_triton", "gpt_decode"])
def test_all_columns_of_the_kernels_fit(open_page: Open, name: str) -> None:
    page = open_page(name, "kernels", width=1280, height=720)
    page.wait_for_selector(".table tbody tr")
    assert page.eval_on_selector(".table", "(t) => t.scrollWidth <= t.clientWidth")
    # what is cut is told when it is pointed at
    cut = page.evaluate_handle(
        """[...document.querySelectorAll(".table td, .table span")].find((each) =>
            each.scrollWidth > each.clientWidth && getComputedStyle(each).textOverflow === "ellipsis"
            && !each.title && !each.closest("[title]") && !each.querySelector("[title]"))"""
    ).as_element()
    if cut is not None:
        cut.hover()
        assert cut.get_attribute("title") == cut.text_content()


def operator_in_view(page: Any, text: str) -> int:
    """Row of the first operator of this name in what is shown."""
    asked = """async (q) => (await (await fetch(
        `api/search-step?q=${q}&time=${Math.round(kinetoscope.view.begin)}`)).json()).hit.row"""
    found: int = page.evaluate(asked, text)
    return found


def test_nothing_shifts_when_something_is_selected(open_page: Open) -> None:
    page = open_page("seed_breaks", "timeline")
    timeline = TimelinePage(page)
    # the details rise from below when something is selected first; then they keep their place
    page.mouse.click(*timeline.point(operator_in_view(page, "CompiledFunction")))
    page.wait_for_selector(".details .args dl")
    page.wait_for_timeout(600)
    places = "kinetoscope.rows.shown.map((row) => kinetoscope.rows.y(row, kinetoscope.scroll.scrollTop))"
    before, rows = timeline.box, page.evaluate(places)
    timeline.click(operator_in_view(page, "Call CompiledFxGraph"))
    page.wait_for_selector(".details .args dl")
    assert (timeline.box, page.evaluate(places)) == (before, rows)


def test_what_is_clicked_stays_where_it_is(open_page: Open) -> None:
    page = open_page("seed_breaks", "timeline")
    timeline = TimelinePage(page)
    before = timeline.box
    x, y = timeline.point(operator_in_view(page, "CompiledFunction"))
    assert y < before["y"] + 200
    places = "kinetoscope.rows.shown.map((row) => kinetoscope.rows.y(row, kinetoscope.scroll.scrollTop))"
    rows = page.evaluate(places)
    page.mouse.click(x, y)
    page.wait_for_selector(".details .args dl")
    page.wait_for_timeout(600)
    after = timeline.box
    assert [after[side] for side in ("x", "y", "width")] == [before[side] for side in ("x", "y", "width")]
    assert page.evaluate(places) == rows


def test_what_the_details_would_cover_comes_into_view(open_page: Open) -> None:
    page = open_page("seed_breaks", "timeline", height=720)
    TimelinePage(page)
    page.evaluate("kinetoscope.view.all()")
    lowest = page.evaluate(
        """() => {
            const { rows, scroll } = kinetoscope;
            const seen = rows.shown.filter((row) => row.kind === "lanes"
                && rows.y(row, 0) + row.height < scroll.clientHeight);
            return [seen.at(-1).id, rows.y(seen.at(-1), 0)];
        }"""
    )
    page.evaluate(
        """async (id) => {
            const { rows, selection } = kinetoscope, row = rows.shown.find((each) => each.id === id);
            const asked = `lane=${row.lanes[0]}&time=0&within=1e12`;
            const found = await (await fetch(`api/at?${asked}`)).json();
            await selection.select(found.row, false);
        }""",
        lowest[0],
    )
    until(
        page,
        """(id) => {
            const { rows, scroll } = kinetoscope, row = rows.shown.find((each) => each.id === id);
            const y = rows.y(row, scroll.scrollTop);
            return scroll.scrollTop > 0 && y > rows.pinnedHeight && y + 18 < scroll.clientHeight;
        }""",
        lowest[0],
    )


def test_controls_have_names_and_focus_is_seen(open_page: Open) -> None:
    page = open_page("seed_breaks", "timeline")
    TimelinePage(page)
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, textarea, a")]
            .filter((e) => !(e.getAttribute("aria-label") || e.innerText || e.title))
            .map((e) => e.outerHTML)"""
    )
    assert unnamed == []
    page.keyboard.press("Tab")
    seen = set()
    for _ in range(25):
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", page.evaluate("document.activeElement.outerHTML")
        seen.add(page.evaluate("document.activeElement.outerHTML.slice(0, 80)"))
    assert len(seen) > 15


def test_the_theme_follows_the_system_while_it_is_open(open_page: Open) -> None:
    page = open_page("seed_breaks", "timeline", forgive=True)  # the test reads pixels, which is warned of
    TimelinePage(page)
    pixel = """() => {
        const canvas = document.querySelector(".body > canvas");
        return [...canvas.getContext("2d").getImageData(canvas.width - 3, canvas.height - 3, 1, 1).data];
    }"""
    assert page.evaluate(pixel)[0] > 200
    page.emulate_media(color_scheme="dark")
    until(page, f"({pixel})()[0] < 60")


@pytest.mark.parametrize("width", [420, 800, 1280])
def test_every_button_of_the_timeline_is_in_the_window(open_page: Open, width: int) -> None:
    page = open_page("seed_breaks", "timeline", width=width, height=700)
    TimelinePage(page)
    outside = page.evaluate(
        """() => [...document.querySelectorAll(".bar-tools button, .bar-tools input")].filter((each) => {
            const box = each.getBoundingClientRect();
            return !each.hidden && (box.left < 0 || box.right > innerWidth || box.bottom > innerHeight);
        }).map((each) => each.textContent)"""
    )
    assert outside == []
    page.keyboard.press("?")
    page.wait_for_selector("dialog.help[open]")
    assert page.eval_on_selector("dialog.help", "(e) => e.scrollWidth <= e.clientWidth")
