"""Graph breaks from nesting alone: what shows, what looks alike and is none, what no trace can tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope.analyses.breaks import boundaries, frame_of, graph_breaks
from kinetoscope.link import Links
from small_trace import GRAPH, links_of, links_of_shared, op, region, steps

# Per scenario the breaks that a trace shows, without and with stacks. The compile log's truth is in the
# remark where it differs: that is what a trace cannot tell.
SCENARIOS = {
    "adjacent": (0, 0),
    "compiled_autograd": (0, 0),  # log: 1; the backward is compiled apart, and nothing else is nested
    "ddp_sequential_eager": (2, 2),  # log: both in torch's own code
    "disabled_inside": (1, 1),
    "disabled_recursive_calls_compiled": (2, 1),  # stacks show that one is a torch.compile of its own
    "fullgraph": (0, 0),
    "gb_data_dep_if": (1, 1),
    "gb_generator": (0, 0),  # log: skipped whole
    "gb_item": (1, 1),
    "gb_loop": (0, 0),  # log: skipped whole
    "gb_nested": (5, 5),  # log: 1 break, in a callee of a callee: five frames continue after it
    "gb_print": (1, 1),
    "gb_real_print": (1, 1),
    "gb_unresumable_ctx": (0, 0),  # log: skipped, and a callee compiled alone
    "gb_unresumable_ctx_coldcache": (0, 0),
    "gb_with_skip": (0, 0),  # log: skipped whole
    "nested_compile": (0, 0),
    "optim_step": (2, 2),  # log: in torch's own code
    "optim_step_direct": (1, 1),  # log: in torch's own code
    "recompile_limit": (0, 0),
    "regional": (0, 0),
    "regional_in_compiled": (0, 0),  # log: the frame around was skipped
    "skipped_frame": (1, 1),
    "train": (0, 0),
    "train_break": (1, 1),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenarios(scenario: str) -> None:
    counts = tuple(
        graph_breaks(links_of_shared(f"traces/cpu_scenarios/{scenario}/{file}.json.gz")).count
        for file in ("warm", "warm_stack")
    )
    assert counts == SCENARIOS[scenario]


@pytest.mark.parametrize(
    ("name", "count", "hits"),
    [
        ("gpu/seed_breaks/trace.json.gz", 3, 3),
        ("gpu/breaks_nograd/trace.json.gz", 3, 3),
        ("gpu/pair_breaks_infer/trace.json.gz", 3, 8),
        ("gpu/pair_breaks_train/trace.json.gz", 3, 8),
        ("gpu/pair_breaks_train/after.trace.json.gz", 0, None),
        ("gpu/seed_resnet/trace.json.gz", 0, None),
        ("public/tracelens/mi300_xdit_sd35_rank0.json.gz", 0, None),  # 0/0 four times
        ("public/tracelens/b200_eager.json.gz", 0, None),
    ],
)
def test_captures(name: str, count: int, hits: int | None) -> None:
    found = graph_breaks(links_of_shared(f"traces/{name}"))
    assert (found.count, found.bound, found.source) == (count, "estimate", "trace")
    assert [site.hits for site in found.sites] == [hits] * count
    assert all((site.file, site.line, site.kind) == (None, None, "break") for site in found.sites)


def test_regions_on_both_sides_are_named() -> None:
    sites = graph_breaks(links_of_shared("traces/gpu/breaks_nograd/trace.json.gz")).sites
    assert sorted(site.regions for site in sites) == [["0/0", "1/0"], ["1/0", "2/0"], ["2/0", "3/0"]]


def test_adjacent_regions_of_a_case_are_boundaries_not_breaks() -> None:
    links = links_of_shared("cases/R39_graph_breaks.json")
    assert graph_breaks(links).count == 0
    found = boundaries(links, links.steps.at(links.regions.calls.start_ns))
    calls = links.regions.calls
    between = calls.start_ns[found.after] - calls.end_ns[found.before]
    assert between.tolist() == [200_000, 200_000, 200_000, 200_000]  # two a step


def test_without_regions_of_a_recent_torch_nothing_is_said() -> None:
    found = graph_breaks(links_of_shared("traces/public/hta/negative_queue_rank0.json.gz"))
    assert (found.count, found.source) == (None, None)


def test_without_cpu_rows_nothing_is_said() -> None:
    found = graph_breaks(links_of_shared("cases/R32_gpu_only.json"))
    assert (found.count, found.source) == (None, None)


# --- small traces ---


def nested(inner: str, start: float = 40) -> list[dict[str, Any]]:
    """0/0 from 0 to 100 with its graph until 30, and a region inside with its graph 10 later."""
    return [region("0/0", 0, 100), op(GRAPH, 10, 20), region(inner, start, 30), op(GRAPH, start + 10, 15)]


def test_a_nested_region_is_one_break(tmp_path: Path) -> None:
    found = graph_breaks(links_of(tmp_path, nested("1/0")), steps=1)
    (site,) = found.sites
    assert (found.count, site.hits, site.regions) == (1, 1, ["0/0", "1/0"])
    assert site.cost_ns_per_step == 20_000  # from the end of the first graph, 30, to the next graph, 50


def test_without_steps_the_cost_is_unknown(tmp_path: Path) -> None:
    (site,) = graph_breaks(links_of(tmp_path, nested("1/0"))).sites
    assert site.cost_ns_per_step is None


def test_recompilations_of_a_continuation_are_one_break(tmp_path: Path) -> None:
    second = [dict(event, ts=event["ts"] + 200) for event in nested("1/1")]
    (site,) = graph_breaks(links_of(tmp_path, nested("1/0"), second)).sites
    assert (site.hits, site.regions) == (2, ["0/0", "1/0", "1/1"])


def test_compiled_autograd_is_no_break(tmp_path: Path) -> None:
    assert graph_breaks(links_of(tmp_path, nested("!0/1/0"))).count == 0


@pytest.mark.parametrize(
    ("wrapper", "start", "count"),
    [
        ("torch/_dynamo/eval_frame.py(1076): compile_wrapper", 35, 0),  # between the two regions
        ("torch/_dynamo/eval_frame.py(1076): compile_wrapper", -5, 1),  # around both: that of the outer one
        ("torch/_dynamo/eval_frame.py(1423): _fn", 35, 1),  # disable, or torch's own
        ("mine/eval_frame.py.bak(1): compile_wrapper", 35, 1),
    ],
)
def test_a_torch_compile_of_its_own_is_no_break(
    tmp_path: Path, wrapper: str, start: float, count: int
) -> None:
    python = op(wrapper, start, 60 if start > 0 else 110, "python_function")
    assert graph_breaks(links_of(tmp_path, nested("1/0"), python)).count == count


def test_time_spent_compiling_the_continuation_is_no_cost_of_the_break(tmp_path: Path) -> None:
    phase = op("_compile.compile_inner (dynamo_timed)", 31, 8)
    (site,) = graph_breaks(links_of(tmp_path, nested("1/0"), phase), steps=1).sites
    assert site.cost_ns_per_step == 12_000


def test_regions_of_other_threads_do_not_nest(tmp_path: Path) -> None:
    events = [region("0/0", 0, 100), region("1/0", 20, 30, tid=2)]
    assert graph_breaks(links_of(tmp_path, events)).count == 0


def test_regions_without_an_id_can_nest_too(tmp_path: Path) -> None:
    bare = [op("Torch-Compiled Region", 0, 100), op("Torch-Compiled Region", 20, 30)]
    (site,) = graph_breaks(links_of(tmp_path, bare)).sites
    assert site.regions == [""]


@pytest.mark.parametrize(
    ("id", "frame"),
    [("0/0", "0"), ("12/3", "12"), ("!0/1/0", "!0/1"), ("Unknown", "Unknown"), ("", ""), ("a/b", "a/b")],
)
def test_frame_of(id: str, frame: str) -> None:
    assert frame_of(id) == frame


def counted_boundaries(links: Links) -> int:
    in_step = links.steps.at(links.regions.calls.start_ns) if len(links.steps) else None
    return len(boundaries(links, in_step))


def test_two_calls_of_one_function_are_no_boundary(tmp_path: Path) -> None:
    events = [region("0/0", 0, 10), region("0/1", 20, 10), region("1/0", 40, 10)]
    assert counted_boundaries(links_of(tmp_path, events)) == 1


def test_no_boundary_across_steps(tmp_path: Path) -> None:
    events = [*steps(2, 100), region("0/0", 10, 10), region("1/0", 30, 10)]
    events += [region("0/0", 110, 10), region("1/0", 130, 10)]
    assert counted_boundaries(links_of(tmp_path, events)) == 2


@pytest.mark.parametrize(
    "divider",
    [
        op("autograd::engine::evaluate_function: AddBackward0", 20, 5, tid=2),
        op("CompiledFunctionBackward", 20, 5, tid=2),
        op("Optimizer.step#SGD.step", 20, 15, "user_annotation"),
    ],
)
def test_no_boundary_across_a_backward_or_an_optimizer_step(tmp_path: Path, divider: dict[str, Any]) -> None:
    events = [region("0/0", 0, 10), region("1/0", 30, 10), divider]
    assert counted_boundaries(links_of(tmp_path, events)) == 0
