"""The viewer's web server: the page's files, and answers about one trace, on this machine only."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from kinetoscope.errors import KinetoscopeError, UsageError
from kinetoscope.render.escape import replace_surrogates
from kinetoscope.viewer.guard import Guard
from kinetoscope.viewer.loading import loaded
from kinetoscope.viewer.session import NotReadyError
from kinetoscope.viewer.traces import Traces

STATIC = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
#: the parameter in which a page says which trace of the input it shows
OF = "of"
_BODY_BYTES = 1 << 20
_TURN_S = 0.0005


class Viewer:
    """Answers about the traces of one input."""

    def __init__(self, traces: Traces, token: str, ticket: str) -> None:
        self._traces = traces
        self._token = token
        self._ticket = ticket
        self._files = frozenset(
            path.relative_to(STATIC).as_posix()
            for path in STATIC.rglob("*")
            if path.suffix in _TYPES and path.is_file()
        )

    def app(self) -> ASGIApp:
        """The web application, guarded."""
        routes = [
            Route("/", self._file),
            Route("/static/{name:path}", self._file),
            Route("/api/status", self._status),
            Route("/api/choose", self._choose, methods=["POST"]),
            Route("/api/query", self._query, methods=["POST"]),
            Route("/api/query-stop", self._stop_query, methods=["POST"]),
            Route("/api/file", self._trace_file),
            Route("/api/export", self._export),
            Route("/api/{name}", self._asked),
        ]
        return Guard(Starlette(routes=routes), self._token, self._ticket)

    async def _file(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        # Looked up and not resolved: what is not one of the page's files is never a path.
        if name not in self._files:
            return PlainTextResponse("not found\n", 404)
        path = STATIC / name
        # A few kilobytes of a local disk: read here, they need not wait for a thread's turn.
        return Response(path.read_bytes(), media_type=_TYPES[path.suffix])

    async def _trace_file(self, request: Request) -> Response:
        try:
            source = self._traces.asked(request.query_params.get(OF)).item.source
        except KinetoscopeError as error:
            return _json({"error": str(error)}, 400)
        if source.file is None or source.member is not None:
            return _json({"error": "this trace is no file of its own"}, 400)
        if not source.file.is_file():
            return _json({"error": "the trace file has gone"}, 400)
        return FileResponse(source.file, media_type="application/octet-stream")

    async def _export(self, request: Request) -> Response:
        given = dict(request.query_params)

        def begin() -> Response:
            pieces = loaded(_answers).export(self._traces.asked(given.get(OF)), given)
            first = next(pieces)  # what can fail has, before the answer begins
            return StreamingResponse(chain((first,), pieces), media_type="application/gzip")

        return await run_in_threadpool(_response, begin)

    async def _status(self, request: Request) -> Response:
        seen = request.query_params.get("seen")
        return await run_in_threadpool(_response, lambda: self._traces.status(seen))

    async def _asked(self, request: Request) -> Response:
        name, given = request.path_params["name"], dict(request.query_params)

        def answer() -> Any:
            known = loaded(_answers).ANSWERS
            if name not in known:
                raise UsageError("there is no such question")
            return known[name](self._traces.asked(given.get(OF)), given)

        return await run_in_threadpool(_response, answer)

    async def _choose(self, request: Request) -> Response:
        body = await _body(request)

        def choose() -> dict[str, Any]:
            number = body.get("number")
            self._traces.choose(number if isinstance(number, int) else -1)
            return self._traces.status()

        return await run_in_threadpool(_response, choose)

    async def _query(self, request: Request) -> Response:
        body = await _body(request)
        sql, name, of = _text(body, "sql"), _text(body, "name"), request.query_params.get(OF)
        return await run_in_threadpool(
            _response, lambda: loaded(_answers).run_sql(self._traces.asked(of), sql, name)
        )

    async def _stop_query(self, request: Request) -> Response:
        name = _text(await _body(request), "name")
        return await run_in_threadpool(
            _response, lambda: loaded(_answers).stop_sql(self._traces.session, name)
        )


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    return value if isinstance(value, str) else ""


def _answers() -> ModuleType:
    # not at the top: the page and its files can be served before this is imported
    from kinetoscope.viewer import answers

    return answers


def _response(answer: Callable[[], Any]) -> Response:
    try:
        made = answer()
    except NotReadyError:
        return _json({"error": "not ready"}, 503)
    except KinetoscopeError as error:
        return _json({"error": str(error)}, 400)
    except OSError as error:
        # the args are read from the trace file, which may have gone since
        return _json({"error": f"the trace file cannot be read: {error.strerror or error}"}, 400)
    if isinstance(made, Response):
        return made
    if isinstance(made, bytes):
        return Response(made, media_type="application/octet-stream")
    return _json(made)


def _json(value: Any, status: int = 200) -> Response:
    try:
        data = msgspec.json.encode(value)
    except (UnicodeEncodeError, msgspec.MsgspecError):
        # half surrogates, which programs do put into names
        data = json.dumps(_writable(msgspec.to_builtins(value))).encode()
    return Response(data, status, media_type="application/json")


def _writable(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {replace_surrogates(str(key)): _writable(each) for key, each in value.items()}
    return [_writable(each) for each in value] if isinstance(value, list | tuple) else value


async def _body(request: Request) -> dict[str, Any]:
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > _BODY_BYTES:
            return {}
    try:
        value = msgspec.json.decode(data)
    except msgspec.MsgspecError:
        return {}
    return value if isinstance(value, dict) else {}


def serve(viewer: Viewer, where: socket.socket, stop: threading.Event) -> None:
    """Serve until interrupted, or until ``stop`` is set."""
    import uvicorn

    # The analysis computes in another thread; a picture should not wait for its turns of 5 ms.
    sys.setswitchinterval(_TURN_S)
    # Until the page asks its first question, there is time to load what answers it.
    loading = threading.Thread(target=loaded, args=(_answers,), name="kinetoscope-loading", daemon=True)
    loading.start()
    config = uvicorn.Config(
        viewer.app(),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)

    def end() -> None:
        stop.wait()
        server.should_exit = True

    threading.Thread(target=end, name="kinetoscope-stop", daemon=True).start()
    try:
        server.run(sockets=[where])
    finally:
        loading.join()  # an interpreter that ends in the middle of an import aborts
