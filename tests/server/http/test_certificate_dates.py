"""The end of a certificate agrees with the library that signed it."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import pytest
import trustme
from cryptography import x509

from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.extender.extender import Extender
from scheduler_ext.server.http.tls import not_after
from scheduler_ext.server.metrics.registry import Metrics
from scheduler_ext.sources.file_source import InventorySource
from scheduler_ext.wire.config import Configuration
from tests.server.http.authority import Authority
from tests.server.process.product import INVENTORY, samples_of

METRIC = "gpu_extender_certificate_expiry_timestamp_seconds"


def certificate(ends: datetime.datetime) -> bytes:
    begins = ends - datetime.timedelta(days=1)
    return trustme.CA().issue_cert("extender", not_before=begins, not_after=ends).cert_chain_pems[0].bytes()


@pytest.mark.parametrize(
    "day",
    [
        pytest.param((2027, 2, 28, 23, 59, 59), id="soon"),
        pytest.param((2049, 12, 31), id="in the last year of two digits"),
        pytest.param((2050, 1, 1), id="in the first year of four digits"),
        pytest.param((1955, 11, 5), id="long ago"),
    ],
)
def test_the_end_of_the_first_certificate(tmp_path: Path, day: tuple[int, int, int]) -> None:
    ends = datetime.datetime(*day, tzinfo=datetime.UTC)
    file = tmp_path / "tls.crt"
    another = certificate(datetime.datetime(2031, 1, 1, tzinfo=datetime.UTC))
    file.write_bytes(b"the text that openssl x509 -text prints\n" + certificate(ends) + another)
    assert not_after(file) == ends.timestamp()


@pytest.mark.parametrize("text", ["", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"])
def test_a_file_without_a_certificate_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tls.crt"
    file.write_text(text)
    with pytest.raises(ssl.SSLError):
        not_after(file)


def test_a_scrape_reports_the_end_of_the_servers_certificate(authority: Authority, tmp_path: Path) -> None:
    files = authority.write_server(tmp_path)
    loaded = x509.load_pem_x509_certificates(files.cert_file.read_bytes())[0]
    source = InventorySource(INVENTORY, Extender(Configuration()), ResourceNames())
    metrics = Metrics(source, Configuration(), certificate_file=files.cert_file)
    assert samples_of(b"".join(metrics.render()).decode())[METRIC] == loaded.not_valid_after_utc.timestamp()
    files.cert_file.unlink()
    assert samples_of(b"".join(metrics.render()).decode())[METRIC] == 0
