"""Causes of idle time in which the host waits, one by one, on traces whose every microsecond is written out.

All have kernel 1 on the device from 0 to 100 us and kernel 2 from 200 us, so a gap of 100 us, whose
causes the CPU's events decide.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import call, event, kernel, links_of, note, op
from idle_helpers import AROUND, LAST, TAIL, causes, plus
from kinetoscope import analyses


def test_synchronisation(tmp_path: Path) -> None:
    # item() waits from 20 to 105 for kernel 1: 80 us of it the device was busy. So the idle time after it is
    # its own too, up to 80 us: all until 185. The rest: Python 185 to 188, and the launch.
    wait = [
        op("aten::item", 10, 100),
        op("aten::_local_scalar_dense", 15, 92),
        call(9, 20, 85, name="cudaStreamSynchronize"),
    ]
    found = causes(tmp_path, *AROUND, *LAST, *wait)
    assert found == plus(TAIL, sync=85, python=3)
    idle = analyses.idle(links_of(tmp_path, [*AROUND, *LAST, *wait]))
    assert idle is not None
    assert (idle.longest[0].cause, idle.longest[0].detail) == (
        "synchronisation",
        "cudaStreamSynchronize in aten::_local_scalar_dense",
    )


def test_a_short_synchronisation_takes_only_its_own_time(tmp_path: Path) -> None:
    wait = [call(9, 97, 8, name="cudaStreamSynchronize")]
    assert causes(tmp_path, *AROUND, *LAST, *wait) == plus(TAIL, sync=5, python=83)


def test_lost_lead_ends_at_the_next_wait_and_leaves_data_loading_alone(tmp_path: Path) -> None:
    # The wait from 50 to 105 spent 50 us outside of gaps. 105 to 110 Python (given to it), 110 to 160 data
    # loading (stays), 160 to 188 Python and 188 to 190 the operator (given), the call: 50 - 5 - 28 - 2 = 15
    # us are left for it, so the launch (5 us of the call, 5 after it) is given too.
    wait = [
        call(9, 50, 55, name="cudaDeviceSynchronize"),
        note("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 110, 50),
    ]
    assert causes(tmp_path, *AROUND, *LAST, *wait) == {"synchronisation": 50, "data loading": 50}


def test_value_read_back_is_a_synchronisation(tmp_path: Path) -> None:
    events = [
        op("aten::_local_scalar_dense", 100, 30),
        call(9, 105, 20, name="cudaMemcpyAsync"),
        event(
            "gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 300, 2, 0, 7, device=0, stream=7, correlation=9
        ),
    ]
    # From 100: 5 the operator, 20 the copy, 5 the operator; Python from 130 to 188. And a second gap, from
    # the end of kernel 2 at 210 to the copy at 300, whose call had returned long before.
    behind = {"between queued kernels": 50, "unknown": 40}
    assert causes(tmp_path, *AROUND, *LAST, *events) == plus(TAIL, eager=10, sync=20, python=58) | behind


@pytest.mark.parametrize("direction", ["HtoD (Pageable -> Device)", "DtoH (Device -> Pageable)"])
def test_host_device_copy(tmp_path: Path, direction: str) -> None:
    # the copy's own call and the wait for it, 110 to 170; the operator around them from 100 to 180
    events = [
        op("aten::copy_", 100, 80),
        call(9, 110, 8, name="cudaMemcpyAsync"),
        call(10, 118, 52, name="cudaStreamSynchronize"),
        event("gpu_memcpy", f"Memcpy {direction}", 300, 2, 0, 7, device=0, stream=7, correlation=9),
    ]
    # Python from 180 to 188; and a second gap, from the end of kernel 2 at 210 to the copy at 300
    behind = {"between queued kernels": 50, "unknown": 40}
    assert causes(tmp_path, *AROUND, *LAST, *events) == plus(TAIL, eager=20, copy=60, python=8) | behind


def test_copy_on_the_device_is_a_launch(tmp_path: Path) -> None:
    events = [
        op("aten::copy_", 100, 80),
        call(2, 180, 15, name="cudaMemcpyAsync"),
        op("aten::first", -20, 10),
        call(1, -15, 2),
        kernel(1, 0, 100),
        event(
            "gpu_memcpy", "Memcpy DtoD (Device -> Device)", 200, 2, 0, 7, device=0, stream=7, correlation=2
        ),
    ]
    assert causes(tmp_path, *events) == {
        "eager operator overhead": 80,
        "launch call": 15 + 5,
    }


@pytest.mark.parametrize("name", ["cudaMalloc", "cudaFree", "cudaHostAlloc", "hipMalloc"])
def test_allocation(tmp_path: Path, name: str) -> None:
    events = [op("aten::empty", 100, 80), call(9, 110, 60, name=name)]
    assert causes(tmp_path, *AROUND, *LAST, *events) == plus(TAIL, alloc=60, eager=20, python=8)


def test_data_loading(tmp_path: Path) -> None:
    loading = [
        note("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 90, 90),
        op("aten::stack", 120, 30),
    ]
    assert causes(tmp_path, *AROUND, *LAST, *loading) == plus(TAIL, data=80, python=8)


def test_collective(tmp_path: Path) -> None:
    waiting = [note("gloo:all_reduce", 100, 80), call(9, 110, 60, name="cudaStreamSynchronize")]
    assert causes(tmp_path, *AROUND, *LAST, *waiting) == plus(TAIL, collective=80, python=8)
