"""The certificates of the API listener: loaded from files, and again when those are renewed."""

from __future__ import annotations

import contextlib
import errno
import logging
import ssl
from pathlib import Path
from threading import Event, Thread

from scheduler_ext.server.server_options import TlsFiles

log = logging.getLogger(__name__)

# kubelet renews a mounted Secret by swapping a symbolic link: the resolved files are looked at, not watched.
POLL_S = 1.0
# OpenSSL keeps the sessions of TLS 1.2 for two hours, some 18 KiB each and up to 20,480 of them. Python has
# no switch for that; they end with their context.
_MAX_SESSIONS = 1000
# OpenSSL's words (openssl/sslerr.h, x509err.h) for a key of another certificate, by value and by kind, and
# for what is below its security level.
_MISMATCHES = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
_WEAKNESSES = ("EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK")


class CertificateError(Exception):
    """A file that cannot be used; str() names flag and file, and says what to do."""


class ServerCertificates:
    """Supplies the TLS context for new connections; a renewal that cannot be used leaves the old one.

    Raises CertificateError when the files cannot be used at the start.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen = self._identity()
        self.context = load_context(files)
        """For the next connection. Never changed, only replaced as a whole."""
        self._stop = Event()
        self._thread = Thread(target=self._poll, name="certificates", daemon=True)

    def start(self) -> None:
        """Look for renewals from now on, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop looking."""
        self._stop.set()

    def _poll(self) -> None:
        while not self._stop.wait(POLL_S):
            try:
                self.look()
            except Exception:
                log.exception("certificates not renewed, the old ones stay")

    def look(self) -> None:
        """Load what has been renewed since the last look."""
        seen = self._identity()
        if seen != self._seen:
            self._seen = seen
            self._renew()
        elif self.context.session_stats()["number"] > _MAX_SESSIONS:
            with contextlib.suppress(CertificateError):
                self.context = load_context(self._files)

    def _renew(self) -> None:
        try:
            self.context = load_context(self._files)
        except CertificateError as error:
            # Where they changed while they were read, the next look decides.
            if self._identity() == self._seen:
                log.warning("certificates not renewed, the old ones stay: %s", error)
        else:
            log.info("certificates renewed: new connections get those of %s", self._files.cert_file)

    def _identity(self) -> tuple[tuple[int, ...] | None, ...]:
        return tuple(_identity(path) for _, path in self._files.by_flag())


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    # The change time tells of permissions too: an unreadable key that is made readable is tried again.
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def load_context(files: TlsFiles) -> ssl.SSLContext:
    """TLS for a server whose clients all have to show a certificate. Raises CertificateError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Go speaks 1.3, but 1.2 only where a release before 1.24 was built for FIPS 140 (golang/go#62372).
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    # As in Go, what the file holds is trusted, be it a root or an intermediate.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # No tickets: a resumed session brings no certificate that could be looked at. Where a message ends is
    # for HTTP to say, so a client that hangs up without TLS's farewell has just hung up.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_IGNORE_UNEXPECTED_EOF
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    for flag, path in files.by_flag():
        _check_readable(flag, path)
    _trust(context, *files.by_flag()[2])
    # By itself first: OpenSSL does not tell whether the certificate or the key is at fault.
    _trust(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), *files.by_flag()[0])
    _load_pair(context, files)
    return context


def _check_readable(flag: str, path: Path) -> None:
    try:
        if not path.is_file():
            # Raises where there is nothing at all; a pipe would keep us waiting, and can be read once only.
            path.stat()
            raise OSError(errno.EINVAL, "not a regular file")
        with path.open("rb"):
            pass
    except OSError as error:
        raise CertificateError(
            f"{flag} {path}: {error.strerror}; give a PEM file that this process may read"
        ) from None


def _trust(context: ssl.SSLContext, flag: str, path: Path) -> None:
    try:
        context.load_verify_locations(path)
    except OSError as error:
        raise CertificateError(
            f"{flag} {path}: no certificate can be read from it ({_reason(error)}); give a PEM file, which "
            f"has -----BEGIN CERTIFICATE----- and its end, and nothing half-written"
        ) from None


def _load_pair(context: ssl.SSLContext, files: TlsFiles) -> None:
    try:
        context.load_cert_chain(files.cert_file, files.key_file, password=_refuse_password)
    except _EncryptedKeyError:
        raise CertificateError(
            f"--tls-key-file {files.key_file}: encrypted, and nobody is there to type its passphrase; give "
            f"one without, such as: openssl pkey -in {files.key_file} -out NEW"
        ) from None
    except OSError as error:
        raise CertificateError(_pair_problem(error, files)) from None


def _pair_problem(error: OSError, files: TlsFiles) -> str:
    reason = getattr(error, "reason", None)
    if reason in _MISMATCHES:
        return (
            f"--tls-key-file {files.key_file}: not the key of the certificate in --tls-cert-file "
            f"{files.cert_file}; give the two that were issued together"
        )
    if reason in _WEAKNESSES:
        return (
            f"--tls-cert-file {files.cert_file}: OpenSSL does not serve this certificate ({_reason(error)}); "
            f"have a stronger one issued"
        )
    return (
        f"--tls-key-file {files.key_file}: no private key can be read from it ({_reason(error)}); give a PEM "
        f"file, which has -----BEGIN PRIVATE KEY----- and its end, and nothing half-written"
    )


class _EncryptedKeyError(Exception):
    """OpenSSL has asked for a passphrase."""


def _refuse_password() -> str:
    raise _EncryptedKeyError


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "malformed").replace("_", " ").lower()
    return error.strerror or str(error)
