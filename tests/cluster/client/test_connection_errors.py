"""The messages about failed connections."""

from __future__ import annotations

import http.client
import ssl

import pytest
import urllib3
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import ProtocolError, ProxyError

from scheduler_ext.cluster.client.connection_errors import in_words

POOL = urllib3.HTTPSConnectionPool("api", 6443)
CLOSED = "the connection was closed before there was an answer"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(BrokenPipeError(32, "Broken pipe"), CLOSED, id="a port-forward that is closed"),
        pytest.param(
            ProtocolError("Connection aborted.", http.client.RemoteDisconnected("x")),
            CLOSED,
            id="a connection that ends",
        ),
        pytest.param(TimeoutError("timed out"), "no answer in time", id="a port-forward that is silent"),
        pytest.param(
            urllib3.exceptions.ReadTimeoutError(POOL, "/", "Read timed out. (read timeout=5)"),
            "api:6443: no answer in time",
            id="a server that is silent",
        ),
        pytest.param(
            urllib3.exceptions.ConnectTimeoutError(POOL, "Connection to api timed out. (connect timeout=5)"),
            "api: no connection in time",
            id="a server that does not even connect",
        ),
        pytest.param(
            ProxyError("Cannot connect to proxy.", OSError(111, "Connection refused")),
            "no connection to the proxy: Connection refused",
            id="a proxy that is away",
        ),
        pytest.param(
            ApiException(0, "SSLError\n[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)"),
            "wrong version number",
            id="a handshake that breaks",
        ),
        pytest.param(
            ApiException(0, "Handshake status 403 Forbidden"),
            "Handshake status 403 Forbidden",
            id="a port-forward that is refused",
        ),
        pytest.param(
            FileNotFoundError(2, "No such file or directory", "/ca.crt"),
            "/ca.crt: No such file or directory",
            id="a file that is not there",
        ),
        pytest.param(
            ssl.SSLError(1, "[SSL] PEM lib (_ssl.c:3900)"), "PEM lib", id="a certificate that is none"
        ),
        pytest.param(ValueError(), "ValueError", id="an error without words"),
        pytest.param(ValueError("a\n  b"), "a b", id="an error of two lines"),
    ],
)
def test_words(error: Exception, words: str) -> None:
    assert in_words(error) == words
