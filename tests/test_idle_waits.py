"""What waits cost, for the device and for other ranks, on traces whose every microsecond is written out.

As in `test_idle_causes`: kernel 1 runs from 0 to 100 us and kernel 2 from 200, whose operator LAST is from
188 to 198 and launches it from 190 to 195.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers import call, event, kernel, links_of, note, op
from kinetoscope.analyses.idle_causes import launching_lines
from kinetoscope.analyses.idle_causes_names import ORDINARY, Cause
from kinetoscope.analyses.idle_lost_lead import Waits, with_lost_lead
from kinetoscope.analyses.idle_pieces import Pieces
from test_idle_causes import AROUND, LAST, TAIL, causes, plus


def test_waits_with_no_launch_between_them_are_one_stop(tmp_path: Path) -> None:
    # The copy waits from 8 to 93, the stream until 105: the device worked in 85 + 7 us of it. Behind it come
    # 83 us of Python, 2 of the operator, 5 of the call and 2 after it: 92 us. 3 of the launch are left.
    copy = [
        op("aten::copy_", 5, 100),
        call(9, 8, 85, name="cudaMemcpyAsync"),
        call(10, 93, 12, name="cudaStreamSynchronize"),
        event(
            "gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 210, 2, 0, 7, device=0, stream=7, correlation=9
        ),
    ]
    found = causes(tmp_path, *AROUND, *LAST, *copy)
    assert found == {"host-device copy": 5 + 92, "launch call": 3}


def test_of_waits_in_one_stop_the_one_that_lost_most_so_far_is_named(tmp_path: Path) -> None:
    # A copy from 10 to 30 and a wait from 40 to 105, in which the device worked 20 and 60 us. The 80 us after
    # them are the longer one's: until 185. Python from 185 to 188.
    waits = [
        op("aten::copy_", 5, 26),
        call(9, 10, 20, name="cudaMemcpyAsync"),
        event(
            "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 210, 2, 0, 7, device=0, stream=7, correlation=9
        ),
        call(10, 40, 65, name="cudaDeviceSynchronize"),
    ]
    assert causes(tmp_path, *AROUND, *LAST, *waits) == plus(TAIL, sync=5 + 80, python=3)


def test_a_launch_between_two_waits_keeps_them_apart(tmp_path: Path) -> None:
    # the wait from 5 to 60 has been made up for by the launch at 62; the one from 80 lost 20 us
    waits = [
        call(9, 5, 55, name="cudaStreamSynchronize"),
        call(70, 62, 2),
        call(10, 80, 25, name="cudaStreamSynchronize"),
    ]
    assert causes(tmp_path, *AROUND, *LAST, *waits) == plus(TAIL, sync=5 + 20, python=63)


def test_lead_left_from_one_wait_goes_on_behind_the_next(tmp_path: Path) -> None:
    # Both waits lie in the gap but for the 30 us from 70 to 100. Of them 10 are taken from 110 to 120, none
    # from 120 to 140 (the second wait), and 20 from 140 to 160. Python until 188.
    waits = [
        call(9, 70, 40, name="cudaStreamSynchronize"),
        call(10, 120, 20, name="cudaStreamSynchronize"),
    ]
    assert causes(tmp_path, *AROUND, *LAST, *waits) == plus(TAIL, sync=10 + 10 + 20 + 20, python=28)


def test_two_threads_that_wait_at_one_time_lose_it_once(tmp_path: Path) -> None:
    # thread 1 waits from 20 to 105, thread 2, which launched kernel 8, from 30 to 104: 80 us, until 185
    waits = [
        call(8, -10, 2, tid=2),
        kernel(8, 210, 1),
        call(9, 20, 85, name="cudaStreamSynchronize"),
        call(10, 30, 74, tid=2, name="cudaStreamSynchronize"),
    ]
    assert causes(tmp_path, *AROUND, *LAST, *waits) == plus(TAIL, sync=5 + 80, python=3)


@pytest.mark.parametrize("seed", range(40))
def test_time_after_waits_is_given_as_a_purse_of_lead_would_pay_it(seed: int) -> None:
    """Many waits and pieces: against a loop that pays piece after piece from what waits have put in."""
    random = np.random.default_rng(seed)
    size, waits = 60, 25
    # gaps with one piece each, time busy between them
    borders = np.cumsum(random.integers(1, 40, 2 * size))
    start, end = borders[0::2], borders[1::2]
    cause = random.choice([Cause.PYTHON, Cause.EAGER, Cause.DATA, Cause.SYNC], size).astype(np.uint8)
    pieces = Pieces(np.arange(size), start, end, cause, np.arange(size, dtype=np.int32))
    ends = np.sort(random.choice(np.concatenate((start, end)), waits, replace=False))
    begins = np.maximum(ends - random.integers(0, 60, waits), np.append(0, ends[:-1]))
    stop = np.cumsum(random.random(waits) < 0.4)
    rows = 1000 + np.arange(waits, dtype=np.int32)
    given = Waits(begins, ends, np.full(waits, Cause.COPY, np.uint8), rows, stop)

    expected: list[tuple[int, int, int, int]] = []
    purse, largest, named, number = 0, -1, -1, 0
    for piece in range(size):
        while number < waits and ends[number] <= start[piece]:
            idle = sum(
                max(0, min(ends[number], until) - max(begins[number], since))
                for since, until in zip(start, end, strict=True)
            )
            lead = int(ends[number] - begins[number] - idle)
            if number == 0 or stop[number] != stop[number - 1]:
                purse, largest = 0, -1
            purse += lead
            if lead > largest:
                largest, named = lead, number
            number += 1
        left, right = int(start[piece]), int(end[piece])
        paid = min(purse, right - left) if ORDINARY[cause[piece]] else 0
        purse -= paid
        if paid:
            expected.append((left, left + paid, Cause.COPY, 1000 + named))
        if left + paid < right:
            expected.append((left + paid, right, int(cause[piece]), piece))

    found = with_lost_lead(pieces, given, np.zeros(size, np.int64), start, end)
    columns = (found.start_ns, found.end_ns, found.cause, found.row)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected


#: asked for by thread 1, carried out by thread 2, which launches nothing
GLOO = [op("c10d::allreduce_", 97, 8), note("gloo:all_reduce", 110, 60, tid=2)]


def test_collective_on_a_thread_that_launches_nothing(tmp_path: Path) -> None:
    # 100 to 105 the operator, 110 to 170 gloo; Python from 105 to 110 and from 170 to 188
    assert causes(tmp_path, *AROUND, *LAST, *GLOO) == plus(TAIL, collective=65, python=5 + 18)


def test_collectives_of_several_threads_are_waited_for_until_the_last_ends(tmp_path: Path) -> None:
    other = note("gloo:all_reduce", 150, 30, tid=3)
    assert causes(tmp_path, *AROUND, *LAST, *GLOO, other) == plus(TAIL, collective=5 + 70, python=5 + 8)


def test_the_profiler_does_not_take_from_a_collective(tmp_path: Path) -> None:
    flush = event("overhead", "Buffer Flush", 120, 30, pid=-1, tid=0)
    assert causes(tmp_path, *AROUND, *LAST, *GLOO, flush) == plus(TAIL, collective=65, python=5 + 18)


def test_a_collective_that_ends_while_the_program_works_was_not_waited_for(tmp_path: Path) -> None:
    # an operator from 150 to 175, before it 45 us of Python, behind it 13
    beside = op("aten::stack", 150, 25)
    found = causes(tmp_path, *AROUND, *LAST, *GLOO, beside)
    assert found == plus(TAIL, collective=5, python=45 + 13, eager=25)


def test_a_collective_is_waited_for_from_when_the_program_rests(tmp_path: Path) -> None:
    # the operator from 120 to 140 ran beside it, and so did the Python from 105 to 120
    beside = op("aten::stack", 120, 20)
    found = causes(tmp_path, *AROUND, *LAST, *GLOO, beside)
    assert found == plus(TAIL, collective=5 + 30, python=15 + 18, eager=20)


def test_a_wait_for_a_collective_loses_the_lead(tmp_path: Path) -> None:
    # of 150 us from 20 on the device worked 80; the 30 after them are Python, operator and launch
    gloo = note("gloo:all_reduce", 20, 150, tid=2)
    assert causes(tmp_path, *AROUND, *LAST, gloo) == {"collective or another rank": 100}


def test_a_wait_directly_behind_a_collective_is_its_own(tmp_path: Path) -> None:
    # Barrier until 90, and a wait in no operator from 92 to 105, in which the device worked 8 us: until 113.
    # Asking whether a graph is captured says nothing.
    waits = [
        op("c10d::barrier", 81, 9),
        op("record_param_comms", 82, 7),
        call(8, 90, 1, name="cudaStreamIsCapturing"),
        call(9, 92, 13, name="cudaStreamSynchronize"),
    ]
    assert causes(tmp_path, *AROUND, *LAST, *waits) == plus(TAIL, collective=5 + 8, python=75)


def test_other_waits_behind_a_collective_are_synchronisation(tmp_path: Path) -> None:
    barrier = op("c10d::barrier", 71, 9)
    wait = call(9, 92, 13, name="cudaStreamSynchronize")
    usual = plus(TAIL, sync=5 + 8, python=75)
    # an operator that reads a value back, one in between, a launch in between, another thread's collective
    read = op("aten::_local_scalar_dense", 91, 14)
    assert causes(tmp_path, *AROUND, *LAST, barrier, read, wait) == usual
    assert causes(tmp_path, *AROUND, *LAST, barrier, op("aten::add", 82, 4), wait) == usual
    assert causes(tmp_path, *AROUND, *LAST, barrier, call(8, 82, 4), wait) == usual
    assert causes(tmp_path, *AROUND, *LAST, op("c10d::barrier", 71, 9, tid=2), wait) == usual


def test_a_job_that_launches_nothing_has_no_lines(tmp_path: Path) -> None:
    # gloo on a CPU: collectives, and no thread that launches anything
    links = links_of(tmp_path, [op("aten::mm", 0, 10), note("gloo:all_reduce", 5, 20)])
    assert launching_lines(links) == {}
