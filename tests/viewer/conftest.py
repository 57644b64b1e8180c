"""A real browser on a real server: one server a capture, one page a test.

Every page is watched: a console message of level warning or error, an error in a script, or a request
to anywhere but the server makes its test fail.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.ingest import load
from kinetoscope.ingest.capture_directory import LogShelf, find_inputs
from kinetoscope.link import Links, link
from kinetoscope.viewer.session import Session
from viewer.driving import TimelinePage

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "tests" / "traces"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


IN_CI = os.environ.get("CI") == "true"


def _missing(what: str) -> None:
    if IN_CI:
        pytest.fail(f"{what} is not installed, and CI runs every test", pytrace=False)
    pytest.skip(f"{what} is not installed")


@dataclass
class Server:
    """``kinetoscope view`` as a person starts it."""

    process: subprocess.Popen[str]
    url: str

    def stop(self) -> int:
        """Ctrl-C; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
            if self.process.stdout:
                self.process.stdout.close()


def start(*arguments: str, browser: bool = False) -> Server:
    """Start the viewer and read its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kinetoscope", "view", *([] if browser else ["--no-browser"]), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://\S+", line)
    if found is None:
        process.kill()
        process.wait()
        process.stdout.close()
        raise AssertionError(f"no address in {line!r}")
    return Server(process, found.group(0))


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[[Path], Server]]:
    """The server of a trace, started when it is first asked for."""
    running: dict[Path, Server] = {}

    def of(path: Path) -> Server:
        if path not in running:
            running[path] = start(str(path))
        return running[path]

    yield of
    for server in running.values():
        server.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, headless."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("playwright")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        _missing("chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield found
        found.close()


@dataclass
class Watched:
    """What a page said and asked for."""

    server: str
    complaints: list[str] = field(default_factory=list)

    def attach(self, page: Any) -> None:
        """Listen to a page."""
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(f"script error: {error}"))
        page.on("request", self._request)
        page.on("response", self._response)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console {message.type}: {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.server, "blob:" + self.server.split("/", 3)[0])):
            self.complaints.append(f"a request left the server: {request.url}")

    def _response(self, response: Any) -> None:
        if response.status >= 400:
            self.complaints.append(f"{response.status} for {response.url}")


Open = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any, serve: Callable[[Path], Server]) -> Iterator[Open]:
    """Open a page of a capture: ``open_page("seed_breaks", "timeline?q=mm")``."""
    contexts: list[Any] = []
    watched: list[Watched] = []

    def of(
        trace: str | Path,
        place: str = "overview",
        width: int = 1280,
        height: int = 800,
        scheme: str = "light",
        forgive: bool = False,
        **options: Any,
    ) -> Any:
        path = trace if isinstance(trace, Path) else TRACES / f"{trace}.trace.json.gz"
        server = serve(path)
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, accept_downloads=True, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(8000)
        if not forgive:
            watch = Watched(server.url.rsplit("/", 2)[0])
            watched.append(watch)
            watch.attach(page)
        page.goto(f"{server.url}#/{place}")
        return page

    yield of
    for context in contexts:
        context.close()
    assert [said for watch in watched for said in watch.complaints] == []


@pytest.fixture
def timeline(open_page: Open) -> Callable[..., TimelinePage]:
    """The timeline of a capture."""

    def of(trace: str | Path, place: str = "timeline", **options: Any) -> TimelinePage:
        return TimelinePage(open_page(trace, place, **options))

    return of


@pytest.fixture(scope="session")
def opened() -> Callable[[str], Session]:
    """A capture, read and analysed, without a server."""
    found: dict[str, Session] = {}

    def of(name: str) -> Session:
        if name not in found:
            path = TRACES / f"{name}.trace.json.gz"
            found[name] = Session(find_inputs([str(path)])[0], LogShelf())
            found[name].run()
            assert found[name].status()["state"] == "ready", found[name].status()
        return found[name]

    return of


@pytest.fixture(scope="session")
def links() -> Callable[[str], Links]:
    """What belongs together in a capture."""
    found: dict[str, Links] = {}

    def of(name: str) -> Links:
        if name not in found:
            found[name] = link(load(str(TRACES / f"{name}.trace.json.gz")))
        return found[name]

    return of
