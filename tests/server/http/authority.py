"""A certificate authority that issues files for servers and TLS contexts for clients."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import trustme

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


def flags(files: TlsFiles) -> list[str]:
    """The command line arguments that name these files."""
    return [part for flag, path in files.by_flag() for part in (flag, str(path))]
