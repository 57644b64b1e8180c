"""Findings: when each is made, what it costs, what it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope.findings import Facts, find, ranked
from kinetoscope.link import Links
from kinetoscope.schema import BreakSite, Finding, GraphBreaks
from small_trace import GRAPH, kernel, launch, links_of, links_of_shared, op, region, steps

TRITON = "triton_poi_fused_add_0"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"
SUM = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, sum_functor<float> > >(int)"


def findings(links: Links) -> dict[str, Finding]:
    found = find(Facts.of(links))
    assert len({finding.code for finding in found}) == len(found)
    return {finding.code: finding for finding in found}


def shared(name: str) -> dict[str, Finding]:
    return findings(links_of_shared(name))


# --- captures and cases ---


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("traces/gpu/resnet_eager/trace.json.gz", {"not-compiled"}),
        ("traces/gpu/breaks_nograd/trace.json.gz", {"graph-break"}),
        ("traces/gpu/seed_resnet/trace.json.gz", {"eager-kernels", "fallback-op"}),
        ("traces/public/tracelens/b200_eager.json.gz", {"eager-kernels"}),
        ("traces/public/tracelens/mi300_torch_compile_triton.json.gz", set()),
        ("traces/public/tracelens/mi210_gpu_only.json.gz", set()),
        ("cases/R05_truncated_plain.json", {"trace-incomplete"}),
        ("cases/R25_no_gpu_events.json", {"device-events-missing"}),
        ("cases/R32_gpu_only.json", set()),
        ("cases/R39_graph_breaks.json", {"possible-break", "eager-kernels"}),
        ("cases/R40_compile_in_window.json", {"compile-in-window"}),
    ],
)
def test_which_findings(name: str, codes: set[str]) -> None:
    # those that rest on the replay of the steps: see test_replay_findings.py
    replayed = {"launch-bound", "sync", "host-copy", "guard-overhead", "small-kernels", "gpu-bound"}
    assert set(shared(name)) - replayed == codes


def test_a_program_that_is_not_compiled_hears_it_first() -> None:
    links = links_of_shared("traces/gpu/resnet_eager/trace.json.gz")
    first = find(Facts.of(links))[0]
    assert (first.code, first.severity, first.cost_ns_per_step) == ("not-compiled", "high", None)
    assert "1,233 kernels ran eagerly, 6.77 ms in all" in first.detail


def test_missing_device_events_of_cuda() -> None:
    found = shared("cases/R25_no_gpu_events.json")["device-events-missing"]
    assert "10 launches and 0 device events" in found.detail
    assert "CUPTI" in found.detail
    assert [event.dur_ns for event in found.evidence] == [5_000] * 5


def test_adjacent_regions_may_be_breaks() -> None:
    found = shared("cases/R39_graph_breaks.json")["possible-break"]
    assert found.severity == "info"
    assert found.title.startswith("2 boundaries a step")
    assert found.cost_ns_per_step == 400_000  # 200 us before 1/0 and 200 us before 2/0


def test_compilation_in_the_window_is_a_union() -> None:
    found = shared("cases/R40_compile_in_window.json")["compile-in-window"]
    assert found.cost_ns_per_step == 850_000_000
    assert found.share == pytest.approx(0.85)
    assert "2 compilations cover 850 ms (85 % of the 1.00 s recorded)" in found.detail
    assert [event.dur_ns for event in found.evidence] == [750_000_000, 100_000_000]


def test_a_cut_file_is_incomplete_and_its_lost_kernel_is_not_called_lost() -> None:
    found = shared("cases/R05_truncated_plain.json")["trace-incomplete"]
    assert "1 launch without a device event: put down to the missing end" in found.detail


def test_a_collective_that_waits_for_its_peers() -> None:
    found = shared("cases/R46_collective_skew.json")["straggler"]
    assert found.severity == "info"  # at the start of the window: the profilers started apart
    assert "The longest took 17.5 s; the usual one of its name takes 14.0 us" in found.detail
    assert "98.0 us without" in found.detail


def test_the_rank_that_waits_and_the_rank_that_compiles() -> None:
    waits = shared("traces/gpu/straggler/rank0.trace.json.gz")
    compiles = shared("traces/gpu/straggler/rank1.trace.json.gz")
    assert "straggler" in waits
    assert "straggler" not in compiles
    assert "compile-in-window" in compiles
    assert "compile-in-window" not in waits


def test_gradient_accumulation_is_named() -> None:
    found = shared("traces/gpu/seed_breaks/trace.json.gz")["eager-kernels"]
    assert found.title == "54 kernels ran eagerly"
    assert "48 (" in found.detail
    assert "AccumulateGrad" in found.detail
    assert found.cost_ns_per_step == round(57278 / 3)
    assert found.fix is not None
    assert "zero_grad(set_to_none=True)" in found.fix


def test_copies_of_the_backward_wrapper_are_told_as_such() -> None:
    found = shared("traces/gpu/seed_breaks/trace.json.gz")["fallback-op"]
    assert "3 are copies that the code around a graph makes" in found.detail
    assert found.cost_ns_per_step == round(3680 / 3)


def test_old_kernel_names_are_asked_for() -> None:
    found = shared("traces/public/sam_fast/compiled.json.gz")["kernel-names"]
    assert "976 of the 976 kernels" in found.detail


def test_every_finding_of_every_capture_is_well_formed() -> None:
    for name in ("seed_breaks", "gpt_train", "gpt_decode", "seed_compile", "big", "cpu_inductor"):
        for finding in shared(f"traces/gpu/{name}/trace.json.gz").values():
            text = f"{finding.title} {finding.detail} {finding.fix}"
            assert "!" not in text
            assert "None" not in text
            assert finding.doc == f"docs/findings.md#{finding.code}"
            assert finding.share is None or 0 <= finding.share <= 1
            assert finding.basis == "profiled"


# --- small traces ---


def test_no_launch_no_missing_events(tmp_path: Path) -> None:
    assert "device-events-missing" not in findings(links_of(tmp_path, op("aten::add", 0, 9)))


@pytest.mark.parametrize(
    ("call", "device"),
    [("hipLaunchKernel", "AMD Instinct MI300X"), ("urEnqueueKernelLaunch", None)],
)
def test_other_devices_do_not_hear_of_cuda(tmp_path: Path, call: str, device: str | None) -> None:
    cat = "xpu_runtime" if call.startswith("ur") else "cuda_runtime"
    events = [op(call, 10 * n, 5, cat, correlation=n) for n in range(1, 9)]
    header: dict[str, Any] = {"deviceProperties": [{"id": 0, "name": device}]} if device else {}
    found = findings(links_of(tmp_path, events, **header))["device-events-missing"]
    assert not [word for word in ("CUDA", "CUPTI") if word in f"{found.detail} {found.fix}"]


def test_some_missing_events_are_a_smaller_matter(tmp_path: Path) -> None:
    events = [op("aten::add", 0, 1000)]
    for number in range(1, 21):
        events += [launch(number, 10 * number)]
        events += [kernel(ADD, number, 10 * number + 5, 2)] if number <= 16 else []
    found = findings(links_of(tmp_path, events))["device-events-missing"]
    assert found.severity == "low"
    assert "4 launches of 20 (20 %)" in found.detail


def compiled_step(start: float) -> list[dict[str, Any]]:
    """A step of 100 us: a graph that runs one generated kernel of 10 us."""
    number = int(start) + 1
    return [
        region("0/0", start + 10, 50),
        op(GRAPH, start + 20, 30),
        launch(number, start + 25, name="cuLaunchKernel"),
        kernel(TRITON, number, start + 30, 10),
    ]


def test_eager_kernels_by_place(tmp_path: Path) -> None:
    events = [*steps(1, 100), *compiled_step(0)]
    events += [op("aten::sum", 62, 6), launch(2, 63), kernel(SUM, 2, 64, 4)]
    events += [op("torch::autograd::AccumulateGrad", 70, 8), op("aten::add_", 71, 6)]
    events += [launch(3, 72), kernel(ADD, 3, 74, 2)]
    events += [op("Optimizer.step#SGD.step", 80, 15, "user_annotation"), op("aten::mul_", 82, 10)]
    events += [launch(4, 84), kernel(ADD, 4, 86, 3)]
    found = findings(links_of(tmp_path, events))["eager-kernels"]
    assert found.cost_ns_per_step == 9_000
    assert found.share == pytest.approx(0.09)
    assert found.severity == "medium"
    places = [
        "1 (4.00 us) in code outside",
        "1 (3.00 us) in optimizer steps",
        "1 (2.00 us) storing or adding",
    ]
    said_at = [found.detail.index(place) for place in places]
    assert said_at == sorted(said_at)  # most costly first


def test_work_before_the_steps_is_no_cost_of_a_step(tmp_path: Path) -> None:
    set_up = [op("aten::randn", 0, 50), launch(9, 10), kernel(ADD, 9, 20, 30)]
    later = [dict(event, ts=event["ts"] + 1000) for event in [*steps(1, 100), *compiled_step(0)]]
    assert "eager-kernels" not in findings(links_of(tmp_path, set_up, later))


def test_a_fallback_inside_the_graph(tmp_path: Path) -> None:
    events = [*steps(1, 100), *compiled_step(0), op("aten::sort", 40, 8), launch(5, 42)]
    events += [kernel("void sort_kernel<int>(int)", 5, 70, 20)]
    found = findings(links_of(tmp_path, events))["fallback-op"]
    assert (found.cost_ns_per_step, found.severity) == (20_000, "high")
    assert found.detail.startswith("aten::sort: 20.0 us a step (20 %)")
    assert "copies" not in found.detail


def test_compilation_before_the_steps_costs_no_step(tmp_path: Path) -> None:
    phase = op("_compile.compile_inner (dynamo_timed)", 0, 900)
    later = [dict(event, ts=event["ts"] + 1000) for event in [*steps(1, 100), *compiled_step(0)]]
    found = findings(links_of(tmp_path, phase, later))["compile-in-window"]
    assert (found.cost_ns_per_step, found.severity) == (None, "high")


def test_phases_of_one_name_are_added_up(tmp_path: Path) -> None:
    phase = "_compile.compile_inner (dynamo_timed)"
    times = [op(phase, 5, 30), op(phase, 40, 10), op("backward._compile (dynamo_timed)", 60, 20)]
    found = findings(links_of(tmp_path, [*steps(1, 100), *compiled_step(0)], times))["compile-in-window"]
    assert "The phases of 3 compilations cover 60.0 us" in found.detail
    assert "_compile.compile_inner 40.0 us (2 times) and backward._compile 20.0 us" in found.detail


def test_a_break_costs_what_lies_between_graphs(tmp_path: Path) -> None:
    events = [*steps(1, 100), region("0/0", 0, 90), op(GRAPH, 10, 20)]
    events += [region("1/0", 45, 40), op(GRAPH, 50, 20)]
    found = findings(links_of(tmp_path, events))["graph-break"]
    assert (found.cost_ns_per_step, found.severity) == (20_000, "high")
    assert "1/0 in 0/0" in found.detail
    assert [event.name for event in found.evidence] == ["Torch-Compiled Region: 1/0"]


def test_seconds_of_compiling_do_not_make_a_break_look_small(tmp_path: Path) -> None:
    bounds = [(0, 100), (100, 1000), (1100, 100)]
    events = [op(f"ProfilerStep#{n}", *bound, "user_annotation") for n, bound in enumerate(bounds)]
    for at, _ in bounds:
        events += [region("0/0", at, 90), op(GRAPH, at + 10, 20)]
        events += [region("1/0", at + 45, 40), op(GRAPH, at + 50, 20)]
    events.append(op("_compile.compile_inner (dynamo_timed)", 195, 900))
    # 20 us between the graphs; the usual steps are the last two, of (1000 + 100) / 2 us, 450 of it compiling
    found = findings(links_of(tmp_path, events))
    assert found["graph-break"].share == pytest.approx(20 / 550)
    assert found["graph-break"].severity == "high"  # 20 of 100
    assert found["compile-in-window"].cost_ns_per_step == 300_000


def test_breaks_that_a_log_explains(tmp_path: Path) -> None:
    events = [*steps(1, 100), region("0/0", 0, 90), op(GRAPH, 10, 20)]
    events += [region("1/0", 45, 40), op(GRAPH, 50, 20)]
    facts = Facts.of(links_of(tmp_path, events))
    sites = [
        BreakSite(
            file="m.py",
            line=7,
            function="M.forward",
            reason="print",
            hits=1,
            regions=["0/0", "1/0"],
            kind="break",
        ),
        BreakSite(file="optim.py", line=9, kind="framework"),
    ]
    breaks = GraphBreaks(count=1, bound="exact", source="log", sites=sites)
    told = Facts(facts.links, facts.work, facts.code, facts.compiled, breaks, facts.kernels)
    (found,) = [finding for finding in find(told) if finding.code == "graph-break"]
    assert found.title == "1 graph break in M.forward"
    assert found.detail.startswith("At m.py:7, passed 1 time: print.")
    assert found.cost_ns_per_step == 20_000


def test_nothing_is_guessed_beside_a_log(tmp_path: Path) -> None:
    facts = Facts.of(links_of(tmp_path, region("0/0", 0, 10), region("1/0", 30, 10)))
    assert "possible-break" in {finding.code for finding in find(facts)}
    breaks = GraphBreaks(count=0, bound="exact", source="log")
    told = Facts(facts.links, facts.work, facts.code, facts.compiled, breaks, facts.kernels)
    assert "possible-break" not in {finding.code for finding in find(told)}


def test_evidence_points_at_events(tmp_path: Path) -> None:
    links = links_of(tmp_path, [dict(event, ts=event["ts"] + 500) for event in [op("aten::add", 0, 9)]])
    (event,) = findings(links)["not-compiled"].evidence
    assert (event.track, event.start_ns, event.dur_ns, event.name) == ("10/1", 0, 9_000, "aten::add")


def test_ranking() -> None:
    def one(code: str, severity: str, cost: int | None) -> Finding:
        return Finding(code=code, title="", severity=severity, detail="", cost_ns_per_step=cost)  # type: ignore[arg-type]

    order = ranked(
        [
            one("possible-break", "info", 900),
            one("kernel-names", "info", None),
            one("trace-incomplete", "medium", None),
            one("graph-break", "low", 10),
            one("eager-kernels", "high", 500),
            one("not-compiled", "high", None),
        ]
    )
    assert [finding.code for finding in order] == [
        "not-compiled",
        "eager-kernels",
        "graph-break",
        "trace-incomplete",
        "possible-break",
        "kernel-names",
    ]


def test_operators_of_another_backend_are_not_put_down_to_inductor(tmp_path: Path) -> None:
    """A region, an operator in it, and nothing of Inductor's: backend="eager" leaves that."""
    events = [
        event for at in (0, 100, 200) for event in (region("0/0", at, 50), op("aten::gelu", at + 5, 20))
    ]
    found = findings(links_of(tmp_path, events))["fallback-op"]
    assert "another backend" in found.detail
    assert "Inductor calls" not in found.detail
    assert 'backend="eager"' in (found.fix or "")
