"""What cost does in `serve`: the metrics about values."""

from scheduler_ext.features.cost.metrics import ValueMetrics
from scheduler_ext.server.serving import Parts, Served, Serving
from scheduler_ext.wire.config import Configuration


class CostServing(Serving):
    """Computes values when they are scraped."""

    def join(self, served: Served) -> Parts:
        return Parts(metrics=(ValueMetrics(served.source, served.config),))


def serving(_: Configuration) -> Serving:
    """It is always on."""
    return CostServing()
