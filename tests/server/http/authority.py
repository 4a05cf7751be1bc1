"""A certificate authority that issues files for servers and TLS contexts for clients."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scheduler_ext.server.server_options import TlsFiles
from tests.server.http.transport_app import tls_files

HOST = "127.0.0.1"


class Authority:
    """Signs certificates of servers and clients, as a root or under a parent.

    The names of its files are those of a Secret of type kubernetes.io/tls.
    """

    def __init__(self, parent: Authority | None = None) -> None:
        self._ca: trustme.CA = parent._ca.create_child_ca() if parent else trustme.CA()

    @property
    def ca_pem(self) -> bytes:
        return self._ca.cert_pem.bytes()

    def write_server(self, folder: Path, clients: Authority | None = None) -> TlsFiles:
        """A new certificate for HOST with its key, and the CA of clients (this authority by default)."""
        leaf = self._ca.issue_cert(HOST)
        folder.mkdir(exist_ok=True)
        files = tls_files(folder)
        files.cert_file.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        files.key_file.write_bytes(leaf.private_key_pem.bytes())
        files.client_ca_file.write_bytes((clients or self).ca_pem)
        return files

    def stranger(self) -> ssl.SSLContext:
        """A client that trusts this authority and has no certificate."""
        context = ssl.create_default_context(cadata=self.ca_pem.decode())
        # HTTP clients offer http/1.1, and Go's offers h2 too.
        context.set_alpn_protocols(["h2", "http/1.1"])
        return context

    def client(self, signed_by: Authority | None = None, valid_for_s: float | None = None) -> ssl.SSLContext:
        """A client with a certificate of this authority, or of another; negative seconds: expired."""
        context = self.stranger()
        until = None
        if valid_for_s is not None:
            until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=valid_for_s)
        leaf = (signed_by or self)._ca.issue_cert("kube-scheduler.test", not_after=until)
        leaf.configure_cert(context)
        return context

    def server_as_client(self, folder: Path) -> ssl.SSLContext:
        """A client whose certificate this authority issued for servers only."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a server")])
        issuer = x509.load_pem_x509_certificate(self.ca_pem)
        issuer_key = serialization.load_pem_private_key(self._ca.private_key_pem.bytes(), None)
        assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(issuer.not_valid_before_utc)
            .not_valid_after(issuer.not_valid_after_utc)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .sign(issuer_key, hashes.SHA256())
        )
        pair = folder / "server-as-client.pem"
        pair.write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        context = self.stranger()
        context.load_cert_chain(pair)
        return context


def flags(files: TlsFiles) -> list[str]:
    """The command line arguments that name these files."""
    return [part for flag, path in files.by_flag() for part in (flag, str(path))]
