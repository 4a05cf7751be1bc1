"""`scheduler-ext serve` over TLS, and certificates that are renewed while it runs."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
from pathlib import Path

import pytest

from tests.server.http.authority import Authority, flags
from tests.server.process.product import FREE_NODE, GOOD, Product, assert_well
from tests.server.process.server_process import READY, call, eventually, get, request

FILTER = request("/filter", GOOD)


def shown(sock: socket.socket) -> object:
    """Which certificate the server has shown."""
    assert isinstance(sock, ssl.SSLSocket)
    certificate = sock.getpeercert()
    assert certificate is not None
    return certificate["serialNumber"]


@pytest.mark.process
def test_a_server_that_renews_its_certificates(authority: Authority, tmp_path: Path) -> None:
    """One process, because starting it takes longer than all its requests here."""
    files = authority.write_server(tmp_path)
    with Product("--listen", "0.0.0.0:0", *flags(files), tls=authority.client()) as server:
        (line,) = [line for line in server.ready().lines if READY.match(line)]
        server.api = ("127.0.0.1", server.api[1])
        assert re.fullmatch(r"ready api=https://\S+ health=http://\S+ inspect=http://\S+", line)
        assert get(server.health, "/livez").body == b"ok"
        client = http.client.HTTPSConnection(*server.api, context=authority.client(), timeout=60)
        for _ in range(3):
            client.request("POST", "/filter", GOOD)
            reply = client.getresponse()
            assert (reply.status, json.loads(reply.read())["NodeNames"]) == (200, [FREE_NODE])
        client.close()

        def serial() -> object:
            try:
                with server.connect() as sock:
                    assert_well(call(sock, FILTER))
                    return shown(sock)
            except (ssl.SSLError, ConnectionError):
                # While the files are written.
                return None

        with server.connect() as kept:
            first = serial()
            authority.write_server(tmp_path)
            eventually(lambda: serial() not in (None, first))
            assert_well(call(kept, FILTER))
        server.wait_for_line("certificates renewed")
        # The address that others reach is none to warn of.
        assert "without TLS" not in server.stderr
        assert "Traceback" not in server.stderr
