"""Causes of idle time in which the host works, one by one, on traces whose every microsecond is written out.

All have kernel 1 on the device from 0 to 100 us and kernel 2 from 200 us, so a gap of 100 us, whose
causes the CPU's events decide.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import kinetoscope
import test_idle_causes_waits as waits
from helpers import NO_SHARED, SHARED, Event, call, event, kernel, links_of, note, op, region
from idle_helpers import AROUND, LAST, TAIL, causes, plus
from kinetoscope import analyses
from kinetoscope.analyses.idle import find_gaps
from kinetoscope.analyses.idle_causes import describe, pieces_of_gaps
from kinetoscope.analyses.idle_causes_names import CAUSES
from kinetoscope.link import link

GRAPH = "## Call CompiledFxGraph fkey ##"


def test_python(tmp_path: Path) -> None:
    # nothing is open from 100 to 188
    assert causes(tmp_path, *AROUND, *LAST) == plus(TAIL, python=88)


def test_annotations_are_python(tmp_path: Path) -> None:
    step = note("ProfilerStep#1", -100, 400)
    assert causes(tmp_path, *AROUND, *LAST, step) == plus(TAIL, python=88)


def test_eager_operators(tmp_path: Path) -> None:
    # 100 to 110 Python, 110 to 180 an operator with another inside, 180 to 188 Python
    inner = [op("aten::linear", 110, 70), op("aten::empty", 120, 10), call(9, 140, 5, name="cudaGetDevice")]
    assert causes(tmp_path, *AROUND, *LAST, *inner) == plus(TAIL, python=18, eager=70)


def test_launch_call(tmp_path: Path) -> None:
    # the call starts before the gap and returns 90 us into it; 10 us later the device begins
    late = [op("aten::mm", 80, 115), call(2, 90, 100)]
    assert causes(tmp_path, *AROUND, *late) == {"launch call": 90 + 10}


def test_a_launch_is_one_piece_from_the_call_to_the_kernel(tmp_path: Path) -> None:
    links = links_of(tmp_path, [*AROUND, *LAST])
    gaps = find_gaps(links)
    pieces = pieces_of_gaps(links, gaps.device, gaps.start_ns, gaps.end_ns, gaps.next_row)
    # Python from 100 to 188, the operator to 190, and the launch, of which the call returns at 195
    assert (pieces.end_ns - pieces.start_ns).tolist() == [88_000, 2_000, 10_000]
    assert describe(links, int(pieces.row[-1])) == "cudaLaunchKernel in aten::last"


def test_a_launch_and_what_is_beyond_it(tmp_path: Path) -> None:
    # the call returned at 110: 50 us are the launch's, and nothing tells why the device waited 40 more
    early = [op("aten::mm", 104, 8), call(2, 105, 5)]
    assert causes(tmp_path, *AROUND, *early) == {
        "Python between regions": 4,
        "eager operator overhead": 1,
        "launch call": 5 + 50,
        "unknown": 40,
    }


def test_queued_kernels(tmp_path: Path) -> None:
    events = [
        op("aten::add", 0, 50),
        call(1, 5, 2),
        call(2, 10, 2),
        kernel(1, 20, 100),
        kernel(2, 123, 10),
    ]
    assert causes(tmp_path, *events) == {"between queued kernels": 3}


def test_nodes_of_a_graph_are_queued(tmp_path: Path) -> None:
    events = [
        op("aten::add", 0, 50),
        call(7, 5, 20, name="cudaGraphLaunch"),
        kernel(7, 30, 10),
        kernel(7, 41, 10),
        kernel(7, 53, 10),
    ]
    assert causes(tmp_path, *events) == {"between queued kernels": 3}


def test_other_stream(tmp_path: Path) -> None:
    events = [
        op("aten::add", 0, 60),
        call(1, 5, 2),
        call(50, 10, 2, name="cudaEventRecord"),
        call(51, 20, 2, name="cudaStreamWaitEvent"),
        call(2, 30, 2),
        kernel(1, 20, 100),
        kernel(2, 124, 10, stream=20),
    ]
    assert causes(tmp_path, *events) == {"other stream's dependency": 4}
    without = [one for one in events if one["name"] != "cudaStreamWaitEvent"]
    assert causes(tmp_path, *without) == {"between queued kernels": 4}


def test_guard_lookup(tmp_path: Path) -> None:
    # 100 to 150 lookup, 150 to 160 Python, region from 160 with its graph from 170
    events = [
        op("TorchDynamo Cache Lookup", 90, 60),
        region("0/0", 160, 60),
        op(GRAPH, 170, 40),
        op("triton_poi_fused_0", 185, 10),
        call(2, 190, 5),
    ]
    assert causes(tmp_path, *AROUND, *events) == {
        "guard lookup": 50,
        "Python between regions": 10,
        "region prologue and wrapper": 10,
        "host code of compiled graphs": 20,
        "launch call": 5 + 5,
    }


def test_wrapper(tmp_path: Path) -> None:
    # region 105 to 220; prologue 110 to 150; CompiledFunction from 150; its graph from 180
    events = [
        region("0/0", 105, 115),
        op("AOTDispatcher Runtime Wrapper Prologue", 110, 40),
        op("CompiledFunction", 150, 65),
        op("aten::contiguous", 160, 10),
        op(GRAPH, 180, 30),
        call(2, 190, 5),
    ]
    assert causes(tmp_path, *AROUND, *events) == {
        "Python between regions": 5,
        "region prologue and wrapper": 75,
        "host code of compiled graphs": 10,
        "launch call": 5 + 5,
    }


def test_compiled_function_is_the_graph_where_there_is_no_other(tmp_path: Path) -> None:
    events = [region("0/0", 105, 115), op("CompiledFunction", 150, 65), call(2, 190, 5)]
    assert causes(tmp_path, *AROUND, *events) == {
        "Python between regions": 5,
        "region prologue and wrapper": 45,
        "host code of compiled graphs": 40,
        "launch call": 5 + 5,
    }


def test_graph_break(tmp_path: Path) -> None:
    # Region 0/0 has launched kernel 1 in its graph, which ended at 90. Its continuation 1/0 is looked up from
    # 110 to 130 and starts at 140; its graph starts at 180. An eager operator stands in the break.
    first = [
        region("0/0", -50, 280),
        op(GRAPH, -40, 130),
        call(1, -15, 2),
        kernel(1, 0, 100),
        kernel(2, 200, 10),
    ]
    second = [
        op("aten::nonzero", 100, 5),
        op("TorchDynamo Cache Lookup", 110, 20),
        region("1/0", 140, 80),
        op("Pregraph bytecode", 150, 10),
        op(GRAPH, 180, 30),
        call(2, 190, 5),
    ]
    assert causes(tmp_path, *first, *second) == {
        "eager operator overhead": 5,
        "graph break": 75,
        "host code of compiled graphs": 10,
        "launch call": 5 + 5,
    }


def test_compilation_keeps_all_that_is_inside(tmp_path: Path) -> None:
    inside = [
        op("_compile.compile_inner (dynamo_timed)", 90, 90),
        op("aten::mm", 110, 20),
        call(9, 140, 20, name="cudaDeviceSynchronize"),
    ]
    assert causes(tmp_path, *AROUND, *LAST, *inner_first(inside)) == plus(TAIL, compile=80, python=8)


def inner_first(events: list[Event]) -> list[Event]:
    """Order in the file says nothing."""
    return events[::-1]


def test_profiler(tmp_path: Path) -> None:
    flush = event("overhead", "Buffer Flush", 120, 60, pid=-1, tid=0)
    assert causes(tmp_path, *AROUND, *LAST, flush) == plus(TAIL, profiler=60, python=28)


def test_another_thread_is_asked_where_the_launching_one_rests(tmp_path: Path) -> None:
    # kernel 2 is launched by thread 2 (a backward), which starts at 170; thread 1 is in an operator until 160
    forward = [op("aten::sum", 105, 55), call(8, 106, 2), kernel(8, 300, 1)]
    backward = [
        op("autograd::engine::evaluate_function: MmBackward0", 170, 28, tid=2),
        call(2, 190, 5, tid=2),
    ]
    assert causes(tmp_path, *AROUND, *forward, *backward) == {
        # thread 1: 105 to 160 less its launch of 2 us; thread 2: 170 to 190
        "eager operator overhead": 53 + 20,
        "Python between regions": 5 + 10,
        "launch call": 2 + 5 + 5,
        # from the end of kernel 2 at 210 to kernel 8 at 300: the launch had returned at 108
        "between queued kernels": 50,
        "unknown": 40,
    }


def test_operators_of_a_region_outside_its_graph_are_its_wrapper(tmp_path: Path) -> None:
    # region 105 to 220, graph 110 to 150; a view of the result is made from 155 to 175, which is annotated
    events = [
        region("0/0", 105, 115),
        op(GRAPH, 110, 40),
        note("views", 154, 22),
        op("aten::as_strided", 155, 20),
        op("aten::detach", 160, 5),
        call(2, 190, 5),
    ]
    assert causes(tmp_path, *AROUND, *events) == {
        "Python between regions": 5,
        "region prologue and wrapper": 5 + 40,
        "host code of compiled graphs": 40,
        "launch call": 5 + 5,
    }


def test_operators_of_a_broken_region_are_eager_behind_its_first_graph(tmp_path: Path) -> None:
    # Region 0/0 from 105: an operator before its graph (106 to 109), one behind it (130 to 140); then 1/0
    # from 150 with an operator before its graph (155 to 160). A third region, 2/0, has no compiled code.
    events = [
        region("2/0", 101, 3),
        op("aten::sin", 102, 1),
        region("0/0", 105, 115),
        op("aten::view", 106, 3),
        op(GRAPH, 110, 20),
        op("aten::nonzero", 130, 10),
        region("1/0", 150, 60),
        op("aten::view", 155, 5),
        op(GRAPH, 170, 30),
        call(2, 190, 5),
    ]
    assert causes(tmp_path, *AROUND, *events) == {
        "Python between regions": 1 + 1,
        # 2/0 less its operator, and 105 to 110
        "region prologue and wrapper": 2 + 5,
        "host code of compiled graphs": 20 + 20,
        "eager operator overhead": 1 + 10,
        # 140 to 150 in 0/0, and 150 to 170
        "graph break": 10 + 20,
        "launch call": 5 + 5,
    }


def test_unlinked_work_is_unknown(tmp_path: Path) -> None:
    assert causes(tmp_path, op("aten::mm", 0, 300), kernel(1, 0, 100), kernel(2, 150, 100)) == {"unknown": 50}


def test_guards_of_a_replayed_graph(tmp_path: Path) -> None:
    # shared/cases/R42: 170 us of guards against 40 us of graph launch in each turn of 420 us
    path = SHARED / "cases" / "R42_guard_overhead.json"
    if not path.exists():
        pytest.skip(NO_SHARED)
    found = analyses.idle(link(kinetoscope.load(str(path), use_store=False)))
    assert found is not None
    assert (found.by_cause[0].cause, found.by_cause[0].total_ns) == ("guard lookup", 4 * 170_000)


#: for each cause a trace whose whole division is written down above
TESTED = {
    "unknown": test_unlinked_work_is_unknown,
    "Python between regions": test_python,
    "eager operator overhead": test_eager_operators,
    "host code of compiled graphs": test_compiled_function_is_the_graph_where_there_is_no_other,
    "region prologue and wrapper": test_wrapper,
    "guard lookup": test_guard_lookup,
    "graph break": test_graph_break,
    "launch call": test_launch_call,
    "between queued kernels": test_queued_kernels,
    "other stream's dependency": test_other_stream,
    "synchronisation": waits.test_synchronisation,
    "host-device copy": waits.test_host_device_copy,
    "allocation": waits.test_allocation,
    "collective or another rank": waits.test_collective,
    "data loading": waits.test_data_loading,
    "compilation": test_compilation_keeps_all_that_is_inside,
    "profiler overhead": test_profiler,
}


def test_every_cause_has_a_trace() -> None:
    assert set(TESTED) == set(CAUSES)


def test_a_thread_on_which_nothing_takes_time(tmp_path: Path) -> None:
    # thread 2 launches kernel 2, in no time
    launch = call(2, 150, 0, tid=2)
    assert causes(tmp_path, *AROUND, launch) == {"Python between regions": 50, "launch call": 50}
