"""One client's TLS, with what a `Connection` asks of a socket."""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
import time
from collections.abc import Iterable

# Buffers of OpenSSL keep the size they once had, so this bounds what a connection holds in each direction.
_TAKE_BYTES = 64 * 1024
_SEAL_BYTES = 64 * 1024
# The most that one record carries (RFC 8446, 5.1).
_RECORD_BYTES = 16 * 1024
_RECORD_HEADER_BYTES = 5
_HUNG_UP = (ssl.SSLEOFError, ssl.SSLZeroReturnError)


class TlsSocket:
    """The server's side of TLS on a non-blocking socket; used by one thread at a time.

    OpenSSL works on memory and never sees the socket. That keeps two promises to a poller. `recv` decrypts
    all that it takes from the kernel, so what is left to read is in the kernel, where the poller sees it;
    only a record that has not come whole stays here. `sendmsg` says that bytes are sent when the kernel has
    their records, so nothing that the poller should wait for is left here either.
    """

    __slots__ = (
        "_being_sent_bytes",
        "_ended",
        "_header",
        "_missing_bytes",
        "_received",
        "_sealed",
        "_sock",
        "_tls",
        "_unsent",
    )

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._sock = sock
        self._received = ssl.MemoryBIO()
        self._sealed = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._sealed, server_side=True)
        # Records that the kernel has not taken, and how many bytes of the caller's they carry.
        self._unsent = memoryview(b"")
        self._being_sent_bytes = 0
        # How much of the last record is still to come, and its header while that is not whole.
        self._missing_bytes = 0
        self._header = b""
        self._ended = False

    @property
    def mid_record(self) -> bool:
        """Whether a record has begun to arrive that cannot be decrypted yet."""
        return bool(self._missing_bytes or self._header)

    @property
    def has_unsent(self) -> bool:
        """Whether the kernel has yet to take something."""
        return bool(self._unsent or self._sealed.pending)

    def handshake(self) -> bool:
        """Go on with the handshake as far as possible; True when it is done and all of it is sent.

        Raises ssl.SSLError when it has failed, of which the client has been told; ConnectionError when the
        client has hung up, and other OSErrors when the connection is broken.
        """
        with contextlib.suppress(BlockingIOError):
            self._flush()
            self._take()
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except _HUNG_UP:
            raise ConnectionAbortedError("the client hung up") from None
        finally:
            self._flush_if_possible()
        self._refuse_expired()
        return not self.has_unsent

    def recv(self, size: int) -> bytes:
        """What has come: b"" when the client has ended its side or hung up.

        It may be more or less than `size`: all that was decrypted is returned. After `shutdown` it is what
        the network brought, as it came: nobody wants it any more.

        Raises BlockingIOError when there is nothing, and OSError when the connection is broken.
        """
        if self._ended:
            return self._sock.recv(size)
        # The bytes that came with the end of the handshake are the only ones that can be left.
        if not self._received.pending:
            self._take()
        try:
            return self._decrypt()
        finally:
            # TLS may have something to say: why it gives up, or that it will not renegotiate.
            if self.has_unsent:
                self._flush_if_possible()
                if self._sealed.pending > _SEAL_BYTES:
                    raise ConnectionError("the client does not read what TLS has to say")

    def send(self, data: bytes) -> int:
        """Send all of a short message; what the kernel does not take now goes out before the next bytes."""
        self._encrypt([memoryview(data)])
        self._flush_if_possible()
        return len(data)

    def sendmsg(self, pieces: Iterable[memoryview]) -> int:
        """How many bytes of `pieces` were sent, at least one.

        After a BlockingIOError it has to be called with the same pieces again: some may be on their way.

        Raises BlockingIOError when the kernel does not take all of it now, and OSError when the connection
        is broken.
        """
        if not self._being_sent_bytes:
            self._being_sent_bytes = self._encrypt(pieces)
        self._flush()
        sent, self._being_sent_bytes = self._being_sent_bytes, 0
        return sent

    def shutdown(self, how: int) -> None:
        """Tell the client, in TLS and in TCP, that nothing more follows. Raises OSError."""
        self._notify_close()
        self._sock.shutdown(how)

    def close(self) -> None:
        """Close the socket; the client is told so where that is possible without waiting."""
        self._notify_close()
        self._sock.close()

    def fileno(self) -> int:
        return self._sock.fileno()

    def setblocking(self, flag: bool) -> None:
        self._sock.setblocking(flag)

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        self._sock.setsockopt(level, option, value)

    def _take(self) -> None:
        received = self._sock.recv(_TAKE_BYTES)
        if received:
            self._received.write(received)
            self._follow_records(received)
        else:
            self._received.write_eof()

    def _follow_records(self, received: bytes) -> None:
        """Know where the last record ends; the length is in the last two bytes of its header."""
        received = self._header + received
        position = self._missing_bytes
        while position + _RECORD_HEADER_BYTES <= len(received):
            body = position + _RECORD_HEADER_BYTES
            position = body + int.from_bytes(received[body - 2 : body], "big")
        self._header = received[position:]
        self._missing_bytes = max(0, position - len(received))

    def _decrypt(self) -> bytes:
        pieces = []
        try:
            while piece := self._tls.read(_RECORD_BYTES):
                pieces.append(piece)
        except ssl.SSLWantReadError:
            if not pieces:
                raise BlockingIOError(errno.EAGAIN, "no whole record has come") from None
        except _HUNG_UP:
            pass
        else:
            if pieces:
                # The client ended its side behind these. Only the kernel can have the poller tell so.
                self._sock.shutdown(socket.SHUT_RD)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _encrypt(self, pieces: Iterable[memoryview]) -> int:
        room = _SEAL_BYTES
        try:
            for piece in pieces:
                room -= self._tls.write(piece[:room])
                if not room:
                    break
        except ssl.SSLWantReadError:
            # Half a message of TLS itself came before. No client that we know sends one in halves; waiting
            # for the rest of it while the client may be waiting for us is not worth having.
            raise ConnectionError("the client stopped within a message of TLS") from None
        return _SEAL_BYTES - room

    def _flush(self) -> None:
        """Hand all records to the kernel. Raises BlockingIOError when it does not take them all."""
        while self.has_unsent:
            if not self._unsent:
                self._unsent = memoryview(self._sealed.read())
            self._unsent = self._unsent[self._sock.send(self._unsent) :]

    def _flush_if_possible(self) -> None:
        with contextlib.suppress(OSError):
            self._flush()

    def _notify_close(self) -> None:
        if not self._ended:
            self._ended = True
            # After an error, and before the handshake is done, there is nobody to tell.
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush_if_possible()

    def _refuse_expired(self) -> None:
        """A session of TLS 1.2 may be resumed for two hours, and OpenSSL does not look at the dates again."""
        if self._tls.session_reused:
            certificate = self._tls.getpeercert() or {}
            if ssl.cert_time_to_seconds(str(certificate["notAfter"])) < time.time():
                raise ssl.SSLCertVerificationError("certificate has expired since its session began")
