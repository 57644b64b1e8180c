"""Findings about graph breaks and frames that ran eagerly, with what the compile log says of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinetoscope.analyses.joined_breaks import JoinedSite
from kinetoscope.analyses.log_breaks import LogBreakSite
from kinetoscope.analyses.wording import counted, listed
from kinetoscope.findings.facts import Facts
from kinetoscope.findings.log_facts import LogFacts
from kinetoscope.findings.log_failures import Failure
from kinetoscope.findings.log_reasons import Family, family_of, page_of, skip_family_of, subject_of
from kinetoscope.schema import Finding
from kinetoscope.trace import Int64

__all__ = ["ALL", "graph_break", "not_compiled", "skipped_frame"]

_PLACES = 6
_EXCERPTS = 3


def graph_break(facts: Facts) -> list[Finding]:
    """Compiled functions that are left in the middle; breaks of one function are one finding."""
    if not isinstance(facts, LogFacts):
        return []
    groups: dict[tuple[str | None, str | None], list[JoinedSite]] = {}
    for each in facts.breaks.of("break"):
        groups.setdefault((each.site.file, each.site.function), []).append(each)
    found = [_of_function(facts, sites) for sites in groups.values()]
    framework = facts.breaks.of("framework")
    return [*found, *([_of_framework(facts, framework)] if _cost(framework) else [])]


def _of_function(facts: LogFacts, sites: Sequence[JoinedSite]) -> Finding:
    in_order = sorted((each.site for each in sites), key=lambda site: (site.line or 0, site.ordinal or 0))
    function = in_order[0].function or "a compiled function"
    families = list({family.name: family for family in map(family_of, in_order)}.values())
    total = _cost(sites)
    text = [f"{function} is left at {_places(in_order)}{_passed(sites)}: {_reasons(in_order)}."]
    text += _excerpts(in_order)
    # without any compiled code nothing was left in the middle, though no region says so
    not_passed = all(each.hits == 0 for each in sites) or facts.compiled.verdict == "no"
    if not_passed:
        it = "It was" if len(sites) == 1 else "They were"
        text.append(f"{it} not passed in this window: nothing is lost there, and nothing to gain.")
    elif total is not None:
        text.append(f"From the end of compiled code to its next start the CPU spent {facts.a_step(total)}.")
    else:
        text.append("What that costs cannot be told from this trace.")
    return facts.finding(
        "graph-break",
        f"{counted(len(sites), 'graph break')} in {function}",
        " ".join(text),
        _fix(families, in_order),
        total_ns=total,
        severity="info" if not_passed else "low" if total is None else None,
        rows=_rows(facts, sites),
    )


def not_compiled(facts: Facts) -> list[Finding]:
    """Nothing compiled ran, and the log knows why."""
    if not isinstance(facts, LogFacts) or facts.compiled.verdict != "no":
        return []
    whole = [each.site for each in facts.breaks.of("skipped_frame")]
    skipped = [site.function or "a function" for site in whole if not site.failed]
    failed = [Failure(facts.join, site).name or "a function" for site in whole if site.failed]
    limited = [each.site.function or "a function" for each in facts.breaks.of("limit")]
    said = [f"{listed(skipped)} was given up as a whole"] if skipped else []
    said += [f"compiling {listed(failed)} failed"] if failed else []
    said += [f"{listed(limited)} reached the recompile limit"] if limited else []
    if said:
        why = f"The compile log says that {listed(said)}."
        fix = "Read the findings about these functions: they name the lines that stand in the way."
    elif len(facts.links.regions.calls):
        places = _places([each.site for each in facts.breaks.of("break", "framework")])
        why = f"Dynamo left the compiled functions before their first operator{places and f', at {places}'}."
        fix = (
            "Compile what is called after these lines: the module that a wrapper holds (module.compile(),"
            " before it is wrapped) instead of the wrapper, or the function that does the work."
        )
    elif facts.join.log.compilations:
        why = "Code was compiled, and none of it ran in this window."
        fix = "Record a later window, or look whether the compiled function is the one that is called."
    else:
        why = "The compile log has no compilation: the program did not call a compiled function."
        fix = (
            "Compile the model: model = torch.compile(model), or model.compile(), and call that model. An"
            " object"
            " returned by torch.compile does nothing for the one that was handed in."
        )
    work = facts.work
    eager = work.operator_row[work.of("eager")]
    return [
        facts.finding(
            "not-compiled",
            "Nothing compiled ran",
            f"{why} {' '.join(facts.compiled.evidence[:2])}",
            fix,
            severity="high",
            rows=np.unique(eager[eager >= 0]),
        )
    ]


def _of_framework(facts: LogFacts, sites: Sequence[JoinedSite]) -> Finding:
    places = listed(list(dict.fromkeys(f"{_short(s.site.file)}:{s.site.line}" for s in sites)), _PLACES)
    called = dict.fromkeys(
        f"{_short(s.site.user_file)}:{s.site.user_line}" for s in sites if s.site.user_file
    )
    total = _cost(sites) or 0
    calls = f", called from {listed(list(called), 3)}" if called else ""
    return facts.finding(
        "graph-break",
        f"{counted(len(sites), 'graph break')} in torch's own code",
        f"At {places}{calls}: the framework leaves compiled code there by design. From the end of compiled"
        " code to"
        f" its next start the CPU spent {facts.a_step(total)}. They are not counted as breaks of the"
        " program.",
        "Nothing in the program breaks the graph. A whole optimizer step that is compiled, or wrapped"
        " modules that"
        " are compiled before they are wrapped, can avoid such breaks.",
        total_ns=total,
        severity="info",
        rows=_rows(facts, sites),
    )


def skipped_frame(facts: Facts) -> list[Finding]:
    """Functions that were to be compiled and run eagerly as a whole."""
    if not isinstance(facts, LogFacts):
        return []
    return [_skipped(facts, each.site) for each in facts.breaks.of("skipped_frame")]


def _skipped(facts: LogFacts, site: LogBreakSite) -> Finding:
    if site.failed:
        return _failed(facts, site)
    function = site.function or "a function"
    family, why = family_of(site), skip_family_of(site, inside_callee=_inside_callee(facts, site))
    cause = f" at {_short(site.cause_file)}:{site.cause_line}" if site.cause_line is not None else ""
    gave_up = f" ({why.words})" if why is not None else ""
    text = [
        f"{function} ({_short(site.file)}:{site.line}) runs eagerly and has no compiled region of its own:"
        f" {family.words}{cause}{gave_up}.",
        *_excerpts([site]),
    ]
    families = [family] if why is None or why.name == family.name else [why, family]
    return facts.finding(
        "skipped-frame",
        f"{function} is not compiled: it was skipped",
        " ".join(text),
        _fix(families, [site]),
        severity="high",
    )


def _failed(facts: LogFacts, site: LogBreakSite) -> Finding:
    """A compilation that ended with an error, beside those of the same code that did not."""
    found, family = Failure(facts.join, site), family_of(site)
    where = f"{_short(site.file)}:{site.line}"
    name = found.name or f"what {where} calls"
    place = f" ({'called at ' if found.is_place_of_call else ''}{where})" if found.name else ""
    cause = f", at {_short(site.cause_file)}:{site.cause_line}" if site.cause_line is not None else ""
    errors = listed(found.errors, 3)
    # a reason of no known family is the error itself
    why = f": {family.words}" if family.words != site.reason else ""
    again = " again" if found.is_repeated else ""
    text = [
        f"{name}{place} could not be compiled{again}{why}{cause}.",
        *_excerpts([site]),
        f"The error of {listed(found.failed_ids)}: {errors}{'' if errors.endswith('.') else '.'}",
    ]
    if found.symbols:
        what = "is a size" if len(found.symbols) == 1 else "are sizes"
        text.append(f"{listed(found.symbols)} {what} that differed between calls.")
    text.append(
        "The program gets this as an error (fullgraph=True does that for a graph break), unless"
        " torch._dynamo.config.suppress_errors is set."
    )
    if found.compiled_ids:
        ran = f"ran {counted(found.calls, 'time')}" if found.calls else "did not run"
        text.append(
            f"What was compiled of the same function ({listed(found.compiled_ids)}) stays, and {ran} in"
            " this window."
        )
        title = f"Compiling {name}{again} failed ({listed(found.failed_ids)})"
    else:
        text.append("If it goes on, it does so without compiled code.")
        title = f"{name} is not compiled: compiling it failed"
    return facts.finding("skipped-frame", title, " ".join(text), _fix([family], [site]), severity="high")


def _places(sites: Sequence[LogBreakSite]) -> str:
    texts = []
    for site in sites:
        nth = f" (break {site.ordinal} of that line)" if site.ordinal is not None else ""
        texts.append(f"{_short(site.file)}:{site.line}{nth}")
    return listed(texts, _PLACES)


def _short(path: str | None) -> str:
    """A file's own name: where it lies is in the report's table of sites."""
    return (path or "unknown").replace("\\", "/").rpartition("/")[2]


def _passed(sites: Sequence[JoinedSite]) -> str:
    hits = [each.hits for each in sites if each.hits is not None]
    return f", passed {counted(sum(hits), 'time')}" if len(hits) == len(sites) else ""


def _reasons(sites: Sequence[LogBreakSite]) -> str:
    said: dict[str, None] = {}
    for site in sites:
        subject, page = subject_of(site), f", {site.gb_id}" if site.gb_id else ""
        called = f": {subject}" if subject is not None else ""
        said[f"{family_of(site).words} ({site.reason}{called}{page})"] = None
    return listed(list(said), 3)


def _excerpts(sites: Sequence[LogBreakSite]) -> list[str]:
    """The lines themselves, as the log recorded them: files may have changed since."""
    by_code: dict[str, list[str]] = {}
    for site in sites:
        code = (site.code or "").strip()
        number = str(site.line if site.kind == "break" else site.cause_line)
        if code and number not in by_code.setdefault(code, []):
            by_code[code].append(number)
    texts = [
        f"{'Line' if len(numbers) == 1 else 'Lines'} {listed(numbers)}"
        f" {'reads' if len(numbers) == 1 else 'read'}"
        f" `{code}`."
        for code, numbers in by_code.items()
    ]
    return texts[:_EXCERPTS]


def _inside_callee(facts: LogFacts, site: LogBreakSite) -> bool:
    """Whether the break is in a function that the skipped one called."""
    for compile_id in site.region_ids:
        for item in facts.join.log.with_id(compile_id):
            for record in item.breaks:
                if (record.file, record.line) == (site.cause_file, site.cause_line) and record.user_stack:
                    return record.user_stack[-1].function != item.code_name
    return False


def _fix(families: Sequence[Family], sites: Sequence[LogBreakSite]) -> str:
    pages = dict.fromkeys(
        page for s in sites for i in (s.gb_id, s.skip_gb_id) if (page := page_of(i)) is not None
    )
    about = f" More: {listed(list(pages), 3)}" if pages else ""
    return " ".join(family.fix for family in families) + about


def _cost(sites: Sequence[JoinedSite]) -> int | None:
    """CPU time lost at these sites; of those whose loss is unknown nothing is counted.

    None where that leaves nothing: a sum of 0 says that all of them are known to cost nothing.
    """
    known = [each.lost_ns for each in sites if each.lost_ns is not None]
    total = sum(known)
    return total if total or (known and len(known) == len(sites)) else None


def _rows(facts: LogFacts, sites: Sequence[JoinedSite]) -> Int64:
    calls = np.concatenate([each.calls for each in sites])
    rows: Int64 = facts.links.regions.calls.rows[calls]
    return rows


ALL = (not_compiled, graph_break, skipped_frame)
