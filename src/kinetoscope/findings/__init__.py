"""From results to findings: what is worth knowing, what it costs, and what to do about it.

Each family of findings is a file with a plain tuple of functions, ``(facts) -> list[Finding]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinetoscope.findings import collectives, compiling, eager, recording
from kinetoscope.findings.facts import Facts
from kinetoscope.schema import Finding

__all__ = ["FAMILIES", "Facts", "find", "ranked"]

#: every function that looks for findings
FAMILIES: tuple[Callable[[Facts], list[Finding]], ...] = (
    *recording.ALL,
    *compiling.ALL,
    *eager.ALL,
    *collectives.ALL,
)
_SEVERITIES = ("high", "medium", "low", "info")


def find(facts: Facts) -> list[Finding]:
    """All findings, ranked."""
    return ranked([finding for look in FAMILIES for finding in look(facts)])


def ranked(findings: Sequence[Finding]) -> list[Finding]:
    """Most costly first.

    Before them what is serious and has no price (nothing compiled, no device events), after them
    the rest without one. What only informs never stands before what costs.
    """

    def key(finding: Finding) -> tuple[int, int, int]:
        severity = _SEVERITIES.index(finding.severity)
        cost = finding.cost_ns_per_step
        if finding.severity == "info":
            return 3, -(cost or 0), severity
        if cost is None:
            return (0 if finding.severity == "high" else 2), 0, severity
        return 1, -cost, severity

    return sorted(findings, key=key)
