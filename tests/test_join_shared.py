"""The join on every measured scenario and capture that is beside the checkout."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import kinetoscope
from helpers import NO_SHARED, SHARED
from kinetoscope.analyses.joined_kernels import KernelPlaces
from kinetoscope.analyses.kernels import kernels
from kinetoscope.findings.log_facts import LogFacts
from kinetoscope.ingest.compile_log import read_compile_log
from kinetoscope.link import link
from kinetoscope.reporting import analyse, facts_of
from kinetoscope.schema import Report

SCENARIOS = SHARED / "traces" / "cpu_scenarios"
GPU = SHARED / "traces" / "gpu"
HAS = (SCENARIOS / "SCENARIOS.md").is_file() and GPU.is_dir()
pytestmark = pytest.mark.skipif(not HAS, reason=NO_SHARED)

#: how often each kind of trace calls the scenario's function
CALLS = {"cold": 2, "warm": 1, "warm_stack": 1}


def rows() -> list[list[str]]:
    if not HAS:
        return []
    lines = (SCENARIOS / "SCENARIOS.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    return [row for row in cells if len(row) == 7 and row[0] != "scenario" and not row[0].startswith("-")]


def logged() -> list[Path]:
    return sorted(path.parent for path in GPU.glob("*/compile_log")) if HAS else []


@pytest.mark.parametrize("kind", sorted(CALLS))
@pytest.mark.parametrize("row", rows(), ids=lambda row: str(row[0]))
def test_a_scenario_has_its_breaks_at_their_lines(row: list[str], kind: str) -> None:
    name, breaks, framework, skips, _, limits, regions = row
    path = SCENARIOS / name
    report = analyse([str(path / f"{kind}.json.gz")], compile_log=str(path / "compile_log"), use_store=False)
    found = report.graph_breaks
    assert (found.source, found.bound) == ("log", "exact")
    sites = {
        kind: [s for s in found.sites if s.kind == kind] for kind in ("break", "skipped_frame", "framework")
    }
    skipped = 0 if skips == "-" else int(skips)
    # a break that gave up its function is listed in the table by its line, in the report by its function
    expected = [] if breaks == "-" else [int(line) for line in breaks.split(", ")]
    assert [s.line for s in sites["break"]] == ([] if skipped else expected)
    assert found.count == len(sites["break"])
    assert len(sites["skipped_frame"]) == skipped
    places = [] if framework == "-" else framework.split(", ")
    theirs = [f"{s.file}:{s.line}" for s in sites["framework"]]
    assert len(theirs) == len(places)
    assert all(any(mine.endswith(f"/{place}") for mine in theirs) for place in places)
    assert any(s.kind == "limit" for s in found.sites) == (limits != "-")
    assert [s.hits for s in (*sites["break"], *sites["framework"])] == [CALLS[kind]] * (
        len(sites["break"]) + len(places)
    )
    for region in report.regions:
        assert None not in (region.function, region.file, region.line), region.id
        assert not (region.file or "").endswith("external_utils.py")
    # torch's own count of the graphs that it captured
    graphs = (json.loads((path / "counters.json").read_text()).get("stats") or {}).get("unique_graphs", 0)
    assert (report.compiled.verdict == "no") == (graphs == 0), report.compiled.evidence
    if kind == "warm":
        seen = ", ".join(f"{r.id} x{r.calls}" for r in sorted(report.regions, key=lambda r: r.id)) or "none"
        assert seen == ", ".join(sorted(regions.split(", ")))
    assert not [w for w in report.trace.warnings if w.code.startswith(("compile-log", "log-"))]


@pytest.mark.parametrize("path", logged(), ids=lambda path: str(path.name))
def test_a_capture_joins(path: Path) -> None:
    report = analyse([str(path)], use_store=False)
    for one in report.ranks or [report]:
        assert one.graph_breaks.source == "log"
        assert one.regions
        for region in one.regions:
            assert None not in (region.function, region.file, region.line), region.id
            assert not (region.file or "").endswith("external_utils.py")
        assert {g.id for g in one.graphs} <= {f.id for f in one.compile_time.frames}
        assert not [w for w in one.trace.warnings if w.code.startswith(("compile-log", "log-"))]


def test_the_three_breaks_of_seed_breaks() -> None:
    for name in ("seed_breaks", "breaks_nograd"):
        report = analyse([str(GPU / name)], use_store=False)
        sites = sorted(report.graph_breaks.sites, key=lambda site: site.line or 0)
        assert [(Path(s.file or "").name, s.line, s.hits) for s in sites] == [
            ("workloads.py", line, 3) for line in (69, 71, 73)
        ]


@pytest.mark.parametrize("name", ["pair_breaks_infer", "pair_breaks_train"])
def test_breaks_that_a_reset_left_behind_are_not_passed(name: str) -> None:
    """One process, its log of both halves: eight calls with three breaks, a reset, eight without."""
    report = analyse([str(GPU / name)], use_store=False)
    assert report.ranks is not None
    hits = [sorted((s.line, s.hits) for s in one.graph_breaks.sites) for one in report.ranks]
    assert sorted(hits) == [[(line, n) for line in (43, 45, 47)] for n in (0, 8)]


@pytest.mark.parametrize(("name", "unknown"), [("seed_resnet", 9), ("gpt_train", 0), ("gpt_decode", 0)])
def test_every_generated_kernel_has_its_code_and_its_lines(name: str, unknown: int) -> None:
    """Also the replayed ones. Without source nodes in the log there is no line, and the consumer is named."""
    links = link(kinetoscope.load(str(GPU / name / "trace.json.gz"), use_store=False))
    facts, _ = facts_of(links, read_compile_log(GPU / name / "compile_log"))
    assert isinstance(facts, LogFacts)
    work = facts.work
    pieces = np.flatnonzero(work.of("inductor_triton"))
    assert len(pieces) == {"seed_resnet": 528, "gpt_train": 1424, "gpt_decode": 380}[name]
    without = set()
    for number in np.unique(links.trace.columns.name[work.rows[pieces]]).tolist():
        mine = pieces[links.trace.columns.name[work.rows[pieces]] == number]
        for place in facts.places.of(mine):
            kernel = links.trace.names[number]
            source = place.source
            assert place.compilation is not None, kernel
            assert source is not None, kernel
            assert f"def {kernel}(" in (source.code or ""), kernel
            if source.sources:
                assert source.source_state == "exact", kernel
            else:
                assert (source.source_state, source.consumer is not None) == (None, True), kernel
                without.add(kernel)
    assert len(without) == unknown
    every = kernels(links, work, top=10_000)
    assert every is not None
    named = LogFacts.joined(facts, facts.join).kernels
    assert named is not None
    for top in named.top:
        if top.origin == "inductor_triton" and not top.source:
            assert (top.source_state, top.op) == (None, "convolution")


def test_lines_of_kernels_are_lines_of_the_program() -> None:
    """Against the program that made the captures: what stands at the lines computes what the name says."""
    text = (SHARED / "programs" / "gpu" / "workloads.py").read_text().splitlines()
    report = analyse([str(GPU / "gpt_decode")], use_store=False)
    assert report.kernels is not None
    checked = 0
    for top in report.kernels.top:
        if top.origin != "inductor_triton":
            continue
        lines = [
            text[(line.line or 1) - 1] for line in top.source if (line.file or "").endswith("workloads.py")
        ]
        if "gelu" in top.name:
            assert any("s.f(" in line for line in lines), top.name
            checked += 1
        if "embedding" in top.name:
            assert any("s.e(" in line for line in lines), top.name
            checked += 1
    assert checked >= 4


@pytest.mark.parametrize("name", ["seed_compile", "straggler"])
def test_compile_time_in_the_window_is_the_traces_own(name: str) -> None:
    """Two clocks, two recorders: the log's events and the profiler's spans agree to a fifth of a percent."""
    report = analyse([str(GPU / name)], use_store=False)
    one: Report = (report.ranks or [report])[-1]
    trace = GPU / name / ("trace.json.gz" if name == "seed_compile" else "rank1.trace.json.gz")
    alone = analyse([str(trace)], use_store=False).compile_time.in_window_ns
    assert one.compile_time.in_window_ns == pytest.approx(alone, rel=0.002)


def test_each_rank_has_its_own_recompilations() -> None:
    report = analyse([str(GPU / "straggler")], use_store=False)
    assert report.ranks is not None
    assert [rank.recompiles.count for rank in report.ranks] == [0, 2]
    reasons = [reason for site in report.ranks[1].recompiles.sites for reason in site.reasons]
    assert all(re.search(r"dimension 1 was 128 and is now 160$", reason) for reason in reasons)


def test_an_unlaunched_kernel_of_the_users_is_not_given_a_graphs_lines() -> None:
    links = link(kinetoscope.load(str(GPU / "user_triton" / "trace.json.gz"), use_store=False))
    facts, _ = facts_of(links, read_compile_log(GPU / "user_triton" / "compile_log"))
    assert isinstance(facts, LogFacts)
    places: KernelPlaces = facts.places
    pieces = np.flatnonzero(facts.work.of("user_triton"))
    found = {place.compilation is not None: place for place in places.of(pieces)}
    assert found[False].source is None
    assert found[True].source is not None
    assert {len(place.pieces) for place in found.values()} == {5}
