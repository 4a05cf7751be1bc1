"""Why the best node is the best, in a word."""

from __future__ import annotations

import pytest

from scheduler_ext.core.cycle.because import because
from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.request.request import GpuRequest
from tests.core.asked import labelled, whole
from tests.core.cycle.test_obvious_answers import (
    FILLED,
    SICK,
    SLICED,
    SPOT,
    T4_OR_H100,
    Nodes,
    has,
    snapshot_by_name,
)

LABELS: Nodes = {"labels": labelled("NVIDIA-H100-80GB"), "report": has("H100-80GB", 8)}
ALIKE: Nodes = {"a": has("T4", 4), "b": has("T4", 4)}
HALF_FULL: Nodes = {"a": has("T4", 4, held=2), "b": has("T4", 4, held=1)}
ROWS = [
    pytest.param(whole(), {"a": has("T4", 4)}, "a", "only one that fits", id="one node"),
    pytest.param(whole(), ALIKE, "a", "all equal", id="equal nodes"),
    pytest.param(whole(), FILLED, "full", "packs", id="a full node"),
    pytest.param(whole(), T4_OR_H100, "t4", "cheapest that fits", id="a cheap GPU"),
    pytest.param(
        whole(),
        {"l4": has("L4", 8, held=7), "t4": has("T4", 8), "h100": has("H100-80GB", 8)},
        "l4",
        "packs",
        id="a GPU that is not the cheapest",
    ),
    pytest.param(whole(models=("H100", "T4")), T4_OR_H100, "h100", "wanted model", id="the first model"),
    pytest.param(whole(priority=-1), SPOT, "spot", "spot", id="a batch pod"),
    pytest.param(whole(priority=1), SPOT, "on-demand", "on-demand", id="an important pod"),
    pytest.param(whole(priority=1_000), SICK, "sound", "reliable", id="no sick GPU, by priority"),
    pytest.param(whole(), SLICED, "whole", "not shared", id="a whole GPU beside slices"),
    pytest.param(whole(), LABELS, "report", "has a report", id="a report beside labels"),
    pytest.param(
        whole(),
        {**LABELS, "full": has("H100-80GB", 8, held=4)},
        "full",
        "packs",
        id="a full node beside an empty one and labels",
    ),
]


@pytest.mark.parametrize(("request_", "nodes", "best", "word"), ROWS)
def test_because(request_: GpuRequest, nodes: Nodes, best: str, word: str) -> None:
    snapshot = snapshot_by_name(nodes)
    decision = filter_nodes(request_, snapshot, SchedulingPolicy())
    assert because(decision, best, [name for name in nodes if name != best]) == word


def test_nodes_with_equal_points_are_equal() -> None:
    snapshot = snapshot_by_name(HALF_FULL)
    policies = (SchedulingPolicy(weights={"tightness": weight}) for weight in (0.02, 0.03))
    words = [because(filter_nodes(whole(), snapshot, policy), "a", ["b"]) for policy in policies]
    assert words == ["all equal", "packs"]


def test_a_pod_without_gpus_has_no_word() -> None:
    snapshot = snapshot_by_name(ALIKE)
    assert because(filter_nodes(GpuRequest(), snapshot, SchedulingPolicy()), "a", ["b"]) is None
