"""A compilation that failed: its error, and what was compiled of the same code in other attempts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinetoscope.analyses.log_breaks import LogBreakSite
from kinetoscope.ingest.log_types import Compilation
from kinetoscope.link.logs import LogLinks

__all__ = ["Failure", "error_of"]

# Dynamo wraps the error of an operator: got RuntimeError('a and b ...')
_WRAPPED = re.compile(r"\bgot (\w+)\((['\"])(.*)\2,?\)\s*$")
_EXPLANATION = re.compile(r"^\s*Explanation:\s*(.*)$", re.M)
# how a size that is not fixed is written
_SYMBOL = re.compile(r"\bs\d+\b")


@dataclass(frozen=True, eq=False)
class Failure:
    """What the log has of the failed compilations that one site stands for (its ``failed`` is true)."""

    join: LogLinks
    site: LogBreakSite

    @cached_property
    def _failed(self) -> tuple[Compilation, ...]:
        found = (item for each in self.site.region_ids for item in self.join.log.with_id(each))
        place = self.site.file, self.site.line
        return tuple(
            item
            for item in found
            if (item.file, item.line) == place and any(record.failed for record in item.breaks)
        )

    @cached_property
    def _compiled(self) -> tuple[Compilation, ...]:
        """Attempts at the same code that gave some: ids of one frame count its compilations."""
        frames = {(item.source, item.generation, item.frame_id) for item in self._failed}
        return tuple(
            item
            for item in self.join.log.compilations
            if (item.source, item.generation, item.frame_id) in frames and item.produced_code
        )

    @property
    def is_place_of_call(self) -> bool:
        """Whether the site is the line that called the code, as it is for torch's wrapper of a module."""
        return any(
            item.user_call is not None
            and (item.user_call.file, item.user_call.line) == (item.file, item.line)
            for item in self._failed
        )

    @property
    def name(self) -> str | None:
        """The function, as an attempt that got further names it; None where only its caller is known."""
        named = next((item.function for item in self._compiled if item.function is not None), None)
        return named or (None if self.is_place_of_call else self.site.function)

    @property
    def failed_ids(self) -> list[str]:
        """Ids of the compilations that failed."""
        return list(dict.fromkeys(item.id for item in self._failed)) or list(self.site.region_ids)

    @property
    def compiled_ids(self) -> list[str]:
        """Ids of the others of the same code."""
        return list(dict.fromkeys(item.id for item in self._compiled))

    @property
    def is_repeated(self) -> bool:
        """Whether one of those others came before."""
        first = min((self.join.number_of[id(item)] for item in self._failed), default=0)
        return any(self.join.number_of[id(item)] < first for item in self._compiled)

    @cached_property
    def calls(self) -> int:
        """How many region calls of the trace ran those others."""
        numbers = [self.join.number_of[id(item)] for item in self._compiled]
        return int(np.isin(self.join.of_region_call, numbers).sum())

    @cached_property
    def errors(self) -> list[str]:
        """The distinct errors, one line each."""
        said = [error_of(item.fail_reason) for item in self._failed if item.fail_reason]
        return list(dict.fromkeys(said)) or [self.site.reason or "not stated"]

    @property
    def symbols(self) -> list[str]:
        """Sizes of which an error speaks by the names that the compiler gives them."""
        return list(dict.fromkeys(name for error in self.errors for name in _SYMBOL.findall(error)))


def error_of(reason: str) -> str:
    """The line of a failure's text that says what went wrong.

    That is the error that Dynamo's explanation wraps, else its first line; where that only introduces
    another error (``backend='inductor' raised:``), with the line behind it.
    """
    explained = _EXPLANATION.search(reason)
    wrapped = None if explained is None else _WRAPPED.search(explained[1])
    if wrapped is not None:
        # as Python writes a text of several lines in one
        return f"{wrapped[1]}: {wrapped[3].partition(chr(92) + 'n')[0]}"
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    first = lines[0] if lines else "not stated"
    return f"{first} {lines[1]}" if first.endswith(":") and len(lines) > 1 else first
