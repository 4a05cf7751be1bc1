"""The extender's metrics for Prometheus, one file for each subject."""

from scheduler_ext.server.metrics.registry import CONTENT_TYPE, Metrics

__all__ = ["CONTENT_TYPE", "Metrics"]
