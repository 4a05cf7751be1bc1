"""An HttpServer in the process of the test."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scheduler_ext.server.http.connection import Phase
from scheduler_ext.server.http.http_server import HttpServer
from scheduler_ext.server.http.listeners import listen
from scheduler_ext.server.http.tls import ServerCertificates
from scheduler_ext.server.server_options import Apps, ListenerLimits, ServerOptions
from scheduler_ext.server.worker import ExtenderApplication

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

Address = tuple[str, int]
_FREE = "127.0.0.1", 0
# Kept, because the counts of a server that is gone would be missing from the sums of later tests.
_servers: list[HttpServer] = []
# No slow machine reaches these deadlines.
LIMITS = ListenerLimits(2, 10, 1 << 20, 1 << 22, 1 << 16, 30, 30)
PATIENT = replace(LIMITS, max_connections=1000, max_held_bytes=1 << 30, read_timeout_s=60, write_timeout_s=60)
_HASTY_S = 0.3
HASTY = replace(PATIENT, read_timeout_s=_HASTY_S, write_timeout_s=_HASTY_S)


@dataclass(frozen=True)
class Running:
    """A server on an event loop in a thread of its own."""

    address: Address
    server: HttpServer
    loop: asyncio.AbstractEventLoop
    _stopped: asyncio.Future[tuple[float, float]]

    @property
    def cuts(self) -> dict[Any, int]:
        """The connections that were cut, by reason."""
        return {reason: number for reason, number in self.server.cut.items() if number}

    def hasten(self) -> None:
        """Have short deadlines from now on, when all clients have shaken hands."""
        self.server.durations_s |= {Phase.READING: _HASTY_S, Phase.WRITING: _HASTY_S}

    def stop(self, grace_s: float, linger_s: float) -> None:
        """Begin to stop; idle connections have `linger_s` left. Nothing happens to one that stops already."""

        def begin() -> None:
            if not self._stopped.done():
                self._stopped.set_result((grace_s, linger_s))

        # The loop of a server that has stopped is closed.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(begin)


def _nothing() -> None:
    pass


@contextmanager
def running(
    app: WSGIApplication,
    limits: ListenerLimits = PATIENT,
    listener: socket.socket | None = None,
    certificates: ServerCertificates | None = None,
) -> Iterator[Running]:
    """The server of an application; it ends with the context."""
    sock = listener or listen("the API", _FREE)
    config = ExtenderApplication(
        ServerOptions(_FREE, _FREE, _FREE), lambda: Apps(app, app, app, _nothing)
    ).cfg
    started = threading.Event()
    found: list[Running] = []

    async def serve() -> None:
        server = HttpServer("test", sock, app, limits, config, certificates)
        _servers.append(server)
        server.start()
        loop = asyncio.get_running_loop()
        stopped: asyncio.Future[tuple[float, float]] = loop.create_future()
        found.append(Running(sock.getsockname(), server, loop, stopped))
        started.set()
        await server.stop(*await stopped)

    # It waits for cut connections before it closes the loop.
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert started.wait(60)
        yield found[0]
    finally:
        found[0].stop(1.0, 0.0)
        thread.join()
