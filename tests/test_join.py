"""A trace and its compile log together: names, breaks, hits, graphs, source lines, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import kinetoscope
from helpers import TRACES, trace_of
from kinetoscope.ingest.compile_log import CompileLog, read_compile_log
from kinetoscope.link import link
from kinetoscope.link.logs import LogLinks
from kinetoscope.reporting import analyse, report_of
from kinetoscope.schema import Report

WARM = TRACES / "warm"
LOGS = TRACES / "logs"


def joined(name: str, trace: Path | None = None) -> Report:
    trace = trace or WARM / f"{name}.json.gz"
    return analyse([str(trace)], compile_log=str(LOGS / f"{name}.log.gz"), use_store=False)


@pytest.fixture(scope="module")
def breaks() -> Report:
    return joined("seed_breaks", TRACES / "seed_breaks.trace.json.gz")


def test_regions_have_the_names_of_the_program(breaks: Report) -> None:
    found = {r.id: (r.function, r.file, r.line, r.resumes) for r in breaks.regions}
    file = "/home/user/workloads.py"
    assert found == {
        "0/0": ("M.forward", file, 67, None),
        "1/0": ("M.forward", file, 69, "0/0"),
        "2/0": ("M.forward", file, 71, "1/0"),
        "3/0": ("M.forward", file, 73, "2/0"),
    }


def test_breaks_are_exact_with_hits_and_cost(breaks: Report) -> None:
    found = breaks.graph_breaks
    assert (found.count, found.bound, found.source) == (3, "exact", "log")
    sites = sorted(found.sites, key=lambda site: site.line or 0)
    assert [(s.line, s.hits, s.gb_id, s.kind) for s in sites] == [
        (line, 3, "gb0025", "break") for line in (69, 71, 73)
    ]
    trace_alone = report_of(kinetoscope.load(str(TRACES / "seed_breaks.trace.json.gz"), use_store=False))
    # the log spreads the same CPU time over its sites; each is rounded to a step of its own
    ours = sum(s.cost_ns_per_step or 0 for s in sites)
    theirs = sum(s.cost_ns_per_step or 0 for s in trace_alone.graph_breaks.sites)
    assert abs(ours - theirs) <= 3
    costs = [s.cost_ns_per_step for s in found.sites]
    assert costs == sorted(costs, key=lambda cost: -(cost or 0))


def test_kernels_have_the_lines_of_every_region_that_ran_them(breaks: Report) -> None:
    assert breaks.kernels is not None
    generated = [k for k in breaks.kernels.top if k.origin == "inductor_triton"]
    assert len(generated) == 4
    for kernel in generated:
        assert sorted(line.line or 0 for line in kernel.source) == [68, 70, 72, 74], kernel.name
        assert kernel.source_state == "exact"
    assert all(not k.source and k.source_state is None for k in breaks.kernels.top if k not in generated)


def test_graphs_come_by_compile_id(breaks: Report) -> None:
    assert [(g.id, g.ops, g.kernels, g.guards, g.backend) for g in breaks.graphs] == [
        ("0/0", 4, 4, 87, "inductor"),
        ("1/0", 4, 4, 87, "inductor"),
        ("2/0", 4, 4, 87, "inductor"),
        ("3/0", 4, 4, 84, "inductor"),
    ]
    assert [g.cuda_graph for g in breaks.graphs] == [False] * 4
    assert breaks.graphs[0].guard_ns == 77_280


def test_compile_time_is_the_logs(breaks: Report) -> None:
    found = breaks.compile_time
    assert (found.source, found.in_window_ns) == ("log", 0)
    assert found.total_ns == 3_435_902_750
    assert (found.caches.fx_hit, found.caches.fx_miss, found.caches.aot_miss) == (4, 4, 4)
    (first, *_) = found.frames
    assert (first.id, first.function, first.line) == ("0/0", "M.forward", 67)
    assert sum(phase.self_ns for phase in first.phases) == first.total_ns
    assert any(phase.name.endswith(" (backward)") for phase in first.phases)


def test_one_nested_break_is_one_site_passed_once() -> None:
    report = joined("gb_nested")
    (site,) = report.graph_breaks.sites
    assert (site.line, site.hits, site.kind) == (55, 1, "break")
    assert {r.id: (r.function, r.resumes) for r in report.regions} == {
        "0/0": ("f", None),
        "1/0": ("mid", None),
        "2/0": ("inner", None),
        "3/0": ("inner", "2/0"),
        "4/0": ("mid", "1/0"),
        "5/0": ("f", "0/0"),
    }
    # without the log, five nested regions look like five breaks
    alone = analyse([str(WARM / "gb_nested.json.gz")], use_store=False)
    assert (alone.graph_breaks.count, alone.graph_breaks.bound) == (5, "estimate")


def test_a_skipped_frame_leaves_nothing_in_the_trace_and_stands_in_the_report() -> None:
    report = joined("gb_loop")
    assert report.compiled.verdict == "no"
    assert report.graph_breaks.count == 0
    (site,) = report.graph_breaks.sites
    assert (site.kind, site.function, site.line, site.hits) == ("skipped_frame", "f", 70, None)
    assert any("f ran eagerly" in sentence for sentence in report.compiled.evidence)


def test_a_limit_makes_the_verdict_partly() -> None:
    report = joined("recompile_limit")
    assert report.compiled.verdict == "partly"
    assert (report.recompiles.count, report.recompiles.source) == (1, "log")
    (site,) = report.recompiles.sites
    assert (site.function, site.line, site.ids) == ("f", 202, ["0/1"])
    assert site.reasons == ["the size of tensor x in dimension 0 was 8 and is now 9"]
    assert [(s.kind, s.line) for s in report.graph_breaks.sites] == [("limit", 202)]


def test_a_break_whose_continuation_leaves_no_region_was_passed_all_the_same() -> None:
    report = joined("compiled_autograd")
    (site,) = report.graph_breaks.sites
    assert (site.line, site.hits, site.cost_ns_per_step) == (286, 1, None)
    assert next(r for r in report.regions if r.id.startswith("!")).function == "compiled autograd"


def test_breaks_of_the_framework_are_apart_and_modules_show_their_class() -> None:
    report = joined("ddp_sequential_eager")
    assert report.graph_breaks.count == 0
    assert {s.kind for s in report.graph_breaks.sites} == {"framework"}
    outer = next(r for r in report.regions if r.id == "0/0")
    assert (outer.function, outer.line) == ("DistributedDataParallel.forward", 308)


def test_regions_without_an_operator_are_no_compiled_code() -> None:
    """torch counted no captured graph in this program: its functions are left before any operator."""
    report = joined("ddp_sequential_eager")
    assert report.compiled.verdict == "no"
    assert "no operator is in any of these regions" in report.compiled.evidence[-1]
    (finding,) = [f for f in report.findings if f.code == "not-compiled"]
    assert "before their first operator, at " in finding.detail
    assert "contextlib.py:105" in finding.detail


def test_what_a_disabled_function_compiles_is_no_break() -> None:
    report = joined("disabled_inside")
    (site,) = report.graph_breaks.sites
    assert (site.line, site.hits, site.regions) == (152, 1, ["0/0", "1/0"])


def test_regional_compilation_has_no_break() -> None:
    report = joined("regional")
    assert (report.graph_breaks.count, report.graph_breaks.sites) == (0, [])
    assert {(r.id, r.function, r.calls) for r in report.regions} == {
        ("0/0", "Blk.forward", 1),
        ("0/1", "Blk.forward", 3),
    }


def test_a_windowed_report_counts_hits_of_the_window() -> None:
    from kinetoscope.window import WindowSpec

    path = str(TRACES / "seed_breaks.trace.json.gz")
    log = str(LOGS / "seed_breaks.log.gz")
    report = analyse([path], compile_log=log, window=WindowSpec(steps=(1, 1)), use_store=False)
    assert [site.hits for site in report.graph_breaks.sites] == [1, 1, 1]


def test_a_log_of_something_else_is_left_out_and_that_is_said() -> None:
    for log, why in (("gb_loop", "none of the trace's compiled graphs"), ("training", "begins after")):
        report = joined(log, TRACES / "seed_breaks.trace.json.gz")
        assert report.graph_breaks.source == "trace"
        (warning,) = report.trace.warnings
        assert (warning.code, why in warning.message) == ("compile-log-mismatch", True), warning.message
    links = link(kinetoscope.load(str(TRACES / "seed_breaks.trace.json.gz"), use_store=False))
    assert LogLinks(links, CompileLog()).mismatch == "the log has none of the trace's compiled regions"


def test_a_log_that_begins_after_the_trace_is_left_out() -> None:
    trace = kinetoscope.load(str(TRACES / "seed_breaks.trace.json.gz"), use_store=False)
    log = read_compile_log(LOGS / "seed_breaks.log.gz")
    later = tuple(replace(c, start_ns=(c.start_ns or 0) + 10**12) for c in log.compilations)
    mismatch = LogLinks(link(trace), replace(log, compilations=later)).mismatch
    assert mismatch == "the log begins after the trace ends"
    assert LogLinks(link(trace), log).mismatch is None


def test_without_an_epoch_in_the_trace_the_log_still_joins(tmp_path: Path) -> None:
    from helpers import op, region

    events = [region("0/0", 0, 100), region("1/0", 20, 60), op("aten::sin", 1, 5)]
    trace = trace_of(tmp_path, events)
    join = LogLinks(link(trace), read_compile_log(LOGS / "seed_breaks.log.gz"))
    assert join.epoch_offset_ns is None
    assert join.of_region_call.tolist() == [0, 1]
    report = report_of(trace, log=join.log)
    assert report.compile_time.in_window_ns == 0
    assert [s.hits for s in report.graph_breaks.sites if s.line == 69] == [1]


def test_an_id_that_came_twice_is_the_last_that_ended_before_the_call() -> None:
    trace = kinetoscope.load(str(WARM / "regional.json.gz"), use_store=False)
    links = link(trace)
    log = read_compile_log(LOGS / "regional.log.gz")
    (first, second) = log.compilations
    again = replace(first, start_ns=(first.start_ns or 0) + 1, end_ns=(second.end_ns or 0) + 1)
    too_late = replace(first, end_ns=2 * (first.end_ns or 0))
    both = replace(log, compilations=(first, second, again, too_late))
    join = LogLinks(links, both)
    ran = {
        label: set(join.of_region_call[links.regions.calls.label == number].tolist())
        for number, label in enumerate(links.regions.calls.labels)
    }
    assert ran == {"0/0": {2}, "0/1": {1}}


def test_an_empty_log_means_that_nothing_was_compiled(tmp_path: Path) -> None:
    from helpers import op

    report = report_of(trace_of(tmp_path, [op("aten::sin", 0, 5)]), log=CompileLog())
    assert report.compiled.verdict == "no"
    assert (report.graph_breaks.count, report.graph_breaks.bound) == (0, "exact")
    assert (report.recompiles.count, report.recompiles.source) == (0, "log")
    assert (report.compile_time.total_ns, report.compile_time.source) == (0, "log")
    finding = next(f for f in report.findings if f.code == "not-compiled")
    assert "no compilation" in finding.detail
