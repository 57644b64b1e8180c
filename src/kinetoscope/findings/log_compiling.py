"""Findings about compiling that only the log tells: recompilations, limits, and where compile time goes."""

from __future__ import annotations

import re

from kinetoscope.analyses.log_compile_time import FrameCompileTime
from kinetoscope.analyses.log_recompiles import RecompileLimit, RecompileSite
from kinetoscope.analyses.wording import counted, duration, listed, percent
from kinetoscope.findings.facts import Facts
from kinetoscope.findings.log_facts import LogFacts
from kinetoscope.schema import Finding, Severity

__all__ = ["ALL", "compile_time", "recompile", "recompile_limit"]

_SHAPE_WORDS = ("size of", "stride of", "had ", "range it was compiled for")
_LENGTH_WORDS = ("length of", "was empty", "was not empty")
# What a guard compares with: numbers, texts.
_VALUES = re.compile(r"(?<=was )('[^']*'|\S+)|(?<=now )\S+")
# What a call chooses among, rather than a number that runs on.
_CHOICE = re.compile(
    r"was (?:'[^']*'|\"[^\"]*\"|True|False) and is now another value|was None and is not any more|is now None"
)
_BATCH = re.compile(r"size of tensor \S+ in dimension 0 was (\d+) and is now (\d+)")
_MUCH_NS = 10_000_000_000
_SOME_NS = 1_000_000_000
# Writing the log is said where it is more than this share of what it measures.
_LOGGING = 0.02


def recompile(facts: Facts) -> list[Finding]:
    """Functions that were compiled again, with the guards that failed and the seconds lost."""
    if not isinstance(facts, LogFacts):
        return []
    return [_recompile(facts, site) for site in facts.recompiled.sites if not site.deliberate]


def _recompile(facts: LogFacts, site: RecompileSite) -> Finding:
    function = site.function or "a function"
    inside = _in_window(facts, site.ids)
    now = f" {duration(inside)} of it in this window." if inside else " None of it in this window."
    lines = dict.fromkeys(f"{file.rpartition('/')[2]}:{line}" for file, line in site.guard_lines)
    asked = f" The guard comes from {listed(list(lines), 3)}." if lines else ""
    return facts.finding(
        "recompile",
        f"{function} was compiled {counted(len(site.ids), 'more time')}",
        f"{_place(site.function, site.file, site.line)}: {_why(site.reasons)}.{asked} Compiling again took"
        f" {duration(site.compile_ns)} in all ({listed(list(site.ids), 4)}).{now}",
        _fix_of(site.reasons),
        total_ns=inside or None,
        severity=_severity(site.compile_ns) if not inside else None,
    )


def recompile_limit(facts: Facts) -> list[Finding]:
    """Functions that were compiled so often that Dynamo gave up."""
    if not isinstance(facts, LogFacts):
        return []
    return [_limit(facts, limit) for limit in facts.recompiled.limits]


def _limit(facts: LogFacts, limit: RecompileLimit) -> Finding:
    function = limit.function or "a function"
    return facts.finding(
        "recompile-limit",
        f"{function} reached the recompile limit",
        f"{_place(limit.function, limit.file, limit.line)} was compiled"
        f" {counted(limit.compilations, 'time')}; what"
        " does not fit these compilations runs eagerly from then on, without a sign in the trace but a"
        " cache lookup"
        f" that nothing follows. The last try: {_why(limit.reasons)}.",
        f"{_fix_of(limit.reasons)} Raising torch._dynamo.config.recompile_limit helps only where the number"
        " of"
        " variants is small and known.",
        severity="high",
        rows=facts.code.unanswered_lookups,
    )


def compile_time(facts: Facts) -> list[Finding]:
    """Where the time of compiling went."""
    if not isinstance(facts, LogFacts) or not facts.compiling.frames:
        return []
    found = facts.compiling
    frames = found.frames
    phases: dict[str, int] = {}
    for frame in frames:
        for phase in frame.phases:
            name = f"{phase.name} (backward)" if phase.backward else phase.name
            phases[name] = phases.get(name, 0) + phase.self_ns
    top = sorted(phases.items(), key=lambda item: -item[1])[:4]
    backward = sum(frame.backward_ns for frame in frames)
    runtime = sum(frame.runtime_ns for frame in frames)
    text = [
        f"{counted(len(frames), 'compilation')} took {duration(found.total_ns)}:"
        f" {listed([_frame(frame) for frame in frames], 3)}.",
        f"Most of it in {listed([f'{name} {duration(ns)}' for name, ns in top])}.",
    ]
    if backward:
        text.append(f"Backward graphs, compiled at the first backward: {duration(backward)}.")
    if runtime:
        text.append(f"At calls of compiled code (autotuning, CUDA graph recording): {duration(runtime)}.")
    caches = found.caches
    looked = caches.fx_hit + caches.fx_miss + caches.fx_bypass
    if looked:
        text.append(f"Inductor's cache had {caches.fx_hit:,} of {counted(looked, 'graph')}.")
    logging_ns = found.logging_ns or 0
    if found.total_ns and logging_ns > _LOGGING * found.total_ns:
        share = percent(logging_ns / found.total_ns)
        text.append(f"Writing the log itself is {duration(logging_ns)} of that ({share}).")
    if facts.links.compiles.total_ns:
        text.append("Some of it ran under the profiler, which slows compiling; compile_times does not.")
    return [
        facts.finding(
            "compile-time",
            f"Compiling took {duration(found.total_ns)}",
            " ".join(text),
            _compile_fix(facts),
            severity="info",
        )
    ]


def _frame(frame: FrameCompileTime) -> str:
    attempts = f", {frame.attempts} attempts" if frame.attempts > 1 else ""
    cached = ", from the cache" if frame.cached else ""
    return f"{frame.function or 'unnamed'} ({frame.id}) {duration(frame.total_ns)}{attempts}{cached}"


def _compile_fix(facts: LogFacts) -> str | None:
    caches = facts.compiling.caches
    advice = []
    if caches.fx_bypass:
        advice.append(f"{counted(caches.fx_bypass, 'graph')} could not be cached: the log names the reason.")
    if caches.fx_miss:
        advice.append(
            "A second start finds these graphs in the cache: keep TORCHINDUCTOR_CACHE_DIR between runs, or"
            " carry it"
            " to other machines with torch.compiler.save_cache_artifacts()."
        )
    if facts.graph_breaks.count:
        advice.append(
            "Every graph break makes another frame to compile, and restarts the analysis of its own."
        )
    return " ".join(advice) or None


def _place(function: str | None, file: str | None, line: int | None) -> str:
    where = f" ({file.replace(chr(92), '/').rpartition('/')[2]}:{line})" if file is not None else ""
    return f"{function or 'A function'}{where}"


def _why(reasons: tuple[str, ...]) -> str:
    """Reasons, one of those that differ in nothing but values (a size that grows, say)."""
    alike: dict[str, list[str]] = {}
    for reason in reasons:
        alike.setdefault(_VALUES.sub("#", reason), []).append(reason)
    said = [first + (" (and likewise with other values)" if more else "") for first, *more in alike.values()]
    return listed(said, 3) if said else "the log does not say why"


def _fix_of(reasons: tuple[str, ...]) -> str:
    text = " ".join(reasons)
    advice = []
    if any(word in text for word in _SHAPE_WORDS):
        advice.append(
            "Mark the size that changes with torch._dynamo.mark_dynamic, or compile with dynamic=True; or"
            " pad inputs"
            " to a few sizes."
        )
    if any(int(size[2]) < int(size[1]) for size in _BATCH.finditer(text)):
        advice.append("If the smaller size is a data loader's last batch, drop_last=True leaves that out.")
    if any(word in text for word in _LENGTH_WORDS):
        advice.append(
            "A list, dict or set that grows or shrinks is compiled in with its length: keep it out of the"
            " compiled function, or keep a tensor of fixed size instead."
        )
    if "['lr']" in text:
        advice.append(
            "Give the optimizer its learning rate as a tensor (lr=torch.tensor(0.1)): a number that a"
            " scheduler changes is compiled in."
        )
    if re.search(r"\bself\.\S* was \d+ and is now another value", text):
        advice.append(
            "torch._dynamo.config.allow_unspec_int_on_nn_module = True lets whole numbers that a module"
            " counts in its attributes change."
        )
    if any(_CHOICE.search(reason) for reason in reasons):
        advice.append(
            "A text, a flag or None is compiled in, a version for each combination: fine for a few, which a"
            " warm-up can compile; otherwise choose outside the compiled function."
        )
    numbers = " ".join(_CHOICE.sub("", reason) for reason in reasons)
    if "another value" in numbers or "range it was compiled for" in numbers:
        advice.append(
            "Pass a number that changes as a tensor, or keep it out of the compiled function: plain Python"
            " numbers"
            " are compiled in."
        )
    if "another object" in text or "same type" in text or "another type" in text:
        advice.append(
            "Give the compiled function the same objects in every call: functions and modules are guarded."
        )
    if "global setting" in text or "require gradients" in text or "required gradients" in text:
        advice.append("Call the function under the same settings each time (gradients, autocast, modes).")
    return " ".join(advice) or (
        "Keep what the guard checks the same between calls; TORCH_LOGS=recompiles prints every failure."
    )


def _severity(compile_ns: int) -> Severity:
    return "high" if compile_ns >= _MUCH_NS else "medium" if compile_ns >= _SOME_NS else "low"


def _in_window(facts: LogFacts, ids: tuple[str, ...]) -> int:
    """Compile time of these compilations inside the trace's window."""
    window = facts.join.window_ns
    if window is None:
        return 0
    start, end = window
    spans = sorted(
        (max(span.start_ns, start), min(span.end_ns, end))
        for compile_id in ids
        for item in facts.join.log.with_id(compile_id)
        for span in item.spans
        if span.start_ns < end and span.end_ns > start
    )
    total, reached = 0, start
    for first, last in spans:
        total += max(0, last - max(first, reached))
        reached = max(reached, last)
    return total


ALL = (recompile, recompile_limit, compile_time)
