"""Graph breaks, skipped frames and limits that a compile log tells, each place once.

A place is a file and line. One break gives a record in every compilation that traces over it (the outermost
frame, then each callee that is no longer inlined, then every recompilation), so records are grouped by
where the innermost frame stood. Several breaks on one line differ in that frame: the first is met in the
function itself, the second in the continuation of the first, and so on; those get an ordinal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from kinetoscope.ingest.log_text import (
    is_framework_file,
    is_library_file,
    is_stdlib_file,
    resume_target,
)
from kinetoscope.ingest.log_types import BreakRecord, Compilation, CompileLog, SourceFrame

__all__ = ["LogBreakSite", "LogBreaks", "log_breaks"]

BreakKind = Literal["break", "skipped_frame", "limit", "framework"]
_Key = tuple[str, int, str, int]  # file, line, innermost function, how many breaks of that line came before


@dataclass(frozen=True, slots=True)
class LogBreakSite:
    """One place where compilation stopped.

    ``kind`` ``break``: the graph was cut at ``file:line``, the line of the program that called what stopped
    it where that is in the standard library (which then is ``cause_file:cause_line``). ``skipped_frame``:
    the whole ``function`` at ``file:line`` runs eagerly, because of what stands at ``cause_file:cause_line``
    (``failed``: compiling it ended with an error, so that the program ran on without it, if it did).
    ``limit``: it ran eagerly for calls that would have needed one compilation too many. ``framework``: a cut
    inside torch's own code. ``ordinal`` counts from 1 where one line has several breaks. ``region_ids`` are
    the compilations that met the break and those that continue after it; ``continuation_ids`` only the
    innermost continuation, whose calls count how often the break was passed, and
    ``outer_continuation_ids`` those of its callers. ``user_file:user_line`` is the nearest line of the user's
    own code.
    """

    kind: BreakKind
    file: str | None
    line: int | None
    ordinal: int | None
    function: str | None
    reason: str | None
    gb_id: str | None
    explanation: str | None = None
    hints: tuple[str, ...] = ()
    cause_file: str | None = None
    cause_line: int | None = None
    skip_reason: str | None = None
    skip_gb_id: str | None = None
    code: str | None = None
    user_file: str | None = None
    user_line: int | None = None
    region_ids: tuple[str, ...] = ()
    continuation_ids: tuple[str, ...] = ()
    outer_continuation_ids: tuple[str, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True)
class LogBreaks:
    """All sites, in the order in which they were first met; ``count`` is the number of kind ``break``."""

    sites: tuple[LogBreakSite, ...] = ()

    @property
    def count(self) -> int:
        """How many distinct graph breaks there are; other kinds are left out."""
        return len(self.of_kind("break"))

    def of_kind(self, kind: BreakKind) -> tuple[LogBreakSite, ...]:
        """The sites of one kind."""
        return tuple(site for site in self.sites if site.kind == kind)


@dataclass(slots=True)
class _Site:
    record: BreakRecord
    kind: BreakKind
    function: str | None = None
    met_in: list[str] = field(default_factory=list)
    continued_by: list[str] = field(default_factory=list)
    outer: list[str] = field(default_factory=list)


def log_breaks(log: CompileLog) -> LogBreaks:
    """The break sites of a log (of one rank: see ``CompileLog.for_rank``)."""
    sites: dict[_Key, _Site] = {}
    whole: dict[tuple[str, str | None, int | None], LogBreakSite] = {}
    depths: dict[tuple[str, int, str], int] = {}  # (source, generation, frame) of a continuation -> its depth
    latest: dict[tuple[str, str, int], tuple[_Key, tuple[SourceFrame, ...]]] = {}
    order: list[_Site | LogBreakSite] = []
    for item in log.compilations:
        _continues(item, sites, depths, latest)
        if item.hit_limit:
            _add_whole(whole, order, _limit_site(item))
        for record in item.breaks:
            if _skipped(item, record):
                _add_whole(whole, order, _skip_site(item, record))
                continue
            if record.file is None or record.line is None:
                continue
            key = _key(item, record, depths)
            site = sites.get(key)
            if site is None:
                kind: BreakKind = "framework" if _is_framework(record, log.framework_root) else "break"
                site = sites[key] = _Site(record, kind)
                order.append(site)
            _once(site.met_in, item.id)
            if site.function is None and _is_own(item, record):
                site.function = item.function
            for frame in record.user_stack:
                latest[frame.file, _plain(frame.function), frame.line] = key, record.user_stack
    ordinals = _ordinals(sites, log.framework_root)
    result = [
        _freeze(entry, ordinals, log.framework_root) if isinstance(entry, _Site) else whole[_whole_key(entry)]
        for entry in order
    ]
    return LogBreaks(tuple(result))


def _plain(function: str) -> str:
    """A function's own name, also for its continuations."""
    target = resume_target(function)
    return target[0] if target else function


def _is_own(item: Compilation, record: BreakRecord) -> bool:
    """Whether the break stands in the compiled function itself, so that its full name is known."""
    if not record.user_stack:
        return False
    inner = record.user_stack[-1]
    return inner.file == item.code_file and _plain(inner.function) == _plain(item.code_name or "")


def _skipped(item: Compilation, record: BreakRecord) -> bool:
    if item.produced_code is None:  # the log ended before the result
        return record.skips
    return not item.produced_code


def _key(item: Compilation, record: BreakRecord, depths: dict[tuple[str, int, str], int]) -> _Key:
    innermost = record.user_stack[-1].function if record.user_stack else item.code_name or ""
    depth = 0
    if item.resumes_line == record.line and item.code_file == record.file and len(record.user_stack) > 0:
        target = resume_target(item.code_name or "")
        if target is not None and _plain(innermost) == target[0]:
            depth = depths.get((item.source, item.generation, item.frame_id), 1)
    return record.file or "", record.line or 0, _plain(innermost), depth


def _continues(
    item: Compilation,
    sites: dict[_Key, _Site],
    depths: dict[tuple[str, int, str], int],
    latest: dict[tuple[str, str, int], tuple[_Key, tuple[SourceFrame, ...]]],
) -> None:
    """Note which break a continuation function follows: the last one met in its function at its line."""
    if item.resumes_function is None or item.resumes_line is None or item.code_file is None:
        return
    met = latest.get((item.code_file, item.resumes_function, item.resumes_line))
    if met is None:
        return
    key, stack = met
    frame = (item.source, item.generation, item.frame_id)
    inner = stack[-1]
    is_inner = (inner.file, _plain(inner.function), inner.line) == (
        item.code_file,
        item.resumes_function,
        item.resumes_line,
    )
    if frame not in depths:
        depths[frame] = key[3] + 1 if is_inner else 1
    site = sites[key]
    _once(site.continued_by if is_inner else site.outer, item.id)


def _once(ids: list[str], new: str) -> None:
    if new not in ids:
        ids.append(new)


def _is_framework(record: BreakRecord, root: str | None) -> bool:
    """A break in torch's own files, or in the standard library where torch called it."""
    if record.file is None:
        return False
    if not is_library_file(record.file):
        return is_framework_file(record.file, root)
    callers = [f for f in record.user_stack if not is_library_file(f.file)]
    return bool(callers) and is_framework_file(callers[-1].file, root)


def _ordinals(sites: dict[_Key, _Site], root: str | None) -> dict[int, int]:
    lines: dict[tuple[str | None, int | None], list[_Site]] = {}
    for site in sites.values():
        frame = _place(site, root)
        lines.setdefault((frame.file, frame.line), []).append(site)
    return {
        id(site): number
        for shared in lines.values()
        if len(shared) > 1
        for number, site in enumerate(shared, 1)
    }


def _place(site: _Site, root: str | None) -> SourceFrame:
    """Where a break is told to be: where tracing stopped; of one inside the standard library, the line of
    the program that called it."""
    record = site.record
    inner = record.user_stack[-1] if record.user_stack else None
    if site.kind == "break" and is_library_file(record.file or ""):
        inner = _user_frame(record.user_stack, root) or inner
        if inner is not None:
            return inner
    return SourceFrame(
        record.file or "", record.line or 0, inner.function if inner else "", inner.code if inner else None
    )


def _freeze(site: _Site, ordinals: dict[int, int], root: str | None) -> LogBreakSite:
    record, place = site.record, _place(site, root)
    user = _user_frame(record.user_stack, root)
    own = place.file == record.file
    return LogBreakSite(
        kind=site.kind,
        file=place.file,
        line=place.line,
        ordinal=ordinals.get(id(site)),
        function=(site.function if own else None) or _plain(place.function) or None,
        reason=record.reason,
        gb_id=record.gb_id,
        explanation=record.explanation,
        hints=record.hints,
        cause_file=record.file,
        cause_line=record.line,
        code=place.code,
        user_file=user.file if user else None,
        user_line=user.line if user else None,
        region_ids=tuple(dict.fromkeys((*site.met_in, *site.continued_by, *site.outer))),
        continuation_ids=tuple(site.continued_by),
        outer_continuation_ids=tuple(site.outer),
    )


def _user_frame(stack: Sequence[SourceFrame], root: str | None) -> SourceFrame | None:
    mine = [f for f in stack if not is_framework_file(f.file, root) and not is_stdlib_file(f.file)]
    return mine[-1] if mine else None


def _skip_site(item: Compilation, record: BreakRecord) -> LogBreakSite:
    inner = record.user_stack[-1] if record.user_stack else None
    return LogBreakSite(
        kind="skipped_frame",
        file=item.file,
        line=item.line,
        ordinal=None,
        function=item.function,
        reason=record.reason,
        gb_id=record.gb_id,
        explanation=record.explanation,
        hints=record.hints,
        cause_file=record.file,
        cause_line=record.line,
        skip_reason=record.skip_reason,
        skip_gb_id=record.skip_gb_id,
        code=inner.code if inner else None,
        user_file=item.file,
        user_line=item.line,
        region_ids=(item.id,),
        failed=record.failed,
    )


def _limit_site(item: Compilation) -> LogBreakSite:
    return LogBreakSite(
        kind="limit",
        file=item.file,
        line=item.line,
        ordinal=None,
        function=item.function,
        reason=(item.fail_reason or "recompile limit reached").split("\n", 1)[0],
        gb_id=None,
        user_file=item.file,
        user_line=item.line,
        region_ids=(item.id,),
    )


def _whole_key(site: LogBreakSite) -> tuple[str, str | None, int | None]:
    return site.kind, site.file, site.line


def _add_whole(
    whole: dict[tuple[str, str | None, int | None], LogBreakSite],
    order: list[_Site | LogBreakSite],
    site: LogBreakSite,
) -> None:
    """Add a frame that ran eagerly, or the id of a further compilation of one that is known."""
    key = _whole_key(site)
    known = whole.get(key)
    if known is None:
        whole[key] = site
        order.append(site)
        return
    ids = tuple(dict.fromkeys((*known.region_ids, *site.region_ids)))
    whole[key] = replace(known, region_ids=ids)
