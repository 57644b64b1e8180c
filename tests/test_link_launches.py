"""Launch links: by correlation, one to many, with the odd cases written out."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from helpers import call, event, kernel, links_of, note, op, region, shipped
from kinetoscope.link import Links


def names(links: Links, rows: np.ndarray) -> list[str | None]:
    return [None if row < 0 else links.trace.name_of(row) for row in rows.tolist()]


def by_kernel(links: Links, values: np.ndarray) -> dict[str, object]:
    return dict(zip(names(links, links.launches.device_rows), values.tolist(), strict=True))


def test_kernel_to_call_to_operator(tmp_path: Path) -> None:
    links = links_of(
        tmp_path,
        [
            note("outer", 0, 100),
            op("aten::linear", 10, 50),
            op("aten::addmm", 12, 40),
            call(5, 20),
            kernel(5, 60, 10, name="gemm"),
            call(6, 80),
            kernel(6, 90, 1, name="bare"),
        ],
    )
    found = links.launches
    assert names(links, found.launch_row) == ["cudaLaunchKernel"] * 2
    assert names(links, found.operator_row) == ["aten::addmm", None]
    assert names(links, found.scope_row) == ["aten::addmm", "outer"]
    assert found.is_linked.all()


def test_runtime_and_driver_rows_of_one_correlation_are_one_call(tmp_path: Path) -> None:
    links = links_of(
        tmp_path,
        [
            op("aten::mul", 0, 50),
            call(1, 10, 20),
            call(1, 12, 5, name="cuLaunchKernel", cat="cuda_driver"),
            kernel(1, 40, 3),
            call(2, 60, 4),
            kernel(2, 70, 3),
        ],
    )
    found = links.launches
    assert len(found.call_rows) == 2
    # the last row of the file is the launching row; the call lasts as long as its outermost row
    assert names(links, found.launch_row) == ["cuLaunchKernel", "cudaLaunchKernel"]
    assert found.call_start_ns.tolist() == [10_000, 60_000]
    assert found.call_dur_ns.tolist() == [20_000, 4_000]
    assert names(links, found.operator_row) == ["aten::mul", None]


def test_last_row_of_a_correlation_wins_whatever_the_order_in_time(tmp_path: Path) -> None:
    links = links_of(
        tmp_path,
        [
            call(1, 50, 5, name="cuLaunchKernel", cat="cuda_driver"),
            call(1, 10, 5, tid=2),
            kernel(1, 90, 3),
        ],
    )
    assert names(links, links.launches.launch_row) == ["cudaLaunchKernel"]


def test_correlation_zero_links_but_each_row_is_a_call(tmp_path: Path) -> None:
    links = links_of(
        tmp_path,
        [call(0, 0), call(0, 10), call(None, 20), kernel(0, 30, 1), kernel(None, 40, 1, name="none")],
    )
    found = links.launches
    assert len(found.call_rows) == 3
    assert by_kernel(links, found.is_linked) == {"k": True, "none": False}
    assert not found.before_window.any()


def test_launched_before_the_window(tmp_path: Path) -> None:
    links = links_of(
        tmp_path,
        [
            call(10, 0, name="cudaDeviceSynchronize"),
            call(11, 5),
            kernel(9, 1, 1, name="before"),
            kernel(12, 8, 1, name="lost"),
            kernel(None, 9, 1, name="none"),
        ],
    )
    assert by_kernel(links, links.launches.before_window) == {"before": True, "lost": False, "none": False}


def test_any_runtime_row_links(tmp_path: Path) -> None:
    links = links_of(tmp_path, [call(3, 0, name="cudaMallocAsync"), kernel(3, 5, 1)])
    found = links.launches
    assert found.is_linked.all()
    assert len(found.call_rows) == 0
    assert found.call_of.tolist() == [-1]


def test_graph_launch_owns_many(tmp_path: Path) -> None:
    events = [region("0/0", 0, 50), call(7, 10, 30, name="cudaGraphLaunch")]
    events += [kernel(7, 60 + 3 * number, 2) for number in range(5)]
    events += [call(8, 90), kernel(8, 95, 1)]
    found = links_of(tmp_path, events).launches
    assert found.events_per_graph_launch.tolist() == [5]
    assert found.in_graph_replay.tolist() == [True] * 5 + [False]
    assert found.events_per_call.tolist() == [5, 1]
    assert found.is_graph_call.tolist() == [True, False]


def test_sparse_correlations_are_found_as_well(tmp_path: Path) -> None:
    far = 2**60
    links = links_of(
        tmp_path, [call(1, 0), call(far, 10), kernel(far, 20, 1, name="far"), kernel(2, 30, 1, name="no")]
    )
    assert by_kernel(links, links.launches.is_linked) == {"far": True, "no": False}


def test_external_id_names_the_operator_only_without_calls(tmp_path: Path) -> None:
    events = [op("aten::add", 0, 10, external_id=4), kernel(1, 20, 1, external_id=4)]
    links = links_of(tmp_path, events)
    assert not links.launches.is_linked.any()
    assert names(links, links.launches.operator_row) == ["aten::add"]
    links = links_of(tmp_path, [*events, call(9, 5)])
    assert names(links, links.launches.operator_row) == [None]


def test_old_and_other_categories(tmp_path: Path) -> None:
    links = links_of(
        tmp_path,
        [
            event("Operator", "aten::add", 0, 20),
            event("Runtime", "cudaLaunchKernel", 5, 2, correlation=1),
            event("Kernel", "k", 30, 5, pid=0, tid="stream 7", correlation=1),
            event("xpu_runtime", "urEnqueueKernelLaunch", 50, 2, correlation=2),
            event("xpu_driver", "zeCommandListAppendLaunchKernel", 51, 1, correlation=2),
            event("kernel", "x", 60, 5, pid=0, tid=1, correlation=2),
        ],
    )
    found = links.launches
    assert found.is_linked.all()
    assert len(found.call_rows) == 2


def test_no_launch_at_all(tmp_path: Path) -> None:
    found = links_of(tmp_path, [op("aten::add", 0, 5)]).launches
    assert len(found.device_rows) == len(found.call_rows) == 0
    assert found.are_device_events_recorded
    assert found.operator_row.tolist() == []


def test_lost_device_events(tmp_path: Path) -> None:
    events = [call(number, number) for number in range(1, 12)]
    assert not links_of(tmp_path, [*events, kernel(1, 50, 1)]).launches.are_device_events_recorded
    assert links_of(
        tmp_path, [*events, kernel(1, 50, 1), kernel(2, 60, 1)]
    ).launches.are_device_events_recorded


def test_user_triton_launches_without_operator() -> None:
    links = shipped("user_triton")
    kernels = names(links, links.launches.device_rows)
    operators = names(links, links.launches.operator_row)
    scopes = names(links, links.launches.scope_row)
    alone = [kernel for kernel, operator in zip(kernels, operators, strict=True) if operator is None]
    assert alone == ["scale_add_kernel"] * 5
    assert scopes.count("eager user triton") == 5
