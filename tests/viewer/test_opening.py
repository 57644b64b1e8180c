"""What makes opening fast: work done once, pages that need not wait, answers without delays."""

from __future__ import annotations

import re
import socket
import threading
import time
from pathlib import Path

import pytest

from kinetoscope import reporting
from kinetoscope.ingest import load
from kinetoscope.ingest.capture_directory import LogShelf, find_inputs
from kinetoscope.viewer.address import listen
from kinetoscope.viewer.analysis import Analysis
from kinetoscope.viewer.once import once
from kinetoscope.viewer.session import Session
from kinetoscope.viewer.traces import Traces
from viewer.conftest import ROOT, TRACES, Server
from viewer.test_guard import ask

STATIC = ROOT / "src" / "kinetoscope" / "viewer" / "static"
TRACE = TRACES / "seed_breaks.trace.json.gz"


class _Slow:
    def __init__(self) -> None:
        self.made = 0

    @once
    def value(self) -> object:
        """Slow."""
        self.made += 1
        time.sleep(0.05)
        return object()

    @once
    def failing(self) -> object:
        """Fails the first time."""
        self.made += 1
        if self.made == 1:
            raise OSError("not yet")
        return self.made


def test_what_many_ask_for_at_once_is_made_once() -> None:
    slow, found = _Slow(), list[object]()
    threads = [threading.Thread(target=lambda: found.append(slow.value)) for _ in range(8)]
    assert _Slow.value.if_made(slow) is None
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert slow.made == 1
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
    assert _Slow.value.if_made(slow) is found[0]
    assert _Slow().value is not found[0]


def test_what_failed_is_made_anew() -> None:
    slow = _Slow()
    with pytest.raises(OSError, match="not yet"):
        _ = slow.failing
    assert slow.failing == 2
    assert slow.failing == 2


def test_report_and_pictures_rest_on_the_same_links(monkeypatch: pytest.MonkeyPatch) -> None:
    linked = []
    monkeypatch.setattr(reporting, "link", lambda *given: linked.append(given))
    analysis = Analysis.of(load(TRACE))
    assert linked == []
    assert analysis.work.links is analysis.links
    assert analysis.join.links is analysis.links


def test_the_page_names_every_module_so_that_all_come_at_once() -> None:
    page = (STATIC / "index.html").read_text()
    named = re.findall(r'<link rel="modulepreload" href="static/([^"]+)">', page)
    there = sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*.js"))
    assert sorted([*named, "main.js"]) == there


def test_answers_are_not_delayed() -> None:
    address = listen(0)
    with address.socket, socket.create_connection(("127.0.0.1", address.port)):
        taken, _ = address.socket.accept()
        with taken:
            # what asyncio asks before it sets TCP_NODELAY
            assert taken.proto == socket.IPPROTO_TCP


def test_status_waits_for_a_change() -> None:
    session = Session(find_inputs([str(TRACE)])[0], LogShelf())
    began = time.monotonic()
    session.wait_beyond(None)
    session.wait_beyond("ready")
    assert time.monotonic() - began < 0.2
    waiting = threading.Thread(target=lambda: session.wait_beyond("reading"))
    waiting.start()
    session.run()
    waiting.join(5)
    assert not waiting.is_alive()
    began = time.monotonic()
    session.wait_beyond("ready")  # it never changes again, and who asks is answered all the same
    assert time.monotonic() - began < 5


def test_all_is_prepared_when_nobody_has_asked_yet() -> None:
    session = Session(find_inputs([str(TRACE)])[0], LogShelf())
    session.run()
    assert "prepared" in session.status()["took"]
    assert session.analysis.idle_if_known is not None


def test_an_input_of_several_traces_has_one_open(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.json.gz").write_bytes(TRACE.read_bytes())
    traces = Traces(find_inputs([str(tmp_path)]))
    first = traces.session
    assert traces.session is first
    second = traces.choose(1)
    assert second is not first
    assert traces.choose(0) is not first
    assert traces.status()["chosen"] == 0
    assert len(traces.status()["inputs"]) == 2


def test_a_question_that_does_not_exist(serve) -> None:  # type: ignore[no-untyped-def]
    server: Server = serve(TRACE)
    token = server.url.split("/", 3)[3].strip("/")
    status, _, body = ask(server, f"/{token}/api/nothing")
    assert status == 400
    assert b"no such question" in body
