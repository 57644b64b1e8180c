"""How often a call will be repeated, read off the loops around it.

A profiler that is on from the start disturbs a long program and is the only way to see a short one. Which of
the two a program is can often be told when its first step begins: from the loops of the user's code that
enclose the call. Only what can be known without running the user's code is used: literals, and the lengths
of built-in containers and data loaders.
"""

from __future__ import annotations

import ast
import builtins
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

__all__ = ["Repeats", "later_repeats", "predict_repeats", "seems_to_compile"]

_MAX_SOURCE_BYTES = 1_000_000
# Wrappers whose first argument has the loop's length.
_TRANSPARENT = frozenset({"enumerate", "reversed", "sorted", "list", "tuple", "tqdm", "trange", "track"})
_LIBRARIES = frozenset({"torch", "numpy"})
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_SIZED = (list, tuple, dict, set, frozenset, range, str, bytes)


@dataclass(frozen=True)
class Repeats:
    """How often a call is made; ``in_loop``: a loop encloses it."""

    count: int | None
    """None in a loop of unknown length."""
    at_least: int
    """Loops of unknown length taken to run once."""
    in_loop: bool


def predict_repeats(frame: FrameType | None, skip_under: tuple[str, ...] = ()) -> Repeats:
    """Read the loops around the line that each user frame is at, from ``frame`` outwards.

    Frames of files under ``skip_under`` (torch, kinetoscope) are passed over: their loops are not the user's.
    """
    total, in_loop = 1, False
    unknown = False
    while frame is not None:
        filename = frame.f_code.co_filename
        ours = filename.startswith("<") or filename.startswith(skip_under)
        # A comprehension's frame is at the line of the frame that evaluates it, which finds the same loops.
        if not ours and frame.f_code.co_name not in _COMPREHENSIONS:
            for loop in _enclosing_loops(filename, frame):
                in_loop = True
                count = _trip_count(loop, frame)
                if count is None:
                    unknown = True
                else:
                    total *= max(1, count)
        if frame.f_globals.get("__name__") == "__main__" and frame.f_code.co_name == "<module>":
            break
        frame = frame.f_back
    return Repeats(None if unknown else total, total, in_loop)


def later_repeats(frame: FrameType | None, skip_under: tuple[str, ...] = ()) -> Repeats:
    """Read the longest loop behind the line that a user frame is at, in which the same is called again.

    Many programs call once to compile, or some times to warm up, and then in earnest. Only loops that will be
    reached count: those in a branch or in another function do not. A loop that trains is no warm-up for one
    that does not.
    """
    while frame is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith(("<", *skip_under)) and frame.f_code.co_name not in _COMPREHENSIONS:
            found = _later_in(frame, _tree(filename))
            if found.in_loop:
                return found
        if frame.f_globals.get("__name__") == "__main__" and frame.f_code.co_name == "<module>":
            break
        frame = frame.f_back
    return Repeats(1, 1, False)


def _later_in(frame: FrameType, tree: ast.Module | None) -> Repeats:
    found = Repeats(1, 1, False)
    bodies = [] if tree is None else _enclosing_bodies(tree.body, frame.f_lineno)
    if not bodies:
        return found
    called = _callees([bodies[-1][0]], frame)
    around = [
        statement for statement, _ in bodies if isinstance(statement, (ast.For, ast.AsyncFor, ast.While))
    ]
    trains = _training(around[-1].body) if around else set()
    for loop in (loop for _, behind in bodies for statement in behind for loop in _loops_reached(statement)):
        if called.isdisjoint(_callees(loop.body, frame)) or not trains <= _training(loop.body):
            continue
        count = _trip_count(loop, frame)
        if count is None:
            return Repeats(None, 1, True)
        found = max(found, Repeats(count, max(1, count), True), key=lambda one: one.at_least)
    return found


def _training(nodes: Sequence[ast.AST]) -> set[str]:
    """Which of an update's calls are made: ``loss.backward()``, ``optimizer.step()``."""
    inner = _called(nodes)
    return {
        func.attr for func in inner if isinstance(func, ast.Attribute) and func.attr in ("backward", "step")
    }


def _enclosing_bodies(body: list[ast.stmt], line: int) -> list[tuple[ast.stmt, list[ast.stmt]]]:
    """The statement at the line in each block around it, outermost first, and what is behind it there."""
    for place, statement in enumerate(body):
        if not statement.lineno <= line <= (statement.end_lineno or statement.lineno):
            continue
        inner = [
            found
            for child in ("body", "orelse", "finalbody")
            if isinstance(block := getattr(statement, child, None), list)
            for found in _enclosing_bodies(block, line)
        ]
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return inner  # what is behind a function's definition is not behind what it runs
        return [(statement, _until_left(body[place + 1 :])), *inner]
    return []


def _until_left(body: list[ast.stmt]) -> list[ast.stmt]:
    left = (ast.Return, ast.Raise, ast.Break, ast.Continue)
    ends = (place for place, statement in enumerate(body) if isinstance(statement, left))
    return body[: next(ends, len(body))]


def _loops_reached(statement: ast.stmt) -> list[ast.For | ast.While | ast.AsyncFor]:
    if isinstance(statement, (ast.For, ast.While, ast.AsyncFor)):
        return [statement]
    if isinstance(statement, (ast.With, ast.AsyncWith, ast.Try)):
        return [loop for inner in statement.body for loop in _loops_reached(inner)]
    return []


def _callees(nodes: Sequence[ast.AST], frame: FrameType) -> set[str]:
    """What is called, written out; not Python's own functions and torch's, which many lines call."""
    return {ast.dump(func) for func in _called(nodes) if not _is_library(func, frame)}


def _called(nodes: Sequence[ast.AST]) -> list[ast.expr]:
    return [node.func for outer in nodes for node in ast.walk(outer) if isinstance(node, ast.Call)]


def _is_library(func: ast.expr, frame: FrameType) -> bool:
    root = func
    while isinstance(root, ast.Attribute):
        root = root.value
    value = _value(root, frame)
    if value is None:
        return isinstance(root, ast.Name) and hasattr(builtins, root.id)
    package = value.__name__.partition(".")[0] if type(value) is ModuleType else ""
    return package in _LIBRARIES or package in sys.stdlib_module_names


def seems_to_compile(frame: FrameType | None, skip_under: tuple[str, ...] = ()) -> bool:
    """Whether code of the user's frames, or of the modules that they run in, names something with "compile".

    Frames of files under ``skip_under`` (torch, kinetoscope) are passed over.
    """
    seen: set[int] = set()
    while frame is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith(skip_under):
            codes = [frame.f_code]
            if id(frame.f_globals) not in seen:
                seen.add(id(frame.f_globals))
                # a copy: another thread may be importing into it
                codes += (
                    code for value in list(frame.f_globals.values()) for code in _codes(value, filename)
                )
            if any(_names_compile(code) for code in codes):
                return True
        if frame.f_globals.get("__name__") == "__main__" and frame.f_code.co_name == "<module>":
            break
        frame = frame.f_back
    return False


def _codes(value: object, filename: str) -> list[CodeType]:
    """Of a function or a class of this file; nothing of the user's is run to find it."""
    if type(value) is FunctionType:
        return [value.__code__] if value.__code__.co_filename == filename else []
    if type(value) is type:
        return [
            code
            for member in list(vars(value).values())
            if type(member) is FunctionType
            for code in _codes(member, filename)
        ]
    return []


def _names_compile(code: CodeType) -> bool:
    keywords = (
        name for const in code.co_consts if type(const) is tuple for name in const if type(name) is str
    )
    return any("compile" in name for name in (*code.co_names, *code.co_varnames, *keywords)) or any(
        _names_compile(const) for const in code.co_consts if isinstance(const, CodeType)
    )


_trees: dict[str, ast.Module | None] = {}


def _tree(filename: str) -> ast.Module | None:
    if filename not in _trees:
        try:
            if os.path.getsize(filename) > _MAX_SOURCE_BYTES:
                raise ValueError
            with open(filename, "rb") as source:
                _trees[filename] = ast.parse(source.read())
        except (OSError, SyntaxError, ValueError, RecursionError):
            _trees[filename] = None
    return _trees[filename]


def _enclosing_loops(filename: str, frame: FrameType) -> list[ast.AST]:
    """Loops around the frame's line, within the function that the frame runs."""
    tree = _tree(filename)
    if tree is None:
        return []
    line = frame.f_lineno
    loops: list[ast.AST] = []
    _descend(tree, line, frame.f_code.co_firstlineno, loops)
    return loops


def _descend(node: ast.AST, line: int, function_line: int, loops: list[ast.AST]) -> None:
    for child in ast.iter_child_nodes(node):
        start, end = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
        if start is None or end is None:
            _descend(child, line, function_line, loops)
            continue
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) and child.decorator_list:
            start = min(start, child.decorator_list[0].lineno)
        if not start <= line <= end:
            continue
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            if function_line < start or function_line > end:
                continue
            # Loops outside a function say nothing about the calls made by its own frame; the caller's do.
            if function_line == start or isinstance(child, ast.Lambda):
                loops.clear()
        if isinstance(child, (ast.While, ast.AsyncFor)) or (
            isinstance(child, ast.For) and _within_body(child, line)
        ):
            loops.append(child)
        elif isinstance(child, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            loops.extend(child.generators)
        _descend(child, line, function_line, loops)


def _within_body(loop: ast.For, line: int) -> bool:
    # `for` and its body on one line are in; a call in the iterable on the line of `for` would be counted as
    # repeated too, which only makes a program look longer.
    first, last = loop.body[0].lineno, loop.body[-1].end_lineno
    return first <= line <= (last or first)


def _trip_count(loop: ast.AST, frame: FrameType) -> int | None:
    iterable = loop.iter if isinstance(loop, (ast.For, ast.comprehension)) else None
    return None if iterable is None else _length(iterable, frame)


def _length(node: ast.expr, frame: FrameType) -> int | None:
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return None if any(isinstance(item, ast.Starred) for item in node.elts) else len(node.elts)
    if isinstance(node, ast.Call):
        return _call_length(node, frame)
    return _sized(_value(node, frame))


def _call_length(node: ast.Call, frame: FrameType) -> int | None:
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name in ("range", "trange"):
        numbers = [_value(argument, frame) for argument in node.args]
        if numbers and all(type(number) is int for number in numbers) and len(numbers) <= 3:
            try:
                return len(range(*numbers))
            except (ValueError, OverflowError):
                return None
        return None
    if name == "zip" and node.args:
        lengths = [_length(argument, frame) for argument in node.args]
        known = [length for length in lengths if length is not None]
        return min(known) if known else None
    if name in _TRANSPARENT and node.args and not isinstance(node.args[0], ast.Starred):
        return _length(node.args[0], frame)
    if name in ("items", "keys", "values") and isinstance(node.func, ast.Attribute):
        return _sized(_value(node.func.value, frame))
    return None


def _value(node: ast.expr, frame: FrameType) -> Any:
    """The value of a literal or of a plain name; None for everything that would run code."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        found = frame.f_locals.get(node.id)
        return frame.f_globals.get(node.id) if found is None else found
    return None


def _sized(value: Any) -> int | None:
    if type(value) in _SIZED:
        return len(value)
    if _is_torchs(value):
        try:
            return len(value)
        except Exception:  # an iterable data set has no length
            return None
    return None


def _is_torchs(value: Any) -> bool:
    """Data loaders and module lists: their length is asked of torch's own code."""
    for module, name in (
        ("torch.utils.data", "DataLoader"),
        ("torch.nn", "ModuleList"),
        ("torch.nn", "Sequential"),
    ):
        known = getattr(sys.modules.get(module), name, None)
        if known is not None and type(value) is known:
            return True
    return False
