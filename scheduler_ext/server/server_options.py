"""The server's options: the applications it serves, its listeners, deadlines and bounds."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Apps:
    """The WSGI applications of the three listeners, built inside the worker process. `close` is called once
    on the way out, after the last answer."""

    api: WSGIApplication
    health: WSGIApplication
    inspect: WSGIApplication
    close: Callable[[], None]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the server's certificate with its intermediates, its key, and the CA of its clients."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path

    def by_flag(self) -> tuple[tuple[str, Path], tuple[str, Path], tuple[str, Path]]:
        """Each file with the flag that named it, in the order of the fields."""
        return (
            ("--tls-cert-file", self.cert_file),
            ("--tls-key-file", self.key_file),
            ("--client-ca-file", self.client_ca_file),
        )


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Addresses as (host, port), port 0 for any free one; durations in seconds, sizes in bytes.

    `tls` is for the API: health is probed in plain HTTP, and inspection stays on the host.

    `read_timeout_s` bounds the headers and body of one request together, from its first byte;
    `write_timeout_s` the sending of one reply. `max_body_bytes` must be the limit the application
    gives to `read_body`: a larger body is refused as soon as its size is known.
    `threads` is the number of API requests handled at once.

    Raises ValueError when the inspection listener would be reachable from another host."""

    api_listen: tuple[str, int]
    health_listen: tuple[str, int]
    inspect_listen: tuple[str, int]
    read_timeout_s: float = 5.0
    write_timeout_s: float = 5.0
    graceful_timeout_s: float = 10.0
    # A thread is held only while the application runs, never by a slow client. kube-scheduler binds
    # asynchronously and was seen to send 40 binds at once, each of which waits for the API server: filter
    # must not queue behind them. An idle thread costs some 50 KiB.
    threads: int = 64
    max_body_bytes: int = 64 * MIB
    tls: TlsFiles | None = None

    def __post_init__(self) -> None:
        host = self.inspect_listen[0]
        if not is_loopback(host):
            raise ValueError(
                f"the inspection listener shows the whole inventory without authentication and may listen "
                f"on a loopback address only: use 127.0.0.1, ::1 or localhost instead of {host!r}"
            )


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """Bounds of one listener; durations in seconds, sizes in bytes."""

    threads: int
    max_connections: int
    max_body_bytes: int
    # Unanswered requests and unsent replies, together.
    max_held_bytes: int
    # One read of a connection.
    read_bytes: int
    read_timeout_s: float
    write_timeout_s: float


def is_loopback(host: str) -> bool:
    """Whether an address is reached from its own host only; names other than localhost are not looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
