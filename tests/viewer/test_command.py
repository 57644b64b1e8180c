"""``kinetoscope view`` in the shell, and what the page does when it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from viewer.conftest import ROOT, TRACES, start
from viewer.driving import until
from viewer.test_guard import ask

TRACE = TRACES / "seed_breaks.trace.json.gz"


def view(*arguments: str, seconds: float = 30) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kinetoscope", "view", *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


def test_an_input_that_is_not_there() -> None:
    done = view("nothing.json")
    assert done.returncode == 2
    assert "nothing.json" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("content", ["{}", "no trace", '{"traceEvents": []}'])
def test_an_input_that_is_no_trace(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    done = view(str(path), "--no-browser")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "x.json" in done.stderr


def test_a_browser_that_was_started_shows_what_is_wrong(
    tmp_path: Path, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    monkeypatch.setenv("BROWSER", "true %s")
    server = start(str(path), browser=True)
    page = browser.new_page()
    try:
        page.goto(server.url)
        page.wait_for_selector(".failed")
        assert server.process.wait(20) == 2
        assert "without 'traceEvents'" in page.inner_text(".failed")
        assert not page.is_visible("#gone")
    finally:
        page.close()
        server.stop()


def test_one_of_several_that_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text('{"schemaVersion": 1, "traceEvents": []}')
    (tmp_path / "rank1.json.gz").write_bytes(TRACE.read_bytes())
    server = start(str(tmp_path))
    try:
        token = urlsplit(server.url).path
        for _ in range(100):
            state = ask(server, f"{token}api/status")[2]
            if b'"failed"' in state:
                break
            time.sleep(0.05)
        assert b'"failed"' in state
        assert ask(server, f"{token}api/choose", "POST", body=b'{"number": 1}')[0] == 200
    finally:
        assert server.stop() == 0


def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = view(str(TRACE), "--no-browser", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "--port" in done.stderr
    assert done.stdout == ""


def test_it_says_how_to_reach_it_from_elsewhere() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = start(str(TRACE), "--port", str(port))
    try:
        assert f":{port}/" in server.url
        assert server.process.stdout is not None
        assert f"ssh -L {port}:127.0.0.1:{port}" in server.process.stdout.readline()
        assert "Ctrl-C" in server.process.stdout.readline()
    finally:
        assert server.stop() == 0


def test_addresses_are_never_the_same() -> None:
    servers = [start(str(TRACE)) for _ in range(2)]
    try:
        tokens = {server.url.rsplit("/", 2)[1] for server in servers}
        assert len(tokens) == 2
    finally:
        for server in servers:
            server.stop()


def test_a_terminated_server_ends_too() -> None:
    server = start(str(TRACE))
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(20) in (0, -signal.SIGTERM, 143)
    assert server.process.stdout is not None
    server.process.stdout.close()


def test_the_page_says_when_the_server_has_stopped(browser: Any) -> None:
    server = start(str(TRACE))
    page = browser.new_page()
    try:
        page.goto(f"{server.url}#/timeline")
        until(page, "globalThis.kinetoscope?.ready")
        server.stop()
        page.keyboard.press("0")
        page.keyboard.press("w")
        for _ in range(12):
            page.keyboard.press("w")
        page.wait_for_selector("#gone")
        assert "has stopped" in page.inner_text("#gone")
    finally:
        page.close()
        server.stop()


@pytest.mark.parametrize("chosen", ["--steps", "--window"])
def test_a_window_is_shown_and_spoken_of(browser: Any, chosen: str, serve: Callable[[Path], Any]) -> None:
    asked = {"--steps": "1", "--window": "9758298..13298521"}[chosen]
    server = start(str(TRACE), chosen, asked)
    page = browser.new_page()
    try:
        page.goto(f"{server.url}#/timeline")
        until(page, "globalThis.kinetoscope?.ready")
        until(page, "kinetoscope.view.begin > 9e6 && kinetoscope.view.end < 14.2e6")
        assert "Window" in page.inner_text("header")
        page.goto(f"{server.url}#/kernels")
        page.wait_for_selector(".table tbody tr")
        assert "in the window" in page.inner_text(".tools [role=status]")
    finally:
        page.close()
        server.stop()


def test_what_the_browser_is_started_with_works_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "seen"
    command = tmp_path / "browser"
    command.write_text(f'#!/bin/sh\necho "$1" > {seen}.part && mv {seen}.part {seen}\n')
    command.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{command} %s")
    server = start(str(TRACE), browser=True)
    try:
        deadline = time.monotonic() + 20
        while not seen.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        given = urlsplit(seen.read_text().strip())
        token = urlsplit(server.url).path
        assert given.port == urlsplit(server.url).port
        assert token.strip("/") not in given.path
        status, headers, _ = ask(server, given.path)
        assert (status, headers["location"]) == (303, token)
        assert ask(server, given.path)[0] == 404
        assert ask(server, "/open/None")[0] == 404
        assert ask(server, f"{token}api/status")[0] == 200
    finally:
        server.stop()
