"""Capture directories: what is found, what is joined, and what is said when a part is missing."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers import TRACES
from kinetoscope.errors import InputError
from kinetoscope.ingest.capture_directory import Capture, find_inputs
from kinetoscope.render.as_text import render
from kinetoscope.reporting import analyse
from kinetoscope.schema import Report

LOG = TRACES / "logs" / "seed_breaks.log.gz"
TRACE = TRACES / "seed_breaks.trace.json.gz"
NAME = "dedicated_log_torch_trace_abc.log.gz"


def capture(
    where: Path, *, manifest: bool = True, log: bool = True, rank: int | None = None, **more: Any
) -> Path:
    """A capture of three breaks; ``more`` goes into the manifest."""
    suffix = "" if rank is None else f".rank{rank}"
    where.mkdir(exist_ok=True)
    (where / "compile_log").mkdir(exist_ok=True)
    shutil.copy(TRACE, where / f"trace{suffix}.json.gz")
    name = NAME if rank is None else f"dedicated_log_torch_trace_rank_{rank}_abc.log.gz"
    if log:
        shutil.copy(LOG, where / "compile_log" / name)
    if manifest:
        files = {"trace": f"trace{suffix}.json.gz", "compile_log": [f"compile_log/{name}"] if log else []}
        about = {
            "schema": "kinetoscope.capture/1",
            "status": "complete",
            "rank": rank,
            "traces": [{"file": files["trace"]}],
            "files": files,
            "compilations": {"total": 4},
            **more,
        }
        (where / f"manifest{suffix}.json").write_text(json.dumps(about))
    return where


def report(path: Path) -> Report:
    return analyse([str(path)], use_store=False)


def is_joined(found: Report) -> bool:
    return (found.graph_breaks.source, found.graph_breaks.count) == ("log", 3)


def test_a_capture_directory_is_joined_by_itself(tmp_path: Path) -> None:
    where = capture(tmp_path / "c")
    (where / "compile_times.txt").write_text("TorchDynamo compilation metrics:\n")
    (where / "cudagraph_skips.json").write_text('[{"reason": "mutated inputs", "count": 2}]')
    (where / "counters.json").write_text("{}")
    found = report(where)
    assert is_joined(found)
    assert not [warning for warning in found.trace.warnings if warning.code != "annotations"]
    assert found.compile_time.compile_times_table == "TorchDynamo compilation metrics:\n"
    assert [(s.reason, s.count) for s in found.cuda_graphs.skips] == [("mutated inputs", 2)]


def test_a_directory_with_a_log_folder_is_one_too(tmp_path: Path) -> None:
    assert is_joined(report(capture(tmp_path / "c", manifest=False)))


def test_the_trace_of_a_capture_can_be_named_itself(tmp_path: Path) -> None:
    where = capture(tmp_path / "c")
    assert is_joined(report(where / "trace.json.gz"))
    shutil.copy(where / "trace.json.gz", where / "other.json.gz")  # the manifest does not list it
    assert not is_joined(report(where / "other.json.gz"))


def test_a_log_that_lies_beside_a_plain_trace_is_not_joined_silently(tmp_path: Path) -> None:
    where = capture(tmp_path / "c", manifest=False)
    assert not is_joined(report(where / "trace.json.gz"))
    asked = analyse([str(where / "trace.json.gz")], compile_log=str(where / "compile_log"), use_store=False)
    assert is_joined(asked)
    whole = analyse([str(where / "trace.json.gz")], compile_log=str(where), use_store=False)
    assert is_joined(whole)


def test_other_traces_of_a_capture_are_not_ranks(tmp_path: Path) -> None:
    where = capture(tmp_path / "c")
    shutil.copy(TRACE, where / "trace.program-1.json.gz")
    assert report(where).ranks is None


def test_a_program_that_compiled_nothing_wrote_no_log(tmp_path: Path) -> None:
    where = capture(tmp_path / "c", log=False, compilations={"total": 0})
    shutil.copy(TRACES / "warm" / "gb_loop.json.gz", where / "trace.json.gz")
    found = report(where)
    assert (found.graph_breaks.count, found.graph_breaks.source) == (0, "log")
    assert not [warning for warning in found.trace.warnings if warning.code != "annotations"]
    shutil.rmtree(where / "compile_log")
    assert report(where).graph_breaks.source == "trace"


def test_a_log_that_is_lost_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    where = capture(tmp_path / "c", log=False)
    found = report(where)
    assert found.graph_breaks.source == "trace"
    (warning,) = found.trace.warnings
    assert warning.code == "compile-log-missing"
    assert "4 compilations" in warning.message


def test_an_empty_or_damaged_log_does_not_cost_the_report(tmp_path: Path) -> None:
    where = capture(tmp_path / "c", log=False, compilations={"total": 0})
    (where / "compile_log" / NAME.removesuffix(".gz")).touch()
    assert [w.code for w in report(where).trace.warnings] == ["compile-log-mismatch"]
    (where / "compile_log" / NAME.removesuffix(".gz")).write_text("this is no log\n")
    assert [w.code for w in report(where).trace.warnings] == ["compile-log-unread"]
    with pytest.raises(InputError, match="not a TORCH_TRACE log"):
        analyse([str(where)], compile_log=str(where / "compile_log"), use_store=False)


def test_a_cut_log_is_read_to_its_last_whole_record(tmp_path: Path) -> None:
    where = capture(tmp_path / "c", log=False)
    data = gzip.decompress(LOG.read_bytes())
    (where / "compile_log" / "torch_trace.log").write_bytes(data[: len(data) // 2])
    found = report(where)
    assert found.graph_breaks.source == "log"
    assert "log-truncated" in [w.code for w in found.trace.warnings]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "something else"}', "\x00" * 50])
def test_a_manifest_that_says_nothing_counts_as_missing(tmp_path: Path, text: str) -> None:
    where = capture(tmp_path / "c")
    (where / "manifest.json").write_text(text)
    assert is_joined(report(where))


def test_a_manifest_does_not_lead_out_of_its_directory(tmp_path: Path) -> None:
    where = capture(tmp_path / "c", files={"trace": "../trace.json.gz"})
    (item,) = find_inputs([str(where)])
    assert Path(item.source.label).parent == where


def test_a_capture_without_a_trace_says_why(tmp_path: Path) -> None:
    where = capture(tmp_path / "c", status="running", files={})
    with pytest.raises(InputError, match="has not ended, or was killed"):
        find_inputs([str(where)])
    where = capture(
        tmp_path / "d", files={}, notes=["the program did not import torch: nothing was captured"]
    )
    with pytest.raises(InputError, match="did not import torch"):
        find_inputs([str(where)])


@pytest.mark.parametrize(
    ("program", "profiled", "said"),
    [
        (
            {"exit_status": 1, "error": "ValueError: bad"},
            3,
            ["the program ended with ValueError: bad, when 3 of 20 steps had been profiled"],
        ),
        ({"exit_status": 1, "error": "ValueError: bad"}, 20, ["the program ended with ValueError: bad"]),
        (
            {"exit_status": 1, "error": "KeyboardInterrupt: "},
            20,
            ["the program ended with KeyboardInterrupt"],
        ),
        ({"exit_status": 3, "error": None}, 3, []),
        ({"exit_status": 0, "error": None}, 3, []),
        (None, 3, []),
    ],
)
def test_a_program_that_ended_with_an_error_is_said_to(
    program: dict[str, Any] | None, profiled: int, said: list[str]
) -> None:
    steps = {"profiled": {"steps": profiled}}
    manifest = {"program": program, "window": {"planned_steps": 20}, "steps": steps, "warnings": ["so"]}
    assert list(Capture(manifest).warnings) == ["so", *said]


def test_a_trace_of_a_program_that_was_killed_is_said_to_be_one(tmp_path: Path) -> None:
    where = capture(tmp_path / "c", status="running")
    (warning,) = report(where).trace.warnings
    assert (warning.code, "or was killed" in warning.message) == ("capture", True)


@pytest.mark.parametrize(
    ("window", "command", "begins"),
    [
        (
            {"kind": "steps", "first_step": 4},
            "run",
            7,
        ),  # steps 4 to 7 were profiled; 6 is the last to compile
        ({"kind": "cold", "first_step": 4}, "run", None),  # compiling is what was asked for
        ({"kind": "steps", "first_step": 4}, "capture", None),  # the program chose its steps itself
        ({"kind": "steps", "first_step": 7}, "run", None),
        ({"kind": "steps"}, "run", None),
    ],
)
def test_the_warmup_that_leaves_compiling_out(
    window: dict[str, Any], command: str, begins: int | None
) -> None:
    per_step = [1, 0, 0, 0, 0, 1, 2, 0]
    steps = {"profiled": {"steps": 4}}
    manifest = {"command": command, "window": window, "steps": steps, "compilations": {"per_step": per_step}}
    assert Capture(manifest).warmup_past_compiling == begins


@pytest.mark.parametrize(("kind", "advice"), [("cold", "a cold capture"), ("steps", "Warm up before")])
def test_nobody_is_told_to_warm_up_a_cold_capture(tmp_path: Path, kind: str, advice: str) -> None:
    compiling = {"ph": "X", "pid": 1, "tid": 1, "ts": 10, "dur": 500, "cat": "cpu_op"}
    events = [{**compiling, "name": "_compile.compile_inner (dynamo_timed)"}]
    where = capture(tmp_path / "c", log=False, window={"kind": kind}, compilations={"total": 0})
    with gzip.open(where / "trace.json.gz", "wt") as file:
        json.dump({"schemaVersion": 1, "traceEvents": events}, file)
    (found,) = (f for f in report(where).findings if f.code == "compile-in-window")
    assert (found.fix or "").count(advice) == 1
    assert ("Warm up" in (found.fix or "")) == (kind != "cold")


def test_a_capture_whose_trace_was_lost_names_the_file(tmp_path: Path) -> None:
    where = capture(tmp_path / "c", notes=["switches are part of the keys of caches"])
    (where / "trace.json.gz").unlink()
    with pytest.raises(InputError, match=r"the capture has no trace \(its trace\.json\.gz is missing\)$"):
        find_inputs([str(where)])


def ranks(where: Path, *, manifest: bool) -> Path:
    for rank in (0, 1):
        capture(where, rank=rank, manifest=manifest)
        path = where / f"trace.rank{rank}.json.gz"
        trace = json.loads(gzip.decompress(path.read_bytes()))
        trace["distributedInfo"] = {"rank": rank, "world_size": 2, "backend": "nccl"}
        path.write_bytes(gzip.compress(json.dumps(trace).encode()))
    return where


@pytest.mark.parametrize("manifest", [True, False])
def test_every_rank_gets_its_own_part_of_the_log(tmp_path: Path, manifest: bool) -> None:
    where = ranks(tmp_path / "c", manifest=manifest)
    found = report(where)
    assert found.ranks is not None
    assert [rank.trace.rank for rank in found.ranks] == [0, 1]
    for rank in found.ranks:
        assert is_joined(rank)
        assert rank.compile_time.total_ns == 3_435_902_750  # of one rank's four compilations, not of eight


def test_a_rank_without_a_log_is_told_apart_from_one_that_compiled_nothing(tmp_path: Path) -> None:
    where = ranks(tmp_path / "c", manifest=False)
    (where / "compile_log" / "dedicated_log_torch_trace_rank_1_abc.log.gz").unlink()
    found = report(where)
    assert found.ranks is not None
    assert is_joined(found.ranks[0])
    assert found.ranks[1].graph_breaks.source == "trace"
    (warning,) = found.ranks[1].trace.warnings
    assert (warning.code, "rank 1" in warning.message) == ("compile-log-missing", True)


STEP_MS = 3.0


@pytest.mark.parametrize("log", ["there", "lost", "empty", "of another process"])
def test_what_a_capture_measured_is_used_with_and_without_its_log(tmp_path: Path, log: str) -> None:
    def timed(milliseconds: float) -> dict[str, Any]:
        return {"steps": 10, "mean_ns": round(milliseconds * 1e6)}

    steps = {"before": timed(STEP_MS), "profiled": timed(1.3 * STEP_MS), "after": timed(STEP_MS)}
    where = capture(tmp_path / "c", log=log == "there", steps=steps)
    (where / "compile_times.txt").write_text("TorchDynamo compilation metrics:\n")
    (where / "cudagraph_skips.json").write_text('[{"reason": "mutated inputs", "count": 2}]')
    if log == "empty":
        (where / "compile_log" / NAME.removesuffix(".gz")).touch()
    if log == "of another process":
        shutil.copy(TRACES / "logs" / "gb_loop.log.gz", where / "compile_log" / NAME)
    found = report(where)
    assert is_joined(found) == (log == "there")
    assert found.compile_time.compile_times_table == "TorchDynamo compilation metrics:\n"
    assert [(s.reason, s.count) for s in found.cuda_graphs.skips] == [("mutated inputs", 2)]
    findings = {finding.code: finding for finding in found.findings}
    assert "30 % longer" in findings["profiler-distortion"].title
    assert "mutated inputs (2 times)" in findings["cuda-graph-skip"].detail
    bound = findings["launch-bound"]
    assert bound.basis == "unprofiled"
    assert bound.saving_ns_per_step is not None
    assert 0 < bound.saving_ns_per_step.best < STEP_MS * 1e6
    assert found.steps.unprofiled_mean_ns == STEP_MS * 1e6
    assert found.steps.unprofiled_ns == STEP_MS * 1e6
    # Breaks cost what the trace shows, and save what the replay of an unprofiled step says.
    broken = findings["graph-break"]
    assert (broken.basis, broken.saving_basis) == ("profiled", "unprofiled")
    shown = render(found, width=120, color=False)
    assert ", 3.00 ms without the profiler" in shown
    said = "Times are of steps without the profiler; the costs of "
    assert said in shown
    ranks = shown[shown.index(said) + len(said) :].split(" of the profiled run")[0]
    numbered = [finding for finding in found.findings if finding.severity != "info"]
    costs = [n for n, f in enumerate(numbered, 1) if f.basis == "profiled" and f.cost_ns_per_step is not None]
    assert ranks == ", ".join(map(str, costs))


@pytest.mark.parametrize(
    ("manifest", "log", "torch"),
    [
        ({"versions": {"torch": "2.12.1+x"}}, False, "2.12.1+x"),
        ({"versions": {"torch": 2.12}}, False, None),
        ({"versions": ["torch"]}, False, None),
        ({}, True, "2.11.0+cu130"),  # as the log's own records say
        ({"versions": {"torch": "2.12.1+x"}}, True, "2.11.0+cu130"),  # written while it compiled
    ],
)
def test_the_version_of_torch_is_the_logs_or_the_captures(
    tmp_path: Path, manifest: dict[str, Any], log: bool, torch: str | None
) -> None:
    made = report(capture(tmp_path / "c", log=log, **manifest))
    assert made.trace.versions.torch == torch


def test_the_headline_and_the_savings_speak_of_the_same_step(tmp_path: Path) -> None:
    # 40 steps of 3 ms, of which others slowed 8 down to 9 ms: a step usually takes 3 ms, on average 4.2 ms
    each = [3_000_000] * 20 + [9_000_000] * 8 + [3_000_000] * 12
    before = {"steps": 40, "mean_ns": 4_200_000, "wall_ns": sum(each), "host_ns": each}
    found = report(capture(tmp_path / "c", log=False, steps={"before": before}))
    assert (found.steps.unprofiled_mean_ns, found.steps.unprofiled_ns) == (4_200_000, 3_000_000)
    shown = render(found, width=120, color=False)
    assert ", 3.00 ms without the profiler" in shown
    assert "A step takes 3.00 ms" in shown
