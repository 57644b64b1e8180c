"""``kinetoscope run``: run an unchanged program under capture, then report.

Only the standard library is imported here, and torch by the program: this command works in an image that
holds nothing else. The report needs the packages that analyse; without them the capture can be taken to
where they are.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kinetoscope.capturing.options import RunOptions, world
from kinetoscope.cli.arguments import Parser
from kinetoscope.errors import KinetoscopeError

__all__ = ["main"]

_FORMATS: Final = ("text", "json", "md")
_RANKS_SECONDS: Final = 60.0
_EPILOG: Final = """\
The window: steps are seen from optimizer steps, else from calls of compiled functions, else from calls of
modules. Once compilation has settled some steps are timed without the profiler, then --steps are profiled,
then some are timed again; the program goes on without the profiler. A program that is too short for that, or
in which no step can be seen, is profiled whole, for at most 30 seconds.

The program's own output and exit status stay what they are. Options of kinetoscope come before SCRIPT;
everything after it is the program's.
"""


def main(argv: Sequence[str]) -> int:
    """Run the command; the exit status is the program's."""
    arguments = _parser().parse_args(list(argv))
    target, rest = _target(arguments)
    # The program may change all three.
    stderr, path, directory_now = sys.stderr, list(sys.path), os.getcwd()
    options = RunOptions(
        target=target,
        arguments=tuple(rest),
        is_module=arguments.module is not None,
        directory=_directory(arguments.output, target),
        steps=arguments.steps,
        warmup=arguments.warmup,
        cold=arguments.cold,
        stop=arguments.stop,
        record_shapes=arguments.record_shapes,
        with_stack=arguments.with_stack,
        profile_memory=arguments.profile_memory,
        keep_source=not arguments.no_source,
    )
    report = None if arguments.report is None else Path(directory_now) / arguments.report
    if not options.is_module and not os.path.exists(target):
        _say(f"there is no file {target}", stderr)
        return 2

    from kinetoscope.capturing.program import end_child, end_process
    from kinetoscope.capturing.run import ProgramRun

    try:
        run = ProgramRun(options)
    except KinetoscopeError as error:
        _say(str(error), stderr)
        return 2
    try:
        outcome = run.run()
    except KinetoscopeError as error:
        _say(str(error), stderr)
        return 2
    if run.is_child():
        return end_child(outcome)
    wants_report = not arguments.no_report and not outcome.interrupted
    if wants_report and _is_leader(options.directory):
        sys.path[:] = path
        _report(options.directory, report, arguments.format, stderr)
    elif arguments.output is None and world(dict(os.environ))[0] in (None, 0):
        _say(f"capture in {options.directory}", stderr)
    return end_process(outcome)


def _parser() -> Parser:
    parser = Parser(
        prog="kinetoscope run",
        usage="kinetoscope run [options] SCRIPT [args ...]\n"
        "       kinetoscope run [options] -m MODULE [args ...]",
        description="Run a program under capture, unchanged, and report what was found.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run a module, like python -m")
    add("-o", "--output", metavar="DIR", help="capture directory (default: kinetoscope-SCRIPT, numbered)")
    add("--steps", type=_positive, default=20, metavar="N", help="steps to profile (20; fewer if long)")
    add("--warmup", type=_count, metavar="N", help="steps before measuring (default: until nothing compiles)")
    add("--cold", action="store_true", help="profile the first call instead, after a throw-away compile")
    add("--stop", action="store_true", help="end the program when everything is measured")
    add("--record-shapes", action="store_true", help="record operator shapes and the files of Triton kernels")
    add("--with-stack", action="store_true", help="record Python stacks (slow: 5 to 18 times the events)")
    add("--profile-memory", action="store_true", help="record allocations")
    add("--no-source", action="store_true", help="leave source code out of the compile log")
    add("--no-report", action="store_true", help="capture only")
    add("--report", metavar="FILE", help="write the report there instead of stderr")
    add("--format", choices=_FORMATS, help="of the report (default: by the ending of FILE, else text)")
    add("program", nargs=argparse.REMAINDER, metavar="SCRIPT [args ...]", help="the program, its arguments")
    return parser


def _target(arguments: argparse.Namespace) -> tuple[str, list[str]]:
    words = arguments.module if arguments.module is not None else arguments.program
    if words and words[0] == "--":
        words = words[1:]
    if not words:
        what = "a MODULE after -m" if arguments.module is not None else "a SCRIPT, or -m MODULE"
        _parser().error(f"{what} is missing")
    return words[0], words[1:]


def _positive(text: str) -> int:
    return _at_least(1, text)


def _count(text: str) -> int:
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {least}")
    return value


def _directory(asked: str | None, target: str) -> Path:
    if asked is not None:
        return Path(asked).absolute()
    name = f"kinetoscope-{Path(target).stem or 'program'}"
    if world(dict(os.environ))[0] is not None:
        # All ranks must come to the same name without talking; they have the launcher in common.
        return Path(f"{name}-{os.getppid()}").absolute()
    path, number = Path(name), 1
    while path.exists():
        number += 1
        path = Path(f"{name}-{number}")
    return path.absolute()


def _is_leader(directory: Path) -> bool:
    """Rank 0 reports for all, once all have written; a program that runs alone reports for itself."""
    rank, size = world(dict(os.environ))
    if rank is None:
        return True
    if rank != 0:
        return False
    deadline = time.monotonic() + _RANKS_SECONDS
    others = [directory / f"manifest.rank{other}.json" for other in range(1, size or 1)]
    while time.monotonic() < deadline:
        if all(_is_complete(manifest) for manifest in others):
            break
        time.sleep(0.1)
    return True


def _is_complete(manifest: Path) -> bool:
    try:
        return '"status": "complete"' in manifest.read_text(encoding="utf-8")
    except OSError:
        return False


def _report(directory: Path, output: Path | None, chosen: str | None, stderr: object) -> None:
    elsewhere = f"the capture is in {directory}: kinetoscope report {directory}, here or on another machine"
    try:
        from kinetoscope.cli.report import write_report
    except ImportError as error:
        missing = (error.name or str(error)).split(".")[0]
        _say(f"no report: {missing} is missing (pip install kinetoscope); {elsewhere}", stderr)
        return
    try:
        write_report(directory, format=chosen, output=output, stream=stderr)  # type: ignore[arg-type]
    except KinetoscopeError as error:
        _say(f"no report: {error}; {elsewhere}", stderr)
    except KeyboardInterrupt:
        _say(f"report interrupted; {elsewhere}", stderr)
    except Exception as error:
        # The program has succeeded; that its report failed must not change how it ends.
        _say(f"no report: {type(error).__name__}: {error}; {elsewhere}".replace("\n", " "), stderr)


def _say(message: str, stream: object) -> None:
    write = getattr(stream, "write", None)
    if write is not None:
        try:
            write(f"kinetoscope: {message}\n")
        except (OSError, ValueError):
            return
