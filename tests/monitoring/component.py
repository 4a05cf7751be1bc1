"""The content of manifests/components/monitoring: rules, panels, and their expressions."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, NamedTuple

import yaml

from tests.manifests.objects import Json
from tests.pages import ROOT

MONITORING = ROOT / "manifests" / "components" / "monitoring"
# Grafana's values for its variables when everything is selected.
_VARIABLES = {"$__rate_interval": "20s", "$cluster": ".*", "$node": ".*", "$model": ".*"}


class Query(NamedTuple):
    """One expression of a panel, its variables replaced."""

    panel: str
    legend: str
    expression: str


@cache
def groups() -> tuple[Json, ...]:
    """The groups of the PrometheusRule, as a file of Prometheus' own has them."""
    rule: Json = yaml.safe_load((MONITORING / "rules.yaml").read_bytes())
    assert (rule["apiVersion"], rule["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    return tuple(rule["spec"]["groups"])


def alerts() -> dict[str, Json]:
    """Every alert by name."""
    return {rule["alert"]: rule for group in groups() for rule in group["rules"]}


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
    """All panels that show something."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def queries() -> list[Query]:
    """Every expression of every panel."""
    return [
        Query(panel["title"], target["legendFormat"], _replaced(target["expr"]))
        for panel in panels()
        for target in panel["targets"]
    ]


def variables() -> dict[str, Any]:
    """The dashboard's variables by name."""
    return {each["name"]: each for each in dashboard()["templating"]["list"]}


def _replaced(expression: str) -> str:
    for name, value in _VARIABLES.items():
        expression = expression.replace(name, value)
    return expression
