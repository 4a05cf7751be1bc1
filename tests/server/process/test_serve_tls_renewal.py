"""Certificates renewed while `scheduler-ext serve` runs, as kubelet does it in a mounted Secret."""

from __future__ import annotations

import itertools
import os
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_ext.server.server_options import TlsFiles
from tests.server.http.authority import Authority, flags
from tests.server.http.transport_app import tls_files
from tests.server.process.product import GOOD, Product, assert_well
from tests.server.process.server_process import call, connect, eventually, request

pytestmark = pytest.mark.process

FILTER = request("/filter", GOOD)
WARNING = "certificates not renewed, the old ones stay: "


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


@pytest.fixture
def volume(authority: Authority, tmp_path: Path) -> SecretVolume:
    made = SecretVolume(tmp_path)
    version = made.new_version()
    authority.write_server(version)
    made.point_to(version)
    return made


@pytest.fixture
def server(authority: Authority, volume: SecretVolume) -> Iterator[Product]:
    with Product(*flags(volume.files), tls=authority.client()) as process:
        yield process.ready()


def serial(sock: object) -> object:
    """Which certificate the server has shown."""
    assert isinstance(sock, ssl.SSLSocket)
    certificate = sock.getpeercert()
    assert certificate is not None
    return certificate["serialNumber"]


def shown(server: Product) -> object:
    with server.connect() as sock:
        assert_well(call(sock, FILTER))
        return serial(sock)


def test_new_connections_get_renewed_certificates_and_old_ones_stay(
    authority: Authority, volume: SecretVolume, server: Product
) -> None:
    with server.connect() as kept:
        first = serial(kept)
        for _ in range(2):
            before = shown(server)
            version = volume.new_version()
            authority.write_server(version)
            volume.point_to(version)
            eventually(lambda before=before: shown(server) != before)  # type: ignore[misc]
        assert_well(call(kept, FILTER))
        assert shown(server) != first
    assert [line for line in server.lines if "WARNING" in line] == []
    assert len([line for line in server.lines if "certificates renewed" in line]) == 2


def test_a_new_authority_of_clients_counts_for_new_connections(
    authority: Authority, volume: SecretVolume, server: Product
) -> None:
    others = Authority()
    newcomer = authority.client(signed_by=others)

    def admitted(context: ssl.SSLContext) -> bool:
        try:
            with connect(server.api, tls=context) as sock:
                return call(sock, FILTER).status == 200
        except (ssl.SSLError, ConnectionError):
            return False

    assert server.tls is not None
    assert (admitted(server.tls), admitted(newcomer)) == (True, False)
    version = volume.new_version()
    authority.write_server(version, clients=others)
    volume.point_to(version)
    eventually(lambda: admitted(newcomer))
    assert not admitted(server.tls)


def test_a_bad_renewal_is_kept_out_and_a_good_one_after_it_taken(
    authority: Authority, volume: SecretVolume, server: Product
) -> None:
    first = shown(server)
    mismatching, half = volume.new_version(), volume.new_version()
    foreign = Authority().write_server(mismatching)
    foreign.cert_file.write_bytes(volume.files.cert_file.read_bytes())
    cut = authority.write_server(half)
    cut.key_file.write_bytes(cut.key_file.read_bytes()[:60])
    for number, (version, problem) in enumerate(
        [(mismatching, "not the key of the certificate"), (half, "no private key can be read")], 1
    ):
        volume.point_to(version)
        server.wait_for_line(problem)
        # Long enough to look at the files again, which must not repeat the complaint.
        time.sleep(1.2)
        assert shown(server) == first
        warned = [line for line in server.lines if WARNING in line]
        assert len(warned) == number
        assert f"{WARNING}--tls-key-file {volume.files.key_file}: {problem}" in warned[-1]
    good = volume.new_version()
    authority.write_server(good)
    volume.point_to(good)
    eventually(lambda: shown(server) != first)
    assert len([line for line in server.lines if WARNING in line]) == 2


def test_files_written_in_place_are_taken_when_they_are_whole(authority: Authority, tmp_path: Path) -> None:
    files: TlsFiles = authority.write_server(tmp_path / "own")
    with Product(*flags(files), tls=authority.client()) as server:
        server.ready()
        first = shown(server)
        new = authority.write_server(tmp_path / "new")
        files.cert_file.write_bytes(new.cert_file.read_bytes()[:50])
        server.wait_for_line(WARNING)
        files.cert_file.write_bytes(new.cert_file.read_bytes())
        assert shown(server) == first
        files.key_file.write_bytes(new.key_file.read_bytes())
        eventually(lambda: shown(server) != first)
