"""Findings from a compile log and a capture: each reason with its line, its words and a fix."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kinetoscope
from helpers import TRACES, note, op, region, trace_of
from kinetoscope.analyses.log_breaks import LogBreakSite
from kinetoscope.findings import Facts
from kinetoscope.findings.log_breaks import graph_break
from kinetoscope.findings.log_compiling import _fix_of, _why
from kinetoscope.findings.log_facts import LogFacts
from kinetoscope.findings.log_reasons import family_of, page_of, skip_family_of, subject_of
from kinetoscope.ingest.compile_log import CompileLog, read_compile_log
from kinetoscope.link import link
from kinetoscope.reporting import analyse, facts_of, report_of
from kinetoscope.schema import Finding, Report
from test_join import joined
from test_join_captures import capture, report

LOGS = TRACES / "logs"
SKIPPED = "Attempted to call function marked as skipped"


def of(found: Report, code: str) -> list[Finding]:
    return [finding for finding in found.findings if finding.code == code]


def one(found: Report, code: str) -> Finding:
    (finding,) = of(found, code)
    return finding


def site(reason: str | None, gb_id: str | None = None, **more: Any) -> LogBreakSite:
    return LogBreakSite("break", "a.py", 1, None, "f", reason, gb_id, **more)


@pytest.mark.parametrize(
    ("reason", "gb_id", "explanation", "family"),
    [
        ("Call to `torch._dynamo.graph_break()`", "gb0025", None, "explicit"),
        ("Failed to trace builtin operator", "gb0059", "how to trace builtin operator `print` with", "print"),
        ("Unsupported: call_function BuiltinVariable(print)", None, None, "print"),
        ("logging.Logger method not supported for non-export cases", "gb0291", None, "logger"),
        (
            "Attempted to call function marked as skipped",
            "gb0007",
            "Python builtin `_warnings.warn`.",
            "print",
        ),
        # the words for any builtin give _warnings as an example
        (
            "Attempted to call function marked as skipped",
            "gb0007",
            "`time.time` (e.g. _warnings.warn)",
            "unsupported",
        ),
        ("Unsupported Tensor.item() call with capture_scalar_outputs=False", "gb0124", None, "item"),
        ("Tensor.tolist() with non-integer tensor", "gb0109", None, "item"),
        ("Data-dependent branching", "gb0170", None, "data-dependent"),
        ("generic_jump TensorVariable()", None, None, "data-dependent"),
        ("Dynamic shape operator", "gb0036", None, "dynamic-shape"),
        ("Dynamic slicing with Tensor arguments", "gb0038", None, "dynamic-shape"),
        ("Skip calling `torch.compiler.disable()`d function", "gb0098", None, "disabled"),
        ("Unsupported Tensor.backward() call", "gb0123", None, "backward"),
        ("Attempt to trace generator", "gb0003", None, "generator"),
        ("Unsupported context manager", "gb0142", None, "block"),
        ("Unsupported method call", "gb0156", "method `__sizeof__` of class `type`", "unsupported"),
        ("Attempted to a str() method implemented in C/C++", "gb0005", None, "unsupported"),
        (
            "Attempted to call function marked as skipped",
            "gb0007",
            "Dynamo developers have intentionally marked that the function `Adam.step` in file `a.py` should",
            "marked",
        ),
        ("Observed exception", "gb0088", "Dynamo found no exception handler at the top-level", "raised"),
        ("backend='inductor' raised:", None, None, "backend"),
        ("Something new", "gb9999", None, "other"),
        (None, None, None, "other"),
    ],
)
def test_a_reason_has_a_family(
    reason: str | None, gb_id: str | None, explanation: str | None, family: str
) -> None:
    found = family_of(site(reason, gb_id, explanation=explanation))
    assert found.name == family
    assert found.fix
    assert found.words


@pytest.mark.parametrize(
    ("reason", "explanation", "subject"),
    [
        (
            "marked as skipped",
            "that the function `Adam.step` in file `/a/b.py` should not",
            "Adam.step",
        ),
        (
            "marked as skipped",
            "does not know how to trace the builtin `time.sleep.` This",
            "time.sleep",
        ),
        ("Failed to trace builtin operator", "how to trace builtin operator `print` with", "print"),
        ("Call to `torch._dynamo.graph_break()`", "User-inserted graph break. Message: None", None),
        ("Data dependent operator", None, None),
    ],
)
def test_what_was_called_is_named(reason: str, explanation: str | None, subject: str | None) -> None:
    assert subject_of(site(reason, explanation=explanation)) == subject


def test_a_function_that_failed_or_raised_was_given_up_for_that_alone() -> None:
    assert skip_family_of(site("Data-dependent branching", "gb0170", failed=True)) is None
    assert skip_family_of(site("Observed exception", "gb0088")) is None


def test_a_compilation_that_failed_is_told_with_its_line(tmp_path: Path) -> None:
    """As with fullgraph=True: the log has the error, and no record of a break."""
    lines = gzip.decompress((TRACES / "logs" / "gb_loop.log.gz").read_bytes()).split(b"\n")
    path, keep = tmp_path / "failed.log", True
    with path.open("wb") as file:
        for line in lines:
            keep = keep if line.startswith(b"\t") else b"dynamo_graph_break_reason" not in line
            file.write(line + b"\n" if keep else b"")
    trace = TRACES / "warm" / "gb_loop.json.gz"
    found = analyse([str(trace)], compile_log=str(path), use_store=False)
    assert [(s.kind, s.line, s.function, s.gb_id) for s in found.graph_breaks.sites] == [
        ("skipped_frame", 70, "f", "gb0025")
    ]
    finding = one(found, "skipped-frame")
    assert finding.title == "f is not compiled: compiling it failed"
    assert "The error of 0/0: Call to `torch._dynamo.graph_break()`" in finding.detail
    assert "f (exp.py:70) could not be compiled" in finding.detail
    assert "at exp.py:73" in finding.detail
    assert "fullgraph=True" in finding.detail
    assert "loop" not in finding.detail  # the log of such a failure does not say what is around it


def test_guards_that_differ_in_values_are_said_once() -> None:
    sizes = tuple(f"the size of tensor x in dimension 0 was {n} and is now {n + 1}" for n in range(8, 12))
    said = _why((*sizes, "mode was 'a' and is now another value", "mode was 'b' and is now another value"))
    assert said == (
        "the size of tensor x in dimension 0 was 8 and is now 9 (and likewise with other values) and"
        " mode was 'a' and is now another value (and likewise with other values)"
    )


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("the length of seen was 3 and is now another", "a tensor of fixed size"),
        ("self.count was 3 and is now another value", "allow_unspec_int_on_nn_module"),
        ("self.param_groups[0]['lr'] was 0.1 and is now another value", "lr=torch.tensor(0.1)"),
        ("the size of tensor x in dimension 0 was 8 and is now 9", "mark_dynamic"),
    ],
)
def test_what_helps_against_a_guard_that_fails(reason: str, words: str) -> None:
    fix = _fix_of((reason,))
    assert words in fix
    assert ("mark_dynamic" in fix) == ("size of tensor" in reason)


@pytest.mark.parametrize(
    ("reason", "is_choice"),
    [
        ("mode was 'mean' and is now another value", True),
        ("causal was True and is now another value", True),
        ("mask was None and is not any more", True),
        ("mask is now None", True),
        ("n was 3 and is now another value", False),
        ("scale was 0.5 and is now another value", False),
        ("a size or number left the range it was compiled for: n <= 3", False),
    ],
)
def test_a_choice_is_not_called_a_number(reason: str, is_choice: bool) -> None:
    fix = _fix_of((reason,))
    assert ("a flag or None" in fix) == is_choice
    assert ("a number that changes" in fix) != is_choice


def test_a_choice_and_a_number_get_both() -> None:
    fix = _fix_of(("mode was 'a' and is now another value", "n was 3 and is now another value"))
    assert "a flag or None" in fix
    assert "a number that changes" in fix


@pytest.mark.parametrize(
    ("reason", "is_said"),
    [
        ("the size of tensor x in dimension 0 was 32 and is now 16", True),
        ("the size of tensor x in dimension 0 was 16 and is now 32", False),
        ("the size of tensor x in dimension 1 was 32 and is now 16", False),
    ],
)
def test_a_batch_that_shrinks_may_be_the_last(reason: str, is_said: bool) -> None:
    assert ("drop_last=True" in _fix_of((reason,))) == is_said


def test_an_unknown_reason_gets_dynamos_own_hint() -> None:
    assert family_of(site("Something new", hints=("Do this.", "Or that."))).fix == "Do this."


@pytest.mark.parametrize(
    ("skip", "inside_callee", "family"),
    [
        ("graph break in loop", False, "loop"),
        ("Graph break under GenericContextWrappingVariable", False, "block"),
        (None, False, "block"),
        (None, True, "generator"),
        ("nobody knows", False, None),
    ],
)
def test_why_a_function_was_given_up(skip: str | None, inside_callee: bool, family: str | None) -> None:
    found = skip_family_of(site("x", skip_reason=skip), inside_callee=inside_callee)
    assert (found.name if found else None) == family


def test_pages() -> None:
    assert (page_of("gb0170") or "").endswith("/gb/gb0170.html")
    assert page_of(None) is None


def test_breaks_of_one_function_are_one_finding_with_their_lines() -> None:
    links = link(kinetoscope.load(str(TRACES / "seed_breaks.trace.json.gz"), use_store=False))
    facts, _ = facts_of(links, read_compile_log(LOGS / "seed_breaks.log.gz"))
    (finding,) = graph_break(facts)
    assert finding.title == "3 graph breaks in M.forward"
    for text in ("workloads.py:69, workloads.py:71 and workloads.py:73", "passed 9 times", "gb0025"):
        assert text in finding.detail
    assert "Lines 69, 71 and 73 read `torch._dynamo.graph_break()`." in finding.detail
    assert "gb0025.html" in (finding.fix or "")
    costs = [s.cost_ns_per_step or 0 for s in facts.graph_breaks.sites]
    assert abs((finding.cost_ns_per_step or 0) - sum(costs)) <= len(costs)
    assert len(finding.evidence) == 5
    assert all(e.name.startswith("Torch-Compiled Region") for e in finding.evidence)


def test_without_source_no_line_is_quoted() -> None:
    links = link(kinetoscope.load(str(TRACES / "seed_breaks.trace.json.gz"), use_store=False))
    log = read_compile_log(LOGS / "seed_breaks.log.gz", keep_source=False)
    found = report_of(links.trace, log=log)
    assert "read `" not in one(found, "graph-break").detail
    assert found.kernels is not None
    assert any(k.source for k in found.kernels.top)


def test_a_skipped_frame_names_what_stands_in_the_way() -> None:
    finding = one(joined("gb_loop"), "skipped-frame")
    assert finding.severity == "high"
    assert "f (exp.py:70)" in finding.detail
    assert "exp.py:73 (a break inside a loop" in finding.detail
    assert "Move the loop's body" in (finding.fix or "")
    assert "gb7000.html" in (finding.fix or "")
    (whole,) = of(joined("gb_loop"), "not-compiled")
    assert whole.detail.startswith("The compile log says that f was given up as a whole.")


def test_a_limit_and_what_led_to_it() -> None:
    found = joined("recompile_limit")
    limit = one(found, "recompile-limit")
    assert limit.title == "f reached the recompile limit"
    assert "was compiled 2 times" in limit.detail
    assert "mark_dynamic" in (limit.fix or "")
    again = one(found, "recompile")
    assert "the size of tensor x in dimension 0 was 8 and is now 9" in again.detail
    assert again.cost_ns_per_step is None  # it was compiled before this window


def test_a_deliberate_second_compile_is_no_finding() -> None:
    log = read_compile_log(LOGS / "recompile_limit.log.gz")
    backend = tuple(
        replace(c, guard_failures=tuple(replace(g, guard="BACKEND_MATCH") for g in c.guard_failures))
        for c in log.compilations
        if not c.hit_limit
    )
    trace = kinetoscope.load(str(TRACES / "warm" / "recompile_limit.json.gz"), use_store=False)
    found = report_of(trace, log=replace(log, compilations=backend))
    assert (found.recompiles.count, len(found.recompiles.sites)) == (0, 1)
    assert of(found, "recompile") == []


def test_breaks_in_torch_are_for_information() -> None:
    found = joined("ddp_sequential_eager")
    assert all(f.severity == "info" for f in of(found, "graph-break"))


def test_a_break_that_this_window_did_not_pass_costs_nothing(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [op("aten::sin", 0, 5)])
    found = report_of(trace, log=read_compile_log(LOGS / "seed_breaks.log.gz"))
    assert [s.hits for s in found.graph_breaks.sites] == [None] * 3  # no region at all
    assert found.compiled.verdict == "no"  # without compiled code none was left in the middle
    finding = one(found, "graph-break")
    assert (finding.severity, finding.cost_ns_per_step) == ("info", None)
    assert "They were not passed in this window" in finding.detail
    # compiled code ran, and none of what is before or after these breaks
    events = [note("ProfilerStep#0", 0, 100), region("9/0", 10, 50), op("aten::sin", 20, 5)]
    log = read_compile_log(LOGS / "seed_breaks.log.gz")
    other = replace(log.compilations[0], id="9/0", breaks=(), code_name="g", function="g", line=1)
    log = replace(log, compilations=(*log.compilations, other))
    found = report_of(trace_of(tmp_path, events), log=log)
    assert [(s.hits, s.cost_ns_per_step) for s in found.graph_breaks.sites] == [(0, 0)] * 3
    finding = one(found, "graph-break")
    assert (finding.severity, finding.cost_ns_per_step) == ("info", 0)
    assert "They were not passed in this window" in finding.detail


def test_a_break_whose_cost_is_unknown_is_not_called_free(tmp_path: Path) -> None:
    """Calls of what is compiled up to a break, and no continuation: passed, at a cost that nothing shows."""
    events = [note("ProfilerStep#0", 0, 100), region("0/0", 10, 50), op("aten::sin", 20, 5)]
    found = report_of(trace_of(tmp_path, events), log=read_compile_log(LOGS / "seed_breaks.log.gz"))
    assert max(s.hits or 0 for s in found.graph_breaks.sites) == 1
    finding = one(found, "graph-break")
    assert (finding.severity, finding.cost_ns_per_step) == ("low", None)
    assert "cannot be told" in finding.detail


def test_what_is_known_to_cost_nothing_only_informs(tmp_path: Path) -> None:
    facts = Facts.of(link(trace_of(tmp_path, [note("ProfilerStep#0", 0, 100), op("aten::sin", 20, 5)])))
    assert facts.finding("graph-break", "t", "d", None, total_ns=0, severity="high").severity == "info"
    assert facts.finding("graph-break", "t", "d", None, total_ns=10_000, severity="low").severity == "low"
    assert facts.finding("graph-break", "t", "d", None, severity="high").severity == "high"


def test_compile_time_names_frames_phases_and_caches() -> None:
    trace, log = TRACES / "seed_breaks.trace.json.gz", LOGS / "seed_breaks.log.gz"
    found = analyse([str(trace)], compile_log=str(log), use_store=False)
    finding = one(found, "compile-time")
    assert finding.title == "Compiling took 3.44 s"
    for text in ("4 compilations", "M.forward (0/0) 2.32 s", "first backward: 443 ms", "4 of 8 graphs"):
        assert text in finding.detail
    assert finding.severity == "info"
    # 48.960 + 30.559 + 26.796 + 28.408 ms: each compilation's last record states its sum so far
    assert "Writing the log itself is 135 ms of that (3.9 %)" in finding.detail


def test_an_empty_log_has_no_compile_time(tmp_path: Path) -> None:
    found = report_of(trace_of(tmp_path, [op("aten::sin", 0, 5)]), log=CompileLog())
    assert of(found, "compile-time") == []


def test_guards_are_handed_on_with_their_latency() -> None:
    links = link(kinetoscope.load(str(TRACES / "seed_breaks.trace.json.gz"), use_store=False))
    facts, warnings = facts_of(links, read_compile_log(LOGS / "seed_breaks.log.gz"))
    assert isinstance(facts, LogFacts)
    assert warnings == ()
    assert {key: (cost.count, cost.latency_ns) for key, cost in facts.guards.items()} == {
        "0/0": (87, 77_280),
        "1/0": (87, 79_600),
        "2/0": (87, 80_920),
        "3/0": (84, 65_270),
    }


def test_skipped_cuda_graphs_come_with_their_reasons(tmp_path: Path) -> None:
    where = capture(tmp_path / "c")
    skips = [
        {"reason": "skipping cudagraphs due to mutated inputs (1 instances)", "count": 3},
        {"reason": "skipping cudagraphs due to cpu device (arg0_1)", "count": 1},
        {"reason": None},
        "x",
    ]
    (where / "cudagraph_skips.json").write_text(json.dumps(skips))
    finding = one(report(where), "cuda-graph-skip")
    assert finding.title == "CUDA graphs were skipped 4 times"
    assert "mutated inputs (1 instances) (3 times)" in finding.detail
    assert "return the new value" in (finding.fix or "")
    assert "to the GPU" in (finding.fix or "")
