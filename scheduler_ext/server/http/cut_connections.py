"""Connections that the server ended, by reason: for the metrics."""

from __future__ import annotations

from typing import Final, Literal, get_args

CutReason = Literal["head", "body", "reply", "tls", "pressure", "error"]

CUT_CONNECTIONS: Final[dict[CutReason, int]] = dict.fromkeys(get_args(CutReason), 0)
"""Counts since the process started; only the event loop writes.

head, body: the request did not arrive in time. reply: the client did not read its reply in time. tls: the
handshake failed or did not end in time. pressure: too many connections, or too many bytes of requests and
replies. error: an unexpected exception, which is in the log.
"""
