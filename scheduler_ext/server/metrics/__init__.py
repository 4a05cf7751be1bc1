"""What Prometheus sees of the extender: one file for each thing that is looked at."""

from scheduler_ext.server.metrics.registry import CONTENT_TYPE, Metrics

__all__ = ["CONTENT_TYPE", "Metrics"]
