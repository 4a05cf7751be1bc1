"""How many clients were cut off, and why: for the metrics."""

from __future__ import annotations

from typing import Final, Literal, get_args

from scheduler_ext.counters import Counter

CutReason = Literal["head", "body", "reply", "tls", "pressure", "error"]


class CutConnections:
    """Counts of connections cut off, by reason; three listener threads write, any thread may read.

    head: the headers did not arrive in time. body: the body did not. reply: the client did not take its
    reply in time. tls: the handshake failed or did not end in time, for want of a good client certificate for
    one. pressure: there were too many connections, or too many bytes of requests and replies. error: an
    unexpected exception, which is in the log.
    """

    _by_reason = Counter(
        "gpu_extender_connections_cut",
        "Connections ended by the server because of slow, refused or too many clients, by reason.",
        ("reason",),
        get_args(CutReason),
    )

    def add(self, reason: CutReason) -> None:
        self._by_reason.inc(reason)

    def counts(self) -> dict[CutReason, int]:
        """The counts since the process started."""
        return {reason: self._by_reason[reason] for reason in get_args(CutReason)}


CUT_CONNECTIONS: Final = CutConnections()
