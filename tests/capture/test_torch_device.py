"""What is recorded of a device, and when. Needs a machine that has one: run these there by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

if TYPE_CHECKING:
    from conftest import Capture, Runner

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

COMPILED = """\
import time, torch
torch.set_float32_matmul_precision("high")  # else the compiler warns
def f(x): return torch.sin(x) @ x
g = torch.compile(f)
x = torch.randn(64, 64, device="cuda")
"""


def kernels(capture: Capture) -> list[dict[str, Any]]:
    return [event for event in capture.events() if event.get("cat") == "kernel"]


def count(capture: Capture, name: str) -> int:
    return sum(name in kernel["name"] for kernel in kernels(capture))


def run(runner: Runner, text: str) -> tuple[Capture, dict[str, Any]]:
    capture = runner.capture(runner.script(text))
    assert (capture.ran.stderr, capture.ran.status) == ("", 0)
    return capture, capture.manifest()


@pytest.mark.parametrize(
    "loop",
    [
        "for _ in range(200): g(x)\n",
        "while True:\n    g(x)\n    n = globals().get('n', 0) + 1\n    if n > 200: break\n",
        "g(x)\ntorch.cuda.synchronize()\nfor _ in range(200): g(x)\n",
        "for _ in range(3): g(x)\nfor _ in range(200): g(x)\n",
    ],
    ids=["loop", "unknown length", "call and loop", "two loops"],
)
def test_the_device_of_a_long_program_is_recorded_in_the_window_only(runner: Runner, loop: str) -> None:
    capture, manifest = run(runner, COMPILED + loop)
    assert manifest["window"]["kind"] == "steps"
    assert manifest["window"]["activities"] == ["CPU", "CUDA"]
    assert not manifest["profiler"]["device_recorded_before"]
    # a step is one Triton kernel and a matrix product
    assert count(capture, "triton") == manifest["steps"]["profiled"]["steps"] == 20


def test_of_a_short_program_all_that_is_compiled_is_recorded(runner: Runner) -> None:
    capture, manifest = run(runner, COMPILED + "for _ in range(3): g(x)\n")
    assert manifest["window"]["kind"] == "program"
    assert manifest["profiler"]["device_recorded_before"]
    assert count(capture, "triton") >= 3


def test_a_program_that_compiles_nothing_is_recorded_from_its_devices_beginning(runner: Runner) -> None:
    text = (
        "import torch\nx = torch.ones(64, device='cuda')\nfor _ in range(50): x = x.sin()\nprint(x.sum())\n"
    )
    capture, manifest = run(runner, text)
    assert manifest["window"]["kind"] == "program"
    assert count(capture, "sin_kernel") == 50


def test_what_is_lost_of_a_program_that_calls_nothing_compiled_is_said(runner: Runner) -> None:
    capture = runner.capture(runner.script(COMPILED + "for _ in range(400): f(x)\n"))
    (warning,) = capture.manifest()["warnings"]
    assert warning.startswith("the program used a device and speaks of compiling")
    assert not kernels(capture)


def test_the_first_use_within_marks_of_the_program_does_no_harm(runner: Runner) -> None:
    """Memory of a profile that stops within marks must not be written to when they close."""
    text = (
        "import torch\nfrom torch.profiler import record_function\n"
        "marks = [record_function(str(n)) for n in range(2000)]\n"
        "for mark in marks: mark.__enter__()\n"
        "x = torch.ones(64, device='cuda')\nfor _ in range(50): x = x.sin()\n"
        "for mark in reversed(marks): mark.__exit__(None, None, None)\nprint('done')\n"
    )
    capture = runner.capture(runner.script(text))  # torch itself says on stderr which marks were open
    assert (capture.ran.stdout, capture.ran.status) == ("done\n", 0)
    assert count(capture, "sin_kernel") == 50


def test_a_profiler_of_the_programs_own_sees_the_device(runner: Runner) -> None:
    own = (
        "with torch.profiler.profile(acc_events=True) as p: g(x)\n"
        "print(any('triton' in e.key for e in p.key_averages()))\n"
    )
    for before in ("", "for _ in range(3): g(x)\n", "for _ in range(200): g(x)\n"):
        capture, _ = run(runner, COMPILED + before + own)
        assert capture.ran.stdout == "True\n", before
