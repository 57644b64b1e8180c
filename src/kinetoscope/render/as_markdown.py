"""A report as GitHub-flavoured Markdown, for an issue, a chat or a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinetoscope.render import headline, md, ranks, units
from kinetoscope.render.escape import clean
from kinetoscope.render.page import MORE, Section, Table, shorten, whole_sentences
from kinetoscope.render.sections import sections
from kinetoscope.render.strings import map_strings
from kinetoscope.schema import Finding, Report

_BUDGET = 1_900  # words of a brief report, what is left out named at the end included


@dataclass(frozen=True)
class _Size:
    """How much of everything is shown."""

    findings: int
    rows: int
    sentence: int  # characters
    name: int
    warnings: int


_FULL = _Size(findings=50, rows=200, sentence=2_000, name=200, warnings=100)
_BRIEF = _Size(findings=5, rows=8, sentence=420, name=80, warnings=3)


def render(report: Report, *, brief: bool) -> str:
    """The report; ``brief`` leaves whole blocks out, the last first, until it is under 2,000 words."""
    report = map_strings(report, clean)
    size = _BRIEF if brief else _FULL
    blocks = _blocks(report, size)
    left_out: list[str] = []
    if brief:
        blocks, left_out = _within(blocks, _BUDGET)
    lines = [line for _, block in blocks for line in (*block, "")]
    if left_out:
        lines.append(f"Left out to stay brief: {', '.join(left_out)}.")
    return "\n".join(lines).strip("\n") + "\n"


_Block = tuple[str, list[str]]


def _within(blocks: Sequence[_Block], budget: int) -> tuple[list[_Block], list[str]]:
    kept: list[_Block] = []
    left_out: dict[str, None] = {}
    for name, lines in blocks:
        words = sum(len(line.split()) for line in lines)
        if words > budget:
            left_out[name] = None
            continue
        budget -= words
        kept.append((name, lines))
    return kept, list(left_out)


def _blocks(report: Report, size: _Size) -> list[_Block]:
    blocks = [("the title", _title(report, size)), ("the summary", _summary(report, size))]
    if report.ranks:
        table = _table(ranks.table(report.ranks), size)
        blocks.insert(0, ("the ranks", ["## Ranks", "", *table, "", f"{ranks.sentence(report)}."]))
    to_fix = [finding for finding in report.findings if finding.severity != "info"]
    notes = [finding for finding in report.findings if finding.severity == "info"]
    blocks.append(("what to fix", ["## What to fix", *([] if to_fix else ["", "Nothing was found."])]))
    blocks += _findings(to_fix, size, numbered=True)
    if notes:
        blocks.append(("good to know", ["## Good to know"]))
        blocks += _findings(notes, size, numbered=False)
    blocks += [(section.title.lower(), _section(section, size)) for section in sections(report)]
    return blocks


def _title(report: Report, size: _Size) -> list[str]:
    lines = [f"# {md.code(shorten(report.trace.path, size.name))}", ""]
    partial = headline.partial(report)
    if partial:
        lines += [f"**{md.words(partial)}**", ""]
    lines.append(md.words(shorten(" · ".join(headline.title(report)), size.sentence)))
    window = headline.window(report)
    if window:
        lines += ["", md.words(shorten(window, size.sentence))]
    notes = report.trace.warnings
    if notes:
        lines.append("")
    for note in notes[: size.warnings]:
        often = f" ({units.count(note.count)} times)" if note.count > 1 else ""
        lines.append(f"- Warning: {md.words(shorten(note.message, size.sentence))}{often}")
    if len(notes) > size.warnings:
        lines.append(f"- {units.counted(len(notes) - size.warnings, 'more warning')}: {MORE}")
    return lines


def _summary(report: Report, size: _Size) -> list[str]:
    lines: list[str] = []
    for fact in headline.facts(report):
        value = md.words(shorten(fact.value, size.sentence))
        lines.append(f"- **{fact.label}**: {value}" if fact.label else f"  - {value}")
    return lines


def _findings(findings: Sequence[Finding], size: _Size, *, numbered: bool) -> list[_Block]:
    blocks: list[_Block] = []
    for position, finding in enumerate(findings[: size.findings], 1):
        name, number = (f"finding {position}", f"{position}. ") if numbered else ("notes", "")
        blocks.append((name, _finding(finding, number, size)))
    if len(findings) > size.findings:
        rest = f"{units.counted(len(findings) - size.findings, 'more finding')}: {MORE}."
        blocks.append(("a line", [rest]))
    return blocks


def _finding(finding: Finding, number: str, size: _Size) -> list[str]:
    facts = [md.code(finding.code), finding.severity]
    if finding.cost_ns_per_step is not None:
        part = "" if finding.share is None else f" ({units.share(finding.share)})"
        facts.append(f"costs {units.duration(finding.cost_ns_per_step)} a step{part}, {finding.basis} time")
    saving = finding.saving_ns_per_step
    if saving is not None:
        low, best, high = (units.duration(ns) for ns in (saving.low, saving.best, saving.high))
        facts.append(f"saves {best} a step ({low} to {high}), {finding.saving_basis} time")
    lines = [f"### {number}{md.words(shorten(finding.title, size.sentence))}", "", " · ".join(facts)]
    if finding.detail:
        lines += ["", md.words(whole_sentences(finding.detail, size.sentence))]
    if finding.fix:
        lines += ["", f"**Fix**: {md.words(whole_sentences(finding.fix, size.sentence))}"]
    if finding.evidence:
        first = finding.evidence[0]
        others = f" and {units.count(len(finding.evidence) - 1)} more" if len(finding.evidence) > 1 else ""
        at = f"at {units.duration(first.start_ns)} on {md.code(shorten(first.track, size.name))}"
        lines += ["", f"Seen: {md.code(shorten(first.name, size.name))} {at}{others}"]
    if finding.doc:
        lines += ["", f"Read on: {md.words(shorten(finding.doc, size.sentence))}"]
    return lines


def _section(section: Section, size: _Size) -> list[str]:
    lines = [f"## {md.words(section.title)}"]
    for line in section.lines:
        lines += ["", md.words(shorten(line, size.sentence))]
    for table in section.tables:
        lines += ["", *_table(table, size)]
    return lines


def _table(table: Table, size: _Size) -> list[str]:
    return md.table(table, rows=size.rows, longest=size.name)
