"""How many clients were cut off, and why: for the metrics."""

from __future__ import annotations

import threading
from typing import Final, Literal, get_args

CutReason = Literal["head", "body", "reply", "tls", "pressure", "error"]


class CutConnections:
    """Counts of connections cut off, by reason; three listener threads write, any thread may read.

    head: the headers did not arrive in time. body: the body did not. reply: the client did not take its
    reply in time. tls: the handshake failed or did not end in time, for want of a good client certificate for
    one. pressure: there were too many connections, or too many bytes of requests and replies. error: an
    unexpected exception, which is in the log.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[CutReason, int] = dict.fromkeys(get_args(CutReason), 0)

    def add(self, reason: CutReason) -> None:
        with self._lock:
            self._counts[reason] += 1

    def counts(self) -> dict[CutReason, int]:
        """The counts since the process started."""
        with self._lock:
            return dict(self._counts)


CUT_CONNECTIONS: Final = CutConnections()
