"""The program as a whole: exit statuses, one line for every error, nothing imported before its time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import kinetoscope
from kinetoscope.__main__ import main
from kinetoscope.cli import errors
from kinetoscope.errors import InputError

SRC = str(Path(kinetoscope.__file__).parents[1])
HEAVY = ("numpy", "polars", "torch", "pandas", "rich.console")


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kinetoscope", *arguments],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        env={**os.environ, "PYTHONPATH": SRC, **environment},
    )


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        env={**os.environ, "PYTHONPATH": SRC},
    )


def one_line(text: str) -> bool:
    return text.endswith("\n") and text.count("\n") == 1 and text.startswith("kinetoscope: ")


def test_help_lists_every_verb() -> None:
    done = program("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    for verb in ("report", "run", "doctor"):
        assert f"\n  {verb} " in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert program().stdout == done.stdout


@pytest.mark.parametrize(
    ("arguments", "verb"),
    [
        (["report", "x.json", "--annotation"], " report"),
        (["whatif", "x.json", "--not-there"], " whatif"),
        (["--not-there"], ""),
        (["not-there"], ""),
    ],
)
def test_wrong_use_points_to_the_help_of_its_verb(
    arguments: list[str], verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert one_line(said)
    assert said.endswith(f"; kinetoscope{verb} --help says what there is\n")


def test_help_fits_a_narrow_terminal_in_whole() -> None:
    verbs = program("--help", COLUMNS="60").stdout
    assert "..." not in verbs.partition("Commands:")[2]
    for verb in ("report", "view", "export", "kernel", "whatif", "run", "doctor"):
        done = program(verb, "--help", COLUMNS="60")
        assert (done.returncode, done.stderr) == (0, "")
        assert max(map(len, done.stdout.splitlines())) <= 60, verb


@pytest.mark.parametrize(
    "code",
    [
        "import kinetoscope",
        "import kinetoscope.render",
        "from kinetoscope.__main__ import main; main(['--help'])",
        "from kinetoscope.__main__ import main; main(['report', '--help'])",
        "from kinetoscope.__main__ import main; main(['report', '--schema'])",
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(code: str) -> None:
    done = python(f"import sys; {code}; print(sorted(set(sys.modules) & set({HEAVY})), file=sys.stderr)")
    assert done.stderr == "[]\n"


def test_run_and_doctor_need_only_the_standard_library() -> None:
    code = """
import sys, types
for name in ("run", "doctor"):
    module = types.ModuleType(f"kinetoscope.cli.{name}")
    module.main = lambda arguments, name=name: print(name, arguments, file=sys.stderr) or 3
    sys.modules[module.__name__] = module
from kinetoscope.__main__ import main
assert main(["run", "-m", "module", "--help", "-x"]) == 3
assert main(["doctor"]) == 3
ours = {"kinetoscope", "__main__"}
tops = {name.split(".")[0] for name in sys.modules if getattr(sys.modules[name], "__file__", None)}
print(sorted(tops & {"typer", "click", "rich", "msgspec", "numpy", "polars"}))
"""
    done = python(code)
    assert done.stderr == "run ['-m', 'module', '--help', '-x']\ndoctor []\n"
    assert done.stdout == "[]\n"


def test_version() -> None:
    assert program("--version").stdout == f"kinetoscope {kinetoscope.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nope"],
        ["report"],
        ["report", "x.json", "--bad"],
        ["report", "x.json", "--format", "html"],
        ["report", "x.json", "--format", "pdf"],
        ["report", "x.json", "-o", "x.html"],
        ["report", "x.json", "--brief"],
        ["report", "x.json", "--steps", "7..3"],
        ["report", "x.json", "--steps", "a"],
        ["report", "x.json", "--window", "..", "--format", "json"],
        ["report", "x.json", "--steps", "1", "--annotation", "a"],
        ["--nope"],
        ["run"],
        ["run", "--nope"],
        ["run", "-m"],
        ["run", "-o"],
        ["run", "--steps", "0", "x.py"],
        ["run", "--warmup", "x", "x.py"],
        ["run", "--format", "html", "x.py"],
        ["run", "there-is-no-such.py"],
        ["doctor", "x"],
        ["doctor", "--format", "md"],
    ],
)
def test_wrong_usage_is_one_line_and_2(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert one_line(err)
    assert not re.search(r"\b_|Value error", err)  # names from inside


def outcome(error: BaseException) -> int:
    def command() -> int:
        raise error

    return errors.status_of(command)


def test_an_error_of_ours_is_its_own_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(InputError("cannot read a\x1b[31m\nb.json: no such file")) == 2
    assert capsys.readouterr().err == "kinetoscope: cannot read a\\x1b[31m\\nb.json: no such file\n"


def test_an_interrupt_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == ""


def test_a_reader_that_went_away_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(BrokenPipeError()) == 0
    assert capsys.readouterr().err == ""


def test_a_bug_is_named_as_one_and_shows_its_traceback_only_when_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(errors.TRACEBACK, raising=False)
    assert outcome(ZeroDivisionError("a\nb")) == 2
    err = capsys.readouterr().err
    assert one_line(err)
    assert "this is a bug in kinetoscope: ZeroDivisionError: a b" in err
    assert errors.TRACEBACK in err
    monkeypatch.setenv(errors.TRACEBACK, "1")
    assert outcome(ZeroDivisionError()) == 2
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_an_exit_asked_for_passes() -> None:
    with pytest.raises(SystemExit):
        outcome(SystemExit(7))


def test_errors_can_be_said_without_anyone_listening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert outcome(InputError("x")) == 2


def test_stdout_going_away_is_quiet() -> None:
    command = f'"{sys.executable}" -m kinetoscope report --schema | head -c 1; echo " ${{PIPESTATUS[0]}}"'
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": SRC},
    )
    assert done.stdout == "{ 0\n"
    assert done.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("redirect", [">/dev/full", ">&-"])
def test_stdout_that_cannot_be_written_is_one_line_and_2(redirect: str) -> None:
    command = f'"{sys.executable}" -m kinetoscope report --schema {redirect}'
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": SRC},
    )
    assert done.returncode == 2
    assert one_line(done.stderr)


def test_a_missing_verb_module_does_not_go_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("kinetoscope.cli.run")
    monkeypatch.setitem(sys.modules, "kinetoscope.cli.run", module)
    assert main(["run", "script.py"]) == 2
