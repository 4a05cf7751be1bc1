"""`scheduler-ext serve` over TLS: who is served, who is refused, and that HTTP is what it was."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler_ext.server.server_options import TlsFiles
from tests.kube_objects import names_body
from tests.server.http.authority import Authority, flags
from tests.server.process.product import FREE_NODE, GOOD, ONE_GPU, Product, assert_well, config_file
from tests.server.process.server_process import READY, call, connect, eventually, get, read_to_end, request

pytestmark = pytest.mark.process

FILTER = request("/filter", GOOD)
AGES = {"gpu_extender_inventory_age_seconds", "gpu_extender_forecast_age_seconds"}
REFUSALS = 'gpu_extender_connections_cut_total{reason="tls"}'
MIB = 1024 * 1024
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def server(
    authority: Authority, files: TlsFiles, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Product]:
    config = config_file(tmp_path_factory.mktemp("tls"), server={"readTimeout": f"{PATIENCE_S:g}s"})
    with Product(*flags(files), config=config, tls=authority.client()) as process:
        yield process.ready()


def test_the_ready_line_says_so_and_the_others_stay_plain(server: Product) -> None:
    (line,) = [line for line in server.lines if READY.match(line)]
    assert re.fullmatch(r"ready api=https://\S+ health=http://\S+ inspect=http://\S+", line)
    assert get(server.health, "/livez").body == b"ok"
    assert get(server.inspect, "/nowhere").status == 404


def test_an_ordinary_client_is_served_on_one_connection(server: Product, authority: Authority) -> None:
    client = http.client.HTTPSConnection(*server.api, context=authority.client(), timeout=60)
    for _ in range(3):
        client.request("POST", "/filter", GOOD)
        reply = client.getresponse()
        assert (reply.status, json.loads(reply.read())["NodeNames"]) == (200, [FREE_NODE])
        assert isinstance(client.sock, ssl.SSLSocket)
    assert client.sock.version() == "TLSv1.3"
    assert client.sock.selected_alpn_protocol() == "http/1.1"
    assert client.sock.compression() is None
    client.close()


def test_a_client_may_speak_tls_1_2(server: Product, authority: Authority) -> None:
    context = authority.client()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with connect(server.api, tls=context) as sock:
        assert isinstance(sock, ssl.SSLSocket)
        assert sock.version() == "TLSv1.2"
        assert sock.session is not None
        assert not sock.session.has_ticket
        for _ in range(3):
            assert_well(call(sock, FILTER))


@pytest.mark.parametrize("body_bytes", [len(GOOD), 16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 5 * MIB])
def test_requests_of_any_size_arrive(server: Product, body_bytes: int) -> None:
    with server.connect() as sock:
        for _ in range(2):
            assert_well(call(sock, request("/filter", GOOD.ljust(body_bytes))))


@pytest.mark.parametrize("body_bytes", [16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 5 * MIB])
def test_replies_of_any_size_arrive(server: Product, body_bytes: int) -> None:
    with server.connect() as sock:
        empty = call(sock, request("/filter", names_body(ONE_GPU, [""])))
        name = "n" * (body_bytes - len(empty.body))
        reply = call(sock, request("/filter", names_body(ONE_GPU, [name])))
        assert len(reply.body) == body_bytes
        assert list(reply.json()["FailedAndUnresolvableNodes"]) == [name]
        assert_well(call(sock, FILTER))


def test_nothing_is_a_body_too(server: Product) -> None:
    with server.connect() as sock:
        assert call(sock, request("/filter")).status == 400
        sock.sendall(request("/version", method="HEAD") + request("/version", method="GET"))
        received = b""
        while not received.endswith(b"}"):
            received += sock.recv(1000)
        assert received.count(b"HTTP/1.1 200 OK") == 2


def test_a_chunked_body_is_read(server: Product) -> None:
    head = b"POST /filter HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = GOOD.ljust(100_000)
    chunks = [body[start : start + 700] for start in range(0, len(body), 700)]
    with server.connect() as sock:
        sock.sendall(head)
        for chunk in chunks:
            sock.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        assert_well(call(sock, b"0\r\n\r\n"))


def test_a_client_that_expects_100_continue_gets_it(server: Product) -> None:
    raw = request("/filter", GOOD, "Expect: 100-continue")
    with server.connect() as sock:
        sock.sendall(raw[: -len(GOOD)])
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert_well(call(sock, GOOD))


def test_a_refused_body_is_answered_while_it_is_still_being_sent(server: Product) -> None:
    head = request("/nowhere").replace(b"Content-Length: 0", b"Content-Length: 100000000")
    with server.connect() as sock:
        reply = call(sock, head + b"x" * MIB)
        sock.sendall(b"x" * MIB)
        assert (reply.status, reply.headers["connection"]) == (404, "close")
        assert sock.recv(1) == b""
    server.logged()


def connections_cut(server: Product) -> float:
    return server.samples()[REFUSALS]


def resumed(server: Product, context: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLSocket:
    plain = socket.create_connection(server.api, timeout=60)
    return context.wrap_socket(plain, server_hostname=server.api[0], session=session)


def twice_in_time(
    server: Product, authority: Authority
) -> tuple[ssl.SSLContext, ssl.SSLSession | None, float]:
    """A client's session that was resumed while its certificate was good, and until when that is."""
    for valid_for_s in (2, 8, 32):
        context = authority.client(valid_for_s=valid_for_s)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        expires_at = time.time() + valid_for_s
        try:
            with connect(server.api, tls=context) as sock:
                assert isinstance(sock, ssl.SSLSocket)
                assert_well(call(sock, FILTER))
                session = sock.session
                # OpenSSL forgets the session of a connection that ends without a farewell.
                sock.unwrap()
            with resumed(server, context, session) as sock:
                assert sock.session_reused
                assert_well(call(sock, FILTER))
                sock.unwrap()
        except OSError:
            # Two seconds may be too few on a busy machine.
            assert time.time() > expires_at - 1
        else:
            return context, session, expires_at
    raise AssertionError("no certificate was good for long enough")


def test_a_session_of_an_expired_certificate_is_not_resumed(server: Product, authority: Authority) -> None:
    context, session, expires_at = twice_in_time(server, authority)
    server.logged()
    time.sleep(max(0.0, expires_at - time.time()) + 1.1)
    before = connections_cut(server)
    with resumed(server, context, session) as sock, pytest.raises((ConnectionError, ssl.SSLError)):
        call(sock, FILTER)
    eventually(lambda: connections_cut(server) == before + 1)
    (line,) = server.logged()
    assert "its certificate is not accepted: certificate has expired since its session began" in line


def test_clients_that_vanish_leave_the_server_well(server: Product, authority: Authority) -> None:
    before = connections_cut(server)
    for raw in (FILTER[:-1], FILTER, request("/filter", b"x" * MIB)[:-1], b"P", b""):
        sock = server.connect()
        sock.sendall(raw)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    for hello in (b"", client_hello(authority)[:100], client_hello(authority)):
        with connect(server.api) as half:
            half.sendall(hello)
    assert_well(server.post("filter", GOOD))
    assert connections_cut(server) == before
    assert "Traceback" not in server.stderr


def client_hello(authority: Authority) -> bytes:
    arriving, departing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        authority.client().wrap_bio(arriving, departing, server_hostname="127.0.0.1").do_handshake()
    return departing.read()


def without_certificate(authority: Authority, _: Path) -> ssl.SSLContext:
    return authority.stranger()


def signed_by_another(authority: Authority, _: Path) -> ssl.SSLContext:
    return authority.client(signed_by=Authority())


def expired(authority: Authority, _: Path) -> ssl.SSLContext:
    return authority.client(valid_for_s=-1)


def for_servers_only(authority: Authority, folder: Path) -> ssl.SSLContext:
    return authority.server_as_client(folder)


def too_old(authority: Authority, _: Path) -> ssl.SSLContext:
    context = authority.client()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    return context


def trusting_no_authority(_: Authority, __: Path) -> ssl.SSLContext:
    return ssl.create_default_context()


@pytest.mark.parametrize(
    ("client", "why"),
    [
        pytest.param(without_certificate, "it has no certificate", id="without a certificate"),
        pytest.param(signed_by_another, "unable to get local issuer certificate", id="signed by another CA"),
        pytest.param(expired, "its certificate is not accepted: certificate has expired", id="expired"),
        pytest.param(for_servers_only, "unsuitable certificate purpose", id="for servers only"),
        pytest.param(trusting_no_authority, "alert unknown ca", id="that does not trust the server"),
    ],
)
def test_a_client_is_refused_and_counted_and_logged_once(
    server: Product,
    authority: Authority,
    tmp_path: Path,
    client: Callable[[Authority, Path], ssl.SSLContext],
    why: str,
) -> None:
    context = client(authority, tmp_path)

    def ask() -> None:
        with connect(server.api, tls=context) as sock:
            call(sock, FILTER)

    # Drops the lines of other tests.
    server.logged()
    before = server.samples()
    began = time.monotonic()
    for newest in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context.maximum_version = newest
        for _ in range(10):
            # With 1.3 a client has done its part before the server has looked at its certificate.
            with pytest.raises((ssl.SSLError, ConnectionError)):
                ask()
    eventually(lambda: connections_cut(server) == before[REFUSALS] + 20)
    moved = {name for name, value in server.samples().items() if value != before.get(name)}
    assert moved - AGES == {REFUSALS}
    lines = server.logged()
    # Once, and again after each ten seconds that a busy machine took.
    assert 1 <= len(lines) <= 1 + (time.monotonic() - began) / 10
    assert all("client 127.0.0.1 refused: it" in line and why in line for line in lines)
    assert_well(server.post("filter", GOOD))


@pytest.mark.parametrize(
    ("raws", "why"),
    [
        pytest.param(
            [FILTER, request("/", method="GET")], "it speaks plain HTTP instead of https", id="plain HTTP"
        ),
        pytest.param(
            [bytes(range(256)) * 4096, b"\0" * 100, b"BREW / HTTP/1.1\r\n\r\n"],
            "it does not speak TLS",
            id="noise",
        ),
        pytest.param([b"\x16\x03\x01\x00\x05hello"], "handshake failed: ", id="what begins like TLS"),
        pytest.param([b"\x16\x03\x01\xff\xff" + b"x" * 70_000], "packet length", id="a huge record"),
    ],
)
def test_a_client_without_tls_is_closed_at_once(server: Product, raws: list[bytes], why: str) -> None:
    # Drops the lines of other tests.
    server.logged()
    before = connections_cut(server)
    for raw in raws:
        with connect(server.api) as sock:
            started = time.monotonic()
            ended(sock, raw)
            # Before its time to send a request is over.
            assert time.monotonic() - started < PATIENCE_S
    eventually(lambda: connections_cut(server) == before + len(raws))
    (line,) = server.logged()
    assert why in line
    assert_well(server.post("filter", GOOD))


def ended(sock: socket.socket, raw: bytes) -> None:
    """Send, and read to the end; a reset is one where we sent more than anybody reads."""
    try:
        sock.sendall(raw)
        assert len(read_to_end(sock)) < 100
    except ConnectionError:
        assert len(raw) > 1000


def test_versions_before_1_2_are_refused(server: Product, authority: Authority, tmp_path: Path) -> None:
    # The alert that says so, or the reset that overtook it.
    with pytest.raises((ssl.SSLError, ConnectionError), match=r"(?i)protocol version|reset by peer"):
        connect(server.api, tls=too_old(authority, tmp_path))
