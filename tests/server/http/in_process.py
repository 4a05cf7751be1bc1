"""An HttpServer in the process of the test."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gunicorn.config import Config

from scheduler_ext.server.http.http_server import HttpServer
from scheduler_ext.server.http.listeners import listen
from scheduler_ext.server.server_options import Limits

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

# Kept, because the counts of a server that is gone would be missing from the sums of later tests.
_servers: list[HttpServer] = []
LIMITS = Limits(2, 10, 1 << 20, 1 << 22, 1 << 16, 30, 30)


@contextmanager
def serving(app: WSGIApplication, listener: socket.socket | None = None) -> Iterator[tuple[str, int]]:
    """The address at which an application is served, on an event loop in a thread of its own."""
    sock = listener or listen("the API", ("127.0.0.1", 0))
    address = sock.getsockname()
    started, stopped = threading.Event(), asyncio.Event()
    loops = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        server = HttpServer("test", sock, app, LIMITS, Config())
        _servers.append(server)
        server.start()
        started.set()
        await stopped.wait()
        await server.stop(1.0, 0.0)

    # It waits for cut connections before it closes the loop.
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert started.wait(60)
        yield address
    finally:
        loops[0].call_soon_threadsafe(stopped.set)
        thread.join()
