"""A report for the terminal: the verdict first, then what to fix, then tables."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from kinetoscope.render import headline, ranks, units
from kinetoscope.render.escape import clean
from kinetoscope.render.layout import GAP, lay_out
from kinetoscope.render.page import Section, Tone, more, shorten, whole_sentences
from kinetoscope.render.sections import sections
from kinetoscope.render.strings import map_strings
from kinetoscope.schema import Finding, Report, Severity, WarningNote

_NARROWEST = 40
_FINDINGS = 8
_WARNINGS_ABOVE = 3
_WARNINGS = 30
_COST = 12  # cells of the two columns of times beside a finding
_INDENT = 4
_LONGEST = 600  # of a sentence
_LONGEST_ADVICE = 2000  # of what a finding says, which ends with a whole sentence

_TONES: dict[Tone, str] = {"plain": "", "good": "green", "warn": "yellow", "bad": "bold red", "quiet": "dim"}
_SEVERITIES: dict[Severity, str] = {"high": "bold red", "medium": "yellow", "low": "cyan", "info": "dim"}
# What stands for our own signs where the output cannot hold them; each as wide as what it replaces.
_ASCII = str.maketrans({"·": "-", "…": "~", "└": "`"})


def render(report: Report, *, width: int, color: bool, ascii_only: bool = False) -> str:
    """The report as text, no line wider than ``width`` (at least 40); ``ascii_only``: no Unicode signs."""
    width = max(width, _NARROWEST)
    report = map_strings(report, lambda text: clean(text, ascii_only=ascii_only))
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        force_jupyter=False,
        force_interactive=False,
    )
    for part in _page(report, width):
        console.print(part)
    lines = out.getvalue().split("\n")
    text = "\n".join(line.rstrip(" ") for line in lines).strip("\n") + "\n"
    return text.translate(_ASCII) if ascii_only else text


def _page(report: Report, width: int) -> Iterator[RenderableType]:
    if report.ranks:
        yield Text("Ranks", style="bold")
        yield lay_out(ranks.table(report.ranks), width)
        yield ""
        yield Text(ranks.sentence(report), style="bold")
        yield ""
    yield from _first_screen(report, width)
    yield from _findings(report, width)
    for section in sections(report):
        yield from _section(section, width)
    if len(report.trace.warnings) > _WARNINGS_ABOVE:
        yield ""
        yield Text("Warnings about the file", style="bold")
        yield from _warnings(report.trace.warnings[:_WARNINGS])
        left_out = more(_WARNINGS, len(report.trace.warnings), "warnings")
        if left_out:
            yield Text(left_out, style="dim")


def _first_screen(report: Report, width: int) -> Iterator[RenderableType]:
    partial = headline.partial(report)
    if partial:
        yield Text(partial, style="bold red")
    parts = headline.title(report)
    rest = " · ".join(parts)
    room = width - cell_len(rest) - 3
    path = report.trace.path
    if cell_len(path) <= room or room >= width // 2:
        yield Text(f"{shorten(path, room, cell_len)} · {rest}", style="bold")
    else:
        yield Text(shorten(path, width, cell_len), style="bold")
        yield Text(shorten(rest, width * 2, cell_len), style="bold")
    window = headline.window(report)
    if window:
        yield Text(shorten(window, width * 2, cell_len))
    notes = report.trace.warnings
    yield from _warnings(notes[:_WARNINGS_ABOVE])
    if len(notes) > _WARNINGS_ABOVE:
        yield Text(f"{units.counted(len(notes), 'warning')} in all: see the end", style="yellow")
    yield ""
    grid = RichTable.grid(padding=(0, GAP, 0, 0))
    facts = headline.facts(report)
    grid.add_column(width=max(cell_len(fact.label) for fact in facts))
    grid.add_column(overflow="fold")
    for fact in facts:
        grid.add_row(Text(fact.label, style="bold"), Text(_cut(fact.value), style=_TONES[fact.tone]))
    yield grid


def _warnings(notes: Sequence[WarningNote]) -> Iterator[RenderableType]:
    for note in notes:
        often = f" ({units.count(note.count)} times)" if note.count > 1 else ""
        yield Text(f"Warning: {_cut(note.message)}{often}", style="yellow", overflow="fold")


def _findings(report: Report, width: int) -> Iterator[RenderableType]:
    to_fix = [finding for finding in report.findings if finding.severity != "info"]
    notes = [finding for finding in report.findings if finding.severity == "info"]
    yield ""
    if not to_fix:
        yield Text("What to fix", style="bold")
        yield Text("Nothing was found.")
    else:
        yield from _ranked(to_fix, width)
    if notes:
        yield ""
        yield Text("Good to know", style="bold")
        for finding in notes[:_FINDINGS]:
            yield _finding_row(("", finding.code, finding.title), ("bold", "", ""), (), width)
            yield from _advice(finding, width)
        left_out = more(_FINDINGS, len(notes), "notes")
        if left_out:
            yield Text(left_out, style="dim")


def _ranked(findings: Sequence[Finding], width: int) -> Iterator[RenderableType]:
    costs = any(finding.cost_ns_per_step is not None for finding in findings)
    saves = any(finding.saving_ns_per_step is not None for finding in findings)
    heads = ["costs a step"] * costs + ["saves a step"] * saves
    yield _finding_row(("What to fix",), ("bold",), heads, width)
    for number, finding in enumerate(findings[:_FINDINGS], 1):
        numbers = [units.duration(finding.cost_ns_per_step)] * costs
        if saves:
            best = finding.saving_ns_per_step
            numbers.append(units.UNKNOWN if best is None else units.duration(best.best))
        words = (f"{number:2d}", finding.code, finding.title)
        yield _finding_row(words, ("dim", _SEVERITIES[finding.severity], ""), numbers, width)
        yield from _advice(finding, width)
    left_out = more(_FINDINGS, len(findings), "findings")
    if left_out:
        yield Text(left_out, style="dim")
    times = headline.times_of(findings[:_FINDINGS])
    if times:
        yield Text(times, style="dim")


def _finding_row(
    words: Sequence[str], styles: Sequence[str], numbers: Sequence[str], width: int
) -> RichTable:
    """Number, code and title of a finding (or only a title), with its times at the right margin."""
    grid = RichTable.grid(padding=(0, GAP, 0, 0))
    used = (_COST + GAP) * len(numbers)
    if len(words) > 1:
        grid.add_column(width=2)
        used += 2 + GAP
    grid.add_column(width=width - used, overflow="fold")
    for _ in numbers:
        grid.add_column(width=_COST, justify="right", no_wrap=True)
    styled = [Text(_cut(word), style=style) for word, style in zip(words, styles, strict=True)]
    grid.add_row(*styled[:-2], Text("  ").join(styled[-2:]), *map(Text, numbers))
    return grid


def _advice(finding: Finding, width: int) -> Iterator[RenderableType]:
    """What was seen, what to do, where to look; under the finding's title."""

    def under(text: str, style: str = "") -> Padding:
        said = whole_sentences(text, _LONGEST_ADVICE)
        return Padding(
            Text(shorten(said, _LONGEST_ADVICE, cell_len), style=style, overflow="fold"), (0, 0, 0, _INDENT)
        )

    if finding.detail:
        yield under(finding.detail)
    if finding.fix:
        yield under(f"Fix: {finding.fix}")
    saving = finding.saving_ns_per_step
    if saving is not None and saving.low != saving.high:
        yield under(f"Saves {units.duration(saving.low)} to {units.duration(saving.high)} a step", "dim")
    if finding.evidence:
        first = finding.evidence[0]
        where = f" at {units.duration(first.start_ns)}"
        name = shorten(first.name, max(20, width - _INDENT - 40), cell_len)
        others = f" and {units.count(len(finding.evidence) - 1)} more" if len(finding.evidence) > 1 else ""
        yield under(f"See {name}{where}{others}", "dim")


def _section(section: Section, width: int) -> Iterator[RenderableType]:
    yield ""
    yield Text(section.title, style="bold")
    for line in section.lines:
        yield Text(_cut(line), overflow="fold")
    for number, table in enumerate(section.tables):
        if number:
            yield ""
        yield lay_out(table, width)
        if table.more:
            yield Text(table.more, style="dim")


def _cut(text: str) -> str:
    return shorten(text, _LONGEST, cell_len)
