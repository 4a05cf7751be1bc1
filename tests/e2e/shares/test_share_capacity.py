"""The extender's write access to a Node with shares, on the real API server."""

from __future__ import annotations

import pytest

from tests.e2e.cluster.api import STRATEGIC, Json, eventually
from tests.e2e.shares.share_cluster import NODE, ShareCluster
from tests.kube_objects import SHARE

POLICIES = "/apis/admissionregistration.k8s.io/v1"


def amounts(mib: str | None, **more: str) -> Json:
    return {"status": {kind: {SHARE: mib, **more} for kind in ("capacity", "allocatable")}}


def test_the_extender_says_how_much_a_node_has(shares: ShareCluster) -> None:
    node = f"/api/v1/nodes/{NODE}"

    def told() -> list[str | None]:
        status = shares.api.get(node)["status"]
        return [status[kind].get(SHARE) for kind in ("capacity", "allocatable")]

    for mib in ("81920", "40960", None):
        shares.extender.patch(f"{node}/status", amounts(mib))
        # The kubelet writes at the same time, from a slightly older read.
        eventually(lambda wanted=mib: told() == [wanted] * 2, f"the node has {mib} MiB")  # type: ignore[misc]


READY = {"type": "Ready", "status": "False", "reason": "Wrong"}


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        pytest.param(amounts("1", cpu="1"), "no other resource", id="another amount beside it"),
        pytest.param({"status": {"capacity": {"nvidia.com/gpu": "8"}}}, "no other resource", id="GPUs"),
        pytest.param({"status": {"conditions": [READY]}}, "nothing else", id="conditions"),
        pytest.param({"metadata": {"labels": {"a": "b"}}}, "nothing else", id="labels"),
        pytest.param(
            {"metadata": {"annotations": {"gpu.scheduler-ext.io/inventory-changed": "now"}}},
            "nothing else",
            id="the nudge by this way",
        ),
    ],
)
def test_the_extender_changes_nothing_else_of_a_nodes_status(
    shares: ShareCluster, patch: Json, said: str
) -> None:
    refusal = shares.extender.refusal("PATCH", f"/api/v1/nodes/{NODE}/status", patch, STRATEGIC)
    assert said in refusal
    assert refusal.startswith("403 Forbidden")


def test_kubernetes_finds_nothing_wrong_with_the_policies(shares: ShareCluster) -> None:
    def checked() -> dict[str, list[Json]] | None:
        policies = shares.api.items(f"{POLICIES}/validatingadmissionpolicies")
        if not all("typeChecking" in each.get("status", {}) for each in policies):
            return None
        return {
            each["metadata"]["name"]: each["status"]["typeChecking"].get("expressionWarnings", [])
            for each in policies
        }

    found = eventually(checked, "the policies are checked")
    assert len(found) == 5
    assert {name: warnings for name, warnings in found.items() if warnings} == {}
