"""Why Dynamo stopped, by family, and what to do about each.

The log says a reason in Dynamo's words, with the id of a page about it (``gb0170``). Ids and words differ
between versions, so both are looked at, and a reason of no known family still gets a fix: Dynamo's own hint.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from kinetoscope.analyses.log_breaks import LogBreakSite

__all__ = ["Family", "family_of", "page_of", "skip_family_of", "subject_of"]

_SUBJECT = re.compile(r"\b(?:function|builtin|operator|Operator|method) `([^`\s]+?)\.?`")
_PAGES = "https://meta-pytorch.github.io/compile-graph-break-site/gb/"


@dataclass(frozen=True)
class Family:
    """A kind of reason. ``words`` say what happened, ``fix`` what to do."""

    name: str
    words: str
    fix: str


_PRINT = Family(
    "print",
    "output while computing (print, logging, warnings)",
    "Move the print or log call out of the compiled function, or guard it with"
    " `if not torch.compiler.is_compiling():`. To keep it, add the function to"
    " torch._dynamo.config.reorderable_logging_functions (it then runs after the graph).",
)
_LOGGER = Family(
    "logger",
    "a log message while computing (logging.Logger)",
    "Move the log call out of the compiled function, or guard it with"
    " `if not torch.compiler.is_compiling():`. Adding the method (logging.Logger.info, say) to"
    " torch._dynamo.config.ignore_logger_methods leaves its calls out of compiled code.",
)
_ITEM = Family(
    "item",
    "a tensor's value is taken into Python (.item(), .tolist(), int(), float(), a NumPy function that"
    " returns a number)",
    "Keep the value in a tensor (torch.where, torch.clamp, indexing with a tensor). Where Python needs the"
    " number"
    " and only computes with it, set torch._dynamo.config.capture_scalar_outputs = True. A value that is only"
    " logged can be taken after the compiled function returns.",
)
_BRANCH = Family(
    "data-dependent",
    "control flow that depends on a tensor's value",
    "Compute both sides and select with torch.where, or use torch.cond. A check that only guards against"
    " bad input"
    " can move out of the compiled function, or become torch._check.",
)
_SHAPES = Family(
    "dynamic-shape",
    "an operator whose output size depends on the data, or a size that is not known while compiling",
    "Replace the operator by one whose output has a fixed size (a mask and torch.where instead of nonzero"
    " or boolean"
    " indexing), or set torch._dynamo.config.capture_dynamic_output_shape_ops = True."
    " torch._dynamo.mark_dynamic"
    " says in advance which sizes change.",
)
_DISABLED = Family(
    "disabled",
    "a call of a function that torch.compiler.disable keeps out of graphs",
    "Remove torch.compiler.disable if its reason is gone, or call the function before or after the compiled"
    " part:"
    " in the middle it costs a graph break in every call.",
)
_EXPLICIT = Family(
    "explicit",
    "torch._dynamo.graph_break() called by the program",
    "Remove the call of torch._dynamo.graph_break().",
)
_UNSUPPORTED = Family(
    "unsupported",
    "a builtin, a library or a C extension that cannot be traced",
    "Use torch operators instead, or move the call out of the compiled function. A C++ or CUDA kernel of"
    " your own"
    " can be registered with torch.library.custom_op, so that graphs contain it as one operator;"
    " torch.compiler.allow_in_graph is the short way for pure torch code.",
)
_MARKED = Family(
    "marked",
    "a call of a function that Dynamo is told not to trace",
    "Call it before or after the compiled part. Where it is plain PyTorch code,"
    " torch._dynamo.dont_skip_tracing has it traced all the same.",
)
_BACKWARD = Family(
    "backward",
    "backward() or autograd.grad() inside the compiled function",
    "Compile the forward (with the loss) and call backward() outside; its graph is compiled with the"
    " forward's."
    " To compile a whole step, use torch._dynamo.config.compiled_autograd = True.",
)
_RAISED = Family(
    "raised",
    "an exception that nothing in the function catches",
    "Check before the call of the compiled function, and raise there. One call that raises while it is"
    " compiled gives the function up, also for later calls that do not raise.",
)
_BACKEND = Family(
    "backend",
    "an error of the backend, after the graph was made",
    'Compile with backend="aot_eager": if that works, the error is Inductor\'s. The message is in the log'
    " (dynamo_error), and TORCHDYNAMO_REPRO_AFTER=aot writes a small program that shows it, for a report to"
    " PyTorch.",
)
_INPUTS = Family(
    "inputs",
    "an operator cannot take the inputs of this call",
    'Make the same call without compiling (torch.compiler.set_stance("force_eager")). If it fails as well,'
    " correct the sizes or types that come in; if not, the operator lacks a rule for its output's shape:"
    " torch.library.register_fake gives one to an operator of your own.",
)
_LOOP = Family(
    "loop",
    "a break inside a loop, which gives up the whole function",
    "Move the loop's body into a function of its own and compile that, or take what breaks out of the loop.",
)
_BLOCK = Family(
    "block",
    "a break inside a with or try block, which gives up the whole function",
    "Put the with or try block around the call of the compiled function instead of inside it, or take what"
    " breaks"
    " out of the block.",
)
_GENERATOR = Family(
    "generator",
    "a generator, which cannot be left in the middle",
    "Compile what the generator calls instead of the generator itself, or return a list.",
)

_Test = Callable[[LogBreakSite, str], object]


def _ids(*ids: str) -> _Test:
    return lambda site, _: site.gb_id in ids


def _says(pattern: str) -> _Test:
    found = re.compile(pattern, re.I)
    return lambda _, text: found.search(text)


# The first that holds decides; ids come before words, which are vaguer.
_RULES: tuple[tuple[Family, tuple[_Test, ...]], ...] = (
    (_EXPLICIT, (_ids("gb0025"), _says(r"torch\._dynamo\.graph_break\(\)"))),
    (_DISABLED, (_ids("gb0098", "gb0099"), _says(r"compiler\.disable|_dynamo\.disable"))),
    (_LOGGER, (_ids("gb0291"), _says(r"logging\.Logger"))),
    (
        _PRINT,
        (
            _says(
                r"builtin (operator )?`(print|breakpoint|_?warnings\.warn)\b"
                r"|BuiltinVariable\(print\)|logging\."
            ),
        ),
    ),
    (_RAISED, (_ids("gb0088"), _says(r"^Observed exception"))),
    (_INPUTS, (_ids("gb4315"), _says(r"when making fake tensor call|^Failed running call_"))),
    (_BACKEND, (_says(r"^backend='|raised:|^LoweringException|^InductorError|C\+\+ compile error"),)),
    (_ITEM, (_ids("gb0124", "gb0109"), _says(r"\.item\(\)|\.tolist\(\)|scalar_outputs|_local_scalar_dense"))),
    (
        _BRANCH,
        (
            _ids("gb0170", "gb0034", "gb0035"),
            _says(r"data.dependent (branch|jump|assert|control)|generic_jump"),
        ),
    ),
    (
        _SHAPES,
        (
            _ids("gb0036", "gb0037", "gb0038", "gb0246", "gb0033"),
            _says(r"dynamic shape|dynamic slic|unbacked|symbolic shape|data.dependent|output shape depends"),
        ),
    ),
    (_BACKWARD, (_ids("gb0123", "gb9186"), _says(r"\.backward\(\) call|autograd\.grad"))),
    (_GENERATOR, (_ids("gb0003", "gb0120", "gb0253", "gb2549"), _says(r"generator"))),
    (_BLOCK, (_ids("gb0066", "gb0142"), _says(r"context manager|ContextWrapping|exception handler"))),
    (_MARKED, (_says(r"intentionally marked that the function"),)),
    (_UNSUPPORTED, (_says(r"builtin|C/C\+\+|C extension|skipped|not traced|unsupported|method call|numpy"),)),
)
_SKIP_RULES: tuple[tuple[Family, tuple[_Test, ...]], ...] = (
    (_LOOP, (_says(r"\bloop\b"),)),
    (_BLOCK, (_says(r"ContextWrapping|context manager|try\b|with\b|exception"),)),
    (_GENERATOR, (_says(r"generator|yield"),)),
)


def family_of(site: LogBreakSite) -> Family:
    """The family of a site's reason."""
    text = f"{site.reason or ''} {site.explanation or ''}"
    for family, tests in _RULES:
        if any(test(site, text) for test in tests):
            return family
    hint = next(iter(site.hints), None)
    return Family(
        "other",
        site.reason or "not stated",
        hint or "Remove what cannot be compiled from the function, or move it to its start or end.",
    )


def skip_family_of(site: LogBreakSite, *, inside_callee: bool = False) -> Family | None:
    """Why a break gave up the whole function; None where the log does not say.

    ``inside_callee``: the break is in a function that the given-up one was running. Dynamo leaves a plain
    callee to run on its own, so without another cause that function is a generator. Where the log says only
    that the function could not be continued, a with or try block is around the break: loops are named. A
    function that failed to compile, or raised while it was compiled, was given up for that alone.
    """
    if site.failed or family_of(site) is _RAISED:
        return None
    text = site.skip_reason or ""
    for family, tests in _SKIP_RULES:
        if any(test(site, text) for test in tests):
            return family
    if text:
        return None
    return _GENERATOR if inside_callee else _BLOCK


def subject_of(site: LogBreakSite) -> str | None:
    """What was called that stopped it (a function, a builtin), where Dynamo's explanation names it."""
    named = _SUBJECT.search(site.explanation or "")
    return None if named is None or named[1] in (site.reason or "") else named[1]


def page_of(gb_id: str | None) -> str | None:
    """Where PyTorch describes a reason."""
    return f"{_PAGES}{gb_id}.html" if gb_id else None
