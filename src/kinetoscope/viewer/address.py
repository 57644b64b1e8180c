"""Where the viewer is reached: a port of this machine, and a path that only its user knows."""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass

from kinetoscope.errors import UsageError

#: path of the address that a browser is started with
TICKET = "/open/"


@dataclass(frozen=True)
class Address:
    """A listening socket on the loopback, the token of every path, and the ticket that leads there once."""

    socket: socket.socket
    token: str
    ticket: str

    @property
    def port(self) -> int:
        """The port, also where any free one was asked for."""
        number: int = self.socket.getsockname()[1]
        return number

    @property
    def url(self) -> str:
        """The page."""
        return f"http://127.0.0.1:{self.port}/{self.token}/"

    @property
    def once(self) -> str:
        """For starting a browser, whose command line everyone can read: it leads to the page once."""
        return f"http://127.0.0.1:{self.port}{TICKET}{self.ticket}"


def listen(port: int) -> Address:
    """Listen on this machine's loopback; port 0 takes any free one.

    Connections are taken from now on, and wait until they are served.

    Raises:
        UsageError: the port is taken.
    """
    # With its protocol named: asyncio turns delays off (TCP_NODELAY) on such sockets only, and without
    # that every answer of a header and a body takes 40 ms longer.
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
        found.listen(128)
    except OSError as error:
        found.close()
        raise UsageError(
            f"--port {port}: {error.strerror or error}; without it a free one is taken"
        ) from None
    return Address(found, secrets.token_urlsafe(24), secrets.token_urlsafe(24))
