"""Running a program in this process as Python itself would run it.

The script's module is ``__main__`` and stays so, since classes are pickled by that name and spawned
processes import its file. Tracebacks are printed without kinetoscope's frames, through ``sys.excepthook``,
and the exit status is the one that Python would have given.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import importlib.machinery
import io
import os
import runpy
import signal
import sys
import threading
import types
from dataclasses import dataclass

from kinetoscope.capturing.frames import PACKAGE
from kinetoscope.errors import UsageError

__all__ = ["Outcome", "end_child", "end_process", "join_threads", "run_program"]


@dataclass(frozen=True)
class Outcome:
    """How a program ended: its exit status, and whether Ctrl-C ended it."""

    status: int
    interrupted: bool = False
    error: str | None = None
    """Type and text of the exception that ended it."""


def run_program(target: str, arguments: tuple[str, ...], *, is_module: bool) -> Outcome:
    """Run a script, a directory or zip file with a ``__main__``, or a module; return when it has ended."""
    _forget_our_path()
    try:
        if is_module:
            _run_module(target, arguments)
        else:
            _run_script(target, arguments)
    except SystemExit as stop:
        return _exit_outcome(stop)
    except BaseException as error:
        _print_error(error)
        kind = f"{type(error).__name__}: {error}".splitlines()[0]
        return Outcome(1, interrupted=isinstance(error, KeyboardInterrupt), error=kind)
    return Outcome(0)


def join_threads() -> None:
    """Wait for the program's own threads, as Python does before it exits."""
    # Workers of executors wait for work for ever until the interpreter, in shutting down, wakes them.
    executor = sys.modules.get("concurrent.futures.thread")
    workers = set(getattr(executor, "_threads_queues", ()))
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon and thread not in workers:
            thread.join()


def end_process(outcome: Outcome) -> int:
    """The status to exit with; after Ctrl-C the process is ended here by SIGINT, as Python ends itself."""
    if not outcome.interrupted or os.name != "posix":
        return outcome.status
    _finalize()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
    return 130


def end_child(outcome: Outcome) -> int:
    """End a process that the program forked and that came out of the program's code.

    Kineto's threads are not in the child, and its destructors would wait for them for ever. So the process
    ends after Python's own exit functions, without those of the libraries.
    """
    with contextlib.suppress(KeyboardInterrupt):
        join_threads()
    if outcome.interrupted:
        return end_process(outcome)
    _finalize()
    os._exit(outcome.status & 0xFF)


def _finalize() -> None:
    """What Python does at exit that a program can notice."""
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _run_script(path: str, arguments: tuple[str, ...]) -> None:
    if os.path.isdir(path) or _is_zip(path):
        sys.argv = [path, *arguments]
        _set_path(path)
        _fresh_main()
        run = getattr(runpy, "_run_module_as_main", None)
        if run is not None:
            run("__main__", alter_argv=False)
        else:
            runpy.run_path(path, run_name="__main__")
        return
    try:
        # Python opens the script by its path relative to where it was started, and calls it by the absolute.
        with io.open_code(os.path.abspath(path)) as source:
            text = source.read()
    except OSError as error:
        raise UsageError(f"cannot open {path}: {error.strerror or error}") from error
    absolute = os.path.abspath(path)
    sys.argv = [path, *arguments]
    _set_path(os.path.dirname(os.path.realpath(path)))
    main = _fresh_main()
    main.__file__ = absolute
    main.__dict__["__cached__"] = None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", absolute)
    exec(compile(text, absolute, "exec", dont_inherit=True), main.__dict__)


def _run_module(name: str, arguments: tuple[str, ...]) -> None:
    sys.argv = ["-m", *arguments]
    _set_path(os.getcwd())
    _fresh_main()
    run = getattr(runpy, "_run_module_as_main", None)
    if run is not None:
        # What `python -m` itself calls: same frames in tracebacks, same messages.
        run(name)
    else:
        runpy.run_module(name, run_name="__main__", alter_sys=True)


def _fresh_main() -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    return main


def _is_zip(path: str) -> bool:
    import zipfile

    return os.path.isfile(path) and not path.endswith(".py") and zipfile.is_zipfile(path)


def _forget_our_path() -> None:
    """Drop what Python put first on the path for ``kinetoscope`` itself; the program gets its own."""
    if sys.path and not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
        del sys.path[0]


def _set_path(first: str) -> None:
    if not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
        sys.path.insert(0, first)


def _exit_outcome(stop: SystemExit) -> Outcome:
    code = stop.code
    if code is None:
        return Outcome(0)
    if isinstance(code, int):
        return Outcome(int(code))
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.write(f"{code}\n")
    return Outcome(1)


def _print_error(error: BaseException) -> None:
    _strip_frames(error, set())
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException:
        # The program's own hook failed; Python then prints both errors.
        sys.stderr.write("Error in sys.excepthook:\n")
        sys.__excepthook__(*sys.exc_info())
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, error.__traceback__)


def _strip_frames(error: BaseException | None, seen: set[int]) -> None:
    """Take kinetoscope's frames out of the tracebacks of an exception and of those that led to it."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    error.__traceback__ = _without_ours(error.__traceback__)
    _strip_frames(error.__cause__, seen)
    _strip_frames(error.__context__, seen)


def _without_ours(traceback: types.TracebackType | None) -> types.TracebackType | None:
    kept = []
    while traceback is not None:
        if not os.path.abspath(traceback.tb_frame.f_code.co_filename).startswith(PACKAGE):
            kept.append(traceback)
        traceback = traceback.tb_next
    following: types.TracebackType | None = None
    for entry in reversed(kept):
        entry.tb_next = following
        following = entry
    return following
