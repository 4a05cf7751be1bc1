"""Listening sockets: bound once, before the worker process exists, and left without losing a connection."""

import asyncio
import contextlib
import ctypes
import errno
import socket
import struct
import time
from collections.abc import Callable

# Connections that wait to be accepted; the kernel caps it at net.core.somaxconn.
_BACKLOG = 1024
# How long a client whose SYN was answered may take to complete its TCP handshake while we stop listening.
_HANDSHAKE_S = 0.05
_SO_ATTACH_FILTER = 26


class ListenError(Exception):
    """A listener is not available; str() names it and says what to do."""


def listen(name: str, address: tuple[str, int], send_buffer_bytes: int | None = None) -> socket.socket:
    """A listening TCP socket on `address`, IPv4 or IPv6; port 0 takes any free one.

    `send_buffer_bytes` bounds what the kernel keeps for each client that does not read, which counts against
    the container's memory too; the kernel's own bound is some megabytes.

    Raises ListenError."""
    host, port = address[0].strip("[]"), address[1]
    is_ipv6 = ":" in host
    family = socket.AF_INET6 if is_ipv6 else socket.AF_INET
    try:
        if not 0 <= port <= 65535:
            raise OSError(errno.EINVAL, "a port is a number from 0 to 65535")
        sock = socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=is_ipv6)
    except OSError as error:
        at = f"[{host}]:{port}" if is_ipv6 else f"{host}:{port}"
        reason = (error.strerror or str(error)).partition(" (")[0]
        fix = "choose another address or stop what uses it"
        raise ListenError(f"cannot listen on {at} for {name}: {reason}; {fix}") from error
    # Accepted sockets inherit these. Without the first the kernel holds small segments back until an ACK.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if send_buffer_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    sock.setblocking(False)
    return sock


def url(listener: socket.socket, scheme: str = "http") -> str:
    """SCHEME://HOST:PORT of a listener, with its real port."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


async def leave(listener: socket.socket, accept: Callable[[], bool]) -> None:
    """Stop listening without resetting a connection. Closing a listener resets the connections that completed
    their TCP handshake but were not accepted, and their clients have often sent a request by then. So new
    handshakes are stopped first, `accept` is called until it returns False because there is no more
    connection, and only then is the socket closed. Later clients see their connection refused."""
    _ignore_new_handshakes(listener)
    until = time.monotonic() + _HANDSHAKE_S
    while accept() or time.monotonic() < until:
        await asyncio.sleep(_HANDSHAKE_S / 20)
    listener.close()


def _ignore_new_handshakes(listener: socket.socket) -> None:
    """Make the kernel drop SYN segments to this listener, by a classic BPF program of four instructions.
    Sockets of TCP see the segment from its TCP header on; byte 13 holds the flags (linux/filter.h,
    Documentation/networking/filter.rst). Needs no privilege. Where the kernel has no socket filters, a
    connection made in the last microseconds may be reset."""
    load_flags = (0x30, 0, 0, 13)  # BPF_LD | BPF_B | BPF_ABS
    if_syn = (0x45, 0, 1, 0x02)  # BPF_JMP | BPF_JSET | BPF_K
    drop, keep = (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF)  # BPF_RET
    program = b"".join(struct.pack("HBBI", *each) for each in (load_flags, if_syn, drop, keep))
    code = ctypes.create_string_buffer(program)
    with contextlib.suppress(OSError):
        listener.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", 4, ctypes.addressof(code))
        )
