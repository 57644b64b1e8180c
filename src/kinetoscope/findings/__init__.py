"""From results to findings: what is worth knowing, what it costs, and what to do about it.

Each family of findings is a file with a plain tuple of functions, ``(facts) -> list[Finding]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinetoscope.findings import (
    collectives,
    compiling,
    eager,
    log_breaks,
    log_capture,
    log_compiling,
    recording,
    worth_device,
    worth_host,
)
from kinetoscope.findings.facts import Facts
from kinetoscope.findings.log_facts import LogFacts
from kinetoscope.findings.worth import with_savings
from kinetoscope.schema import Finding

__all__ = ["FAMILIES", "REPLACED_BY_LOG", "Facts", "LogFacts", "find", "ranked"]

#: every function that looks for findings
FAMILIES: tuple[Callable[[Facts], list[Finding]], ...] = (
    *recording.ALL,
    *compiling.ALL,
    *eager.ALL,
    *collectives.ALL,
    *log_breaks.ALL,
    *log_compiling.ALL,
    *log_capture.ALL,
    *worth_host.ALL,
    *worth_device.ALL,
)
#: of these, what a compile log tells better
REPLACED_BY_LOG = frozenset((compiling.not_compiled, compiling.graph_break))
_SEVERITIES = ("high", "medium", "low", "info")


def find(facts: Facts) -> list[Finding]:
    """All findings, ranked."""
    skipped = REPLACED_BY_LOG if isinstance(facts, LogFacts) else frozenset()
    found = [finding for look in FAMILIES if look not in skipped for finding in look(facts)]
    return ranked(with_savings(facts, found))


def ranked(findings: Sequence[Finding]) -> list[Finding]:
    """What saves most first; where nobody knows what a fix saves, its cost stands for it.

    Before them what is serious and has no price (nothing compiled, no device events), after them
    the rest without one. What only informs never stands before what costs.
    """

    def key(finding: Finding) -> tuple[int, int, int]:
        severity = _SEVERITIES.index(finding.severity)
        saving = finding.saving_ns_per_step
        cost = finding.cost_ns_per_step if saving is None else saving.best
        if finding.severity == "info":
            return 3, -(cost or 0), severity
        if cost is None:
            return (0 if finding.severity == "high" else 2), 0, severity
        return 1, -cost, severity

    return sorted(findings, key=key)
