"""Which user code a compilation stands for: function, file and line as a person would name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kinetoscope.ingest.log_text import GuardTree, is_framework_file, is_stdlib_file, resume_target
from kinetoscope.ingest.log_types import Compilation, SourceFrame

__all__ = ["name_compilation", "name_continuations", "nearest_user_frame"]

_WRAPPER_FILE = "torch/_dynamo/external_utils.py"


@dataclass(frozen=True, slots=True)
class _Named:
    function: str | None
    file: str | None
    line: int | None


def nearest_user_frame(stack: Sequence[SourceFrame], root: str | None) -> SourceFrame | None:
    """The innermost frame that is neither torch's nor the standard library's."""
    for frame in reversed(stack):
        if not is_framework_file(frame.file, root) and not is_stdlib_file(frame.file):
            return frame
    return None


def name_compilation(item: Compilation, tree: GuardTree | None, root: str | None) -> Compilation:
    """Fill function, file, line, class and what it resumes, from the frame and its guards."""
    call = nearest_user_frame(item.stack[:-1], root)
    resumed = resume_target(item.code_name) if item.code_name else None
    named, class_ = _name(item, tree, call)
    return replace(
        item,
        function=named.function,
        file=named.file,
        line=named.line,
        module_class=class_,
        user_call=call,
        resumes_function=resumed[0] if resumed else None,
        resumes_line=resumed[1] if resumed else None,
    )


def _name(item: Compilation, tree: GuardTree | None, call: SourceFrame | None) -> tuple[_Named, str | None]:
    code = item.code_name
    if code is None:
        return _Named("compiled autograd" if item.id.startswith("!") else None, None, None), None
    file = (item.code_file or "").replace("\\", "/")
    if code == "inner" and file.endswith(_WRAPPER_FILE):
        return _name_wrapped(tree, call)
    if item.id.startswith("!"):
        place = call or SourceFrame(item.code_file or "", item.code_line or 0, "")
        return _Named("compiled autograd", place.file, place.line), None
    class_ = _method_class(code, file, tree)
    function = f"{_short(class_)}.{_method_name(code, file)}" if class_ else code
    return _Named(function, item.code_file, item.code_line), class_


def _name_wrapped(tree: GuardTree | None, call: SourceFrame | None) -> tuple[_Named, str | None]:
    """torch's wrapper around a module whose ``forward`` is in torch itself, or around a function it may not
    trace.

    The guards name the wrapped object; the place is where the user called it.
    """
    place = (call.file, call.line) if call else (None, None)
    if tree is not None and tree.wrapped_class is not None:
        return _Named(f"{_short(tree.wrapped_class)}.forward", *place), tree.wrapped_class
    if tree is not None and tree.wrapped_code is not None:
        return _Named(*tree.wrapped_code), None
    return _Named(call.function if call else "forward", *place), None


def _method_class(code: str, file: str, tree: GuardTree | None) -> str | None:
    if tree is None:
        return None
    if code == "wrapper" and file.endswith("torch/optim/optimizer.py"):
        return tree.first_argument
    if tree.first_local is None:
        return None
    name, class_ = tree.first_local
    return class_ if name == "self" or code == "forward" else None


def _method_name(code: str, file: str) -> str:
    return "step" if code == "wrapper" and file.endswith("torch/optim/optimizer.py") else code


def _short(class_: str) -> str:
    return class_.rpartition(".")[2]


def name_continuations(items: Sequence[Compilation]) -> tuple[Compilation, ...]:
    """Give what cannot name itself the name of what it belongs to.

    A continuation function carries the function whose break it follows: the one of that name whose first
    line is the nearest above. A compilation that hit the limit has no name in the log: its frame's first
    one has. One that failed has no guards, which tell the class: those of the same frame that succeeded do.
    """
    named = _names_by_frame(items)
    first: dict[tuple[str, int, str], Compilation] = {}
    result: list[Compilation] = []
    for item in items:
        if item.produced_code is not True and item.code_name is not None:
            item = _named_as_one(named.get(_frame_key(item), []), item)
        key = (item.source, item.generation, item.frame_id)
        if item.code_name is None and key in first:
            known = first[key]
            item = replace(
                item,
                function=known.function,
                file=known.file,
                line=known.line,
                module_class=known.module_class,
                code_name=known.code_name,
                code_file=known.code_file,
                code_line=known.code_line,
            )
        elif item.resumes_function is not None and item.resumes_line is not None:
            item = _named_like(_owner(result, item), item)
        if item.code_name is not None:
            first.setdefault(key, item)
        result.append(item)
    return tuple(result)


def _frame_key(item: Compilation) -> tuple[object, ...]:
    """What compilations of the same code have in common; of a wrapper around others' code, the call too."""
    file = (item.code_file or "").replace("\\", "/")
    call = item.user_call if file.endswith(_WRAPPER_FILE) else None
    place = None if call is None else (call.file, call.line)
    return (item.source, item.generation, item.frame_id, item.code_name, file, item.code_line, place)


def _names_by_frame(items: Sequence[Compilation]) -> dict[tuple[object, ...], list[Compilation]]:
    found: dict[tuple[object, ...], list[Compilation]] = {}
    for item in items:
        if item.produced_code is True:
            found.setdefault(_frame_key(item), []).append(item)
    return found


def _named_as_one(others: Sequence[Compilation], item: Compilation) -> Compilation:
    """The name that the others agree on: code that several classes share says nothing about the class."""
    if len({(other.function, other.file, other.line, other.module_class) for other in others}) != 1:
        return item
    known = others[0]
    return replace(
        item, function=known.function, file=known.file, line=known.line, module_class=known.module_class
    )


def _named_like(owner: Compilation | None, item: Compilation) -> Compilation:
    if owner is None:
        return replace(item, function=item.resumes_function)
    item = replace(item, function=owner.function, module_class=owner.module_class)
    if (item.code_file or "").replace("\\", "/").endswith(_WRAPPER_FILE):
        return replace(item, file=owner.file, line=owner.line)
    return item


def _owner(before: Sequence[Compilation], item: Compilation) -> Compilation | None:
    best: Compilation | None = None
    for other in before:
        if (
            other.code_name == item.resumes_function
            and other.code_file == item.code_file
            and other.code_line is not None
            and other.code_line <= (item.resumes_line or 0)
            and (best is None or other.code_line >= (best.code_line or 0))
        ):
            best = other
    return best
