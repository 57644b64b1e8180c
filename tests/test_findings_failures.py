"""Compilations that failed: which, where, with what error, and what of the same function still runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from helpers import Event, note, op, region, trace_of
from kinetoscope.findings.log_failures import error_of
from kinetoscope.ingest.log_text import parse_failure
from kinetoscope.ingest.log_types import Compilation, CompileLog, SourceFrame
from kinetoscope.render.as_text import render
from kinetoscope.reporting import report_of
from kinetoscope.schema import Finding, Report

WRAPPED = "a and b must have same reduction dim, but got [16, s50] X [32, 32]."
#: torch 2.13, of a compiled nn.Sequential that gets an input of another width
FAKE = (
    "RuntimeError when making fake tensor call\n"
    "  Explanation: Dynamo failed to run FX node with fake tensors: call_function <built-in function linear>"
    f"(*(FakeTensor(..., size=(16, s50)),), **{{}}): got RuntimeError('{WRAPPED}')\n"
    "  Hint: Your code may result in an error when running in eager.\n\n"
    " For more details about this graph break, please visit: https://meta-pytorch.github.io/gb/gb4315.html"
)
CALL = SourceFrame("train.py", 6, "<module>", "net(x)")


def compiled(compile_id: str, **more: object) -> Compilation:
    """The forward of a module, which Dynamo sees as a function of torch's own."""
    plain = Compilation(
        id=compile_id,
        generation=0,
        rank=None,
        pid=1,
        source="log",
        function="Sequential.forward",
        file="train.py",
        line=4,
        code_name="inner",
        code_file="external_utils.py",
        code_line=67,
        user_call=replace(CALL, line=4),
        produced_code=True,
        ops=3,
        guards=5,
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def failed(compile_id: str, reason: str = FAKE, **more: object) -> Compilation:
    """An attempt that failed: torch does not say of which class the module is."""
    record = parse_failure(reason, compile_id, 0, "linear.py", 134)
    given = {"function": "<module>", "line": 6, "user_call": CALL, "ops": None, "guards": None, **more}
    return compiled(compile_id, produced_code=False, fail_reason=reason, breaks=(record,), **given)


def reported(tmp_path: Path, *compilations: Compilation, calls: int = 16) -> Report:
    """Of a trace with a step for each of these calls of region 0/0."""
    events: list[Event] = [op("aten::randn", 0, 5)]
    for number in range(calls):
        at = 100 * number + 10
        events += [note(f"ProfilerStep#{number}", at, 100), region("0/0", at + 10, 50)]
    return report_of(trace_of(tmp_path, events), log=CompileLog(compilations=compilations))


def one(found: Report) -> Finding:
    (finding,) = [finding for finding in found.findings if finding.code == "skipped-frame"]
    return finding


def test_another_width_fails_and_the_first_compilation_runs_on(tmp_path: Path) -> None:
    found = reported(tmp_path, compiled("0/0"), failed("0/1"))
    finding = one(found)
    assert finding.title == "Compiling Sequential.forward again failed (0/1)"
    assert "Sequential.forward (called at train.py:6) could not be compiled again" in finding.detail
    assert "at linear.py:134" in finding.detail
    assert f"The error of 0/1: RuntimeError: {WRAPPED} s50 is a size" in finding.detail
    assert "(0/0) stays, and ran 16 times in this window" in finding.detail
    assert "without compiled code" not in finding.detail
    text = " ".join(render(found, width=100, color=False).split())
    assert "got [16, s50] X [32, 32]" in text


def test_a_compilation_after_the_one_that_failed_is_no_second_try(tmp_path: Path) -> None:
    finding = one(reported(tmp_path, failed("0/0"), compiled("0/1")))
    assert finding.title == "Compiling Sequential.forward failed (0/0)"
    assert "again" not in finding.detail
    # the trace's regions are 0/0 alone
    assert "(0/1) stays, and did not run in this window" in finding.detail


def test_where_only_the_call_is_known_it_stands_for_the_function(tmp_path: Path) -> None:
    finding = one(reported(tmp_path, failed("0/0"), calls=0))
    assert finding.title == "what train.py:6 calls is not compiled: compiling it failed"
    assert "<module>" not in finding.detail
    assert "it does so without compiled code" in finding.detail


def test_different_errors_of_one_function_are_all_told(tmp_path: Path) -> None:
    other = "backend='inductor' raised:\nValueError: no such thing\nand more"
    finding = one(reported(tmp_path, compiled("0/0"), failed("0/1"), failed("0/2", other)))
    assert finding.title == "Compiling Sequential.forward again failed (0/1 and 0/2)"
    assert WRAPPED in finding.detail
    assert "backend='inductor' raised: ValueError: no such thing." in finding.detail
    assert "and more" not in finding.detail


def test_a_module_elsewhere_is_another_function(tmp_path: Path) -> None:
    finding = one(reported(tmp_path, compiled("0/0"), failed("1/0")))
    assert finding.title == "what train.py:6 calls is not compiled: compiling it failed"


def test_nothing_compiled_and_a_failure_are_told_apart_from_a_skip(tmp_path: Path) -> None:
    own = {"function": "f", "line": 2, "user_call": None}
    found = reported(tmp_path, failed("0/0", **own), calls=0)
    (whole,) = [finding for finding in found.findings if finding.code == "not-compiled"]
    assert whole.detail.startswith("The compile log says that compiling f failed.")


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        (FAKE, f"RuntimeError: {WRAPPED}"),
        ('A title\n  Explanation: x: got ValueError("it\'s\\nlong")\n', "ValueError: it's"),
        ("A title\n  Explanation: nothing is wrapped here\n", "A title"),
        ("Failed running call_function mm(*(1, 2)):\na and b differ\nfrom here", None),
        ("", "not stated"),
    ],
)
def test_the_line_that_says_what_went_wrong(reason: str, error: str | None) -> None:
    assert error_of(reason) == (error or "Failed running call_function mm(*(1, 2)): a and b differ")
