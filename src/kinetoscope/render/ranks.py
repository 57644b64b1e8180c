"""Several ranks: one line each, never added up."""

from __future__ import annotations

from collections.abc import Sequence

from kinetoscope.render import headline, units, words
from kinetoscope.render.page import Table, counts, more, names, shares, texts, times
from kinetoscope.schema import Report

_ROWS = 64


def table(reports: Sequence[Report]) -> Table:
    """One row a rank."""
    shown = reports[:_ROWS]
    return Table(
        (
            names("Rank", [_rank(report, number) for number, report in enumerate(shown)]),
            texts("Compiled", [report.compiled.verdict for report in shown]),
            times("Step", [report.steps.median_ns for report in shown]),
            shares(f"{words.device(shown[0])} busy", [headline.busy_share(report) for report in shown]),
            counts("Breaks", [report.graph_breaks.count for report in shown], optional=1),
            counts("Events", [report.trace.events for report in shown], optional=2),
            texts(
                "First to fix",
                [report.findings[0].code if report.findings else "nothing found" for report in shown],
            ),
        ),
        more(len(shown), len(reports), "ranks"),
    )


def sentence(report: Report) -> str:
    """What the report under the ranks is of."""
    ranks = report.ranks or ()
    if report.trace.rank is None:
        return f"{units.counted(len(ranks), 'input')}; below: number 1"
    return f"{units.counted(len(ranks), 'rank')}; below: rank {report.trace.rank}"


def _rank(report: Report, position: int) -> str:
    name = f"number {position + 1}" if report.trace.rank is None else str(report.trace.rank)
    return name if report.trace.complete else f"{name} (PARTIAL)"
