"""Who the server answers: its own page, and nobody else."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from viewer.conftest import TRACES, Server

Serve = Callable[[Path], Server]


def ask(
    server: Server, path: str, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    where = urlsplit(server.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port or 0, timeout=10)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, headers=named)
        answer = connection.getresponse()
        return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve(TRACES / "seed_breaks.trace.json.gz")


def token(server: Server) -> str:
    return urlsplit(server.url).path


def test_it_listens_on_this_machine_only(server: Server) -> None:
    assert urlsplit(server.url).hostname == "127.0.0.1"
    assert len(token(server)) > 30


@pytest.mark.parametrize(
    "path", ["/", "/api/status", "/static/main.js", "/wrong/api/status", "//", "/%00/", "/é/"]
)
def test_without_the_token_there_is_nothing(server: Server, path: str) -> None:
    status, _, body = ask(server, path.replace("é", "%C3%A9"))
    assert status == 404
    assert b"token" in body


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:80"}, 421),
        ({"Host": "localhost:9999"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "cors"}, 403),
        ({"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors"}, 403),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}, 200),
        ({"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Mode": "cors"}, 200),
    ],
)
def test_other_pages_get_nothing(server: Server, headers: dict[str, str], status: int) -> None:
    assert ask(server, f"{token(server)}api/status", **headers)[0] == status


@pytest.mark.parametrize("path", ["", "api/status", "static/main.js", "api/nothing"])
def test_every_answer_has_a_strict_policy(server: Server, path: str) -> None:
    _, headers, _ = ask(server, f"{token(server)}{path}")
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "server" not in headers


@pytest.mark.parametrize(
    "path",
    ["../server.py", "..%2fserver.py", "%2e%2e/guard.py", "/etc/hostname", "timeline", "", "%00", "a" * 5000],
)
def test_only_the_pages_files_are_served(server: Server, path: str) -> None:
    assert ask(server, f"{token(server)}static/{path}")[0] == 404


@pytest.mark.parametrize(
    "query",
    [
        "api/tiles",
        "api/tiles?begin=0&end=nan&pixel=1&lanes=0",
        "api/tiles?begin=0&end=1e30&pixel=1&lanes=0",
        "api/tiles?begin=0&end=1e12&pixel=1e-9&lanes=0",
        "api/tiles?begin=0&end=10&pixel=0&lanes=0",
        "api/tiles?begin=0&end=10&pixel=1&lanes=x",
        f"api/tiles?begin=0&end=10&pixel=1&lanes={'9' * 5000}",
        f"api/tiles?begin=0&end=10&pixel=1&lanes=5-{'9' * 5000}",
        "api/tiles?begin=0&end=10&pixel=1&lanes=%C2%B2",
        f"api/names?ids={'9' * 5000}",
        f"api/area?begin=0&end=10&strips={'9' * 5000}",
        "api/flows?begin=0&end=10&pixel=1e-300&lanes=0",
        "api/slice?row=0&of=1",
        "api/export?of=x",
        "api/file?of=1",
        "api/slice?row=-1",
        "api/slice?row=999999999",
        "api/slice?row=x",
        "api/at?lane=9999&time=0&within=1",
        "api/counter?id=77&begin=0&end=1&pixels=10",
        "api/search?q=&begin=0&end=1&buckets=1",
        "api/area?begin=5&end=5&strips=0",
    ],
)
def test_a_wrong_question_is_refused_in_words(server: Server, query: str) -> None:
    for _ in range(50):
        status, _, body = ask(server, f"{token(server)}{query}")
        if status != 503:
            break
    assert status == 400
    assert b'"error"' in body


def test_there_are_no_web_sockets(server: Server) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13"}
    assert ask(server, "/api/status", **headers, Sec_WebSocket_Key="AAAAAAAAAAAAAAAAAAAAAA==")[0] == 404
    status, found, _ = ask(server, f"{token(server)}api/status", **headers)
    assert status == 200
    assert "upgrade" not in found
