"""Pods that wait beside nodes without a fresh report: the cause, and the next step."""

from __future__ import annotations

from tests.explain.test_replay import running
from tests.kube_objects import SHARE, node, pod

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
