"""``kinetoscope report``, with the analysis replaced by a report made by hand."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import report_samples as samples
from kinetoscope import render
from kinetoscope.__main__ import main
from kinetoscope.cli import output, progress
from kinetoscope.cli.report import write_report
from kinetoscope.errors import InputError, UsageError
from kinetoscope.window import WindowSpec, parse

Call = dict[str, Any]


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    made: list[Call] = []

    def analyse(paths: list[str], **options: Any) -> Any:
        made.append({"paths": paths, **options})
        if paths[0] == "gone.json":
            raise InputError("cannot read gone.json: no such file")
        return samples.seed_breaks()

    module = types.ModuleType("kinetoscope.reporting")
    module.analyse = analyse  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kinetoscope.reporting", module)
    return made


def test_options_reach_the_analysis(calls: list[Call], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "a.json", "b.json", "--compile-log", "logs", "--steps", "3..7", "--no-store"]) == 0
    assert calls == [
        {
            "paths": ["a.json", "b.json"],
            "compile_log": "logs",
            "window": WindowSpec(steps=(3, 7)),
            "progress": None,
            "use_store": False,
        }
    ]
    assert capsys.readouterr().err == ""


def test_text_is_the_default_and_80_cells_wide_in_a_pipe(
    calls: list[Call], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "a.json"]) == 0
    assert calls[0]["window"] is None
    assert calls[0]["use_store"] is True
    assert capsys.readouterr().out == render.text(samples.seed_breaks(), width=80, color=False)


@pytest.mark.usefixtures("calls")
def test_json_is_alone_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "-", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["schema"] == "kinetoscope.report/1"
    assert err == ""


@pytest.mark.usefixtures("calls")
def test_schema_needs_no_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--schema"]) == 0
    assert capsys.readouterr().out == render.json_schema()


@pytest.mark.usefixtures("calls")
def test_brief_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "a.json", "--format", "md", "--brief"]) == 0
    assert capsys.readouterr().out == render.markdown(samples.seed_breaks(), brief=True)


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize(
    ("name", "arguments", "start"),
    [
        ("r.json", [], "{"),
        ("r.MD", [], "# `"),
        ("r.markdown", [], "# `"),
        ("r.txt", [], "seed_breaks/"),
        ("r", [], "seed_breaks/"),
        ("r.json", ["--format", "md"], "# `"),
    ],
)
def test_the_ending_of_the_file_picks_the_format(
    tmp_path: Path, name: str, arguments: list[str], start: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "a.json", "-o", str(tmp_path / name), *arguments]) == 0
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    assert capsys.readouterr().out == ""
    assert os.listdir(tmp_path) == [name]


@pytest.mark.usefixtures("calls")
def test_a_dash_is_stdout(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", "a.json", "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("seed_breaks/")
    assert os.listdir(tmp_path) == []


@pytest.mark.usefixtures("calls")
def test_an_input_that_cannot_be_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["report", "gone.json", "-o", str(tmp_path / "r.json")]) == 2
    assert capsys.readouterr().err == "kinetoscope: cannot read gone.json: no such file\n"
    assert os.listdir(tmp_path) == []


def test_the_input_is_never_overwritten(
    calls: list[Call], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text("{}")
    (tmp_path / "link.json").symlink_to(trace)
    assert main(["report", str(trace), "-o", str(tmp_path / "link.json")]) == 2
    assert trace.read_text() == "{}"
    assert calls == []
    assert "would overwrite the input" in capsys.readouterr().err


class TestFiles:
    def test_replaced_in_whole_and_its_permissions_kept(self, tmp_path: Path) -> None:
        target = tmp_path / "report.md"
        target.write_text("before")
        target.chmod(0o640)
        output.write("after\u00b7", str(target))
        assert target.read_bytes() == "after\u00b7".encode()
        assert stat.S_IMODE(target.stat().st_mode) == 0o640

    def test_a_new_file_has_the_usual_permissions(self, tmp_path: Path) -> None:
        before = os.umask(0o027)
        try:
            output.write("x", str(tmp_path / "new"))
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640

    def test_a_link_stays_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "real").write_text("before")
        (tmp_path / "link").symlink_to("real")
        output.write("after", str(tmp_path / "link"))
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real").read_text() == "after"

    def test_a_failed_write_leaves_what_was_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        (tmp_path / "r").write_text("before")
        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(UsageError, match=r"cannot write .*: No space left on device"):
            output.write("after", str(tmp_path / "r"))
        assert os.listdir(tmp_path) == ["r"]
        assert (tmp_path / "r").read_text() == "before"

    @pytest.mark.parametrize("name", ["", "gone/r.txt"])
    def test_a_place_that_is_none(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(UsageError, match="cannot write"):
            output.write("x", str(tmp_path / name))

    def test_a_device_is_written_to(self) -> None:
        output.write("x", os.devnull)
        assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Latin(io.StringIO):
    encoding = "iso-8859-1"


@pytest.mark.parametrize(
    ("stream", "environment", "color"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (Terminal(), {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (io.StringIO(), {}, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, True),
    ],
)
def test_when_a_page_has_color(
    stream: io.StringIO, environment: dict[str, str], color: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert output.page(None, stream).color is color
    assert output.page("file", stream).color is False


@pytest.mark.parametrize(("columns", "width"), [("", 80), ("100", 100), ("500", 120), ("wide", 80)])
def test_how_wide_a_page_is(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert output.page(None, io.StringIO()).width == width


def test_a_terminal_without_unicode_gets_ascii() -> None:
    assert output.page(None, Latin()).ascii_only
    assert not output.page(None, Terminal()).ascii_only


@pytest.mark.usefixtures("calls")
def test_force_color_reaches_the_report(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["report", "a.json"]) == 0
    assert "\x1b[" in capsys.readouterr().out


def test_write_report_for_other_verbs(calls: list[Call], tmp_path: Path) -> None:
    stream = io.StringIO()
    write_report("capture", stream=stream)
    assert stream.getvalue() == render.text(samples.seed_breaks(), width=80, color=False)
    write_report(Path("capture"), output=tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text())["schema"]
    write_report("capture", format="md", output=tmp_path / "r")
    assert (tmp_path / "r").read_text().startswith("# `")
    assert [call["paths"] for call in calls] == [["capture"]] * 3
    with pytest.raises(UsageError, match="format pdf"):
        write_report("capture", format="pdf")


def test_progress_is_shown_to_a_person_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.bar() as advance:
        assert advance is None
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress.bar() as advance:
        assert advance is not None
        assert terminal.getvalue() == ""
        advance(1_000_000, 2_000_000)
        advance(2_000_000, 2_000_000)
    assert "Reading" in terminal.getvalue()


@pytest.mark.parametrize(
    ("options", "spec"),
    [
        ((None, None, None), None),
        (("3..7", None, None), WindowSpec(steps=(3, 7))),
        (("3", None, None), WindowSpec(steps=(3, 3))),
        (("3..", None, None), WindowSpec(steps=(3, None))),
        (("..7", None, None), WindowSpec(steps=(None, 7))),
        ((None, "decode|x", None), WindowSpec(annotation="decode|x")),
        ((None, None, "0..1_000"), WindowSpec(span_ns=(0, 1000))),
        ((None, None, "5.."), WindowSpec(span_ns=(5, None))),
    ],
)
def test_windows(options: tuple[str | None, str | None, str | None], spec: WindowSpec | None) -> None:
    assert parse(*options) == spec


@pytest.mark.parametrize(
    "options",
    [
        ("", None, None),
        ("..", None, None),
        ("-1", None, None),
        ("7..3", None, None),
        ("1..2..3", None, None),
        ("1.5", None, None),
        ("\u0663", None, None),
        ("9" * 5000, None, None),
        (None, "", None),
        (None, None, "5"),
        (None, None, "5..5"),
        (None, None, "5..4"),
        (None, None, "1e3..2e3"),
        ("1", None, "1..2"),
    ],
)
def test_windows_that_make_no_sense(options: tuple[str | None, str | None, str | None]) -> None:
    with pytest.raises(UsageError) as caught:
        parse(*options)
    assert "\n" not in str(caught.value)
