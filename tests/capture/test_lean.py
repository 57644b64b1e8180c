"""What capturing needs: the standard library, and torch only when a program runs."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src"
FORBIDDEN = ("torch", "numpy", "msgspec", "polars", "isal", "typer", "rich", "duckdb")


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}, check=False)


def test_importing_needs_the_standard_library_only() -> None:
    modules = [f"kinetoscope.capturing.{path.stem}" for path in (ROOT / "kinetoscope/capturing").glob("*.py")]
    modules = [name.removesuffix(".__init__") for name in modules] + [
        "kinetoscope.cli.run",
        "kinetoscope.cli.doctor",
    ]
    code = (
        f"import importlib, json, sys\nfor name in {modules!r}: importlib.import_module(name)\n"
        f"print(json.dumps([name for name in {FORBIDDEN!r} if name in sys.modules]))"
    )
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_doctor_without_torch() -> None:
    hide = "import sys\nsys.modules['torch'] = None\nfrom kinetoscope.cli.doctor import main\n"
    done = run("-c", f"{hide}sys.exit(main([]))")
    assert (done.returncode, done.stderr) == (0, "")
    assert "torch" in done.stdout
    assert "nothing can be captured here" in done.stdout
    checks = json.loads(run("-c", f"{hide}sys.exit(main(['--format', 'json']))").stdout)["checks"]
    assert {"group": "Program", "name": "torch", "state": "problem"}.items() <= checks[1].items()


def test_usage_errors() -> None:
    for arguments in ([], ["--steps", "0", "x.py"], ["-m"], ["--unknown", "x.py"]):
        done = run("-m", "kinetoscope", "run", *arguments)
        assert done.returncode == 2, arguments
        assert "Traceback" not in done.stderr
