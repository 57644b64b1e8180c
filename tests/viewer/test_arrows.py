"""Arrows: a kernel to its launch, a replay to its graph launch, a forward to its backward."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kinetoscope.link import Links
from viewer.driving import SELECTED, TimelinePage, until

Timeline = Callable[..., TimelinePage]


@pytest.mark.parametrize("number", [0, 17, 80, 173])
def test_a_kernel_leads_to_its_launch_and_back(
    timeline: Timeline, links: Callable[[str], Links], number: int
) -> None:
    page = timeline("seed_breaks")
    launches = links("seed_breaks").launches
    kernel, launch = int(launches.device_rows[number]), int(launches.launch_row[number])
    page.click(kernel)
    assert page.arrows == [{"kind": 0, "source": launch, "target": kernel, "strong": True}]
    name = links("seed_breaks").trace.name_of(launch)
    assert name in ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx")
    assert f"Launched by\n{name}" in page.details
    page.press("[")
    until(page.page, SELECTED, launch)
    page.press("]")
    until(page.page, SELECTED, kernel)
    page.page.click(f".details button.link:has-text('{name}')")
    until(page.page, SELECTED, launch)


def test_a_replayed_kernel_leads_to_its_one_graph_launch(
    timeline: Timeline, links: Callable[[str], Links]
) -> None:
    page = timeline("gpt_decode")
    launches = links("gpt_decode").launches
    replayed = np.flatnonzero(launches.in_graph_replay)
    number = int(replayed[len(replayed) // 2])
    kernel, launch = int(launches.device_rows[number]), int(launches.launch_row[number])
    page.click(kernel)
    assert links("gpt_decode").trace.name_of(launch) == "cudaGraphLaunch"
    assert page.arrows == [{"kind": 0, "source": launch, "target": kernel, "strong": True}]
    assert "cudaGraphLaunch" in page.details
    assert "a CUDA-graph replay" in page.details
    page.press("[")
    until(page.page, SELECTED, launch)
    members = [int(row) for row in launches.device_rows[launches.launch_row == launch]]
    assert [arrow["target"] for arrow in page.arrows] == members
    assert f"{len(members):,} device events" in page.details


def test_a_compiled_function_leads_to_its_backward(timeline: Timeline, links: Callable[[str], Links]) -> None:
    page = timeline("seed_breaks")
    pairs, regions = links("seed_breaks").pairs, links("seed_breaks").regions
    for number in (0, 5, 11):
        forward = int(regions.forwards.rows[pairs.forward[number]])
        backward = int(regions.backwards.rows[pairs.backward[number]])
        page.click(forward)
        assert {"kind": 1, "source": forward, "target": backward, "strong": True} in page.arrows
        assert "Backward\nCompiledFunctionBackward" in page.details
        page.press("]")
        until(page.page, SELECTED, backward)
        assert "Forward\nCompiledFunction" in page.details


def test_all_arrows_by_switch_and_key(timeline: Timeline, links: Callable[[str], Links]) -> None:
    page = timeline("seed_breaks")
    assert page.arrows == []
    page.page.click("button:has-text('All arrows')")
    until(page.page, "kinetoscope.arrows().length > 0")
    launched = {(arrow["source"], arrow["target"]) for arrow in page.arrows if arrow["kind"] == 0}
    launches = links("seed_breaks").launches
    linked = launches.is_linked
    expected = zip(launches.launch_row[linked].tolist(), launches.device_rows[linked].tolist(), strict=True)
    assert launched == set(expected)
    page.press("l")
    until(page.page, "kinetoscope.arrows().length === 0")
