"""What a search can ask for besides a name: origin and kind of work, and what launched it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from kinetoscope.analyses.origins import KINDS, ORIGINS
from kinetoscope.export.kernels import shown, source_lines
from kinetoscope.render import words
from kinetoscope.trace import Bool

if TYPE_CHECKING:
    from kinetoscope.viewer.analysis import Analysis

#: from what is known of a trace and a text to the slices that it means
Field = Callable[["Analysis", str], Bool]


def _of_work(analysis: Analysis, pieces: Bool) -> Bool:
    """The slices of some pieces of work."""
    found = np.zeros(len(analysis.links.trace.columns), np.bool_)
    found[analysis.work.rows[pieces]] = True
    return found


def _origin(analysis: Analysis, text: str) -> Bool:
    meant = [text in f"{origin} {words.ORIGINS[origin]}".casefold() for origin in ORIGINS]
    return _of_work(analysis, np.array(meant, np.bool_)[analysis.work.origin])


def _kind(analysis: Analysis, text: str) -> Bool:
    return _of_work(analysis, np.array([text in kind for kind in KINDS], np.bool_)[analysis.work.kind])


def _op(analysis: Analysis, text: str) -> Bool:
    trace, operator = analysis.links.trace, analysis.work.operator_row
    named = trace.names.where(lambda name: text in name.casefold())
    launched = (operator >= 0) & named[trace.columns.name[np.maximum(operator, 0)]]
    return _of_work(analysis, launched)


def _region(analysis: Analysis, text: str) -> Bool:
    """Everything of one region: its calls, what they hold on the CPU, and the work launched there."""
    regions = analysis.links.regions
    if not len(regions.calls):
        return np.zeros(len(analysis.links.trace.columns), np.bool_)
    meant = np.array([label.casefold() == text for label in regions.calls.labels] + [False], np.bool_)
    label = np.append(regions.calls.label, -1)  # the last one stands for no call
    found: Bool = meant[label[regions.region_call_of_row]]
    return found | _of_work(analysis, meant[label[analysis.work.region_call]])


def _category(analysis: Analysis, text: str) -> Bool:
    trace = analysis.links.trace
    found: Bool = trace.cats.where(lambda cat: text in cat.casefold())[trace.columns.cat]
    return found


def _source(analysis: Analysis, text: str) -> Bool:
    """Work whose source line, as ``file:line in function``, holds the text; needs a compile log."""
    told, line_of = source_lines(analysis.facts)
    meant = [any(text in shown(line).casefold() for line in lines) for lines, _ in told]
    return _of_work(analysis, np.array([*meant, False], np.bool_)[line_of])


FIELDS: Mapping[str, Field] = {
    "origin": _origin,
    "kind": _kind,
    "op": _op,
    "region": _region,
    "category": _category,
    "source": _source,
}
