"""Pods that wait beside nodes without a fresh report: the cause, and the next step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.explain.explaining import free_node
from tests.explain.test_replay import running
from tests.kube_objects import ANNOTATION, SHARE, Json, node, pod

WHOLE = "nvidia.com/gpu"
SHARES = {"gpu.scheduler-ext.io/sharing": "memory"}


def test_a_share_waits_for_the_report_of_a_node_for_shares() -> None:
    wants = pod("wants", {SHARE: "1000"})
    there = running(node("a", {"nvidia.com/gpu": "4"}), node("share-l4-01", labels=SHARES), wants)
    told = there.explainer().of_name("default", "wants")
    assert told["nearest"]["text"].startswith("share-l4-01 has no fresh report of its GPUs (labels only)")
    assert told["advice"] == [
        "Have an operator bring an agent to share-l4-01 with `kubectl label node share-l4-01 "
        "gpu.scheduler-ext.io/agent=true`"
    ]


def explained(asking: Json, *objects: Json, allow: bool) -> dict[str, Any]:
    """The explanation of a pod beside nodes that no agent has reported on for long."""
    there = running(*objects, asking)
    assert there.snapshot is not None
    infos = {name: node.info for name, node in there.snapshot.nodes.items()}
    there.extender.update_nodes(
        {
            name: replace(info, freshness="Missing", by_allocatable=allow)
            for name, info in infos.items()
            if info.report is None
        }
    )
    return there.explainer().of_name("default", asking["metadata"]["name"])


PLAIN = node("plain", {WHOLE: "4"})
T4 = free_node("t4", 1, model="T4", total=16384)
LABEL = "bring an agent to plain with `kubectl label node plain gpu.scheduler-ext.io/agent=true`"
NO_AGENT = "(Missing): it has no report, and no label that brings an agent to it"


@pytest.mark.parametrize("allow", [True, False], ids=["allow", "refuse"])
@pytest.mark.parametrize(
    ("wish", "what"),
    [
        pytest.param({"model": "H100"}, "model", id="a model"),
        pytest.param({"min-free-memory": "20Gi"}, "free memory", id="free memory"),
        pytest.param({"min-cuda": "12.4"}, "CUDA version", id="a CUDA version"),
    ],
)
def test_a_wish_about_an_unknown_value_waits_for_a_report(wish: Json, what: str, *, allow: bool) -> None:
    """And neither for another node, nor for memory that others hold; no setting helps."""
    wishes = {ANNOTATION + key: value for key, value in wish.items()}
    told = explained(pod("p", {WHOLE: "1"}, annotations=wishes), PLAIN, *T4, allow=allow)
    assert told["nearest"]["text"] == f"plain has no fresh report of its {what} {NO_AGENT}"
    assert told["nearest"]["reason"] == "node(s) had no fresh GPU inventory"
    assert f"Have an operator {LABEL}" in told["advice"]


@pytest.mark.parametrize(
    ("limits", "annotations", "helps"),
    [
        pytest.param({WHOLE: "4"}, {}, True, id="whole GPUs"),
        pytest.param({WHOLE: "1"}, {"min-free-memory": "20Gi"}, False, id="free memory, which stays unknown"),
        pytest.param({SHARE: "1000"}, {}, False, id="a memory share"),
    ],
)
def test_the_setting_is_named_where_the_pod_would_fit_with_it(
    limits: Json, annotations: Json, *, helps: bool
) -> None:
    wishes = {ANNOTATION + key: value for key, value in annotations.items()}
    (advice, *_) = explained(pod("p", limits, annotations=wishes), PLAIN, allow=False)["advice"]
    assert ("inventory.unreported: allow" in advice) is helps


def test_a_pod_for_more_gpus_than_the_node_has_is_told_their_number() -> None:
    told = explained(pod("p", {WHOLE: "8"}), PLAIN, allow=False)
    assert told["advice"] == ["Ask for fewer nvidia.com/gpu: plain has 4 in all"]


def test_a_node_that_an_administrator_keeps_without_an_agent_comes_after_others() -> None:
    away = node("away", {WHOLE: "4"}, labels={"gpu.scheduler-ext.io/agent": "false"})
    told = explained(pod("p", {WHOLE: "1"}), away, PLAIN, allow=False)
    assert told["nearest"]["node"] == "plain"
