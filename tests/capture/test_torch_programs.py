"""Programs print and end as without us; these compile nothing, or with a backend that is quick."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch

from conftest import unexpected

if TYPE_CHECKING:
    from conftest import Runner

TRAIN = """\
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Sequential(torch.nn.ReLU()), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
def train(steps):
    for step in range(steps):
        net(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
ENDINGS = {
    "exception": "class Bad(torch.nn.Module):\n    def forward(self, x):\n        raise ValueError('x')\n"
    "train(6)\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    Bad()(1)\n",
    "exit_status": "import sys\ntrain(9)\nsys.exit(3)\n",
    "exit_message": "import sys\nprint('out')\ntrain(9)\nsys.exit('done\\nfor')\n",
    "interrupt": "import atexit, os, signal\natexit.register(print, 'at exit')\ntrain(30)\n"
    "os.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(9)\n",
    "terminated": "import os, signal, time\ntrain(30)\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(9)\n",
    "own_hook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__)\ntrain(2)\n1 / 0\n",
    "fine": "train(60)\nprint('done')\n",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_ends_as_without_us(runner: Runner, ending: str) -> None:
    script = runner.script(TRAIN + ENDINGS[ending])
    capture = runner.capture(script.name)
    assert capture.ran.comparable() == runner.python(script.name).comparable()
    manifest = capture.manifest()
    assert manifest["status"] == "complete"
    assert unexpected(manifest) == []
    assert "trace" in manifest["files"]
    if ending == "fine":
        assert (
            manifest["window"] | {"ended": "complete", "steps": 20, "source": "optimizer"}
            == manifest["window"]
        )
        assert manifest["steps"]["before"]["steps"] == 10
        assert manifest["steps"]["after"]["steps"] == 10
        assert manifest["steps"]["variants"]["cpu"]["steps"] == 5
        assert manifest["model"]["parameters"] == 8 * 8 + 8 + 8 + 1
        assert manifest["calibration"]["before"]["spin_ns"] > 0
        assert manifest["calibration"]["before"]["cpu_operator_ns"] > 0
        assert manifest["calibration"]["profiled"]["cpu"]["cpu_operator_ns"] > 0
        marks = [name for name in capture.names() if name.startswith("ProfilerStep#")]
        first = manifest["window"]["first_step"]
        assert sorted(set(marks)) == sorted(f"ProfilerStep#{first + i}" for i in range(20))


def test_a_syntax_error(runner: Runner) -> None:
    runner.script("x = (\n", "broken.py")
    assert runner.capture("broken.py").ran.comparable() == runner.python("broken.py").comparable()


def test_a_script_that_is_not_there(runner: Runner) -> None:
    ran = runner.capture("nowhere.py").ran
    assert (ran.status, ran.stderr) == (2, "kinetoscope: there is no file nowhere.py\n")


MAIN = """\
import json, os, pickle, sys, torch
class Thing: pass
print(json.dumps([sys.argv, __file__, __name__, sys.path[0], __spec__ is None, __package__, __loader__.name]))
print(sys.modules['__main__'].Thing is Thing, type(pickle.loads(pickle.dumps(Thing()))) is Thing)
print(sorted(k for k in globals() if k.startswith('__')))
print([k for k in os.environ if k.startswith(('TORCH_', 'KINETO'))], torch.nn.Module.__call__.__name__)
"""


def test_main_is_the_scripts(runner: Runner) -> None:
    (runner.directory / "sub").mkdir()
    runner.script(MAIN, "sub/main.py")
    arguments = ("sub/main.py", "--steps", "3", "-o", "x")
    assert runner.capture(*arguments).ran.comparable() == runner.python(*arguments).comparable()


def test_a_module(runner: Runner) -> None:
    (runner.directory / "package").mkdir()
    runner.script("", "package/__init__.py")
    source = "import sys\nfrom . import value\nprint(sys.argv, sys.path[0], __spec__.name, value.x)\n1 / 0\n"
    runner.script(source, "package/__main__.py")
    runner.script("x = 3\n", "package/value.py")
    captured = runner.capture("-m", "package", "-o", "3").ran
    assert captured.comparable() == runner.python("-m", "package", "-o", "3").comparable()
    assert runner.capture("package").ran.status == 1
    missing = runner.python("-m", "no_such_module")
    assert runner.capture("-m", "no_such_module").ran.comparable() == missing.comparable()


CHILDREN = """\
import multiprocessing, os, subprocess, sys, threading
import torch
class Data(torch.utils.data.Dataset):
    def __len__(self): return 48
    def __getitem__(self, i): return torch.full((8,), float(i))
def child(x):
    net = torch.compile(lambda x: x + 1, backend="eager")
    return float(net(torch.tensor(float(x)))), os.environ.get("TORCH_TRACE")
def in_thread():
    compiled = torch.compile(lambda x: x * 3, backend="eager")
    for _ in range(40): compiled(torch.ones(2))
    print("thread")
if __name__ == "__main__":
    net = torch.compile(torch.nn.Linear(8, 8), backend="eager")
    thread = threading.Thread(target=in_thread); thread.start()
    for epoch in range(4):
        for batch in torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=2):
            net(batch).sum().backward()
    thread.join()
    for method in ("spawn", "fork"):
        with multiprocessing.get_context(method).Pool(1) as pool: print(pool.map(child, [1, 2]))
    print(subprocess.run([sys.executable, "-c", "import torch, os; print(os.environ.get('TORCH_TRACE'))"],
          capture_output=True, text=True).stdout)
    pid = os.fork()
    if pid == 0: sys.exit(5)
    print(os.waitpid(pid, 0)[1] >> 8)
    threading.Timer(0.1, print, ["late"]).start()
"""


def test_children_and_threads(runner: Runner) -> None:
    script = runner.script(CHILDREN)
    capture = runner.capture(script)
    assert capture.ran.comparable() == runner.python(script).comparable()
    manifest = capture.manifest()
    assert unexpected(manifest) == []
    assert manifest["window"]["ended"] == "complete"
    assert len(list((capture.path / "compile_log").iterdir())) == 1
    assert manifest["program"]["exit_status"] == 0


THREAD = """\
import sys, threading, torch
net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
def train():
    for _ in range(int(sys.argv[1])):
        net(torch.ones(4, 8)).sum().backward()
        optimizer.step()
thread = threading.Thread(target=train); thread.start(); thread.join()
"""


@pytest.mark.parametrize("steps", [4, 90])
def test_a_program_that_trains_in_another_thread(runner: Runner, steps: int) -> None:
    capture = runner.capture(runner.script(THREAD), str(steps))
    manifest = capture.manifest()
    if torch.__version__ < "2.7":
        assert "lost: the steps" in manifest["warnings"][-1]
        return
    assert unexpected(manifest) == []
    window = manifest["window"]
    assert (window["kind"], window["source"]) == ("program" if steps == 4 else "steps", "optimizer")
    marks = {name for name in capture.names() if name.startswith("Optimizer.step")}
    assert marks == {"Optimizer.step#SGD.step"}
    assert capture.names().count("aten::addmm") == (4 if steps == 4 else 20)


@pytest.mark.parametrize("ending", ["sys.stdout.close()", "sys.stdout = object()", "sys.stdout = None"])
def test_a_program_that_takes_stdout_away(runner: Runner, ending: str) -> None:
    script = runner.script(f"import sys\nprint(1, flush=True)\n{ending}\n")
    assert runner.capture(script).ran.comparable() == runner.python(script).comparable()


def test_a_reader_that_went_away(runner: Runner) -> None:
    script = runner.script("import time\ntime.sleep(0.5)\nprint(1)\n")
    statuses = []
    for command in (["-m", "kinetoscope", "run", "--no-report", "-o", "capture"], []):
        process = subprocess.Popen(
            [sys.executable, *command, script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=runner.directory,
            env=runner.environment,
            text=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        process.stderr.close()
        statuses.append((process.wait(60), said))
    assert statuses[0] == statuses[1]


OWN_PROFILER = """\
import torch
from torch.profiler import profile, schedule, tensorboard_trace_handler
net = torch.nn.Linear(8, 8)
for _ in range(3): net(torch.ones(2, 8))
with profile() as prof:
    for _ in range(5): net(torch.ones(2, 8))
print(len(prof.key_averages()) > 0)
{export}
for _ in range(100): net(torch.ones(2, 8))
"""


@pytest.mark.parametrize(
    "export", ["prof.export_chrome_trace('t.json')", "prof.export_chrome_trace('t.json.gz')", ""]
)
def test_a_program_that_profiles_itself(runner: Runner, export: str) -> None:
    script = runner.script(OWN_PROFILER.format(export=export))
    capture = runner.capture(script)
    assert capture.ran.comparable() == runner.python(script).comparable()
    manifest = capture.manifest()
    assert manifest["profiler"]["program_has_its_own"]
    (trace,) = manifest["traces"]
    assert trace["kind"] == "program_profiler"
    assert trace["events"] == len([event for event in capture.events() if "ph" in event])
    assert capture.names().count("aten::addmm") == 5
    if export:
        # Everything that was written is still there for the program.
        assert trace["name"] == export.split("'")[1]
        assert (runner.directory / trace["name"]).exists()


def test_a_program_that_profiles_itself_after_our_window(runner: Runner) -> None:
    script = runner.script(
        TRAIN + "train(80)\nwith torch.profiler.profile() as p: train(2)\np.export_chrome_trace('t')"
    )
    capture = runner.capture(script)
    kinds = {trace["file"]: trace["kind"] for trace in capture.manifest()["traces"]}
    assert kinds == {"trace.json.gz": "steps", "trace.program-1.json.gz": "program_profiler"}


def test_no_torch_at_all(runner: Runner) -> None:
    capture = runner.capture(runner.script("print(1)"))
    assert (capture.ran.stdout, capture.ran.stderr, capture.ran.status) == ("1\n", "", 0)
    assert "did not import torch" in " ".join(capture.manifest()["notes"])


def test_a_program_without_steps_is_profiled_whole(runner: Runner) -> None:
    script = runner.script("import torch\nx = torch.ones(4)\nfor _ in range(50): x = x.sin()\n")
    capture = runner.capture(script)
    window = capture.manifest()["window"]
    assert (window["kind"], window["ended"], window["source"]) == ("program", "the program ended", None)
    assert capture.names().count("aten::sin") == 50


def test_a_short_program_is_profiled_whole(runner: Runner) -> None:
    script = runner.script(TRAIN + "train(3)")
    capture = runner.capture(script)
    window = capture.manifest()["window"]
    assert (window["kind"], window["source"]) == ("program", "optimizer")
    assert sum("Optimizer.step" in name for name in capture.names()) == 3


def test_a_warm_up_is_not_measured_where_a_longer_loop_follows(runner: Runner) -> None:
    script = runner.script(
        "import torch\nf = torch.compile(torch.sin)\nx = torch.ones(8)\n"
        "for _ in range(12): f(x)\nfor _ in range(80): f(x)\n"
    )
    manifest = runner.capture(script).manifest()
    assert manifest["window"]["first_step"] >= 12
    # the warm-up alone would have left room for one step before the profile and six in it
    assert manifest["steps"]["profiled"]["steps"] == 20
    assert all(manifest["steps"][block]["steps"] >= 10 for block in ("before", "after"))


def test_a_loop_of_unknown_length_that_ends_early(runner: Runner) -> None:
    script = runner.script(
        TRAIN + "while True:\n    train(1)\n    if (n := globals().get('n', 0) + 1) > 4: break\n"
    )
    capture = runner.capture(script)
    assert capture.manifest()["window"]["kind"] == "program"
    assert sum("Optimizer.step" in name for name in capture.names()) == 5


def test_the_whole_profile_ends_at_its_limit(runner: Runner) -> None:
    text = (
        "import time, torch\nx = torch.ones(4)\nend = time.time() + 3\nwhile time.time() < end: x = x.sin()\n"
    )
    script = runner.script(text)
    driver = (
        "import sys\nfrom kinetoscope.capturing import options\n"
        "from kinetoscope.capturing.run import ProgramRun\n"
        "limits = options.Limits(program_seconds=0.5)\n"
        f"run = ProgramRun(options.RunOptions({str(script)!r}, directory='capture', limits=limits))\n"
        "sys.exit(run.run().status)\n"
    )
    assert runner.python("-c", driver).status == 0
    manifest = json.loads((runner.directory / "capture" / "manifest.json").read_text())
    assert manifest["window"]["limit_reached"] == "seconds"
    assert manifest["window"]["ended"] == "limit of seconds"
    assert manifest["traces"][0]["events"] > 100


def test_options(runner: Runner) -> None:
    script = runner.script(TRAIN + "train(100)\nprint('not reached')")
    capture = runner.capture("--steps", "7", "--warmup", "1", "--stop", "--record-shapes", script)
    assert (capture.ran.stdout, capture.ran.status) == ("", 0)
    manifest = capture.manifest()
    assert manifest["window"]["warmup_steps"] == 1
    assert manifest["window"]["steps"] == 7
    assert any("Input Dims" in event.get("args", {}) for event in capture.events())


def test_without_the_packages_that_analyse(runner: Runner) -> None:
    blocked = runner.directory / "blocked"
    blocked.mkdir()
    for name in ("msgspec", "polars", "typer", "rich", "isal"):
        (blocked / f"{name}.py").write_text(f"raise ImportError('no {name}', name={name!r})")
    path = f"{blocked}:{runner.environment['PYTHONPATH']}"
    script = runner.script("import torch\nprint(1)")
    ran = runner.python("-m", "kinetoscope", "run", "-o", "c", script, env={"PYTHONPATH": path})
    assert (ran.stdout, ran.status) == ("1\n", 0)
    assert "no report" in ran.stderr.splitlines()[-1]
    assert "kinetoscope report" in ran.stderr.splitlines()[-1]


RANKS = """\
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(40):
    net(torch.ones(2, 8)).sum().backward()
    optimizer.step()
print("rank", dist.get_rank())
dist.destroy_process_group()
"""


def test_torchrun(runner: Runner) -> None:
    script = runner.script(RANKS)
    launch = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29617")
    path = runner.directory / "capture"
    ran = runner.python(*launch, "-m", "kinetoscope", "run", "--no-report", "-o", path, script)
    assert ran.status == 0, ran.stderr
    # Two processes write at once: their lines may be mixed.
    assert sorted(ran.stdout) == sorted("rank 0\nrank 1\n")
    manifests = [json.loads((path / f"manifest.rank{rank}.json").read_text()) for rank in (0, 1)]
    assert [m["rank"] for m in manifests] == [0, 1]
    assert all(m["status"] == "complete" and m["world_size"] == 2 for m in manifests)
    first = {(m["window"]["first_step"], m["window"]["steps"]) for m in manifests}
    assert len(first) == 1
    assert (path / "trace.rank0.json.gz").exists()
    assert (path / "trace.rank1.json.gz").exists()
    assert not (path / ".window.json").exists()
