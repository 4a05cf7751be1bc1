"""The flags of TLS: together or not at all, and files that cannot be used are told before the ready line."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler_ext.server.server_options import TlsFiles
from tests.server.http.authority import Authority, flags
from tests.server.process.product import GOOD, Product, assert_well, usage_error
from tests.server.process.server_process import READY, call, connect, request

pytestmark = pytest.mark.process

CERT, KEY, CA = "--tls-cert-file", "--tls-key-file", "--client-ca-file"


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        pytest.param([CERT], f"{KEY} and {CA}", id="the certificate alone"),
        pytest.param([KEY], f"{CERT} and {CA}", id="the key alone"),
        pytest.param([CA], f"{CERT} and {KEY}", id="the CA alone"),
        pytest.param([CERT, KEY], CA, id="no CA of clients"),
        pytest.param([CERT, CA], KEY, id="no key"),
        pytest.param([KEY, CA], CERT, id="no certificate"),
    ],
)
def test_some_of_the_flags_are_a_usage_error(files: TlsFiles, given: list[str], missing: str) -> None:
    paths = dict(files.by_flag())
    arguments = [part for flag in given for part in (flag, str(paths[flag]))]
    error = usage_error(*arguments)
    assert error.startswith(f"Error: missing {missing}: TLS takes ")
    assert "without client certificates every client could ask" in error


@pytest.mark.parametrize(
    ("spoil", "flag", "problem"),
    [
        pytest.param(
            lambda f: f.key_file.unlink(),
            KEY,
            "No such file or directory; give",
            id="missing",
        ),
        pytest.param(
            lambda f: f.client_ca_file.write_text("?"),
            CA,
            "no certificate can be",
            id="garbage",
        ),
        pytest.param(
            lambda f: Authority().write_server(f.cert_file.parent / "other").key_file.replace(f.key_file),
            KEY,
            "not the key of the certificate in --tls-cert-file",
            id="a key of another certificate",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line_and_status_1(
    authority: Authority, tmp_path: Path, spoil: Callable[[TlsFiles], object], flag: str, problem: str
) -> None:
    own = authority.write_server(tmp_path / "own")
    spoil(own)
    with Product(*flags(own)) as server:
        assert server.wait() == 1
        (line,) = server.lines[:-1]
        assert line.startswith(f"error: cannot start: {flag} {dict(own.by_flag())[flag]}: {problem}")


def test_an_intermediate_may_be_who_signs_clients(authority: Authority, tmp_path: Path) -> None:
    intermediate = Authority(parent=authority)
    files = authority.write_server(tmp_path / "own", clients=intermediate)
    with Product(*flags(files), tls=authority.client(signed_by=intermediate)) as server:
        assert_well(server.ready().post("filter", GOOD))
        # Its parent signs others, which are not meant.
        with (
            connect(server.api, tls=authority.client()) as sock,
            pytest.raises((ssl.SSLError, ConnectionError)),
        ):
            call(sock, request("/filter", GOOD))


@pytest.mark.parametrize(
    ("listen", "over_tls", "warned"),
    [
        pytest.param("0.0.0.0:0", False, True, id="everybody may ask in plain HTTP"),
        pytest.param("0.0.0.0:0", True, False, id="who has a certificate may"),
        pytest.param("localhost:0", False, False, id="only this host can"),
    ],
)
def test_an_address_that_others_reach_without_tls_is_warned_of(
    authority: Authority, files: TlsFiles, listen: str, over_tls: bool, warned: bool
) -> None:
    tls = authority.client() if over_tls else None
    with Product("--listen", listen, *(flags(files) if over_tls else ()), tls=tls) as server:
        server.ready()
        server.api = ("127.0.0.1", server.api[1])
        assert_well(server.post("filter", GOOD))
        lines = [line for line in server.lines if "WARNING" in line]
        assert len(lines) == warned
        if warned:
            assert (
                f"--listen {listen} without TLS: every host that reaches this address can send requests"
                in lines[0]
            )
            assert f"give {CERT}, {KEY} and {CA}, or listen on 127.0.0.1" in lines[0]
        assert sum(bool(READY.match(line)) for line in server.lines) == 1
