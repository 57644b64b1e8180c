"""Where compiled code goes on after a graph break: every passing of one, with what is known of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kinetoscope.analyses.breaks import Nesting
from kinetoscope.link import Links
from kinetoscope.schema import BreakSite, Report


@dataclass(frozen=True)
class Passing:
    """One passing of a break.

    Attributes:
        time_ns: when the region after it began.
        row: the slice of that region.
        outer: id of the region that broke off.
        inner: id of the region after the break.
        site: the break in the report, where it is known.
    """

    time_ns: int
    row: int
    outer: str
    inner: str
    site: BreakSite | None

    @property
    def label(self) -> str:
        """Between what it lies."""
        return f"graph break between {self.outer or 'a region'} and {self.inner or 'a region'}"

    @property
    def where(self) -> str | None:
        """``file:line``, or what is known of it."""
        if self.site is None or not self.site.file:
            return None
        return f"{self.site.file}:{self.site.line}" if self.site.line else self.site.file

    @property
    def why(self) -> str | None:
        """Where the break is and its reason, as far as they are known."""
        reason = self.site.reason if self.site is not None else None
        return ", ".join(part for part in (self.where, reason) if part) or None


def passings(links: Links, report: Report) -> Iterator[Passing]:
    """Every passing, in order of time."""
    calls = links.regions.calls
    if len(calls) == 0:
        return
    inner = Nesting(links).continuations
    inner = inner[np.argsort(calls.start_ns[inner], kind="stable")]
    sites = _sites(report)
    for number in inner.tolist():
        outer, own = calls.labels[calls.label[calls.parent[number]]], calls.labels[calls.label[number]]
        yield Passing(
            time_ns=int(calls.start_ns[number]),
            row=int(calls.rows[number]),
            outer=outer,
            inner=own,
            site=sites.get((outer, own)),
        )


def _sites(report: Report) -> Mapping[tuple[str, str], BreakSite]:
    """The break between two regions."""
    return {
        (outer, own): site
        for site in report.graph_breaks.sites
        if site.file or site.reason
        for outer in site.regions
        for own in site.regions
    }
