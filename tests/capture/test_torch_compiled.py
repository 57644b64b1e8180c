"""Programs that compile.

Compiling takes seconds, so captures are shared; KINETOSCOPE_SLOW=1 runs all programs.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Capture, Ran, Runner

from conftest import PROGRAMS, unexpected

QUICK = ("print_break", "recompile_limit")
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py"))
SLOW = os.environ.get("KINETOSCOPE_SLOW") == "1"


@pytest.fixture(scope="session")
def pairs(shared_runner: Runner) -> dict[str, tuple[Ran, Capture, Capture]]:
    """Per program: run without us, captured with cold caches, captured again with warm ones."""

    def run(name: str) -> tuple[Ran, Capture, Capture]:
        script = PROGRAMS / f"{name}.py"
        plain = shared_runner.python(script)
        cold = shared_runner.capture(script, name=f"{name}-cold")
        warm = shared_runner.capture("--no-source", script, name=f"{name}-warm")
        return plain, cold, warm

    names = NAMES if SLOW else QUICK
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(run, names), strict=True))


@pytest.mark.parametrize("name", NAMES if SLOW else QUICK)
def test_programs_print_and_end_as_without_us(
    pairs: dict[str, tuple[Ran, Capture, Capture]], name: str
) -> None:
    plain, cold, warm = pairs[name]
    assert cold.ran.comparable() == plain.comparable()
    assert warm.ran.comparable() == plain.comparable()
    for capture in (cold, warm):
        manifest = capture.manifest()
        assert manifest["status"] == "complete"
        assert unexpected(manifest) == []
        assert manifest["window"]["kind"] == "steps"
        assert manifest["window"]["settled"] is True
        assert manifest["window"]["steps"] >= 2
        assert manifest["steps"]["before"]["steps"] >= 1
        assert not any(path.name.startswith(".") for path in capture.path.iterdir())


def test_compilations_are_counted(pairs: dict[str, tuple[Ran, Capture, Capture]]) -> None:
    for capture in pairs["recompile_limit"][1:]:
        compilations = capture.manifest()["compilations"]
        assert compilations["total"] == 2
        assert compilations["per_step"][:3] == [1, 1, 0]
        assert json.loads((capture.path / "counters.json").read_text())["stats"]["unique_graphs"] == 2
        assert "_compile" in (capture.path / "compile_times.txt").read_text()


REGIONAL = """\
import torch
x = torch.ones(4, 4)
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
    def forward(self, x): return self.linear(x).relu()
blocks = torch.nn.ModuleList([Block() for _ in range(4)])
for block in blocks: block.compile(backend="eager")
for _ in range(8):
    y = x
    for block in blocks: y = block(y)
    y.sum().backward()
"""


def test_compiled_blocks_make_one_step(runner: Runner) -> None:
    capture = runner.capture(runner.script(REGIONAL))
    window = capture.manifest()["window"]
    assert (window["kind"], window["source"], window["first_step"]) == ("steps", "compiled", 4)
    regions = sum(name.startswith("Torch-Compiled Region") for name in capture.names())
    steps = sum(name.startswith("ProfilerStep#") for name in capture.names())
    assert regions == 4 * steps


def test_kernels_of_the_cpu_are_in_the_trace(pairs: dict[str, tuple[Ran, Capture, Capture]]) -> None:
    assert any(name.startswith("graph_") for name in pairs["print_break"][1].names())


def test_switches_are_listed(pairs: dict[str, tuple[Ran, Capture, Capture]]) -> None:
    manifest = pairs["print_break"][1].manifest()
    switches = {switch["name"]: switch for switch in manifest["switches"]}
    assert switches["compile_log"]["state"] == "on"
    assert switches["inductor_provenance"] | {"state": "on", "at_end": 1} == switches["inductor_provenance"]
    assert switches["cpp_kernel_profile"]["at_end"] is True
    assert switches["cpp_kernel_profile"]["changes_cache_key"]
    assert any("keys of Inductor's caches" in note for note in manifest["notes"])


def test_the_log_holds_breaks_with_and_without_source(pairs: dict[str, tuple[Ran, Capture, Capture]]) -> None:
    _, cold, warm = pairs["print_break"]
    for log in (cold.log(), warm.log()):
        assert "dynamo_graph_break_reason" in log
        assert "print_break.py:9" in log
        assert "compilation_metrics" in log
    assert "y.cos() * 2" in cold.log()
    for secret in ("y.cos()", 'print(\\"\\"', 'print("")', "def forward", "x.sin()"):
        assert secret not in warm.log()
    assert any("holds source code" in note for note in cold.manifest()["notes"])
    assert any("--no-source" in note for note in warm.manifest()["notes"])


NEVER_SETTLES = """\
import torch
config = torch._dynamo.config
limit = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"  # before 2.7
setattr(config, limit, 100)
f = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
for i in range(40): f(torch.ones(i + 2))
"""


def test_a_program_that_never_settles(runner: Runner) -> None:
    capture = runner.capture(runner.script(NEVER_SETTLES))
    manifest = capture.manifest()
    assert manifest["window"]["settled"] is False
    assert manifest["window"]["warmup_steps"] == 12
    assert manifest["compilations"]["per_step"] == [1] * 39
    assert manifest["window"]["steps"] >= 10


COLD = """\
import torch
torch.manual_seed(0)
f = torch.compile(lambda x: (x * 2).relu(), backend="eager")
for i in range(4): f(torch.ones(4, requires_grad=True)).sum().backward()
print(torch.rand(1).item())
"""


def test_cold(runner: Runner) -> None:
    script = runner.script(COLD)
    capture = runner.capture("--cold", script)
    assert capture.ran.comparable() == runner.python(script).comparable()
    manifest = capture.manifest()
    window = manifest["window"]
    assert (window["kind"], window["steps"], window["ended"]) == ("cold", 1, "complete")
    assert window["throw_away_compile"] | {"device": "cpu", "error": None} == window["throw_away_compile"]
    assert any("(dynamo_timed)" in name for name in capture.names())
    assert manifest["compilations"]["total"] == 1
    assert "_throw_away" not in capture.log()


COMPILED_OPTIMIZER = """\
import torch
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.Adam(net.parameters(), lr=torch.tensor(0.1))
@torch.compile(backend="eager")
def update(): optimizer.step()
for i in range(30):
    net(torch.ones(2, 4)).sum().backward()
    update()
from torch._dynamo.utils import counters
print(sorted(counters["stats"].items()), dict(counters["frames"]), len(counters["graph_break"]))
"""


def test_dynamo_does_not_see_our_hooks(runner: Runner) -> None:
    script = runner.script(COMPILED_OPTIMIZER)
    # Messages about graph breaks show the whole stack.
    environment = {"TORCH_LOGS": "graph_breaks,recompiles"}
    capture = runner.capture(script, env=environment)
    assert capture.ran.comparable() == runner.python(script, env=environment).comparable()
    assert capture.manifest()["window"]["source"] == "compiled"
    started = [line for line in capture.log().splitlines() if '{"dynamo_start"' in line]
    stacks = [json.loads(line[line.index("{") :])["dynamo_start"]["stack"] for line in started]
    assert len(stacks) >= 2
    # Whatever a version compiles besides, no stack begins with a frame of ours.
    assert {(stack[0]["name"], stack[0]["line"]) for stack in stacks} <= {("<module>", 8), ("update", 4)}


def test_the_users_own_log_is_copied(runner: Runner) -> None:
    script = runner.script(COLD)
    environment = {"TORCH_TRACE": str(runner.directory / "mine"), "INDUCTOR_PROVENANCE": "0"}
    capture = runner.capture(script, env=environment)
    (mine,) = (runner.directory / "mine").iterdir()
    assert capture.manifest()["files"]["compile_log"] == [f"compile_log/{mine.name}"]
    assert capture.log() == mine.read_text()
    switches = {switch["name"]: switch for switch in capture.manifest()["switches"]}
    assert switches["compile_log"]["state"] == "left"
    assert switches["inductor_provenance"] | {"state": "left", "value": 0} == switches["inductor_provenance"]


COUNTS_CALLS = """\
import os, sys, kinetoscope, torch
ours = os.path.dirname(kinetoscope.__file__)
net = torch.compile(torch.nn.Linear(4, 4), backend="eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
found = []
def count(frame, event, argument):
    if event == "call" and frame.f_code.co_filename.startswith(ours): found[-1] += 1
sys.setprofile(count)
for step in range(200):
    found.append(0)
    {inference}
    {training}
sys.setprofile(None)
print(*found)
"""


@pytest.mark.parametrize("training", [True, False])
def test_a_step_that_is_only_counted_calls_next_to_nothing(runner: Runner, training: bool) -> None:
    # A step of 2 ms may cost 20 microseconds more; a function costs up to one, with the caches full of other
    # things. Nine calls watch training with two compiled calls a step.
    train = "net(torch.ones(2, 4)).sum().backward(); net(torch.ones(1, 4)); optimizer.step()"
    text = COUNTS_CALLS.replace("{training}", train if training else "pass")
    script = runner.script(text.replace("{inference}", "pass" if training else "net(torch.ones(2, 4))"))
    capture = runner.capture("--warmup", "130", "--steps", "3", script)
    manifest = capture.manifest()
    assert manifest["window"]["source"] == ("optimizer" if training else "compiled")
    assert manifest["window"]["warmup_steps"] == 130
    before, after = (manifest["steps"][block]["steps"] for block in ("before", "after"))
    assert min(before, after) >= 10
    calls = list(map(int, capture.ran.stdout.split()))
    most = 9 if training else 3
    # Now and then it is looked whether steps are still what they were.
    assert sum(number > most for number in calls[65:130]) <= 4
    assert max(calls[132 : 130 + before]) <= most
    done = next(place for place in range(150, 200) if calls[place] == 0)
    assert set(calls[done:]) == {0}
    counted_after = [number for number in calls[140:done] if 0 < number <= most]
    assert len(counted_after) >= after - 1


def test_heavier_recording_finds_the_same(runner: Runner, inductor_cache: Path) -> None:
    """Stacks, shapes and allocations cost time; what is found must not depend on them."""
    script = PROGRAMS / "print_break.py"
    found = {}
    for option in ("--no-source", "--record-shapes", "--with-stack", "--profile-memory"):
        capture = runner.capture(option, script, name=option)
        assert unexpected(capture.manifest()) == []
        shown = runner.python("-m", "kinetoscope", "report", "--format", "json", capture.path)
        assert (shown.status, shown.stderr) == (0, "")
        report = json.loads(shown.stdout)
        sites = [(site["line"], site["kind"], site["hits"]) for site in report["graph_breaks"]["sites"]]
        steps = [step["name"] for step in report["steps"]["list"]]
        regions = [(region["id"], region["calls"]) for region in report["regions"]]
        kernels = sorted((kernel["origin"], kernel["count"]) for kernel in report["kernels"]["by_origin"])
        found[option] = (sites, steps, regions, kernels, report["compiled"]["verdict"])
        assert (report["memory"] is not None) == (option == "--profile-memory")
        warned = {warning["code"] for warning in report["trace"]["warnings"]} - {"capture"}
        assert warned == ({"with-stack"} if option == "--with-stack" else set())
    assert found["--no-source"][0][0][0] == 9
    assert set(map(str, found.values())) == {str(found["--no-source"])}


def test_a_loop_that_compiles_anew_is_told(runner: Runner) -> None:
    text = (
        'import torch\nfor i in range(40): torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))\n'
    )
    capture = runner.capture(runner.script(text))
    note = capture.manifest()["notes"][-1]
    assert note.startswith("40 compiled functions were called once each")
    assert "before the loop" in note
    shown = runner.python("-m", "kinetoscope", "report", capture.path)
    assert shown.status == 2
    assert note in shown.stderr
