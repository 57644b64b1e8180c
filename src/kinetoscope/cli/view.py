"""``kinetoscope view``: look at a trace in the browser."""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
import sys
import threading
import webbrowser
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from kinetoscope.cli.errors import DONE, FAILED, say
from kinetoscope.cli.options import AnyInput, NoStore, OfAnnotation, OfLog, OfSteps, OfWindow

if TYPE_CHECKING:
    from kinetoscope.viewer.session import Session

#: a browser that was started comes within this time, or not at all
_PATIENCE_S = 20.0


def view(
    input_path: AnyInput,
    port: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=65535, help="Serve on this port; 0 takes any free one."),
    ] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address only.")] = False,
    steps: OfSteps = None,
    annotation: OfAnnotation = None,
    window: OfWindow = None,
    compile_log: OfLog = None,
    no_store: NoStore = False,
) -> int:
    """Show a trace in the browser: overview, timeline, kernels, compilation, SQL.

    It is served on 127.0.0.1 at an address with a random token, to this machine only; nothing
    leaves it. Ctrl-C ends it.
    """
    from kinetoscope import window as windows
    from kinetoscope.ingest.capture_directory import find_inputs
    from kinetoscope.viewer.address import listen
    from kinetoscope.viewer.loading import loaded
    from kinetoscope.viewer.traces import Traces

    asked = windows.parse(steps, annotation, window)
    stop, status = threading.Event(), DONE

    def failed(session: Session, message: str) -> None:
        nonlocal status
        say(message)
        if len(traces) > 1:
            return  # the others can be chosen
        status = FAILED
        # a browser that was started shows it as well, if it comes in time
        session.wait_until_told(0 if no_browser else _PATIENCE_S)
        stop.set()

    traces = Traces(find_inputs([input_path], compile_log), asked, use_store=not no_store, failed=failed)
    address = listen(port)
    with contextlib.suppress(KeyboardInterrupt):
        # the trace is read, and the browser starts, while the rest of the program is loaded
        traces.choose(0)
        _say(address.url, address.port)
        if not no_browser:
            threading.Thread(target=_open, args=(address.once,), daemon=True).start()
        server = loaded(_server)
        server.serve(server.Viewer(traces, address.token, address.ticket), address.socket, stop)
    if traces.session.is_loading:
        # the reader's processes would be waited for
        sys.stdout.flush()
        os._exit(DONE)
    return status


def _server() -> ModuleType:
    from kinetoscope.viewer import server

    return server


def _say(address: str, port: int) -> None:
    typer.echo(f"kinetoscope: {address}")
    typer.echo(
        "  From another machine: "
        f"ssh -L {port}:127.0.0.1:{port} {_user()}@{socket.gethostname()}  and open the same address there."
    )
    typer.echo("  Ctrl-C ends it.")
    sys.stdout.flush()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "USER"


def _open(address: str) -> None:
    with contextlib.suppress(Exception):  # a machine without a browser: the address is printed
        webbrowser.open(address)
