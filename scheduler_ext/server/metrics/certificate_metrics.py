"""Expiry of the server's certificate."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from prometheus_client.registry import Collector

from scheduler_ext.server.http.tls import not_after
from scheduler_ext.server.metrics.families import Family, gauge


class CertificateMetrics(Collector):
    """Read when scraped: the content of the file is served within a second, or the log has the reason."""

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def collect(self) -> Iterable[Family]:
        if self._file is None:
            return
        try:
            ends = not_after(self._file)
        except OSError:
            # The expiry of the certificate in use is unknown; it will end as if there were none.
            ends = 0.0
        yield gauge(
            "gpu_extender_certificate_expiry_timestamp_seconds",
            "When the certificate in --tls-cert-file ends, in seconds since 1970; 0 where there is none.",
            ends,
        )
