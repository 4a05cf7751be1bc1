"""`scheduler-ext serve` over TLS, and certificates that are renewed while it runs."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import socket
import ssl
from pathlib import Path

import pytest

from tests.server.http.authority import Authority, flags
from tests.server.http.transport_app import tls_files
from tests.server.process.product import FREE_NODE, GOOD, Product, assert_well
from tests.server.process.server_process import READY, call, connect, eventually, get, request

LENGTH = request("/length", b"x")
FILTER = request("/filter", GOOD)


class SecretVolume:
    """A folder of links into `..data`, itself a link that kubelet points elsewhere to change all at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        self.files = tls_files(folder)

    def new_version(self) -> Path:
        """Where the next content is to be written."""
        return self._folder / f"..{next(self._numbers)}"

    def point_to(self, version: Path) -> None:
        link = self._folder / "..data_tmp"
        link.symlink_to(version.name)
        os.replace(link, self._folder / "..data")
        for _, path in self.files.by_flag():
            if not path.is_symlink():
                path.symlink_to(f"..data/{path.name}")


def shown(sock: socket.socket) -> object:
    """Which certificate the server has shown."""
    assert isinstance(sock, ssl.SSLSocket)
    certificate = sock.getpeercert()
    assert certificate is not None
    return certificate["serialNumber"]


@pytest.mark.process
def test_a_server_that_renews_its_certificates(authority: Authority, tmp_path: Path) -> None:
    """One process: its listeners, a bad renewal, a good one, and one with another authority of clients."""
    volume = SecretVolume(tmp_path)
    version = volume.new_version()
    authority.write_server(version)
    volume.point_to(version)
    with Product("--listen", "0.0.0.0:0", *flags(volume.files), tls=authority.client()) as server:
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

        def serial(context: ssl.SSLContext | None = None) -> object:
            try:
                with connect(server.api, tls=context or server.tls) as sock:
                    assert_well(call(sock, FILTER))
                    return shown(sock)
            except (ssl.SSLError, ConnectionError):
                return None

        with server.connect() as kept:
            first = serial()
            bad = volume.new_version()
            foreign = Authority().write_server(bad)
            foreign.cert_file.write_bytes(volume.files.cert_file.read_bytes())
            volume.point_to(bad)
            server.wait_for_line("certificates not renewed, the old ones stay: --tls-key-file ")
            assert serial() == first
            good = volume.new_version()
            authority.write_server(good)
            volume.point_to(good)
            eventually(lambda: serial() != first)
            others = Authority()
            newcomer = authority.client(signed_by=others)
            assert serial(newcomer) is None
            last = volume.new_version()
            authority.write_server(last, clients=others)
            volume.point_to(last)
            eventually(lambda: serial(newcomer) is not None)
            assert serial() is None
            assert_well(call(kept, FILTER))
        # The address that others reach is none to warn of.
        (warning,) = [line for line in server.lines if "WARNING" in line and "certificates" in line]
        assert "certificates not renewed" in warning
        assert "without TLS" not in server.stderr
        assert len([line for line in server.lines if "certificates renewed" in line]) == 2
        assert "Traceback" not in server.stderr
