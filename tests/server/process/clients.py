"""A client that keeps a server busy, and notices a lost answer."""

from __future__ import annotations

import threading
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
        try:
            while not self._stopping.is_set():
                with self._server.connect() as sock:
                    goes_on = True
                    while goes_on:
                        reply = call(sock, self._raw)
                        self._check(reply)
                        self.answers += 1
                        goes_on = reply.headers["connection"] != "close" and not self._stopping.is_set()
        except ConnectionRefusedError:
            return
        except (OSError, AssertionError) as error:
            self.failure = f"after {self.answers} answers: {error!r}"

    def end(self) -> None:
        self._stopping.set()
        self.join()
