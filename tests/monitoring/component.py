"""The content of manifests/components/monitoring: rules, panels, and their expressions."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, NamedTuple

import yaml

from scheduler_ext.feature import installed
from tests.manifests.objects import Json
from tests.monitoring.promql import metrics_in
from tests.pages import ROOT

MONITORING = ROOT / "manifests" / "components" / "monitoring"
# Grafana's values for its variables when everything is selected.
EVERYTHING = {"cluster": ".*", "node": ".*", "model": ".*"}
_RATE_INTERVAL = "20s"
# The metrics of features that rules and panels ask for.
_OF_FEATURES = {
    "autoscaling": {"gpu_extender_autoscaler_blind_rejections_total"},
    "cost": {
        "gpu_extender_gpus_value",
        "gpu_extender_gpus_idle_value",
        "gpu_extender_namespace_allocated_value",
        "gpu_extender_namespace_idle_value",
    },
    "gangs": {"gpu_extender_queue_pods", "gpu_extender_nominations_total"},
    "idle": {"gpu_extender_gpus_idle", "gpu_extender_idle_pods", "gpu_extender_gpu_out_of_memory_total"},
}


class Query(NamedTuple):
    """One expression of a panel, with its variables."""

    panel: str
    legend: str
    text: str

    @property
    def expression(self) -> str:
        """The expression for everything."""
        return self.chosen()

    def chosen(self, **values: str) -> str:
        """The expression with other values of variables, such as `cluster`."""
        text = self.text.replace("$__rate_interval", _RATE_INTERVAL)
        for name, value in (EVERYTHING | values).items():
            text = text.replace(f"${name}", value)
        return text


@cache
def groups() -> tuple[Json, ...]:
    """The groups of the PrometheusRule, as a file of Prometheus' own has them."""
    rule: Json = yaml.safe_load((MONITORING / "rules.yaml").read_bytes())
    assert (rule["apiVersion"], rule["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    return tuple(rule["spec"]["groups"])


def alerts() -> dict[str, Json]:
    """Every alert by name, but those of missing features."""
    rules = (rule for group in groups() for rule in group["rules"])
    return {rule["alert"]: rule for rule in rules if _has_series(rule["expr"])}


def _has_series(expression: str) -> bool:
    """False if it asks for metrics of a feature that is not installed."""
    missing = _OF_FEATURES.keys() - {feature.name for feature in installed()}
    return not any(metrics_in(expression) & _OF_FEATURES[name] for name in missing)


def rules_file() -> str:
    """The rules as Prometheus reads them."""
    text: str = yaml.safe_dump({"groups": list(groups())}, sort_keys=False)
    return text


@cache
def dashboard() -> Json:
    """Grafana's dashboard."""
    found: Json = json.loads((MONITORING / "dashboard.json").read_bytes())
    return found


def panels() -> list[Json]:
    """All panels that show data."""
    return [panel for panel in dashboard()["panels"] if panel["type"] not in ("row", "text")]


def queries() -> list[Query]:
    """Every expression of every panel that is not of a missing feature."""
    return [
        Query(panel["title"], target["legendFormat"], target["expr"])
        for panel in panels()
        for target in panel["targets"]
        if _has_series(target["expr"])
    ]


def variables() -> dict[str, Any]:
    """The dashboard's variables by name."""
    return {each["name"]: each for each in dashboard()["templating"]["list"]}
