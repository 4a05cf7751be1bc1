"""A TLS 1.3 client that makes its own records, to send messages that no library sends."""

from __future__ import annotations

import hmac
import socket
import ssl
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.server.process.server_process import Reply, read_reply

ALERT, HANDSHAKE, DATA = 21, 22, 23
CLOSE_NOTIFY = b"\x01\x00"
# RFC 8446, 4.6.3: type 24, one byte, and whether the other side is asked to do the same.
KEY_UPDATE = b"\x18\x00\x00\x01\x00"
KEY_UPDATE_REQUESTED = b"\x18\x00\x00\x01\x01"


class HandmadeClient:
    """Completes the handshake with OpenSSL, encrypts with the keys from it, and decrypts with OpenSSL."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, key_log: Path) -> None:
        self.sock = sock
        self._arrived = ssl.MemoryBIO()
        self._departing = ssl.MemoryBIO()
        context.keylog_filename = str(key_log)
        self._tls = context.wrap_bio(self._arrived, self._departing, server_hostname="127.0.0.1")
        while not self._is_complete():
            sock.sendall(self._departing.read())
            self._arrived.write(sock.recv(65536))
        sock.sendall(self._departing.read())
        name, _, _ = self._tls.cipher() or ("", "", 0)
        assert name == "TLS_AES_256_GCM_SHA384"
        lines = [line.split() for line in key_log.read_text().splitlines()]
        secrets = [bytes.fromhex(line[2]) for line in lines if line[0] == "CLIENT_TRAFFIC_SECRET_0"]
        self._use(secrets[-1])

    def _is_complete(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _use(self, secret: bytes) -> None:
        self._secret = secret
        self._key = AESGCM(_expand_label(secret, b"key", 32))
        self._iv = int.from_bytes(_expand_label(secret, b"iv", 12), "big")
        self._records = 0

    def update_key(self) -> None:
        """Encrypt with the next key, after a KEY_UPDATE was sent (RFC 8446, 7.2)."""
        self._use(_expand_label(self._secret, b"traffic upd", 48))

    def record(self, content: bytes, kind: int = DATA) -> bytes:
        """One encrypted record (RFC 8446, 5.2); records must be sent in the order in which they are made."""
        inner = content + bytes([kind])
        header = b"\x17\x03\x03" + (len(inner) + 16).to_bytes(2, "big")
        nonce = (self._iv ^ self._records).to_bytes(12, "big")
        self._records += 1
        return header + self._key.encrypt(nonce, inner, header)

    def read_reply(self) -> Reply:
        """One reply. Raises ConnectionError when it is incomplete."""
        return read_reply(self)  # type: ignore[arg-type]  # it only calls recv

    def recv(self, size: int) -> bytes:
        """Decrypted bytes; b"" at the end of the connection, with or without a close_notify."""
        while True:
            try:
                return self._tls.read(size)
            except ssl.SSLWantReadError:
                if received := self.sock.recv(65536):
                    self._arrived.write(received)
                else:
                    return b""


def _expand_label(secret: bytes, label: bytes, length: int) -> bytes:
    """RFC 8446, 7.1, for lengths of one block."""
    name = b"tls13 " + label
    info = length.to_bytes(2, "big") + bytes([len(name)]) + name + b"\x00"
    return hmac.digest(secret, info + b"\x01", "sha384")[:length]
