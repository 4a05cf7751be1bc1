"""A client that keeps a server busy, and notices a lost answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tests.server.process.server_process import Reply, ServerProcess, call


class Client(threading.Thread):
    """Sends a request again and again on one kept-alive connection, each time after the last answer.

    Ends on command, or when the server ends the connection: with a reply that says so, then a refused
    connection.
    """

    def __init__(
        self, server: ServerProcess, raw: bytes, check: Callable[[Reply], object] = lambda reply: None
    ) -> None:
        super().__init__()
        self.answers = 0
        self.failure: str | None = None
        self._server, self._raw, self._check = server, raw, check
        self._stopping = threading.Event()

    def run(self) -> None:
        since = time.monotonic()
        try:
            while not self._stopping.is_set():
                since = time.monotonic()
                with self._server.connect() as sock:
                    goes_on = True
                    while goes_on:
                        since = time.monotonic()
                        reply = call(sock, self._raw)
                        self._check(reply)
                        self.answers += 1
                        goes_on = reply.headers["connection"] != "close" and not self._stopping.is_set()
        except ConnectionRefusedError:
            return
        except (OSError, AssertionError) as error:
            # A server that stops waits two seconds for a connection that is idle, and no longer.
            if isinstance(error, AssertionError) or time.monotonic() - since < 1.5:
                self.failure = f"after {self.answers} answers: {error!r}"

    def end(self) -> None:
        self._stopping.set()
        self.join()
