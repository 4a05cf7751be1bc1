"""Rules and panels ask for metrics and labels that there are, in expressions that Prometheus takes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from tests.exposition import exposition
from tests.manifests.objects import of_kind
from tests.manifests.shipped import base, monitoring, standalone
from tests.monitoring.component import alerts, queries, rules_file, variables
from tests.monitoring.prometheus import needs_prometheus, promtool
from tests.monitoring.promql import labels_in, metrics_in
from tests.pages import ROOT

# Others' metrics, in panels that say so.
OTHERS = {
    "scheduler_pending_pods": {"queue"},
    "scheduler_pod_scheduling_sli_duration_seconds_bucket": {"le"},
    "DCGM_FI_DEV_GPU_UTIL": {"UUID"},
    "ALERTS": {
        "alertname",
        "alertstate",
        "severity",
        "hostname",
        "node",
        "modelName",
        "reason",
        "resource",
        "verb",
    },
}
# Prometheus adds the first one to each target. Its configuration adds the other one where it has several
# clusters.
ADDED = {"instance", "cluster"}


def expressions() -> dict[str, str]:
    """Every expression, by the place that it is from."""
    found = {name: rule["expr"] for name, rule in alerts().items()}
    return found | {f"{each.panel}, {each.legend}": each.expression for each in queries()}


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """The labels of every sample there is, by its name."""
    labels: dict[str, set[str]] = {name: set(each) for name, each in OTHERS.items()}
    for family in exposition():
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


def test_every_metric_and_label_is_there(known: dict[str, set[str]]) -> None:
    for where, expression in expressions().items():
        metrics = metrics_in(expression)
        assert metrics, where
        assert metrics <= known.keys(), where
        assert labels_in(expression) - ADDED <= set().union(*(known[name] for name in metrics)), where


def test_variables_are_of_metrics_that_are_there(known: dict[str, set[str]]) -> None:
    for name in ("cluster", "node", "model"):
        query = variables()[name]["query"]["query"]
        metric, label = query.removeprefix("label_values(").removesuffix(")").rsplit(", ", 1)
        (asked,) = metrics_in(metric)
        assert label in known[asked] | ADDED


@needs_prometheus
def test_prometheus_takes_the_rules(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(rules_file())
    promtool("check", "rules", "--lint-fatal", file)


@pytest.mark.parametrize("objects", [base(), standalone()], ids=["as a sidecar", "by itself"])
def test_every_extender_is_scraped(objects: Iterable[dict[str, object]]) -> None:
    found = [*objects, *monitoring()]
    (monitor,) = of_kind(found, "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (components,) = monitor["spec"]["selector"]["matchExpressions"]
    serving = [
        deployment["spec"]["template"]["metadata"]["labels"]
        for deployment in of_kind(found, "Deployment")
        for container in deployment["spec"]["template"]["spec"]["containers"]
        if endpoint["port"] in {port["name"] for port in container.get("ports", [])}
    ]
    assert serving
    for labels in serving:
        assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert labels[components["key"]] in components["values"]
    # Else the namespace of a pod that asks GPUs would be that of the extender.
    assert endpoint["honorLabels"] is True


def test_keda_keeps_the_workers_while_no_extender_is_scraped() -> None:
    """Its default takes the empty answer for 0, and ends all workers."""
    sample = yaml.safe_load((ROOT / "manifests" / "samples" / "keda.yaml").read_bytes())
    assert [each["metadata"].get("ignoreNullValues") for each in sample["spec"]["triggers"]] == ["false"]


@needs_prometheus
@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        pytest.param({',UUID="a",gpu="0"': (1, 80), ',UUID="b",gpu="1"': (0, 0)}, [1.0], id="by GPU"),
        pytest.param({"": (0.5, 80)}, [], id="by node, the mean also has GPUs that no pod holds"),
    ],
)
def test_an_autoscaler_learns_only_of_gpus_that_pods_hold(
    gpus: dict[str, tuple[float, int]], expected: list[float], tmp_path: Path
) -> None:
    """A node has two GPUs, of which one is held and busy."""
    rules = yaml.safe_load((ROOT / "manifests/samples/prometheus-adapter.yaml").read_bytes())["externalRules"]
    (rule,) = (each for each in rules if each["name"]["as"] == "gpu_utilization")
    names = ("gpu_extender_device_utilization_ratio", "gpu_extender_device_memory_requested_bytes")
    query = rule["metricsQuery"].replace("<<.Series>>", names[0]).replace("<<.LabelMatchers>>", "")
    series = [
        {"series": f'{name}{{hostname="n",modelName="NVIDIA H100 80GB HBM3"{labels}}}', "values": str(value)}
        for labels, values in gpus.items()
        for name, value in zip(names, values, strict=True)
    ]
    samples = [{"labels": "{}", "value": value} for value in expected]
    asked = {"expr": query, "eval_time": "0s", "exp_samples": samples}
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump({"tests": [{"input_series": series, "promql_expr_test": [asked]}]}))
    promtool("test", "rules", path)
