"""Certificate files: the messages for bad ones, and the renewal of good ones."""

from __future__ import annotations

import logging
import os
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from scheduler_ext.server.http import tls
from scheduler_ext.server.http.tls import CertificateError, ServerCertificates, load_context
from scheduler_ext.server.server_options import TlsFiles
from tests.server.http.authority import HOST, Authority
from tests.server.http.transport_app import tls_files

PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
Spoil = Callable[[TlsFiles], object]


@pytest.fixture
def own(authority: Authority, tmp_path: Path) -> TlsFiles:
    """Good files of one test, which may spoil them."""
    return authority.write_server(tmp_path / "own")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def encrypt(path: Path) -> None:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    secret = serialization.BestAvailableEncryption(b"secret")
    path.write_bytes(key.private_bytes(PEM, PKCS8, secret))


def foreign_key(path: Path) -> None:
    path.write_bytes(trustme.CA().issue_cert(HOST).private_key_pem.bytes())


def weak(files: TlsFiles) -> None:
    names = ["-keyout", str(files.key_file), "-out", str(files.cert_file)]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:1024", "-nodes", "-subj", "/CN=weak", *names]
    subprocess.run(command, capture_output=True, check=True)


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


CERT, KEY, CA = "--tls-cert-file", "--tls-key-file", "--client-ca-file"
BAD_FILES = [
    pytest.param(lambda f: as_folder(f.key_file), KEY, "not a regular", "give a PEM", id="a folder as key"),
    pytest.param(lambda f: as_pipe(f.cert_file), CERT, "not a regular", "give a PEM", id="a pipe"),
    pytest.param(lambda f: cut(f.cert_file), CERT, "no cert", "half-written", id="half a certificate"),
    pytest.param(lambda f: cut(f.key_file), KEY, "no private key can", "half-written", id="half a key"),
    pytest.param(lambda f: foreign_key(f.key_file), KEY, "not the key of", CERT, id="another's key"),
    pytest.param(weak, CERT, "OpenSSL does not", "stronger", id="a key of 1024 bits"),
    pytest.param(lambda f: encrypt(f.key_file), KEY, "encrypted, and", "openssl pkey", id="an encrypted key"),
]


@pytest.mark.parametrize(("spoil", "flag", "problem", "fix"), BAD_FILES)
def test_the_error_names_the_bad_file_its_flag_and_the_fix(
    own: TlsFiles, spoil: Spoil, flag: str, problem: str, fix: str
) -> None:
    spoil(own)
    with pytest.raises(CertificateError) as caught:
        load_context(own)
    message = str(caught.value)
    assert message.startswith(f"{flag} {dict(own.by_flag())[flag]}: {problem}")
    assert fix in message
    assert "\n" not in message


def test_the_error_names_a_file_without_read_permission(own: TlsFiles) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    own.key_file.chmod(0)
    with pytest.raises(CertificateError, match=f"^--tls-key-file {own.key_file}: Permission denied; "):
        load_context(own)


def test_every_client_needs_a_certificate(files: TlsFiles) -> None:
    context = load_context(files)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_COMPRESSION
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert (context.num_tickets, bool(context.options & ssl.OP_NO_TICKET)) == (0, True)


@pytest.fixture
def certificates(own: TlsFiles) -> ServerCertificates:
    return ServerCertificates(own)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_bad_renewal_is_logged_once_and_a_good_one_after_it_is_used(
    authority: Authority,
    own: TlsFiles,
    certificates: ServerCertificates,
    caplog: pytest.LogCaptureFixture,
) -> None:
    old = certificates.context
    cut(own.cert_file)
    for _ in range(3):
        certificates.look()
    assert certificates.context is old
    (line,) = warnings(caplog)
    assert line.startswith("certificates not renewed, the old ones stay: --")
    authority.write_server(own.cert_file.parent)
    certificates.look()
    assert certificates.context is not old
    new = certificates.context
    certificates.look()
    assert certificates.context is new
    assert len(warnings(caplog)) == 1


def test_a_half_written_renewal_is_not_reported(
    authority: Authority,
    own: TlsFiles,
    certificates: ServerCertificates,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    new = authority.write_server(tmp_path / "new")

    def load_while_written(files: TlsFiles) -> ssl.SSLContext:
        try:
            return load_context(files)
        finally:
            files.key_file.write_bytes(new.key_file.read_bytes())

    old = certificates.context
    own.cert_file.write_bytes(new.cert_file.read_bytes())
    with monkeypatch.context() as patch:
        patch.setattr("scheduler_ext.server.http.tls.load_context", load_while_written)
        certificates.look()
    assert certificates.context is old
    certificates.look()
    assert certificates.context is not old
    assert warnings(caplog) == []


def test_a_secret_is_renewed_by_one_link(authority: Authority, tmp_path: Path) -> None:
    """kubelet points the link `..data`, into which the others lead, to another folder."""
    for version in ("1", "2"):
        authority.write_server(tmp_path / version)
    data, files = tmp_path / "..data", tls_files(tmp_path)
    data.symlink_to("1")
    for _, path in files.by_flag():
        path.symlink_to(f"..data/{path.name}")
    certificates = ServerCertificates(files)
    old = certificates.context
    data.unlink()
    data.symlink_to("2")
    certificates.look()
    assert certificates.context is not old


def test_files_that_disappear_and_return_are_read_again(
    own: TlsFiles, certificates: ServerCertificates
) -> None:
    old = certificates.context
    aside = own.key_file.with_suffix(".aside")
    own.key_file.rename(aside)
    certificates.look()
    aside.rename(own.key_file)
    certificates.look()
    assert certificates.context is not old


def test_sessions_of_tls_1_2_are_bounded(
    authority: Authority, certificates: ServerCertificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "_MAX_SESSIONS", 3)
    client = authority.client()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    old = certificates.context
    for _ in range(4):
        shake_hands(certificates.context, client)
    assert old.session_stats()["number"] == 4
    certificates.look()
    assert certificates.context is not old
    assert certificates.context.session_stats()["number"] == 0
    shake_hands(certificates.context, client)


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname=HOST)
    for end in (theirs, ours, theirs, ours, theirs):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    # Without a close_notify from both OpenSSL forgets the session.
    for end in (theirs, ours):
        try:
            end.unwrap()
        except ssl.SSLWantReadError:
            continue
