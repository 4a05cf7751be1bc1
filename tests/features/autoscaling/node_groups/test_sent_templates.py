"""Requests with the template of an empty group, which cluster-autoscaler builds from the tags that
`autoscaler-config` prints."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.extender.extender import Extender
from scheduler_ext.features.autoscaling.node_groups.cluster_autoscaler import cluster_autoscaler_settings
from tests.extender.preempting import extender_on
from tests.extender.test_sent_nodes import KNOWN, MEMORY, on_templates, reason, template
from tests.features.autoscaling.node_groups.tables import SHARES, group, sliced, table
from tests.kube_objects import SHARE, Json, pod


def tagged(**fields: Any) -> Json:
    """The template of a group, from its tags."""
    (settings,) = cluster_autoscaler_settings(table(group(**fields)))["groups"]
    tags = {
        kind: {
            key.removeprefix(prefix): value
            for key, value in settings["tags"].items()
            if key.startswith(prefix)
        }
        for kind in ("label", "resources")
        if (prefix := f"k8s.io/cluster-autoscaler/node-template/{kind}/")
    }
    return template("tagged", tags["resources"], tags["label"])


TEMPLATES = {
    "h100": tagged(model="H100-80GB"),
    "halves": tagged(**sliced(p3g_40gb=2)),
    "shares": tagged(model="A100-80GB", memoryMiB=81920, **SHARES),
}


@pytest.fixture
def extender() -> Extender:
    return extender_on(*KNOWN)


@on_templates
def test_a_template_is_the_empty_node_that_it_stands_for(
    extender: Extender, sent: str, asking: Json, expected: str
) -> None:
    assert reason(extender, asking, TEMPLATES[sent]) == expected


def test_a_pod_with_a_share_on_each_gpu_of_a_tagged_group(extender: Extender) -> None:
    containers = [{"name": f"c{i}", "resources": {"limits": {SHARE: "70000"}}} for i in range(3)]
    assert reason(extender, pod("p", containers=containers[:2]), TEMPLATES["shares"]) == ""
    assert reason(extender, pod("p", containers=containers), TEMPLATES["shares"]) == MEMORY
