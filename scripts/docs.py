"""Write what the documentation takes from the code, or check that it is as the code says.

    python scripts/docs.py           write
    python scripts/docs.py --check   say what differs, exit 1 if anything does

Three kinds of text are made here: the command-line reference (docs/cli.md), the reference of report
fields (docs/json.md), and pieces of the sample's own report, wherever a page asks for one:

    <!-- sample: Kernels by origin -->   the section with that title, up to the next empty line
    <!-- sample: first screen -->        what stands above the first empty line but one
"""

from __future__ import annotations

import argparse
import enum
import inspect
import re
import sys
import types
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin
from unittest import mock

import msgspec

if typing.TYPE_CHECKING:
    from kinetoscope import Report

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = "samples/graph_breaks"
_MADE = "<!-- made by scripts/docs.py: change the code, then run it -->"
_HELP = ("-h, --help", "Show the help and exit.")
_FIELDS = ("<!-- fields: begin -->\n", "<!-- fields: end -->\n")
_PIECE = re.compile(r"(<!-- sample: (?P<title>[^>]+?) -->\n+)```text\n.*?```\n", re.DOTALL)


def pages() -> dict[Path, str]:
    """Every page with a generated part, as it should be."""
    made = {ROOT / "docs" / "cli.md": cli_page()}
    json_page = ROOT / "docs" / "json.md"
    made[json_page] = _between(json_page.read_text(encoding="utf-8"), _FIELDS, fields())
    for page in documents():
        text = made.get(page, page.read_text(encoding="utf-8"))
        if _PIECE.search(text):
            made[page] = _PIECE.sub(lambda found: f"{found[1]}```text\n{piece(found['title'])}```\n", text)
    return made


def documents() -> list[Path]:
    """Every page there is for users."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def _between(text: str, marks: tuple[str, str], inside: str) -> str:
    before, rest = text.split(marks[0])
    _, after = rest.split(marks[1])
    return f"{before}{marks[0]}\n{inside}\n{marks[1]}{after}"


# --- pieces of the sample's report ---------------------------------------------------------------


def sample_report() -> Report:
    """The report of the sample."""
    import kinetoscope

    report = kinetoscope.report(ROOT / SAMPLE, use_store=False)
    # The path in the first line is the one that a user sees, who stands in the checkout.
    path = Path(report.trace.path).relative_to(ROOT).as_posix()
    return msgspec.structs.replace(report, trace=msgspec.structs.replace(report.trace, path=path))


def piece(title: str, report: str | None = None) -> str:
    """The part of the report with this title."""
    lines = (report or sample_report().to_text()).splitlines(keepends=True)
    if title == "first screen":
        start, empty_lines = 0, 2
    else:
        found = [number for number, line in enumerate(lines) if line.startswith(title)]
        if not found:
            raise SystemExit(f"the sample's report has no part called {title!r}")
        start, empty_lines = found[0], 1
    taken: list[str] = []
    for line in lines[start:]:
        empty_lines -= not line.strip()
        if not empty_lines:
            break
        taken.append(line)
    return "".join(taken)


# --- the command line ----------------------------------------------------------------------------


class _Found(Exception):
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def cli_page() -> str:
    """The reference of every command, from the parsers themselves."""
    from kinetoscope.__main__ import _PLAIN
    from kinetoscope.cli import app

    about = _sentence(app._kinetoscope.__doc__)
    parts = [
        "# Command line",
        _MADE,
        f"`kinetoscope COMMAND`, or `python -m kinetoscope COMMAND`: the same program. {about}",
    ]
    verbs = [(str(info.name), info.callback) for info in app.app.registered_commands if not info.hidden]
    table = [f"| [`{name}`](#{name}) | {_paragraphs(verb.__doc__)[0]} |" for name, verb in verbs]
    parts.append("\n".join(["| command | does |", "|---|---|", *table]))
    for name, verb in verbs:
        parts.append(f"## {name}")
        parts += _argparse(name, _PLAIN[name]) if name in _PLAIN else _typer(name, verb)
    parts += ["## Everywhere", _EVERYWHERE]
    return "\n\n".join(parts) + "\n"


_EVERYWHERE = """\
| exit status | means |
|---|---|
| 0 | done |
| 2 | wrong usage, or an input that cannot be read; one line on stderr says what, where and what to do |
| 130 | interrupted |

`run` is the exception: its exit status is that of the program it ran.

| variable | does |
|---|---|
| `NO_COLOR` | no colour, whatever the output is |
| `FORCE_COLOR` | colour, also in a pipe |
| `COLUMNS` | width of a text report; else that of the terminal, at most 120, and 80 in a pipe or a file |
| `KINETOSCOPE_CACHE` | directory of the [store](formats.md#the-store) |
| `KINETOSCOPE_PROCESSES` | processes that read a large trace; else one a core |
| `KINETOSCOPE_TRACEBACK` | `1` shows the traceback of a bug |

Progress is shown on stderr, and only on a terminal. `--format json` prints nothing but JSON on stdout."""


def _sentence(text: str | None) -> str:
    return " ".join((text or "").split())


def _paragraphs(text: str | None) -> list[str]:
    return [_sentence(part) for part in (text or "").split("\n\n") if part.strip()]


def _typer(name: str, verb: Any) -> Iterator[str]:
    from typer.models import ArgumentInfo, OptionInfo

    arguments, options, words = [], [], []
    for parameter, hint in typing.get_type_hints(verb, include_extras=True).items():
        if parameter == "return":
            continue
        kind, info = hint.__origin__, hint.__metadata__[0]
        if isinstance(info, ArgumentInfo):
            arguments.append((str(info.metavar), info.help))
            is_many = any(get_origin(one) is list for one in (kind, *get_args(kind)))
            words.append(f"{info.metavar}{'...' if is_many else ''}")
        elif isinstance(info, OptionInfo):
            # Inside Annotated the first name is taken for the default.
            first = [info.default] if isinstance(info.default, str) else []
            names = [*first, *(info.param_decls or [])] or [f"--{parameter.replace('_', '-')}"]
            value = "" if kind is bool else f" {info.metavar or _choices(kind)}"
            options.append((f"{', '.join(names)}{value}", info.help))
    yield f"```text\nkinetoscope {name} [options] {' '.join(words)}\n```"
    yield from _paragraphs(verb.__doc__)
    yield _table(arguments, "argument")
    yield _table([*options, _HELP], "option")


def _choices(hint: Any) -> str:
    """The values of an enumeration, which may be optional."""
    for kind in (hint, *get_args(hint)):
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return "|".join(str(member.value) for member in kind)
    raise SystemExit(f"an option of type {hint} needs a metavar")


def _argparse(name: str, module: str) -> Iterator[str]:
    def stop(parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        raise _Found(parser)

    with mock.patch.object(argparse.ArgumentParser, "parse_args", stop):
        try:
            __import__(module)
            sys.modules[module].main([])
        except _Found as found:
            parser = found.parser
    usage = inspect.cleandoc(parser.usage or f"kinetoscope {name} [options]")
    yield f"```text\n{usage}\n```"
    yield _sentence(parser.description or "")
    arguments, options = [], []
    for action in parser._actions:
        meaning = (action.help or "").strip()
        meaning = f"{meaning[:1].upper()}{meaning[1:]}."
        if not action.option_strings:
            arguments.append((str(action.metavar), meaning))
            continue
        choices = "|".join(map(str, action.choices)) if action.choices else None
        value = "" if action.nargs == 0 else f" {choices or action.metavar or 'TEXT'}"
        options.append((f"{', '.join(action.option_strings)}{value}", meaning))
    if arguments:
        yield _table(arguments, "argument")
    yield _table(
        [row for row in options if "-h" not in row[0]] + [("-h, --help", "Show the help and exit.")], "option"
    )
    yield from _paragraphs(parser.epilog)


def _table(rows: Sequence[tuple[str, str | None]], what: str) -> str:
    lines = [f"| `{_cell(name)}` | {_cell(_sentence(help_ or ''))} |" for name, help_ in rows]
    return "\n".join([f"| {what} | |", "|---|---|", *lines])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# --- fields of the report ------------------------------------------------------------------------


def fields() -> str:
    """A section for each type of the report, in the order in which they are met."""
    from kinetoscope import schema

    met: list[type[msgspec.Struct]] = [schema.Report]
    parts = []
    for struct in met:
        rows = []
        for name, hint in typing.get_type_hints(struct).items():
            if name.startswith("__"):
                continue
            rows.append(f"| `{name}` | {_cell(_type(hint))} |")
            met += [found for found in _structs(hint) if found not in met]
        about = inspect.cleandoc(struct.__doc__ or "").replace("``", "`").replace("None", "`null`")
        head = [f"### {struct.__name__}\n", f"{about}\n", "| field | value |", "|---|---|"]
        parts.append("\n".join([*head, *rows, ""]))
    return "\n".join(parts)


def _type(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(one) for one in inner)
    if origin is Literal:
        return ", ".join(f'`"{value}"`' for value in inner)
    if origin is list:
        return f"list of {_type(inner[0])}"
    if origin is dict:
        return f"object: {_type(inner[0])} to {_type(inner[1])}"
    if origin is tuple:
        return f"list: {', '.join(_type(one) for one in inner)}"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    plain = {int: "integer", float: "number", str: "string", bool: "true or false", type(None): "null"}
    return plain[hint]


def _structs(hint: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for inner in get_args(hint):
        if inner is not None and not isinstance(inner, str):
            yield from _structs(inner)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if anything differs")
    check = parser.parse_args(argv).check
    made = pages()
    stale = [page for page in made if not page.exists() or page.read_text(encoding="utf-8") != made[page]]
    for page in stale:
        print(f"{'stale' if check else 'written'}: {page.relative_to(ROOT)}")
        if not check:
            page.write_text(made[page], encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    sys.exit(main(sys.argv[1:]))
