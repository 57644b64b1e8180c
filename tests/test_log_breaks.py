"""Graph breaks from logs alone, against the scenarios' table and the programs that wrote the logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kinetoscope.analyses.log_breaks import LogBreaks, log_breaks
from kinetoscope.ingest.compile_log import (
    BreakRecord,
    Compilation,
    CompileLog,
    SourceFrame,
    read_compile_log,
)
from kinetoscope.ingest.log_text import is_framework_file, is_stdlib_file, parse_break

LOGS = Path(__file__).parent / "traces" / "logs"
SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "traces"
SCENARIOS = SHARED / "cpu_scenarios" / "SCENARIOS.md"


def breaks(name: str) -> LogBreaks:
    return log_breaks(read_compile_log(LOGS / f"{name}.log.gz"))


def test_three_breaks_at_their_lines() -> None:
    found = breaks("seed_breaks")
    assert found.count == 3
    assert [(s.file, s.line, s.ordinal, s.function, s.kind) for s in found.sites] == [
        ("/home/user/workloads.py", line, None, "M.forward", "break") for line in (69, 71, 73)
    ]
    assert [s.region_ids for s in found.sites] == [("0/0", "1/0"), ("1/0", "2/0"), ("2/0", "3/0")]
    assert [s.continuation_ids for s in found.sites] == [("1/0",), ("2/0",), ("3/0",)]
    assert {s.reason for s in found.sites} == {"Call to `torch._dynamo.graph_break()`"}
    assert {s.gb_id for s in found.sites} == {"gb0025"}
    assert {s.code for s in found.sites} == {"torch._dynamo.graph_break()"}


def test_a_nested_break_is_one_site() -> None:
    (site,) = breaks("gb_nested").sites
    assert (site.kind, site.line, site.function) == ("break", 55, "inner")
    assert site.continuation_ids == ("3/0",)
    assert site.outer_continuation_ids == ("4/0", "5/0")
    assert site.region_ids == ("0/0", "1/0", "2/0", "3/0", "4/0", "5/0")


def test_a_break_in_a_loop_is_a_skipped_frame_at_its_function() -> None:
    found = breaks("gb_loop")
    assert found.count == 0
    (site,) = found.sites
    assert (site.kind, site.function, site.line) == ("skipped_frame", "f", 70)
    assert (site.cause_line, site.gb_id, site.skip_gb_id) == (73, "gb0025", "gb7000")
    assert site.skip_reason == "graph break in loop"


def test_a_break_inside_the_standard_library_is_at_the_line_that_called_it() -> None:
    def stopped_at(*inner: SourceFrame) -> BreakRecord:
        stack = (SourceFrame("/home/user/p.py", 8, "f", "json.dumps(x)"), *inner)
        at = stack[-1]
        return BreakRecord("0/0", 0, at.file, at.line, "no", None, (), None, False, None, None, stack)

    encoder = SourceFrame("/usr/lib/python3.11/json/encoder.py", 200, "encode", "chunks = ...")
    polyfill = SourceFrame("/v/site-packages/torch/_dynamo/polyfills/__init__.py", 505, "new", "obj = ...")
    optimizer = SourceFrame("/v/site-packages/torch/optim/optimizer.py", 79, "step", "...")
    item = Compilation(
        "0/0",
        0,
        None,
        1,
        "log",
        function="M.f",
        code_name="f",
        code_file="/home/user/p.py",
        code_line=5,
        produced_code=True,
        breaks=(
            stopped_at(encoder),
            stopped_at(encoder, polyfill),
            stopped_at(optimizer),
            stopped_at(optimizer, replace(polyfill, line=506)),
        ),
    )
    found = [
        (s.kind, s.file, s.line, s.ordinal, s.function, s.code, s.cause_line)
        for s in log_breaks(CompileLog(compilations=(item,))).sites
    ]
    mine = "/home/user/p.py", 8
    assert found == [
        ("break", *mine, 1, "f", "json.dumps(x)", 200),
        ("break", *mine, 2, "f", "json.dumps(x)", 505),
        ("framework", optimizer.file, 79, None, "step", "...", 79),
        ("framework", polyfill.file, 506, None, "new", "obj = ...", 506),
    ]


def test_a_limit_is_at_its_function() -> None:
    found = breaks("recompile_limit")
    assert found.count == 0
    (site,) = found.sites
    assert (site.kind, site.function, site.line, site.region_ids) == ("limit", "f", 202, ("0/2",))


def test_torchs_own_breaks_and_contextlib_under_them_are_the_frameworks() -> None:
    found = breaks("ddp_sequential_eager")
    assert found.count == 0
    assert [(s.kind, (s.file or "").rpartition("/")[2], s.line) for s in found.sites] == [
        ("framework", "distributed.py", 1757),
        ("framework", "contextlib.py", 105),
    ]
    assert {(s.user_file, s.user_line) for s in found.sites} == {("/home/user/exp.py", 308)}


def test_two_breaks_on_one_line_get_ordinals_and_a_helper_is_one_site() -> None:
    found = breaks("two_on_one_line")
    assert [(s.line, s.ordinal, s.function) for s in found.sites] == [
        (3, 1, "g"),
        (3, 2, "g"),
        (7, None, "helper"),
    ]
    assert found.count == 3
    assert found.sites[0].continuation_ids == ("1/0",)
    assert found.sites[1].continuation_ids == ("2/0",)


def test_a_break_that_the_log_ends_in_counts_by_its_own_words() -> None:
    log = read_compile_log(LOGS / "gb_loop.log.gz")
    unfinished = replace(log, compilations=(replace(log.compilations[0], produced_code=None),))
    assert [s.kind for s in log_breaks(unfinished).sites] == ["skipped_frame"]


@pytest.mark.parametrize(
    ("text", "reason", "gb_id", "skips"),
    [
        (
            "Graph break in user code at /a/b.py:12\n"
            "Reason: Unsupported: call_function BuiltinVariable(print)\n"
            'User code traceback:\n  File "/a/b.py", line 12, in f\n    print(x)\n',
            "Unsupported: call_function BuiltinVariable(print)",
            None,
            False,
        ),
        (
            "Graph break in user code at C:\\a b\\c.py:12\nGraph Break Reason: Data-dependent branching\n"
            "  Explanation: Detected it.\n  Hint: Use this.\n    and that\n  Hint: Or\n"
            " For more details about this graph break, please visit: https://x/gb/gb0170.html\n",
            "Data-dependent branching",
            "gb0170",
            False,
        ),
        ("", "not stated", None, False),
    ],
)
def test_texts_of_several_versions(text: str, reason: str, gb_id: str | None, skips: bool) -> None:
    found = parse_break(text, "0/0", 0)
    assert (found.reason, found.gb_id, found.skips) == (reason, gb_id, skips)
    if "C:" in text:
        assert (found.file, found.line) == ("C:\\a b\\c.py", 12)
        assert found.explanation == "Detected it."
        assert found.hints == ("Use this. and that", "Or")


def test_whose_file_it_is() -> None:
    assert is_framework_file("/usr/lib/python3.11/site-packages/torch/optim/adam.py")
    assert is_framework_file("C:\\py\\Lib\\site-packages\\torch\\_dynamo\\eval_frame.py")
    assert is_framework_file("/src/pytorch/torch/nn/modules/module.py", "/src/pytorch/torch/")
    assert not is_framework_file("/usr/lib/python3.11/site-packages/torchvision/models/resnet.py")
    assert not is_framework_file("/home/me/torch/model.py")
    assert is_stdlib_file("/usr/lib/python3.12/contextlib.py")
    assert is_stdlib_file("<frozen runpy>")
    assert not is_stdlib_file("/usr/lib/python3.12/site-packages/timm/layers.py")
    assert not is_stdlib_file("/home/me/lib/model.py")


def scenario_rows() -> list[list[str]]:
    if not SCENARIOS.is_file():
        return []
    rows = [
        [c.strip() for c in line.strip().strip("|").split("|")] for line in SCENARIOS.read_text().split("\n")
    ]
    return [r for r in rows if len(r) == 7 and r[0] != "scenario" and not r[0].startswith("-")]


@pytest.mark.skipif(not SCENARIOS.is_file(), reason="the shared scenarios are not beside the checkout")
def test_every_scenario_has_the_tables_breaks_skips_and_limits() -> None:
    rows = scenario_rows()
    assert len(rows) == 25
    for name, lines, framework, skips, _, limits, _ in rows:
        found = log_breaks(read_compile_log(SHARED / "cpu_scenarios" / name / "compile_log"))
        skipped = found.of_kind("skipped_frame")
        met = [str(s.line) for s in found.of_kind("break")] + [str(s.cause_line) for s in skipped]
        assert met == ([] if lines == "-" else lines.split(", ")), name
        assert len(skipped) == (0 if skips == "-" else int(skips)), name
        assert bool(found.of_kind("limit")) == (limits != "-"), name
        theirs = sorted(f"{s.file}:{s.line}" for s in found.of_kind("framework"))
        expected = [] if framework == "-" else sorted(framework.split(", "))
        assert len(theirs) == len(expected), name
        for mine in expected:
            assert any(place.endswith("/" + mine) for place in theirs), (name, mine)


def test_a_record_is_a_value() -> None:
    record = parse_break("", "0/0", 1)
    assert record == BreakRecord("0/0", 1, None, None, "not stated", None, (), None, False, None, None, ())
