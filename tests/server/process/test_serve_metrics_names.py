"""Metrics name waiting pods and no other, at the finest level of detail.

Without NetworkPolicies, every pod of the cluster can read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.kube_objects import pod
from tests.pages import SAMPLE
from tests.server.process.product import Product, config_file
from tests.server.process.server_process import get

pytestmark = pytest.mark.process


def test_metrics_name_only_pods_that_wait(tmp_path: Path) -> None:
    objects: list[Any] = list(yaml.safe_load_all(SAMPLE.read_bytes()))
    waits = pod("waits", {"nvidia.com/gpu": "9"})
    waits["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    names = {each["metadata"]["name"] for each in (*objects, waits) if each["kind"] == "Pod"}
    assert len(names) > 1
    served = tmp_path / "served.yaml"
    served.write_text(yaml.safe_dump_all([*objects, waits]))
    config = config_file(tmp_path, metrics={"detail": "device"})
    with Product(inventory=served, config=config).ready() as server:
        text = get(server.health, "/metrics").body.decode()
    values = {
        value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        for value in sample.labels.values()
    }
    assert names & values == {"waits"}
    assert {"h100-01", "research"} <= values
