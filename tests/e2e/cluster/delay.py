"""A TCP proxy that delays the server's bytes, like a busy API server."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

from tests.e2e.cluster.ports import LOOPBACK

_CHUNK = 1 << 16
# A change of the delay also affects bytes that are on their way.
_LOOK_EVERY_S = 0.02


class Delay:
    """Use `running_delay`. Bytes from the server arrive `seconds` later; bytes from the client, at once."""

    def __init__(self, server: str) -> None:
        self._server = urlsplit(server)
        self._port = 0
        self.seconds = 0.0

    @property
    def url(self) -> str:
        """The URL for clients, in place of the server's."""
        return f"{self._server.scheme}://{LOOPBACK}:{self._port}"

    async def serve(self, stop: asyncio.Event, ready: threading.Event) -> None:
        """Relay until `stop`."""
        server = await asyncio.start_server(self._relay, LOOPBACK, 0)
        self._port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _relay(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            server, to_server = await asyncio.open_connection(self._server.hostname, self._server.port)
            late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
            ways = (self._forward(client, to_server), self._read(server, late), self._send(late, to_client))
            try:
                await asyncio.gather(*ways)
            finally:
                to_server.close()
                to_client.close()

    @staticmethod
    async def _forward(client: asyncio.StreamReader, to_server: asyncio.StreamWriter) -> None:
        while data := await client.read(_CHUNK):
            to_server.write(data)
            await to_server.drain()
        raise ConnectionResetError("the client has gone")

    @staticmethod
    async def _read(server: asyncio.StreamReader, late: asyncio.Queue[tuple[float, bytes]]) -> None:
        data = b"-"
        while data:
            data = await server.read(_CHUNK)
            late.put_nowait((time.monotonic(), data))

    async def _send(self, late: asyncio.Queue[tuple[float, bytes]], to_client: asyncio.StreamWriter) -> None:
        while True:
            came_at, data = await late.get()
            while (left_s := came_at + self.seconds - time.monotonic()) > 0:
                await asyncio.sleep(min(left_s, _LOOK_EVERY_S))
            if not data:
                raise ConnectionResetError("the server has gone")
            to_client.write(data)
            await to_client.drain()


@contextlib.contextmanager
def running_delay(server: str) -> Iterator[Delay]:
    """A proxy before a server, without any delay at first."""
    delay, ready = Delay(server), threading.Event()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(delay.serve(stop, ready),), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield delay
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
