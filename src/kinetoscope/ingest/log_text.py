"""The texts inside compile-log records: break reasons, failed guards, guard trees, file names.

None of them is a public format, so every parser takes what it recognises and leaves the rest as None.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from kinetoscope.ingest.log_types import BreakRecord, GuardFailure, SourceFrame

__all__ = [
    "GuardTree",
    "is_framework_file",
    "is_library_file",
    "is_stdlib_file",
    "parse_break",
    "parse_failure",
    "parse_guard_failures",
    "parse_guard_tree",
    "parse_stack_text",
    "resume_target",
]

_PLACE = re.compile(r"^Graph break (?:in user code )?at (.+):(\d+)$", re.M | re.I)
_REASON = re.compile(r"^(?:Graph Break )?Reason: (.*)$", re.M)
_GB_ID = re.compile(r"\b(gb\d{4})\b")
_SECOND = re.compile(r"\*\*\* While handling this graph break, another graph break occurred: \*\*\*")
_SKIPS = re.compile(r"Skipping the (?:function|frame)|results in a skip|skipping (?:function|frame)", re.I)
_PREFACE = ("Encountered graph break when", "Failed to handle graph break", "Graph break encountered")
_STACK_LINE = re.compile(r'^\s*File "(.*)", line (\d+)(?:, in (.*))?$')
_RESUME = re.compile(r"^torch_dynamo_resume_in_(.+)_at_(\d+)$", re.S)
# guards name files by their last two parts
_TORCH = re.compile(r"(?:^|/)(?:site|dist)-packages/(?:torch|functorch)/|^_dynamo/")
_STDLIB = re.compile(
    r"(?:^|/)lib(?:64)?/python\d[\d.]*t?/(?!(?:site|dist)-packages/)|/Lib/(?!site-packages/)"
)
_POLYFILLS = "/torch/_dynamo/polyfills/"
_GUARD_COMMENT = re.compile(r"\s+# (.*)$")
_GUARD_PLACE = re.compile(r"^(?:(.*?)\s+# )?(\S+?):(\d+) in ([^\s(]+)")
_LOCAL = re.compile(
    r"^\| \+- GuardManager: source=L\['(\w+)'\], "
    r"accessed_by=\w+\((?:key=)?'?(\w+)'?(?:, framelocals_idx=(\d+))?\)"
    r"(?:, type=<class '([^']+)'>)?",
    re.M,
)
_ARG0 = re.compile(r"source=L\['args'\]\[0\], accessed_by=[^\n]*?type=<class '([^']+)'>")
_WRAPPED = re.compile(
    r"source=L\['fn'\](?:\.__func__)?\.__code__[^\n]*"
    r"type=<code object (\S+) at \w+, file \"([^\"]+)\", line (\d+)>"
)
_WRAPPED_SELF = re.compile(r"source=L\['fn'\]\.__self__, accessed_by=[^\n]*?type=<class '([^']+)'>")
_LATENCY = re.compile(r"Guard (?:eval )?latency = ([\d.]+) us")
_PLAIN_CLASSES = frozenset(
    [
        "torch.Tensor",
        "torch.nn.parameter.Parameter",
        "int",
        "float",
        "bool",
        "str",
        "bytes",
        "complex",
        "NoneType",
        "tuple",
        "list",
        "dict",
        "set",
        "frozenset",
        "function",
        "method",
        "builtin_function_or_method",
        "type",
        "module",
        "code",
        "range",
        "slice",
        "torch.dtype",
        "torch.device",
        "torch.Size",
        "torch.SymInt",
        "numpy.ndarray",
        "functools.partial",
    ]
)


class GuardTree(NamedTuple):
    """What the guard tree tells about the frame: classes of its locals, and the time of one check."""

    first_local: tuple[str, str] | None
    wrapped_class: str | None
    wrapped_code: tuple[str, str, int] | None
    first_argument: str | None
    latency_ns: int | None


def parse_guard_tree(text: str) -> GuardTree:
    """Read the ``dynamo_cpp_guards_str`` payload; classes of tensors and plain values are left out."""
    first: tuple[str, str] | None = None
    wrapped: str | None = None
    for name, _key, index, class_ in _LOCAL.findall(text):
        if not class_ or class_ in _PLAIN_CLASSES:
            continue
        if name == "self" or (index == "0" and first is None):
            first = (name, class_)
        if name == "fn":
            wrapped = class_
    if (owner := _WRAPPED_SELF.search(text)) is not None and wrapped is None:
        wrapped = owner.group(1)
    code = _WRAPPED.search(text)
    arg0 = _ARG0.search(text)
    latency = _LATENCY.search(text)
    return GuardTree(
        first_local=first,
        wrapped_class=wrapped,
        wrapped_code=(code.group(1), code.group(2), int(code.group(3))) if code else None,
        first_argument=arg0.group(1) if arg0 and arg0.group(1) not in _PLAIN_CLASSES else None,
        latency_ns=round(float(latency.group(1)) * 1000) if latency else None,
    )


def resume_target(code_name: str) -> tuple[str, int] | None:
    """(function, line) that a continuation function's name carries; None for any other name."""
    match = _RESUME.match(code_name)
    return (match.group(1), int(match.group(2))) if match else None


def is_framework_file(path: str, root: str | None = None) -> bool:
    """Whether a file belongs to torch itself; ``root`` is torch's own folder where it is known."""
    plain = path.replace("\\", "/")
    return _TORCH.search(plain) is not None or (root is not None and plain.startswith(root))


def is_stdlib_file(path: str) -> bool:
    """Whether a file belongs to Python's standard library (or is frozen into the interpreter)."""
    return path.startswith("<frozen ") or _STDLIB.search(path.replace("\\", "/")) is not None


def is_library_file(path: str) -> bool:
    """Whether a file is of the standard library, or stands in for it (Dynamo's polyfills of builtins)."""
    return is_stdlib_file(path) or _POLYFILLS in path.replace("\\", "/")


def parse_stack_text(text: str) -> tuple[SourceFrame, ...]:
    """Frames of a formatted Python stack, outermost first; the line under each is its code."""
    frames: list[SourceFrame] = []
    lines = text.split("\n")
    for number, line in enumerate(lines):
        match = _STACK_LINE.match(line)
        if match is None:
            continue
        below = lines[number + 1].strip() if number + 1 < len(lines) else ""
        code = below if below and not _STACK_LINE.match(lines[number + 1]) else None
        frames.append(SourceFrame(match.group(1), int(match.group(2)), match.group(3) or "", code))
    return tuple(frames)


def parse_break(text: str, compile_id: str, attempt: int) -> BreakRecord:
    """Read the payload of ``dynamo_graph_break_reason`` (torch 2.6 and newer)."""
    head, _, after = text.partition("User code traceback:")
    stack_text = re.split(r"^(?:Traceback \(most|NOTE:|Set TORCH)", after, maxsplit=1, flags=re.M)[0]
    place = _PLACE.search(head)
    stated = _REASON.search(head)
    body = head[stated.start(1) :] if stated else head
    parts = _SECOND.split(body, maxsplit=1)
    first, second = parts[0], parts[1] if len(parts) > 1 else None
    reason, explanation, hints = _cause(first)
    gb_ids = _GB_ID.findall(first)
    return BreakRecord(
        compile_id=compile_id,
        attempt=attempt,
        file=place.group(1) if place else None,
        line=int(place.group(2)) if place else None,
        reason=reason,
        explanation=explanation,
        hints=hints,
        gb_id=gb_ids[0] if gb_ids else None,
        skips=_SKIPS.search(body) is not None,
        skip_reason=_cause(second)[0] if second else None,
        skip_gb_id=next(iter(_GB_ID.findall(second)), None) if second else None,
        user_stack=parse_stack_text(stack_text),
    )


def parse_failure(
    reason: str, compile_id: str, attempt: int, file: str | None, line: int | None
) -> BreakRecord:
    """The error that ended a compilation, from its metrics; ``file:line`` is the user's line, if known."""
    said, explanation, hints = _cause(reason)
    return BreakRecord(
        compile_id=compile_id,
        attempt=attempt,
        file=file,
        line=line,
        reason=said,
        explanation=explanation,
        hints=hints,
        gb_id=next(iter(_GB_ID.findall(reason)), None),
        skips=True,
        skip_reason=None,
        skip_gb_id=None,
        user_stack=(),
        failed=True,
    )


def _cause(text: str) -> tuple[str, str | None, tuple[str, ...]]:
    """Headline, explanation, hints; the headline stands right above ``Explanation:`` or comes first."""
    lines = text.strip("\n").split("\n")
    mark = next((i for i, line in enumerate(lines) if line.startswith("  Explanation: ")), None)
    above = [line.strip() for line in lines[: len(lines) if mark is None else mark] if line.strip()]
    said = [line for line in above if not line.startswith(_PREFACE)] or above
    headline = (said[-1] if mark is not None else said[0]) if said else "not stated"
    if mark is None:
        return headline, None, ()
    explanation = [lines[mark].partition("Explanation: ")[2].strip()]
    hints: list[str] = []
    current = explanation
    for line in lines[mark + 1 :]:
        if line.startswith("  Hint: "):
            hints.append("")
            current = [line.partition("Hint: ")[2].strip()]
        elif line.startswith("  Developer debug context:") or "more details about this graph break" in line:
            break
        else:
            current.append(line.strip())
        if hints and current is not explanation:
            hints[-1] = " ".join(part for part in current if part)
    return headline, " ".join(part for part in explanation if part) or None, tuple(hints)


def parse_guard_failures(text: str) -> tuple[GuardFailure, ...]:
    """Read ``recompile_reasons``: one line, or a JSON list with one text per existing compilation."""
    try:
        entries = msgspec.json.decode(text, type=list[str])
    except msgspec.DecodeError:
        entries = [text]
    return tuple(_guard_failure(entry) for entry in entries if entry.strip())


def _guard_failure(entry: str) -> GuardFailure:
    compile_id, mark, rest = entry.partition(": ")
    if not mark or not re.fullmatch(r"!?[\d/]+", compile_id):
        compile_id, rest = "", entry
    guard, _, stack_text = rest.partition("\nUser stack trace:")
    guard = guard.strip()
    frames = parse_stack_text(stack_text)
    source = frames[-1] if frames else None
    comment = _GUARD_COMMENT.search(guard) if "BACKEND_MATCH" not in guard else None
    if comment is not None:
        guard = guard[: comment.start()].rstrip()
        where = _GUARD_PLACE.match(comment.group(1))
        if source is None and where is not None:
            source = SourceFrame(where.group(2), int(where.group(3)), where.group(4), where.group(1))
    return GuardFailure(compile_id or None, guard, source)
