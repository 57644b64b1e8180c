"""The texts that Inductor and FX write: generated kernels, and graphs with their source comments.

Read here: top-level ``NAME = async_compile.<kind>(`` definitions with the comments above them; ``call``'s
lines; and graph lines ``name: "type" = target(...)`` below the comment ``# File: path:line in function,
code: text``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kinetoscope.ingest.log_types import SourceFrame

__all__ = ["GeneratedKernel", "consumer_of", "generated_kernels", "node_sources"]

_DEFINITION = re.compile(r"^(\w+) = async_compile\.(\w+)\(", re.M)
_END = re.compile(r"^(?:'''|\"\"\")[^\n]*\)[^\n]*$", re.M)
_FUNCTION = re.compile(r"^def (\w+)\(", re.M)
_FRAGMENT = re.compile(r"^#\s+%(\w+)\b.*?= call_(?:function|method|module)\[", re.M)
_FILE = re.compile(r"^\s*# File: (.+?):(\d+) in (.*?), code: (.*)$")
_NODE = re.compile(r"^\s+(\w+)(?:: ?\"[^\"]*\"|: ?[\w.\[\], ]+)? = ")
_FORWARD = re.compile(r"^\s*def forward\(")
_BUFFER = re.compile(r"\b(buf\d+)\b")
_CALLED = re.compile(r"([A-Za-z_][\w.]*)\(")
_ARGUMENT = re.compile(r"[(,] *(?:reinterpret_tensor\()?(\w+)\b")
_VIEW = re.compile(r"^\s+(\w+) = (?:reinterpret_tensor\()?(buf\d+)(?=[,;\s]|$)")
_CALL_BODY = re.compile(r"^(?:    )?def call\(|^def call\(", re.M)


@dataclass(frozen=True, slots=True)
class GeneratedKernel:
    """One kernel of a graph's generated code.

    ``name`` is what the code calls it, ``function`` the compiled function's own name (they differ for a
    kernel that the user wrote). ``line`` is where its definition starts in the file, ``nodes`` the graph
    nodes it computes as far as the comment above it says, ``calls`` how often the graph launches it.
    """

    name: str
    function: str
    kind: str
    line: int
    text: str
    nodes: tuple[str, ...]
    calls: int


def generated_kernels(code: str) -> Mapping[str, GeneratedKernel]:
    """The kernels that a graph's generated code defines, by name."""
    found: dict[str, GeneratedKernel] = {}
    for match in _DEFINITION.finditer(code):
        name, kind = match.group(1), match.group(2)
        end = _END.search(code, match.end())
        start = _comment_start(code, match.start())
        text = code[start : end.end() if end else len(code)]
        inner = _FUNCTION.search(text)
        calls = len(re.findall(rf"^\s+{re.escape(name)}(?:\.run)?\(", code, re.M))
        found[name] = GeneratedKernel(
            name=name,
            function=inner.group(1) if inner and kind == "triton" else name,
            kind=kind,
            line=code.count("\n", 0, start) + 1,
            text=text,
            nodes=tuple(dict.fromkeys(_FRAGMENT.findall(code[start : match.start()]))),
            calls=calls,
        )
    return found


def _comment_start(code: str, position: int) -> int:
    """Where the comment lines right above ``position`` begin."""
    while position > 0:
        above = code.rfind("\n", 0, position - 1) + 1
        if code[above : above + 1] != "#":
            break
        position = above
    return position


def consumer_of(code: str, kernel: str) -> str | None:
    """What uses the result of a kernel's first launch: the operator or kernel called next with its buffer.

    A view of the buffer (``buf2 = reinterpret_tensor(buf1, ...)``), or another name for it, is no use.
    """
    body = _CALL_BODY.search(code)
    lines = code[body.start() if body else 0 :].split("\n")
    launch = re.compile(rf"^\s+{re.escape(kernel)}(?:\.run)?\(")
    for number, line in enumerate(lines):
        if launch.match(line) is None:
            continue
        buffers = _BUFFER.findall(line)
        return _first_use(lines[number + 1 :], buffers[-1]) if buffers else None
    return None


def _first_use(lines: Sequence[str], buffer: str) -> str | None:
    names = {buffer}
    for line in lines:
        view = _VIEW.match(line)
        if view is not None and view.group(2) in names:
            names.add(view.group(1))
            continue
        call = _CALLED.search(line)
        if call is None or line.lstrip().startswith(("#", "del ", "assert_")):
            continue
        if names & {match.group(1) for match in _ARGUMENT.finditer(line)}:
            return call.group(1).removesuffix(".run").removeprefix("extern_kernels.")
    return None


def node_sources(graph: str) -> Mapping[str, SourceFrame | None]:
    """For each node of a printed graph, the user's line that its comment names.

    None where the graph says there is no stack trace, or where the name occurs in several subgraphs with
    different lines.
    """
    found: dict[str, SourceFrame | None] = {}
    current: SourceFrame | None = None
    for line in graph.split("\n"):
        stripped = line.lstrip()
        if stripped.startswith("#"):
            match = _FILE.match(line)
            if match is not None:
                current = SourceFrame(match.group(1), int(match.group(2)), match.group(3), match.group(4))
            elif stripped.startswith("# No stacktrace"):
                current = None
            continue
        if _FORWARD.match(line):
            current = None
            continue
        node = _NODE.match(line)
        if node is not None:
            name = node.group(1)
            found[name] = current if name not in found or found[name] == current else None
    return found
