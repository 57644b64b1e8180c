"""Who may talk to the viewer: only the page that it opened, on this machine or at a tunnel's end.

Every address carries a random token. A request must name this machine as its host (so no other
site's name can be pointed here), come from no other page, and every answer forbids the page to load
anything from elsewhere or to run a script that is not one of the viewer's files.

A browser that is started with an address shows it to everyone who can list processes. So it is
started with a ticket instead, which leads to the token once.
"""

from __future__ import annotations

import hmac
from typing import TypeAlias

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kinetoscope.viewer.address import TICKET

_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
_Refusal: TypeAlias = "tuple[int, str] | None"

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin-allow-popups",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class Guard:
    """Refuses what does not come from the viewer's own page; the rest reaches ``app`` without the token."""

    def __init__(self, app: ASGIApp, token: str, ticket: str) -> None:
        self._app = app
        self._token = token
        self._ticket: str | None = ticket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            status, text = refusal
            await PlainTextResponse(text, status)(scope, receive, send_guarded)
            return
        if self._is_ticket(scope["path"]):
            self._ticket = None
            await RedirectResponse(f"/{self._token}/", 303)(scope, receive, send_guarded)
            return
        path = scope["path"][len(self._token) + 1 :]
        inner = {**scope, "path": path, "raw_path": path.encode()}
        await self._app(inner, receive, send_guarded)

    def _refusal(self, scope: Scope) -> _Refusal:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host.rsplit(":", 1)[0] not in _HOSTS and host not in _HOSTS:
            return 421, "this viewer answers to 127.0.0.1 and localhost only\n"
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return 403, "another page may not ask this viewer\n"
        site = headers.get("sec-fetch-site")
        opens = headers.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET"
        if site in ("cross-site", "same-site") and not opens:
            return 403, "another page may not ask this viewer\n"
        if self._is_ticket(scope["path"]):
            return None
        first = scope["path"].split("/", 2)[1] if scope["path"].startswith("/") else ""
        if not hmac.compare_digest(first.encode(), self._token.encode()):
            return 404, "not found: open the address that kinetoscope view printed, with its token\n"
        return None

    def _is_ticket(self, path: str) -> bool:
        wanted = f"{TICKET}{self._ticket}"
        return self._ticket is not None and hmac.compare_digest(path.encode(), wanted.encode())
