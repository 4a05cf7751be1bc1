"""What the metrics of the extender and of kube-scheduler say."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families


def total(metrics: str, name: str, **labels: str) -> float:
    """A metric, summed over the unspecified labels."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
