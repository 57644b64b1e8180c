"""The one place that turns what a command raises into a line on stderr and an exit status.

0 done; 1 a check found a budget exceeded; 2 wrong usage, or an input that cannot be read;
130 interrupted. Only the standard library is imported, since `run` and `doctor` work without more.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable

from kinetoscope.errors import KinetoscopeError
from kinetoscope.render.escape import clean

DONE, FAILED, INTERRUPTED = 0, 2, 130
TRACEBACK = "KINETOSCOPE_TRACEBACK"


def status_of(command: Callable[[], int], *, stdout_is_ours: bool = True) -> int:
    """Run a command; whatever happens, an exit status comes back.

    Without ``stdout_is_ours`` stdout is left to Python, as another program's, which may have closed it.
    """
    try:
        status = command()
        if stdout_is_ours and sys.stdout is not None:
            sys.stdout.flush()  # here, so that a reader that went away is noticed while it can be handled
        return status
    except KinetoscopeError as error:
        _abandon_saving()
        say(str(error))
        return FAILED
    except KeyboardInterrupt:
        _abandon_saving()
        return INTERRUPTED
    except BrokenPipeError:
        stop_writing()
        return DONE
    except Exception as error:
        _abandon_saving()
        _report_bug(error)
        return FAILED


def _abandon_saving() -> None:
    """Do not keep somebody waiting, after an error, for a trace to be put into the store."""
    saving = sys.modules.get("kinetoscope.ingest.saving")
    if saving is not None:
        saving.abandon()


def say(message: str) -> None:
    """One line on stderr, whatever ``message`` holds."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError, ValueError):  # nobody is left to be told
        line = f"kinetoscope: {clean(message)}\n"
        encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
        sys.stderr.write(line.encode(encoding, "backslashreplace").decode(encoding))
        sys.stderr.flush()


def _report_bug(error: Exception) -> None:
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    what = " ".join(f"{type(error).__name__}: {error}".split())
    say(f"this is a bug in kinetoscope: {what} (set {TRACEBACK}=1 for the traceback)")


def stop_writing() -> None:
    """Point stdout at nothing: the interpreter flushes it once more when it ends, and must not complain."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
