"""TLS of the API listener: contexts from files that are renewed, and the clients that are refused."""

import asyncio
import errno
import logging
import ssl
import time
from asyncio.sslproto import SSLProtocol
from pathlib import Path
from typing import Any, NoReturn

from scheduler_ext.server.server_options import TlsFiles

log = logging.getLogger(__name__)

# OpenSSL keeps the sessions of TLS 1.2 for two hours, some 18 KiB each and up to 20,480 of them. Python has
# no switch for that; they end with their context.
_MAX_SESSIONS = 1000
_REFUSAL_LOGGED_EVERY_S = 10.0
_SHUTDOWN_S = 2.0
_MAX_UNREAD_BYTES = 128 * 1024
_GIVE_PEM = "give a PEM file, which has -----BEGIN {kind}----- and its end, and nothing half-written"
# OpenSSL's reasons (openssl/sslerr.h, x509err.h) for a key of another certificate, and for one below its
# security level.
_MISMATCHES = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
_WEAKNESSES = ("EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK")
_WHY_REFUSED = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has no certificate",
    "HTTP_REQUEST": "it speaks plain HTTP instead of https",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "UNSUPPORTED_PROTOCOL": "it speaks no TLS from 1.2 on",
}
# For each reason: until when (monotonic seconds) it is not logged, and how many clients were not logged.
_quiet: dict[str, tuple[float, int]] = {}


class CertificateError(Exception):
    """A file that cannot be used; str() names flag and file, and says what to do."""


class ServerCertificates:
    """Supplies the TLS context for new connections; a renewal that cannot be used leaves the old one. Raises
    CertificateError when the files cannot be used at the start."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen = self._identity()
        self.context = load_context(files)
        """For the next connection. Never changed, only replaced as a whole."""

    def look(self) -> None:
        """Load what has been renewed since the last look. kubelet renews a mounted Secret by swapping a
        symbolic link, so the resolved files are compared."""
        seen = self._identity()
        renewed, self._seen = seen != self._seen, seen
        if not renewed and self.context.session_stats()["number"] <= _MAX_SESSIONS:
            return
        try:
            self.context = load_context(self._files)
        except CertificateError as error:
            # Where they changed while they were read, the next look decides.
            if renewed and self._identity() == seen:
                log.warning("certificates not renewed, the old ones stay: %s", error)
        else:
            if renewed:
                log.info("certificates renewed: new connections get those of %s", self._files.cert_file)

    def _identity(self) -> list[tuple[int, ...] | None]:
        found: list[tuple[int, ...] | None] = []
        for _, path in self._files.by_flag():
            try:
                stat = path.stat()
            except OSError:
                found.append(None)
            else:
                # The change time covers permissions, too: an unreadable key that is made readable is read.
                found.append((stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
        return found


def not_after(path: Path) -> float:
    """The end of the first certificate in a PEM file, which is the server's own, in seconds since 1970.
    Raises OSError when the file cannot be read or has no certificate."""
    # Python has no documented decoder of a certificate of one's own.
    certificate = ssl._ssl._test_decode_cert(str(path))  # type: ignore[attr-defined]
    return float(ssl.cert_time_to_seconds(certificate["notAfter"]))


def load_context(files: TlsFiles) -> ssl.SSLContext:
    """TLS for a server whose clients all have to show a certificate. Raises CertificateError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Go speaks 1.3, but 1.2 only if a release before 1.24 was built for FIPS 140 (golang/go#62372).
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    # As in Go, each certificate of the file is trusted, be it a root or an intermediate.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # No tickets: a resumed session brings no certificate to check. HTTP says where a message ends, so a
    # client that hangs up without TLS's close_notify has just hung up.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_IGNORE_UNEXPECTED_EOF
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    for flag, path in files.by_flag():
        try:
            # A pipe would keep us waiting, and can be read once only.
            if path.exists() and not path.is_file():
                raise OSError(errno.EINVAL, "not a regular file")
            path.open("rb").close()
        except OSError as error:
            problem = f"{error.strerror}; give a PEM file that this process may read"
            raise CertificateError(f"{flag} {path}: {problem}") from None
    _trust(context, *files.by_flag()[2])
    # By itself first: OpenSSL does not say whether the certificate or the key is at fault.
    _trust(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), *files.by_flag()[0])
    key = f"--tls-key-file {files.key_file}"

    def refuse_password() -> NoReturn:
        fix = f"give a plain one, such as: openssl pkey -in {files.key_file} -out NEW"
        raise CertificateError(f"{key}: encrypted, and the server has no passphrase for it; {fix}")

    try:
        context.load_cert_chain(files.cert_file, files.key_file, password=refuse_password)
    except OSError as error:
        raise CertificateError(_pair_problem(error, key, f"--tls-cert-file {files.cert_file}")) from None
    return context


def _trust(context: ssl.SSLContext, flag: str, path: Path) -> None:
    try:
        context.load_verify_locations(path)
    except OSError as error:
        problem = f"no certificate can be read from it ({_reason(error)})"
        raise CertificateError(f"{flag} {path}: {problem}; {_GIVE_PEM.format(kind='CERTIFICATE')}") from None


def _pair_problem(error: OSError, key: str, cert: str) -> str:
    openssl_reason = getattr(error, "reason", "")
    if openssl_reason in _MISMATCHES:
        return f"{key}: not the key of the certificate in {cert}; give the two that were issued together"
    if openssl_reason in _WEAKNESSES:
        return f"{cert}: OpenSSL does not serve it ({_reason(error)}); have a stronger one issued"
    problem = f"no private key can be read from it ({_reason(error)})"
    return f"{key}: {problem}; {_GIVE_PEM.format(kind='PRIVATE KEY')}"


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "malformed").replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)


class TlsProtocol(SSLProtocol):
    """asyncio's TLS of one connection, with small buffers, and the alert that says why a client is refused.
    asyncio.sslproto has no documented stability."""

    # asyncio's own 256 KiB for each connection would be 256 MiB for 1,000 strangers.
    max_size = 32 * 1024
    _outgoing: Any
    _process_outgoing: Any
    _get_app_transport: Any

    def __init__(
        self, loop: asyncio.AbstractEventLoop, app: asyncio.BaseProtocol, context: ssl.SSLContext
    ) -> None:
        self._agreed: asyncio.Future[None] = loop.create_future()
        super().__init__(
            loop,
            app,
            context,
            self._agreed,
            True,
            ssl_handshake_timeout=10**6,
            ssl_shutdown_timeout=_SHUTDOWN_S,
        )

    async def agreed(self) -> asyncio.Transport:
        """The transport for decrypted bytes, after the handshake. Raises ssl.SSLError, OSError."""
        await self._agreed
        transport: asyncio.Transport = self._get_app_transport()
        # OpenSSL resumes a session of TLS 1.2 for two hours and does not check the dates again.
        if transport.get_extra_info("ssl_object").session_reused:
            ends = transport.get_extra_info("peercert")["notAfter"]
            if ssl.cert_time_to_seconds(ends) < time.time():
                raise ssl.SSLCertVerificationError("certificate has expired since its session began")
        return transport

    def buffer_updated(self, nbytes: int) -> None:
        super().buffer_updated(nbytes)
        # Replies are written in smaller slices: the client does not read what TLS itself answers.
        if self._outgoing.pending > _MAX_UNREAD_BYTES:
            self._get_app_transport().abort()

    def _on_handshake_complete(self, handshake_exc: BaseException | None) -> None:
        if handshake_exc is not None:
            self._process_outgoing()
        super()._on_handshake_complete(handshake_exc)


def log_refusal(error: Exception, host: str) -> None:
    """Log why a handshake failed, each reason once in a while however many clients are refused."""
    if isinstance(error, TimeoutError):
        why = "its TLS handshake is overdue"
    elif isinstance(error, ssl.SSLCertVerificationError):
        why = f"its certificate is not accepted: {getattr(error, 'verify_message', error.args[0])}"
    else:
        why = _WHY_REFUSED.get(getattr(error, "reason", ""), f"its TLS handshake failed: {_reason(error)}")
    quiet_until, unlogged = _quiet.get(why, (0.0, 0))
    unlogged, now = unlogged + 1, time.monotonic()
    if now >= quiet_until:
        more = f" ({unlogged} times since the last such line)" if unlogged > 1 else ""
        log.warning("client %s refused: %s%s", host, why, more)
        quiet_until, unlogged = now + _REFUSAL_LOGGED_EVERY_S, 0
    _quiet[why] = quiet_until, unlogged
