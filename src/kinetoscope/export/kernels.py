"""What is known of each piece of work, as args for its event."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetoscope.analyses.joined_kernels import GENERATED, lines_of
from kinetoscope.analyses.origins import KINDS, ORIGINS
from kinetoscope.findings import Facts
from kinetoscope.findings.log_facts import LogFacts
from kinetoscope.schema import SourceLine, SourceState
from kinetoscope.trace import Int64


class KernelArgs:
    """Says who wrote a kernel, what launched it, in which step, and which lines it computes."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        work, links = facts.work, facts.links
        told, self._line_of = source_lines(facts)
        self._lines = [
            {"source": [shown(line) for line in lines], "source_state": state} for lines, state in told
        ]
        self._step = (
            links.steps.at(links.trace.columns.start_ns[np.maximum(work.launched_from, 0)])
            if len(links.steps)
            else np.full(len(work.rows), -1, np.int64)
        )

    def of(self, piece: int) -> dict[str, Any]:
        """What is known of a piece of work, by its number; what is not known is left out."""
        work, links = self._facts.work, self._facts.links
        found: dict[str, Any] = {
            "origin": ORIGINS[int(work.origin[piece])],
            "kind": KINDS[int(work.kind[piece])],
        }
        operator = int(work.operator_row[piece])
        if operator >= 0:
            found["op"] = links.trace.name_of(operator)
        call = int(work.region_call[piece])
        if call >= 0:
            calls = links.regions.calls
            found["region"] = calls.labels[int(calls.label[call])]
        if work.is_replay[piece]:
            found["cuda_graph_replay"] = True
        if int(work.launched_from[piece]) >= 0 and int(self._step[piece]) >= 0:
            found["step"] = int(self._step[piece])
        at = int(self._line_of[piece])
        if at >= 0:
            found.update(self._lines[at])
        return found


def shown(line: SourceLine) -> str:
    """A line as ``file:line in function``."""
    return f"{line.file}:{line.line}" + (f" in {line.function}" if line.function else "")


def source_lines(facts: Facts) -> tuple[list[tuple[list[SourceLine], SourceState | None]], Int64]:
    """Source lines, and for each piece of work which of them it computes (-1: not known, or no log)."""
    work = facts.work
    line_of = np.full(len(work.rows), -1, np.int64)
    found: list[tuple[list[SourceLine], SourceState | None]] = []
    if not isinstance(facts, LogFacts):
        return found, line_of
    generated = np.flatnonzero(work.of(*GENERATED))
    names = work.links.trace.columns.name[work.rows[generated]]
    for name in np.unique(names).tolist():
        for place in facts.places.of(generated[names == name]):
            told = lines_of([place.source] if place.source is not None else [])
            if told[0]:
                line_of[place.pieces] = len(found)
                found.append(told)
    return found, line_of
