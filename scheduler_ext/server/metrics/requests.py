"""kube-scheduler's requests: duration, and results."""

from __future__ import annotations

from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Histogram

from scheduler_ext.core.filters import REASONS
from scheduler_ext.core.framework.reasons import INVALID_REQUEST
from scheduler_ext.extender.answer import Answer

# 1 ms times powers of two, as in Kubernetes' own components, and one bucket below, because an answer takes
# about 1 ms.
_SECONDS = (0.0005, *(0.001 * 2**n for n in range(13)))
_NODES = (0, 1, 10, 100, 500, 1000, 5000, 10_000, 50_000, 100_000)
# All nodes in a filter request have passed kube-scheduler's own filters, which an autoscaler simulates: for
# the autoscaler, a pod that is refused here already fits. An invalid request concerns no autoscaler.
_BLIND = tuple(reason.text for reason in REASONS if reason is not INVALID_REQUEST)


class RequestMetrics:
    """Counted while a request is answered."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.duration = Histogram(
            "gpu_extender_request_duration_seconds",
            "From the last byte of a request's body to its reply, by verb and HTTP status.",
            ("verb", "code"),
            buckets=_SECONDS,
            registry=registry,
        )
        self.nodes = Histogram(
            "gpu_extender_request_nodes",
            "Nodes asked about (in) and given back (out), by verb.",
            ("verb", "direction"),
            buckets=_NODES,
            registry=registry,
        )
        self.rejections = Counter(
            "gpu_extender_rejections",
            "Nodes refused by filter, by reason.",
            ("reason",),
            registry=registry,
        )
        for reason in REASONS:
            self.rejections.labels(reason.text)
        self.blind_rejections = Counter(
            "gpu_extender_autoscaler_blind_rejections",
            "Filter calls that refused every node, once for each reason: an autoscaler takes these nodes for "
            "fitting, and adds none.",
            ("reason",),
            registry=registry,
        )
        for text in _BLIND:
            self.blind_rejections.labels(text)

    @lru_cache(maxsize=256)  # noqa: B019 (one of these lives as long as the process)
    def _duration(self, verb: str, code: int) -> Histogram:
        # Looking up a child costs more than observing.
        return self.duration.labels(verb, str(code))

    @lru_cache(maxsize=16)  # noqa: B019
    def _nodes(self, verb: str) -> tuple[Histogram, Histogram]:
        return self.nodes.labels(verb, "in"), self.nodes.labels(verb, "out")

    def observe(self, verb: str, code: int, seconds: float) -> None:
        """Count one request."""
        self._duration(verb, code).observe(seconds)

    def count(self, verb: str, answer: Answer) -> None:
        """Count the content of a request."""
        nodes_in, nodes_out = self._nodes(verb)
        nodes_in.observe(answer.nodes_in)
        nodes_out.observe(answer.nodes_out)
        for reason, count in answer.rejected.items():
            self.rejections.labels(reason).inc(count)
        if not answer.nodes_out:
            for reason in answer.rejected:
                if reason in _BLIND:
                    self.blind_rejections.labels(reason).inc()
