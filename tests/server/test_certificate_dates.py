"""When a certificate ends, as the library that signed it says."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
import trustme
from cryptography import x509

from scheduler_ext.server.certificate_dates import not_after
from tests.server.authority import Authority, flags
from tests.server.product import Product

METRIC = "gpu_extender_certificate_expiry_timestamp_seconds"


@pytest.mark.parametrize(
    "day",
    [
        pytest.param((2027, 2, 28, 23, 59, 59), id="soon"),
        pytest.param((2049, 12, 31), id="in the last year of two digits"),
        pytest.param((2050, 1, 1), id="in the first year of four digits"),
    ],
)
def test_the_end_of_the_first_certificate(tmp_path: Path, day: tuple[int, int, int]) -> None:
    ends = datetime.datetime(*day, tzinfo=datetime.UTC)
    authority = trustme.CA()
    leaf = authority.issue_cert("127.0.0.1", not_after=ends)
    file = tmp_path / "tls.crt"
    chain = [leaf.cert_chain_pems[0].bytes(), authority.cert_pem.bytes()]
    file.write_bytes(b"what openssl x509 -text prints\n" + b"".join(chain))
    assert not_after(file) == ends.timestamp()


@pytest.mark.parametrize("text", ["", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tls.crt"
    file.write_text(text)
    with pytest.raises(ValueError, match="certificate"):
        not_after(file)


def test_a_scrape_tells_when_the_servers_own_ends(authority: Authority, tmp_path: Path) -> None:
    files = authority.write_server(tmp_path)
    loaded = x509.load_pem_x509_certificates(files.cert_file.read_bytes())[0]
    with Product(*flags(files), tls=authority.client()) as server:
        assert server.ready().samples()[METRIC] == loaded.not_valid_after_utc.timestamp()
        files.cert_file.unlink()
        assert server.samples()[METRIC] == 0
