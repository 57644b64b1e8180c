"""Recompilations that a compile log tells: what failed, in plain words, and the time it cost."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from kinetoscope.analyses.log_compile_time import compile_ns
from kinetoscope.ingest.log_text import is_framework_file
from kinetoscope.ingest.log_types import Compilation, CompileLog, GuardFailure

__all__ = ["LogRecompiles", "RecompileLimit", "RecompileSite", "explain_guard", "log_recompiles"]


@dataclass(frozen=True, slots=True)
class RecompileSite:
    """One code object that was compiled again.

    ``reasons`` are plain sentences and ``guards`` the failed guards as the log has them, both in the order
    first met. ``compile_ns`` is the time of these compilations, lazy backward included. A ``deliberate``
    site is a second ``torch.compile`` of the same code with another backend or mode: listed, not counted.
    """

    function: str | None
    file: str | None
    line: int | None
    ids: tuple[str, ...]
    reasons: tuple[str, ...]
    guards: tuple[str, ...]
    guard_lines: tuple[tuple[str, int], ...]
    compile_ns: int
    deliberate: bool = False


@dataclass(frozen=True, slots=True)
class RecompileLimit:
    """One code object that had been compiled too often: further misfits run eagerly from then on."""

    function: str | None
    file: str | None
    line: int | None
    ids: tuple[str, ...]
    reasons: tuple[str, ...]
    guards: tuple[str, ...]
    compilations: int


@dataclass(frozen=True, slots=True)
class LogRecompiles:
    """``count`` is the number of compilations after a code object's first that produced code, deliberate
    ones and those that hit the limit left out. Sites come most costly first."""

    count: int
    compile_ns: int
    sites: tuple[RecompileSite, ...]
    limits: tuple[RecompileLimit, ...]


def log_recompiles(log: CompileLog) -> LogRecompiles:
    """The recompilations of a log (of one rank: see ``CompileLog.for_rank``)."""
    again: dict[tuple[str | None, str | None, int | None, bool], list[Compilation]] = {}
    limited: dict[tuple[str | None, str | None, int | None], list[Compilation]] = {}
    produced: dict[tuple[str, int, str], int] = {}
    at_limit: dict[tuple[str | None, str | None, int | None], int] = {}
    for item in log.compilations:
        frame = (item.source, item.generation, item.frame_id)
        if item.hit_limit:
            place = (item.function, item.file, item.line)
            limited.setdefault(place, []).append(item)
            at_limit.setdefault(place, produced.get(frame, 0))
            continue
        if not item.produced_code or item.compile_index is None:
            continue
        earlier = produced.get(frame, 0)
        produced[frame] = earlier + 1
        if earlier:
            deliberate = bool(item.guard_failures) and all(f.is_backend_match for f in item.guard_failures)
            again.setdefault((item.function, item.file, item.line, deliberate), []).append(item)
    root = log.framework_root
    sites = [_site(place[:3], place[3], items, root) for place, items in again.items()]
    sites.sort(key=lambda s: -s.compile_ns)
    counted = [s for s in sites if not s.deliberate]
    return LogRecompiles(
        count=sum(len(s.ids) for s in counted),
        compile_ns=sum(s.compile_ns for s in counted),
        sites=tuple(sites),
        limits=tuple(_limit(place, items, at_limit[place]) for place, items in limited.items()),
    )


def _site(
    place: tuple[str | None, str | None, int | None],
    deliberate: bool,
    items: list[Compilation],
    root: str | None,
) -> RecompileSite:
    failures = [f for item in items for f in _telling(item.guard_failures)]
    asked = [f.source for f in failures if f.source is not None]
    # a guard on a value that crossed a break is asked for in torch's own files, which tells nobody anything
    lines = [(s.file, s.line) for s in asked if not is_framework_file(s.file, root)]
    return RecompileSite(
        *place,
        ids=tuple(item.id for item in items),
        reasons=tuple(dict.fromkeys(explain_guard(f) for f in failures)),
        guards=tuple(dict.fromkeys(f.guard for f in failures)),
        guard_lines=tuple(dict.fromkeys(lines)),
        compile_ns=sum(compile_ns(item) for item in items),
        deliberate=deliberate,
    )


def _limit(
    place: tuple[str | None, str | None, int | None], items: list[Compilation], compilations: int
) -> RecompileLimit:
    failures = [f for item in items for f in _telling(item.guard_failures)]
    return RecompileLimit(
        *place,
        ids=tuple(item.id for item in items),
        reasons=tuple(dict.fromkeys(explain_guard(f) for f in failures)),
        guards=tuple(dict.fromkeys(f.guard for f in failures)),
        compilations=compilations,
    )


def _telling(failures: tuple[GuardFailure, ...]) -> tuple[GuardFailure, ...]:
    """The failures that tell why: those of another backend's compilations only where there are no others."""
    own = tuple(f for f in failures if not f.is_backend_match)
    return own or failures


_NAME = r"(?P<name>.+?)"
_SIZE = re.compile(r"(?P<name>[^\s()]+)\.(?P<what>size|stride)\(\)\[(?P<dim>\d+)\]")
# what an expression had computed when it was left at a break
_STACK = re.compile(r"(tensor )?\b___stack\d+\b")
_SETTINGS = {
    "grad_mode": "whether gradients are recorded (torch.no_grad, torch.enable_grad)",
    "default_dtype": "the default dtype",
    "autocast_state": "autocast",
    "deterministic_algorithms": "torch.use_deterministic_algorithms",
    "num_threads": "the number of threads",
    "torch_function": "torch function overrides",
    "allow_tf32": "whether TF32 is allowed",
}


def _tensor(text: str) -> Callable[[re.Match[str]], str]:
    return lambda m: text.format(**m.groupdict())


_RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(
            rf"tensor '{_NAME}' (?P<what>size|stride) mismatch at index (?P<dim>\d+)\. "
            r"expected (?P<was>\S+), actual (?P<now>\S+)"
        ),
        _tensor("the {what} of tensor {name} in dimension {dim} was {was} and is now {now}"),
    ),
    (
        re.compile(rf"tensor '{_NAME}' rank mismatch\. expected (?P<was>\S+), actual (?P<now>\S+)"),
        _tensor("tensor {name} had {was} dimensions and now has {now}"),
    ),
    (
        re.compile(rf"tensor '{_NAME}' dtype mismatch\. expected (?P<was>\S+), actual (?P<now>\S+)"),
        _tensor("the dtype of tensor {name} was {was} and is now {now}"),
    ),
    (
        re.compile(rf"tensor '{_NAME}' requires_grad mismatch\. expected requires_grad=0"),
        _tensor("tensor {name} did not require gradients and now does"),
    ),
    (
        re.compile(rf"tensor '{_NAME}' requires_grad mismatch\. expected requires_grad=1"),
        _tensor("tensor {name} required gradients and now does not"),
    ),
    (
        re.compile(
            rf"tensor '{_NAME}' .*device.*mismatch\. .*?(?:expected|to be) (?P<was>[^,]+), "
            r"actual (?P<now>.+)",
            re.I,
        ),
        _tensor("tensor {name} was on device {was} and is now on {now}"),
    ),
    (
        re.compile(rf"tensor '{_NAME}' dispatch key set mismatch\."),
        _tensor("tensor {name} is of another kind (device, layout, autograd or subclass)"),
    ),
    (
        re.compile(rf"expected type of '{_NAME}' to be a tensor type, '? ?but found (?P<now>.+)"),
        lambda m: f"{m['name']} is now a {_class(m['now'])}, another type than before",
    ),
    (
        re.compile(rf"___check_type_id\({_NAME}, \d+\)(?:, type=(?P<was><class .*>))?"),
        lambda m: (
            f"{m['name']} is no longer " + (f"a {_class(m['was'])}" if m["was"] else "of the same type")
        ),
    ),
    (
        re.compile(rf"___check_obj_id\({_NAME}, \d+\)"),
        _tensor("{name} is now another object"),
    ),
    (
        re.compile(r"BACKEND_MATCH"),
        lambda m: "the same code was compiled by another torch.compile call, with another backend or mode",
    ),
    (
        re.compile(r"GLOBAL_STATE changed: (?P<what>.+)"),
        lambda m: "a global setting changed: " + ", ".join(_SETTINGS.get(w, w) for w in m["what"].split()),
    ),
    (
        re.compile(rf"len\({_NAME}\) == (?P<was>\d+)$"),
        _tensor("the length of {name} was {was} and is now another"),
    ),
    (
        re.compile(rf"hasattr\({_NAME}, '(?P<what>\w+)'\) == (?P<was>True|False)$"),
        lambda m: f"{m['name']} now has {'no' if m['was'] == 'True' else 'an'} attribute {m['what']}",
    ),
    (
        re.compile(rf"(?P<neg>not )?___dict_contains\((?P<what>.+?), {_NAME}\)$"),
        lambda m: f"key {m['what']} is now {'in' if m['neg'] else 'missing from'} {m['name']}",
    ),
    (
        re.compile(rf"len\({_NAME}\) != (?P<was>\d+)$"),
        lambda m: (
            f"{m['name']} was not empty and now is"
            if m["was"] == "0"
            else f"the length of {m['name']} is now {m['was']}, and was another"
        ),
    ),
    (
        re.compile(r"not (?P<name>[\w.\[\]'\"]+)$"),
        _tensor("{name} was empty and is not any more"),
    ),
    (
        re.compile(rf"{_NAME} is None$"),
        _tensor("{name} was None and is not any more"),
    ),
    (
        re.compile(rf"{_NAME} is not None$"),
        _tensor("{name} is now None"),
    ),
    (
        re.compile(rf"{_NAME} == (?P<was>[^=<>]+)$"),
        lambda m: f"{_words(m['name'])} was {m['was'].strip()} and is now another value",
    ),
    (
        re.compile(r"(?P<name>.*(?:<=|>=|<|>|!=| % ).*)$"),
        lambda m: f"a size or number left the range it was compiled for: {_words(m['name'])}",
    ),
)


def explain_guard(failure: GuardFailure) -> str:
    """One plain sentence for a failed guard; a guard of an unknown form is quoted."""
    guard = _plain_names(failure.guard)
    for pattern, say in _RULES:
        match = pattern.match(guard)
        if match is not None:
            return _STACK.sub(lambda m: f"a {m[1] or 'value '}from before the graph break", say(match))
    return f"a condition no longer holds: {guard.splitlines()[0] if guard else 'not stated'}"


def _plain_names(guard: str) -> str:
    """Names as a person has them: a global is ``G['x']`` in a guard, in older versions a local ``L['x']``."""
    return re.sub(r"\b[LG]\['(\w+)'\]", r"\1", guard)


def _words(expression: str) -> str:
    return _SIZE.sub(lambda m: f"the {m['what']} of {m['name']} in dimension {m['dim']}", expression.strip())


def _class(text: str) -> str:
    match = re.search(r"<class '([^']+)'>", text)
    return match.group(1).rpartition(".")[2] if match else text.strip()
