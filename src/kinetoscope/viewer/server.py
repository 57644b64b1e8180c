"""The viewer's web server: the page's files, and answers about one trace, on this machine only."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from kinetoscope.errors import KinetoscopeError, UsageError
from kinetoscope.ingest.capture_directory import Input, LogShelf
from kinetoscope.render.escape import replace_surrogates
from kinetoscope.viewer import api, compile_page, meaning, query
from kinetoscope.viewer.guard import Guard
from kinetoscope.viewer.session import NotReadyError, Session, about, overlaid
from kinetoscope.window import WindowSpec

STATIC = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
_BODY_BYTES = 1 << 20

Answer = Callable[[Session, Mapping[str, str]], Any]


class Viewer:
    """The traces of one input; one of them is shown at a time."""

    def __init__(
        self, inputs: Sequence[Input], window: WindowSpec | None = None, *, use_store: bool = True
    ) -> None:
        self._inputs = list(inputs)
        self._shelf = LogShelf()
        self._window = window
        self._use_store = use_store
        self._open: dict[int, Session] = {}
        self.chosen = 0
        self.token = secrets.token_urlsafe(24)
        self.ticket = secrets.token_urlsafe(24)

    @property
    def session(self) -> Session:
        """The trace that is shown; it is read when it is first asked for."""
        return self.choose(self.chosen)

    def choose(self, number: int) -> Session:
        """Show another trace of the input."""
        if not 0 <= number < len(self._inputs):
            raise UsageError("there is no such trace in the input")
        self.chosen = number
        if number not in self._open:
            self._open.clear()  # one trace in memory at a time
            session = Session(self._inputs[number], self._shelf, self._window, use_store=self._use_store)
            self._open[number] = session
            session.start()
        return self._open[number]

    def status(self) -> dict[str, Any]:
        """State of the trace that is shown, and what else there is."""
        return {
            **self.session.status(),
            "inputs": [item.source.label for item in self._inputs],
            "chosen": self.chosen,
        }

    def app(self) -> ASGIApp:
        """The web application, guarded."""
        routes = [
            Route("/", self._file),
            Route("/static/{name:path}", self._file),
            Route("/api/status", self._direct(self.status)),
            Route("/api/choose", self._choose, methods=["POST"]),
            Route("/api/query", self._query, methods=["POST"]),
            Route("/api/tiles", self._asked(api.tiles)),
            Route("/api/file", self._trace_file),
        ]
        routes += [Route(f"/api/{name}", self._asked(answer)) for name, answer in _ANSWERS.items()]
        return Guard(Starlette(routes=routes), self.token, self.ticket)

    async def _file(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        path = (STATIC / name).resolve()
        kind = _TYPES.get(path.suffix)
        if kind is None or not path.is_relative_to(STATIC.resolve()) or not path.is_file():
            return PlainTextResponse("not found\n", 404)
        return FileResponse(path, media_type=kind)

    async def _trace_file(self, request: Request) -> Response:
        source = self.session.item.source
        if source.file is None or source.member is not None:
            return _json({"error": "this trace is no file of its own"}, 400)
        if not source.file.is_file():
            return _json({"error": "the trace file has gone"}, 400)
        return FileResponse(source.file, media_type="application/octet-stream")

    def _direct(self, answer: Callable[[], Any]) -> Any:
        async def respond(request: Request) -> Response:
            return await run_in_threadpool(_response, answer)

        return respond

    def _asked(self, answer: Answer) -> Any:
        async def respond(request: Request) -> Response:
            given = dict(request.query_params)
            return await run_in_threadpool(_response, lambda: answer(self.session, given))

        return respond

    async def _choose(self, request: Request) -> Response:
        body = await _body(request)

        def choose() -> dict[str, Any]:
            self.choose(int(api.number({"number": str(body.get("number", ""))}, "number")))
            return self.status()

        return await run_in_threadpool(_response, choose)

    async def _query(self, request: Request) -> Response:
        body = await _body(request)
        sql = body.get("sql")
        return await run_in_threadpool(
            _response, lambda: self.session.analysis.database.run(sql if isinstance(sql, str) else "")
        )


def _schema(session: Session, given: Mapping[str, str]) -> dict[str, Any]:
    return {
        "tables": [
            {"name": name, "columns": [{"name": column, "about": text} for column, text in columns]}
            for name, columns in query.TABLES
        ]
    }


_ANSWERS: Mapping[str, Answer] = {
    "trace": lambda session, given: {
        **about(session),
        "meanings": [{"key": key, "label": label} for key, label in meaning.MEANINGS],
    },
    "overlays": lambda session, given: overlaid(session.timeline, session.analysis),
    "report": lambda session, given: session.analysis.report,
    "overview": api.overview,
    "slice": api.slice_,
    "args": api.args,
    "kernel": api.kernel,
    "at": api.at,
    "names": api.names,
    "neighbour": api.neighbour,
    "search": api.search,
    "search-step": api.search_step,
    "area": api.area_,
    "flows": api.flows_in_view,
    "counter": api.counter,
    "locate": api.locate,
    "kernels": lambda session, given: session.analysis.kernels,
    "compile": lambda session, given: compile_page.page(session.analysis),
    "tables": _schema,
}


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


def listen(port: int) -> socket.socket:
    """A socket on this machine's loopback; port 0 takes any free one.

    Raises:
        UsageError: the port is taken.
    """
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
    except OSError as error:
        found.close()
        raise UsageError(
            f"--port {port}: {error.strerror or error}; without it a free one is taken"
        ) from None
    return found


def serve(viewer: Viewer, where: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until interrupted; ``ready`` is called once connections are accepted."""
    import uvicorn

    class _Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()

    config = uvicorn.Config(
        viewer.app(),
        log_level="critical",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    _Server(config).run(sockets=[where])
