"""``kinetoscope view``: look at a trace in the browser."""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
import sys
import threading
import webbrowser
from typing import Annotated

import typer


def view(
    input_path: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="A trace (.json, .json.gz, .zip, .tar.gz), a capture directory, a directory of ranks, or -.",
            show_default=False,
        ),
    ],
    port: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=65535, help="Serve on this port; 0 takes any free one."),
    ] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address only.")] = False,
    steps: Annotated[
        str | None, typer.Option(metavar="A..B", help="Speak of these steps, counted from 0; B is included.")
    ] = None,
    annotation: Annotated[
        str | None, typer.Option(metavar="NAME", help="Speak of this record_function range.")
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(metavar="START..END", help="Speak of this time, in ns from the trace's start."),
    ] = None,
    compile_log: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The TORCH_TRACE log (a file or its directory) of the same run."),
    ] = None,
    no_store: Annotated[
        bool,
        typer.Option("--no-store", help="Neither use nor write the store that makes opening again fast."),
    ] = False,
) -> int:
    """Show a trace in the browser: overview, timeline, kernels, compilation, SQL.

    It is served on 127.0.0.1 at an address with a random token, to this machine only; nothing
    leaves it. Ctrl-C ends it.
    """
    from kinetoscope import window as windows
    from kinetoscope.ingest.capture_directory import find_inputs
    from kinetoscope.viewer.guard import TICKET
    from kinetoscope.viewer.server import Viewer, listen, serve

    asked = windows.parse(steps, annotation, window)
    inputs = find_inputs([input_path], compile_log)
    where = listen(port)
    viewer = Viewer(inputs, asked, use_store=not no_store)
    number = where.getsockname()[1]
    address = f"http://127.0.0.1:{number}/{viewer.token}/"

    def ready() -> None:
        _say(address, number)
        viewer.choose(0)
        if not no_browser:
            # not the address itself: everyone can read with what a browser was started
            once = f"http://127.0.0.1:{number}{TICKET}{viewer.ticket}"
            threading.Thread(target=_open, args=(once,), daemon=True).start()

    with contextlib.suppress(KeyboardInterrupt):
        serve(viewer, where, ready)
    if viewer.session.is_loading:
        # the reader's processes would be waited for
        sys.stdout.flush()
        os._exit(0)
    return 0


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
