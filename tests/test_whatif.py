"""kinetoscope whatif: what it prints, and how it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from helpers import TRACES, call, kernel, note, op
from kinetoscope.__main__ import main

DECODE = str(TRACES / "pair_decode.trace.json.gz")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["whatif", *arguments, "--format", "json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_json_follows_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, DECODE, "--cuda-graphs", "--unprofiled-step-ms", "2.146")
    assert found["schema"] == "kinetoscope.whatif/1"
    assert found["change"] == ["CUDA graphs for every compiled graph that can have one"]
    step = found["step_ns"]
    assert isinstance(step, dict)
    assert set(step) == {"measured", "replayed", "predicted", "low", "high"}
    assert step["measured"] == 2_146_000
    assert step["replayed"] == pytest.approx(2_146_000, rel=0.005)
    assert step["low"] <= step["predicted"] <= step["high"]
    distortion = found["distortion"]
    assert isinstance(distortion, dict)
    assert distortion["unprofiled_ns"] == 2_146_000
    assert distortion["source"] == "--unprofiled-step-ms"
    assert isinstance(distortion["profiled_ns"], int)
    assert found["verdict"] == "gain"
    assert found["assumptions"]


def test_profiled_time_where_nothing_else_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, DECODE, "--cuda-graphs")
    step, distortion = found["step_ns"], found["distortion"]
    assert isinstance(step, dict)
    assert isinstance(distortion, dict)
    assert distortion["unprofiled_ns"] is None
    assert distortion["source"] is None
    assert step["measured"] == distortion["profiled_ns"]


def test_nothing_to_change(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, DECODE, "--no-breaks", "--no-sync", "--no-copies", "--fused-optimizer")
    step = found["step_ns"]
    assert isinstance(step, dict)
    assert step["predicted"] == step["replayed"] == step["low"] == step["high"]
    assert found["verdict"] == "no gain"
    assert len(found["change"]) == 4  # type: ignore[arg-type]


def test_windows_are_those_of_report(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, DECODE, "--cuda-graphs", "--steps", "2..5")
    assert found["verdict"] == "gain"


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", DECODE, "--kernel", "nvjet=2"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("What if    kernels matching nvjet 2 times as fast\n")
    assert "no gain is to be expected" in out
    assert "Taken for granted" in out


def test_a_change_that_makes_steps_longer_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    # the kernels of a step that the host paces take 100 times as long
    assert main(["whatif", DECODE, "--kernel", ".*=0.01"]) == 0
    assert "Worth      nothing: it makes steps longer, by " in capsys.readouterr().out


def test_a_given_step_leaves_what_else_the_capture_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(DECODE, tmp_path / "trace.json.gz")
    spins = {when: {"spin_ns": spin} for when, spin in (("before", 10.0), ("after", 20.0))}
    manifest = {
        "schema": "kinetoscope.capture/1",
        "status": "complete",
        "files": {"trace": "trace.json.gz"},
        "steps": {"before": {"mean_ns": 3_000_000}},
        "calibration": spins,
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    found = answer(capsys, str(tmp_path), "--no-guards", "--unprofiled-step-ms", "2.146")
    distortion = found["distortion"]
    assert isinstance(distortion, dict)
    assert distortion["unprofiled_ns"] == 2_146_000
    assert distortion["source"] == "--unprofiled-step-ms"
    assert any("2.0 times as long" in str(text) for text in found["assumptions"])  # type: ignore[attr-defined]


def test_of_several_traces_the_first_is_replayed_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.trace.json.gz").write_bytes(Path(DECODE).read_bytes())
    assert main(["whatif", str(tmp_path), "--cuda-graphs"]) == 0
    assert "rank0.trace.json.gz alone" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([DECODE], "whatif needs a change"),
        ([DECODE, "--kernel", "gemm"], "REGEX=FACTOR"),
        ([DECODE, "--kernel", "(=2"], "REGEX=FACTOR"),
        ([DECODE, "--kernel", "gemm=0"], "0.001 or more"),
        ([DECODE, "--kernel", "gemm=nan"], "0.001 or more"),
        ([DECODE, "--kernel", "gemm=1e-300"], "0.001 or more"),
        ([DECODE, "--cuda-graphs", "--unprofiled-step-ms", "1e-9"], "--unprofiled-step-ms"),
        ([DECODE, "--kernel", "no such kernel=2"], "no kernel of these steps matches"),
        ([DECODE, "--cuda-graphs", "--unprofiled-step-ms", "-1"], "--unprofiled-step-ms"),
        ([DECODE, "--cuda-graphs", "--unprofiled-step-ms", "nan"], "--unprofiled-step-ms"),
        ([DECODE, "--cuda-graphs", "--steps", "90..99"], "--steps"),
        ([str(TRACES / "nothing.json"), "--cuda-graphs"], "nothing.json"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", *arguments]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert not shown.out


def test_a_capture_knows_its_unprofiled_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = []
    for number in range(5):
        at = 100 * number
        events += [
            note(f"ProfilerStep#{number}", at, 100),
            op("aten::mm", at + 10, 60),
            call(number + 1, at + 30, 10),
            kernel(number + 1, at + 42, 20),
        ]
    (tmp_path / "trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    manifest = {
        "schema": "kinetoscope.capture/1",
        "files": {"trace": "trace.json"},
        "steps": {"before": {"steps": 20, "mean_ns": 70_000}},
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    found = answer(capsys, str(tmp_path), "--kernel", "k=2")
    step, distortion = found["step_ns"], found["distortion"]
    assert isinstance(step, dict)
    assert isinstance(distortion, dict)
    assert step["measured"] == distortion["unprofiled_ns"] == 70_000
    assert "before the profiler started" in distortion["source"]


def test_steps_of_no_length_are_not_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = []
    for number in range(5):
        events += [note(f"ProfilerStep#{number}", 1, 0), call(number + 1, 1, 0), kernel(number + 1, 1, 0)]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*events, op("aten::mm", 1, 0)]}))
    assert main(["whatif", str(path), "--no-sync"]) == 2
    assert "nothing to replay" in capsys.readouterr().err
