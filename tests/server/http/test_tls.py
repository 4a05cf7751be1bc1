"""Who is served over TLS, who is refused, and that HTTP is what it was."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler_ext.server.http import tls
from scheduler_ext.server.http.tls import ServerCertificates
from scheduler_ext.server.server_options import TlsFiles
from tests.server.http.authority import Authority
from tests.server.http.in_process import Running, running
from tests.server.http.transport_app import api
from tests.server.process.product import GOOD
from tests.server.process.server_process import call, connect, eventually, read_to_end, request

LENGTH = request("/length", b"x")
FILTER = request("/filter", GOOD)


@pytest.fixture(scope="module")
def server(files: TlsFiles) -> Iterator[Running]:
    with running(api, certificates=ServerCertificates(files)) as found:
        yield found


@pytest.fixture(autouse=True)
def unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reason to refuse a client is new to each test."""
    monkeypatch.setattr(tls, "_quiet", {})


def assert_served(server: Running, context: ssl.SSLContext) -> None:
    with connect(server.address, tls=context) as sock:
        assert call(sock, LENGTH).json()["length"] == 1


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_an_ordinary_client(server: Running, authority: Authority, version: ssl.TLSVersion) -> None:
    context = authority.client()
    context.maximum_version = version
    with connect(server.address, tls=context) as sock:
        assert isinstance(sock, ssl.SSLSocket)
        assert (sock.version() or "").replace(".", "_") == version.name
        assert (sock.selected_alpn_protocol(), sock.compression()) == ("http/1.1", None)
        assert sock.session is None or not sock.session.has_ticket
        for _ in range(3):
            assert call(sock, LENGTH).json()["length"] == 1


def resumed(server: Running, context: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLSocket:
    plain = socket.create_connection(server.address, timeout=60)
    return context.wrap_socket(plain, server_hostname=server.address[0], session=session)


def test_a_session_of_an_expired_certificate_is_not_resumed(
    server: Running, authority: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    context = authority.client(valid_for_s=3600)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with connect(server.address, tls=context) as sock:
        assert isinstance(sock, ssl.SSLSocket)
        assert call(sock, LENGTH).status == 200
        session = sock.session
        # OpenSSL forgets the session of a connection that ends without a farewell.
        sock.unwrap()
    with resumed(server, context, session) as sock:
        assert sock.session_reused
        assert call(sock, LENGTH).status == 200
        sock.unwrap()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 4000)
    before = server.cuts.get("tls", 0)
    with resumed(server, context, session) as sock, pytest.raises((ConnectionError, ssl.SSLError)):
        call(sock, LENGTH)
    eventually(lambda: server.cuts["tls"] == before + 1)
    assert "certificate has expired since its session began" in caplog.text


def too_old(authority: Authority) -> ssl.SSLContext:
    context = authority.client()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    return context


def refuse(server: Running, ask: Callable[[], object], caplog: pytest.LogCaptureFixture, why: str) -> None:
    """Three such clients are refused, counted, and logged once; then another one is served."""
    before = server.cuts.get("tls", 0)
    for _ in range(3):
        ask()
    eventually(lambda: server.cuts["tls"] == before + 3)
    (line,) = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert line.startswith("client 127.0.0.1 refused: it")
    assert why in line


@pytest.mark.parametrize(
    ("client", "why"),
    [
        pytest.param(lambda own: own.stranger(), "it has no certificate", id="without a certificate"),
        pytest.param(
            lambda own: own.client(signed_by=Authority()),
            "unable to get local issuer certificate",
            id="signed by another CA",
        ),
        pytest.param(
            lambda own: own.client(valid_for_s=-1),
            "its certificate is not accepted: certificate has expired",
            id="expired",
        ),
        pytest.param(
            lambda own: ssl.create_default_context(), "alert unknown ca", id="not trusting the server"
        ),
    ],
)
def test_a_client_is_refused_and_counted_and_logged_once(
    server: Running,
    authority: Authority,
    client: Callable[[Authority], ssl.SSLContext],
    why: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    context = client(authority)

    def ask() -> None:
        # With 1.3 a client has done its part before the server has looked at its certificate.
        with pytest.raises((ssl.SSLError, ConnectionError)), connect(server.address, tls=context) as sock:
            call(sock, LENGTH)

    refuse(server, ask, caplog, why)
    assert_served(server, authority.client())


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        pytest.param(FILTER, "it speaks plain HTTP instead of https", id="plain HTTP"),
        pytest.param(bytes(range(256)) * 4096, "it does not speak TLS", id="noise"),
        pytest.param(b"\x16\x03\x01\x00\x05hello", "handshake failed: ", id="what begins like TLS"),
    ],
)
def test_a_client_without_tls_is_closed_at_once(
    server: Running, authority: Authority, raw: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    def ask() -> None:
        """A reset is one where we sent more than anybody reads."""
        with connect(server.address) as sock:
            try:
                sock.sendall(raw)
                assert len(read_to_end(sock)) < 100
            except ConnectionError:
                assert len(raw) > 1000

    refuse(server, ask, caplog, why)
    assert_served(server, authority.client())


def test_versions_before_1_2_are_refused(server: Running, authority: Authority) -> None:
    # The alert that says so, or the reset that overtook it.
    with pytest.raises((ssl.SSLError, ConnectionError), match=r"(?i)protocol version|reset by peer"):
        connect(server.address, tls=too_old(authority))


def test_an_intermediate_may_be_who_signs_clients(authority: Authority, tmp_path: Path) -> None:
    intermediate = Authority(parent=authority)
    files = authority.write_server(tmp_path / "own", clients=intermediate)
    with running(api, certificates=ServerCertificates(files)) as server:
        assert_served(server, authority.client(signed_by=intermediate))
        # Its parent signs others, which are not meant.
        with pytest.raises((ssl.SSLError, ConnectionError)):
            assert_served(server, authority.client())
