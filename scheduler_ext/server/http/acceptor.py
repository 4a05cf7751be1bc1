"""How clients come in on one listener: they are accepted, room is made for them, and TLS is agreed on."""

from __future__ import annotations

import errno
import logging
import socket
import ssl
import time
from dataclasses import dataclass

from scheduler_ext.server.http.certificates import ServerCertificates
from scheduler_ext.server.http.connection import Connection, Phase
from scheduler_ext.server.http.connection_table import READ, WRITE, ConnectionTable
from scheduler_ext.server.http.cut_connections import CUT_CONNECTIONS
from scheduler_ext.server.http.tls_socket import TlsSocket

log = logging.getLogger(__name__)

# Turns of the listener before it is the clients' turn.
_ACCEPTS_PER_TURN = 64
# A handshake takes up to a few ms of computing, which anybody may ask for. Past this much per turn of the
# loop the others wait, so that a flood of them delays a request by so much and no more.
_HANDSHAKES_PER_TURN_S = 0.005
# However many are refused, there is one line so often for each reason; OpenSSL has some dozens.
_LOG_EVERY_S = 10.0

_WHY = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has no certificate",
    "HTTP_REQUEST": "it speaks plain HTTP instead of https",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "UNSUPPORTED_PROTOCOL": "it speaks no TLS from 1.2 on",
}


@dataclass(slots=True)
class _Refusals:
    """Of one reason: until when (monotonic seconds) to say nothing of them, and how many were kept quiet."""

    quiet_until: float = 0.0
    unlogged: int = 0


class Acceptor:
    """Brings connections into a loop's table; used by the loop's thread only.

    With certificates a connection starts in Phase.HANDSHAKE, without in Phase.IDLE.
    """

    def __init__(
        self,
        listener: socket.socket,
        table: ConnectionTable,
        max_connections: int,
        certificates: ServerCertificates | None,
    ) -> None:
        self._listener = listener
        self._address = listener.getsockname()
        self._table = table
        self._max_connections = max_connections
        self._certificates = certificates
        self._handshakes_s = 0.0
        self._postponed = False
        self._refusals: dict[str, _Refusals] = {}

    def new_turn(self) -> None:
        """Let handshakes take time again."""
        self._postponed = self._handshakes_s > _HANDSHAKES_PER_TURN_S
        self._handshakes_s = 0.0

    def on_listener(self, _mask: int) -> None:
        """Accept who is waiting, but nobody before those are through who were accepted earlier."""
        if self._postponed:
            return
        for _ in range(_ACCEPTS_PER_TURN):
            if not self.accept():
                return

    def accept(self) -> bool:
        """Accept one connection; False when there is none."""
        try:
            sock, peer = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return False
        except OSError as error:
            log.warning("a connection could not be accepted: %s", error)
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._make_room()
            # The listener stays readable, and the loop would spin while nothing can be freed.
            time.sleep(0.01)
            return False
        if self._table.count() >= self._max_connections and not self._make_room():
            CUT_CONNECTIONS.add("pressure")
            sock.close()
            return True
        if self._certificates is None:
            self._enter(Connection(sock, peer, self._address), Phase.IDLE)
        else:
            tls = TlsSocket(sock, self._certificates.context)
            self._enter(Connection(tls, peer, self._address), Phase.HANDSHAKE)
        return True

    def shake_hands(self, connection: Connection) -> bool:
        """Go on with a connection's handshake; True when it is done, and the request is next.

        Raises OSError when the client has hung up.
        """
        assert isinstance(connection.sock, TlsSocket)
        if self._handshakes_s > _HANDSHAKES_PER_TURN_S:
            # The poller will tell again.
            return False
        started = time.monotonic()
        try:
            done = connection.sock.handshake()
        except ssl.SSLError as error:
            self.refuse(connection, _why(error))
            return False
        finally:
            self._handshakes_s += time.monotonic() - started
        if not done:
            self._table.watch(connection, WRITE if connection.sock.has_unsent else READ)
        return done

    def refuse(self, connection: Connection, why: str) -> None:
        """Give up a handshake; the client gets to see what TLS has told it before the connection ends."""
        CUT_CONNECTIONS.add("tls")
        connection.end_writing()
        self._enter(connection, Phase.LINGERING)
        refusals = self._refusals.setdefault(why, _Refusals())
        refusals.unlogged += 1
        now = time.monotonic()
        if now >= refusals.quiet_until:
            more = f" ({refusals.unlogged} times since the last such line)" if refusals.unlogged > 1 else ""
            log.warning("client %s refused: %s%s", connection.peer[0], why, more)
            refusals.quiet_until, refusals.unlogged = now + _LOG_EVERY_S, 0

    def _make_room(self) -> bool:
        victim = self._table.expendable()
        if victim is not None:
            CUT_CONNECTIONS.add("pressure")
            self._table.close(victim, reset=victim.phase is Phase.WRITING)
        return victim is not None

    def _enter(self, connection: Connection, phase: Phase) -> None:
        self._table.enter(connection, phase, time.monotonic())


def _why(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {getattr(error, 'verify_message', error.args[0])}"
    reason = error.reason or str(error)
    return _WHY.get(reason) or f"its TLS handshake failed: {reason.replace('_', ' ').lower()}"
