"""All metrics of one extender. One process, so the plain registry is enough."""

import math
from functools import lru_cache
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from scheduler_ext import __version__
from scheduler_ext.core.filters import REASONS
from scheduler_ext.extender.answer import Answer
from scheduler_ext.server.http.tls import not_after
from scheduler_ext.server.metrics.gauges import Longest, Pending, Replicas, SourceMetrics, Workloads
from scheduler_ext.server.metrics.gpu_metrics import GpuText, visible
from scheduler_ext.server.metrics.node_metrics import NodeText
from scheduler_ext.server.metrics.reading_metrics import ReadingText
from scheduler_ext.server.serving import Parts
from scheduler_ext.server.shared_answers import SharedAnswers
from scheduler_ext.sources.source_status import Watched
from scheduler_ext.wire.config import Configuration

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# 1 ms times powers of two, as in Kubernetes' own components, and one bucket below, because an answer takes
# about 1 ms.
_SECONDS = (0.0005, *(0.001 * 2**n for n in range(13)))
_NODES = (0, 1, 10, 100, 500, 1000, 5000, 10_000, 50_000, 100_000)


class Metrics:
    """Counts requests, and reads everything else when scraped."""

    def __init__(
        self,
        source: Watched,
        config: Configuration,
        pending: Pending = dict,
        certificate_file: Path | None = None,
        longest: Longest = lambda wall_time: (),
        workloads: Workloads = dict,
        replicas: Replicas = dict,
        gpus: GpuText | None = None,
        features: Parts | None = None,
    ) -> None:
        """`pending` returns the number of waiting pods by reason, `longest` those that wait longest, and
        `workloads` their number by workload; `replicas` how many more pods of counted templates fit;
        `certificate_file` has the certificate of the API; `gpus` is the text about GPUs that `features` use,
        too."""
        # Otherwise every counter has one more series, which no query uses; the switch is per process.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry = CollectorRegistry()
        build = Gauge("gpu_extender_build_info", "Always 1.", ("version",), registry=registry)
        build.labels(__version__).set(1)
        self._durations = Histogram(
            "gpu_extender_request_duration_seconds",
            "From the last byte of a request's body to its reply, by verb and HTTP status.",
            ("verb", "code"),
            buckets=_SECONDS,
            registry=registry,
        )
        self._asked = Histogram(
            "gpu_extender_request_nodes",
            "Nodes in the request (in) and in the reply (out), by verb.",
            ("verb", "direction"),
            buckets=_NODES,
            registry=registry,
        )
        self._rejections = Counter(
            "gpu_extender_rejections",
            (
                "Nodes refused by filter, by reason. Fitting nodes that are not among the returned best do "
                "not count."
            ),
            ("reason",),
            registry=registry,
        )
        for reason in REASONS:
            self._rejections.labels(reason.text)
        self._texts = SharedAnswers[tuple[bytes, bytes]]()
        resources = config.resource_names()
        self._gpus = gpus if gpus is not None else gpu_text(source, config)
        self._states = NodeText(source, config.metrics.detail)
        self._readings = ReadingText(source, config.metrics.detail)
        self._of_features = features.texts if features is not None else ()
        registry.register(SourceMetrics(source, resources, pending, longest, workloads, replicas))
        for collector in features.metrics if features is not None else ():
            registry.register(collector)
        if certificate_file is not None:
            # Read at each scrape: the server reads a changed file within a second, or logs why not.
            Gauge(
                "gpu_extender_certificate_expiry_timestamp_seconds",
                "Expiry of the certificate in --tls-cert-file, in seconds since 1970; 0 if unreadable.",
                registry=registry,
            ).set_function(lambda: _expiry(certificate_file))

    @lru_cache(maxsize=256)  # noqa: B019 (one of these lives as long as the process)
    def _duration(self, verb: str, code: int) -> Histogram:
        # Looking up a child costs more than observing.
        return self._durations.labels(verb, str(code))

    @lru_cache(maxsize=16)  # noqa: B019
    def _nodes(self, verb: str) -> tuple[Histogram, Histogram]:
        return self._asked.labels(verb, "in"), self._asked.labels(verb, "out")

    def observe(self, verb: str, code: int, seconds: float) -> None:
        """Count one request."""
        self._duration(verb, code).observe(seconds)

    def count(self, verb: str, answer: Answer) -> None:
        """Count the content of a request."""
        nodes_in, nodes_out = self._nodes(verb)
        nodes_in.observe(answer.nodes_in)
        nodes_out.observe(answer.nodes_out)
        for reason, count in answer.rejected.items():
            self._rejections.labels(reason).inc(count)

    def render(self, asked_at: float = math.inf) -> tuple[bytes, bytes]:
        """The exposition text in two parts; scrapes that came (monotonic seconds) before it was begun share
        it."""
        return self._texts.answer(None, asked_at, self._render)

    def _render(self) -> tuple[bytes, bytes]:
        # The text about GPUs is large, and stays the same object while nothing changes.
        text = visible(generate_latest(self._registry)) + self._states.render()
        text += self._readings.render() + b"".join(each.render() for each in self._of_features)
        return text, self._gpus.render()


def gpu_text(source: Watched, config: Configuration) -> GpuText:
    """The text about the GPUs of a source."""
    return GpuText(source, config.resource_names(), config.memory.headroom_percent, config.metrics.detail)


def _expiry(certificate: Path) -> float:
    try:
        return not_after(certificate)
    except (OSError, ValueError):
        # The expiry of the certificate in use is unknown; it will end as if there were none.
        return 0.0
