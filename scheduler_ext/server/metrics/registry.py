"""All metrics of one extender. One process, so the plain registry is enough."""

from __future__ import annotations

import math
import time
from pathlib import Path
from threading import Lock

from prometheus_client import CollectorRegistry, Gauge, disable_created_metrics, generate_latest

from scheduler_ext import __version__
from scheduler_ext.extender.answer import Answer
from scheduler_ext.server.metrics.allocation import AllocationMetrics
from scheduler_ext.server.metrics.certificate_metrics import CertificateMetrics
from scheduler_ext.server.metrics.connections import ConnectionMetrics
from scheduler_ext.server.metrics.families import visible
from scheduler_ext.server.metrics.fragmentation_metrics import FragmentationMetrics
from scheduler_ext.server.metrics.gpu_metrics import GpuText
from scheduler_ext.server.metrics.inventory_metrics import InventoryMetrics
from scheduler_ext.server.metrics.ledger_metrics import LedgerMetrics
from scheduler_ext.server.metrics.pending import Pending, PendingMetrics, nobody
from scheduler_ext.server.metrics.requests import RequestMetrics
from scheduler_ext.server.metrics.watches import WatchMetrics
from scheduler_ext.sources.source_status import Watched
from scheduler_ext.wire.config import Configuration

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counts requests, and reads everything else when scraped."""

    def __init__(
        self,
        source: Watched,
        config: Configuration,
        pending: Pending = nobody,
        certificate_file: Path | None = None,
    ) -> None:
        """``pending`` returns the number of waiting pods by reason; ``certificate_file`` has the certificate
        of the API.
        """
        # Otherwise every counter has one more series, which no query uses; the switch is per process.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.requests = RequestMetrics(self.registry)
        build = Gauge("gpu_extender_build_info", "Always 1.", ("version",), registry=self.registry)
        build.labels(__version__).set(1)
        self._rendering = Lock()
        self._rendered_at = -math.inf
        self._text = (b"", b"")
        resources = config.resource_names()
        self._gpus = GpuText(source, resources, config.memory.headroom_percent, config.metrics.detail)
        for collector in (
            InventoryMetrics(source),
            WatchMetrics(source),
            LedgerMetrics(source, resources),
            AllocationMetrics(source),
            FragmentationMetrics(source),
            PendingMetrics(pending),
            ConnectionMetrics(),
            CertificateMetrics(certificate_file),
        ):
            self.registry.register(collector)

    def observe(self, verb: str, code: int, seconds: float) -> None:
        """Count one request."""
        self.requests.observe(verb, code, seconds)

    def count(self, verb: str, answer: Answer) -> None:
        """Count the content of a request."""
        self.requests.count(verb, answer)

    def render(self, asked_at: float = math.inf) -> tuple[bytes, bytes]:
        """The exposition text in two parts. A scrape whose request came (monotonic seconds) before the last
        text was begun gets that very text: scrapes that wait for each other share one.
        """
        with self._rendering:
            if self._rendered_at <= asked_at:
                self._rendered_at = time.monotonic()
                self._text = visible(generate_latest(self.registry)), self._gpus.render()
            return self._text
