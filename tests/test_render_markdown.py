"""The Markdown report, read back by a Markdown parser."""

from __future__ import annotations

import html
import re

import msgspec
import pytest
from hypothesis import example, given, settings
from markdown_it import MarkdownIt
from markdown_it.token import Token

import hostile
import report_samples as samples
from kinetoscope import render
from kinetoscope.render import md
from kinetoscope.render.escape import clean
from kinetoscope.schema import Finding, Report

replace = msgspec.structs.replace


def parse(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def shape(text: str) -> list[str]:
    """What a page is made of, its words left out; a name in a code span or in HTML's is the same thing."""
    found: list[str] = []
    for token in parse(text):
        found.append(token.type)
        for child in token.children or []:
            if child.type in ("text", "text_special", "code_inline", "softbreak"):
                continue
            if child.type == "html_inline" and child.content in ("<code>", "</code>"):
                continue
            found.append(f"{token.type} {child.type} {child.content}")
    return found


def words_of(text: str) -> str:
    """The text that a reader sees in one paragraph."""
    [paragraph] = [token for token in parse(text) if token.type == "inline"]
    return "".join(child.content for child in paragraph.children or [] if child.type != "html_inline")


@given(hostile.names)
@example("| a | b |")
@example("a`b")
@example("\\|")
@example(" x ")
@example("1. x")
@example("# x #")
@settings(max_examples=60, deadline=None)
def test_no_name_can_break_the_page(name: str) -> None:
    shown = render.markdown(samples.with_name("x" + name))
    assert shape(shown) == shape(render.markdown(samples.with_name("x")))
    shown.encode()
    assert all(line.isprintable() for line in shown.split("\n"))


@given(hostile.names.map(clean))
@settings(max_examples=100, deadline=None)
def test_words_mean_themselves_wherever_they_stand(name: str) -> None:
    expected = " ".join(name.split())
    if not expected:
        return
    assert words_of(md.words(name)) == expected
    cell = parse(f"| h |\n| --- |\n| {md.words(name)} |\n")
    assert [token.type for token in cell].count("td_open") == 1


@given(hostile.names.map(clean))
@settings(max_examples=100, deadline=None)
def test_code_shows_the_name_as_it_is(name: str) -> None:
    if not name.strip():
        return
    seen = words_of("x" + md.code(name))[1:]
    assert seen.replace("\u00a0", " ") == name
    row = parse(f"| a | b |\n| --- | --- |\n| {md.code(name)} | z |\n")
    assert [token.content for token in row if token.type == "inline"][3] == "z"


@pytest.mark.parametrize("name", ["a|b", "`", "a\\", " ", ""])
def test_code_in_a_cell_never_holds_a_bar_or_a_fence(name: str) -> None:
    assert not re.search(r"[|\\]", md.code(name))
    assert html.unescape(re.sub(r"</?code>", "", md.code(name))).strip() == name.strip()


def test_what_is_said() -> None:
    shown = render.markdown(samples.seed_breaks())
    assert shown.startswith("# `seed_breaks/trace.json.gz`\n\nNVIDIA H200")
    assert "- **Compiled**: yes, in 4 pieces: 3 graph breaks (estimate)\n" in shown
    assert "### 1. 3 graph breaks split the forward into 4 compiled pieces\n" in shown
    assert "`graph-break` \u00b7 high \u00b7 costs 882 us a step (26 %), profiled time\n" in shown
    assert "Seen: `Torch-Compiled Region: 1/0` at 2.68 ms on `717/717` and 1 more" in shown
    assert "| `triton_poi_fused_addmm_relu_0` | inductor_triton |" in shown
    assert shown.index("## What to fix") < shown.index("## Compiled regions")


def test_the_tree_of_regions_is_indented() -> None:
    assert "| &nbsp;&nbsp;└ `2/0` | 3 |" in render.markdown(samples.seed_breaks())


def test_partial_is_said_at_the_top() -> None:
    report = samples.seed_breaks()
    shown = render.markdown(replace(report, trace=replace(report.trace, complete=False)))
    assert shown.split("\n")[2].startswith("**PARTIAL")


def test_ranks_come_first() -> None:
    shown = render.markdown(samples.two_ranks())
    assert shown.startswith("## Ranks\n")
    assert "| `1` | yes |" in shown


def big(name: str) -> Report:
    """As much of everything as a report can hold."""
    report = samples.with_name(name)
    finding = replace(report.findings[0], title=name, detail=name, fix=name)
    kernels = report.kernels
    assert kernels is not None
    bigger = replace(
        report,
        findings=[finding] * 300,
        regions=[replace(region, id=f"{name}{n}") for n in range(300) for region in report.regions[:1]],
        kernels=replace(kernels, top=kernels.top * 50),
        steps=replace(report.steps, list=report.steps.list * 100),
        device_time=report.device_time * 50,
    )
    return replace(bigger, ranks=[bigger] * 20)


@pytest.mark.parametrize("name", ["x", "a b " * 5_000, "\u6838 " * 3_000, "| " * 900, "` " * 900])
def test_brief_is_under_2000_words_whatever_the_input(name: str) -> None:
    shown = render.markdown(big(name), brief=True)
    assert len(shown.split()) < 2_000
    assert "**Compiled**" in shown
    assert ("Left out to stay brief" in shown) == (name != "x")


@given(hostile.names)
@settings(max_examples=10, deadline=None)
def test_brief_is_under_2000_words_for_any_name(name: str) -> None:
    assert len(render.markdown(big(name), brief=True).split()) < 2_000


def test_brief_keeps_what_fits() -> None:
    full, brief = (render.markdown(samples.seed_breaks(), brief=brief) for brief in (False, True))
    assert "Left out" not in brief
    assert shape(brief) == shape(full)


def test_a_cut_finding_list_says_so() -> None:
    finding = Finding(code="sync", title="waits", severity="low", detail="")
    shown = render.markdown(samples.seed_breaks(findings=[finding] * 60))
    assert "10 more findings: --format json lists all." in shown
