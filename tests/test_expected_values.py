"""Values that other projects hold right for their own public traces, where they count the same events."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import shared_trace
from kinetoscope.analyses.device_time import device_time
from kinetoscope.analyses.launches import queue_ns
from kinetoscope.link import Links
from kinetoscope.link.names import Mark, marked
from kinetoscope.trace import Category


def public(name: str) -> Links:
    return shared_trace(f"traces/public/{name}.json.gz")


def names_around(links: Links, row: int) -> list[str]:
    """Names of the slices around a row, the innermost first."""
    found = []
    while (row := int(links.trace.columns.parent[row])) >= 0:
        found.append(links.trace.name_of(row))
    return found


@pytest.mark.parametrize(
    ("name", "compute", "busy", "idle", "total", "memcpy"),
    [
        ("h100_Falconsai_nsfw_image_detection__1016002", 1.225309, 1.225309, 6.334535, 7.559844, 0),
        (
            "h100_facebook_timesformer-base-finetuned-k400__1016002",
            154.969031,
            158.433173,
            1.559254,
            159.992427,
            3.464142,
        ),
        ("h100_gaunernst_bert-small-uncased__1016001", 0.307198, 0.309438, 3.598387, 3.907825, 0.002240),
        ("mi300_Falconsai", 1.716299, 1.716299, 5.152550, 6.868849, 0),
        ("mi210_gpu_only", 5.343370, 5.343370, 0.636133, 5.979503, 0),
        ("mi300_torch_compile_triton", 12.549021, 12.549021, 0.000011, 12.549032, 0),
        ("mi300_sglang_decode", 9.759752, 9.772929, 463.977015, 473.749943, 0.013177),
        ("mi300_vllm_decode_graph", 10.674507, 10.717697, 0.025484, 10.743182, 0.043190),
    ],
)
def test_device_milliseconds(
    name: str, compute: float, busy: float, idle: float, total: float, memcpy: float
) -> None:
    (found,) = device_time(public(f"tracelens/{name}"))
    measured = (
        found.compute_ns + found.communication_ns,
        found.busy_ns,
        found.idle_ns,
        found.span_ns,
        found.exposed_memcpy_ns,
    )
    for ns, ms in zip(measured, (compute, busy, idle, total, memcpy), strict=True):
        assert abs(ns - 1e6 * ms) <= 3_000


def test_unlinked_events_count() -> None:
    links = public("tracelens/h100_Qwen_Qwen1.5-0.5B-Chat__1016005")
    (found,) = device_time(links)
    assert (found.busy_ns, found.span_ns) == (45_647_300, 49_652_832)
    assert (int((~links.launches.is_linked).sum()), len(links.launches.device_rows)) == (509, 1707)


def test_communication_by_name() -> None:
    links = public("tracelens/b200_eager")
    c = links.trace.columns
    kernels = c.category == Category.KERNEL
    collective = marked(links.marks, c.name, Mark.COLLECTIVE) & kernels
    named = links.trace.names.where(lambda name: "multimem_all_reduce" in name)[c.name] & kernels
    assert (int(named.sum()), int((named & collective).sum())) == (73, 73)
    assert [links.regions.ids, len(links.regions.calls)] == [("0/1",), 1]


def test_kernels_launched_before_the_window() -> None:
    links = public("hta/negative_queue_rank0")
    before = links.launches.before_window
    kernels = links.trace.columns.category[links.launches.device_rows] == Category.KERNEL
    assert (int(before.sum()), int((before & kernels).sum())) == (872, 705)
    assert (len(links.pairs), len(links.launches.graph_rows)) == (35, 70)


@pytest.mark.parametrize(
    ("correlation", "category", "around"),
    [
        (135139, Category.MEMCPY, "DistributedDataParallel.forward"),
        (164926, Category.KERNEL, "Optimizer.step#SGD.step"),
    ],
)
def test_what_a_launch_belongs_to(correlation: int, category: Category, around: str) -> None:
    links = public("hta/ns_resolution_rank0")
    c = links.trace.columns
    (at,) = np.flatnonzero(c.correlation[links.launches.device_rows] == correlation)
    assert c.category[links.launches.device_rows[at]] == category
    assert around in names_around(links, int(links.launches.launch_row[at]))


def test_collectives() -> None:
    links = public("hta/nccl_data")
    c = links.trace.columns
    rows = np.flatnonzero(marked(links.marks, c.name, Mark.COLLECTIVE) & (c.category == Category.KERNEL))
    assert len(rows) == 21
    longest = links.trace.args(int(rows[np.argmax(c.dur_ns[rows])]))
    assert (longest["Collective name"], longest["In msg nelems"]) == ("allreduce", 2_049_000)


def test_launch_to_kernel() -> None:
    links = public("hta/simple_add")
    assert 27_000 in queue_ns(links).tolist()


@pytest.mark.parametrize("worker", range(8))
def test_ranks_of_one_job(worker: int) -> None:
    import kinetoscope
    from helpers import HAS_SHARED, NO_SHARED, SHARED
    from kinetoscope.link import link

    if not HAS_SHARED:
        pytest.skip(NO_SHARED)
    (path,) = (SHARED / "traces/public/param_dlrm8").glob(f"worker{worker}_*.pt.trace.json.gz")
    links = link(kinetoscope.load(str(path), use_store=False))
    assert links.steps.source == "profiler_step"
    assert len(links.steps) == 1
    assert int(links.launches.before_window.sum()) == (64 if worker in (1, 3) else 0)


@pytest.mark.parametrize(
    ("name", "regions", "replays"),
    [("eager", 0, []), ("compiled", 32, None), ("compiled_cudagraph", 1, [554])],
)
def test_segment_anything(name: str, regions: int, replays: list[int] | None) -> None:
    links = public(f"sam_fast/{name}")
    assert len(links.regions.calls) == regions
    if replays is not None:
        assert links.launches.events_per_graph_launch.tolist() == replays
