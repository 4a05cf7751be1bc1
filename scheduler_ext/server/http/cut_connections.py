"""The connections that the server has cut off, by reason."""

from typing import Final, Literal, get_args

from scheduler_ext.counters import Counter

CutReason = Literal["head", "body", "reply", "tls", "pressure", "error"]


class _Connections:
    """head, body: the request did not arrive in time. reply: the client did not read its reply in time. tls:
    the handshake failed or did not end in time. pressure: too many connections, or too many bytes of requests
    and replies. error: an unexpected exception, which is in the log.
    """

    cut = Counter(
        "gpu_extender_connections_cut",
        "Connections ended by the server because of slow, refused or too many clients, by reason.",
        ("reason",),
        get_args(CutReason),
    )


_CONNECTIONS: Final = _Connections()
CUT_CONNECTIONS: Final = _CONNECTIONS.cut
