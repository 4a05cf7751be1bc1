"""The metrics port is open to Prometheus alone, in the base and in the overlay, as the page says."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import yaml

from tests.manifests.objects import Json, of_kind
from tests.manifests.shipped import base, standalone
from tests.pages import ROOT, blocks, section

PAGE = (ROOT / "docs" / "tasks" / "monitoring.md").read_text()
METRICS = 8889


def metrics_rules(objects: list[Json]) -> Iterator[tuple[Json, int, Json]]:
    """Each rule that opens the port, its policy, and its place there."""
    for policy in of_kind(objects, "NetworkPolicy"):
        for place, rule in enumerate(policy["spec"].get("ingress", [])):
            if METRICS in {port["port"] for port in rule["ports"]}:
                yield policy, place, rule


@pytest.mark.parametrize(("objects", "listeners"), [(base(), 1), (standalone(), 2)])
def test_only_prometheus_in_a_labelled_namespace_is_let_in(objects: list[Json], listeners: int) -> None:
    found = list(metrics_rules(objects))
    assert len(found) == listeners
    for _, _, rule in found:
        (peer,) = rule["from"]
        assert peer == {
            "namespaceSelector": {"matchLabels": {"gpu.scheduler-ext.io/metrics": "true"}},
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
        }


def test_the_patch_for_another_scraper_changes_every_such_rule() -> None:
    (text,) = blocks(section(PAGE, "## Let Prometheus in"), "yaml")
    (patch,) = yaml.safe_load(text)["patches"]
    (operation,) = yaml.safe_load(patch["patch"])
    for policy, place, rule in metrics_rules(standalone()):
        assert re.fullmatch(patch["target"]["name"], policy["metadata"]["name"])
        assert operation["path"] == f"/spec/ingress/{place}/from/0/podSelector"
        assert "podSelector" in rule["from"][0]
