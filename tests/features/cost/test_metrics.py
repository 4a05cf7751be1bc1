"""The value of GPUs per hour, in /metrics."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scheduler_ext.core.gpu.readings import Readings
from scheduler_ext.features.cost.metrics import ValueMetrics
from scheduler_ext.server.metrics import namespaces
from scheduler_ext.server.metrics.registry import Metrics
from scheduler_ext.server.serving import Parts
from scheduler_ext.wire.config import Configuration, CostSection
from tests.kube_objects import Json, gpu, gpu_node, holder
from tests.server.followed import Followed

PRODUCT = "NVIDIA A100-SXM4-80GB"


def metrics_of(source: Followed, config: Configuration) -> Metrics:
    return Metrics(source, config, features=Parts(metrics=(ValueMetrics(source, config),)))


def scraped(source: Followed, config: Configuration | None = None) -> dict[str, float]:
    metrics = metrics_of(source, config or Configuration())
    families = text_string_to_metric_families(b"".join(metrics.render()).decode())
    return {
        ",".join((sample.name.removeprefix("gpu_extender_"), *sample.labels.values())): round(sample.value, 2)
        for family in families
        for sample in family.samples
        if sample.name.endswith("_value")
    }


def held(index: int, namespace: str, idle_s: int | None) -> Json:
    return gpu(index, product=PRODUCT, holders=[holder(f"p{index}", namespace)], idleSeconds=idle_s)


def test_values_by_model_and_by_namespace() -> None:
    source = Followed(gpu_node("n", [held(0, "a", 7200), held(1, "b", 0), held(2, "b", None)]))
    found = scraped(source, Configuration(cost=CostSection(per_unit=10)))
    assert found == {
        f"gpus_value,{PRODUCT},allocated": 102.0,
        f"gpus_value,{PRODUCT},free": 0.0,
        f"gpus_value,{PRODUCT},stranded": 0.0,
        f"gpus_value,{PRODUCT},unavailable": 0.0,
        f"gpus_idle_value,{PRODUCT}": 34.0,
        f"gpus_unmeasured_value,{PRODUCT}": 34.0,
        "namespace_allocated_value,a": 34.0,
        "namespace_allocated_value,b": 68.0,
        "namespace_idle_value,a": 34.0,
        "namespace_idle_value,b": 0.0,
    }


def test_beyond_a_number_of_namespaces_the_smallest_are_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "MAX_NAMESPACES", 1)
    source = Followed(gpu_node("n", [held(0, "a", 0), held(1, "b", 0), held(2, "b", 0), held(3, "c", 7200)]))
    found = scraped(source)
    assert {key: value for key, value in found.items() if key.startswith("namespace")} == {
        "namespace_allocated_value,b": 6.8,
        "namespace_allocated_value,_others": 6.8,
        "namespace_idle_value,b": 0.0,
        "namespace_idle_value,_others": 3.4,
    }


def test_a_report_with_only_another_idle_time_changes_the_idle_value() -> None:
    source = Followed(gpu_node("n", [held(0, "a", None)]))
    metrics = metrics_of(source, Configuration())
    for idle_s, expected in ((60, "0.0"), (3600, "3.4")):
        # Only the readings change, and no snapshot.
        source.tell(readings={"n": (Readings("GPU-0", idle_s=idle_s),)})
        assert f'namespace_idle_value{{namespace="a"}} {expected}' in b"".join(metrics.render()).decode()
