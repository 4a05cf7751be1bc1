"""A pod's own soft preferences decide among nodes that are equally good for GPUs, and only among those."""

from __future__ import annotations

import pytest

from tests.e2e.cluster.api import Json
from tests.e2e.workload import Workload
from tests.kube_objects import ANNOTATION

ZONE = "topology.kubernetes.io/zone"
ORDER = {f"{ANNOTATION}model": "H100,A100-80GB"}
ONE = {"nvidia.com/gpu": "1"}


def prefer(key: str, value: str) -> Json:
    """Preferred node affinity for a label."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    rule = [{"weight": 100, "preference": term}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": rule}}


@pytest.mark.parametrize("wanted", ["a", "b", "c"])
def test_preferred_affinity_decides_among_equal_nodes(workload: Workload, wanted: str) -> None:
    for zone in "abc":
        workload.add_whole(f"a100-{zone}", 4, labels={ZONE: zone})
    workload.publish()
    pod = workload.pod(ONE, affinity=prefer(ZONE, wanted))
    assert set(workload.installation.explain(pod)["best"]) == {
        workload.name(f"a100-{zone}") for zone in "abc"
    }
    assert workload.place(pod) == workload.name(f"a100-{wanted}")


def test_a_soft_preference_does_not_decide_against_better_gpus(workload: Workload) -> None:
    workload.add_whole("liked", 4, "A100-80GB", labels={ZONE: "a"})
    better = workload.add_whole("better", 4, "H100-80GB", labels={ZONE: "b"})
    workload.publish()
    assert workload.place(workload.pod(ONE, annotations=ORDER, affinity=prefer(ZONE, "a"))) == better


def test_spread_decides_among_equal_nodes(workload: Workload) -> None:
    """Nodes so large that one pod more leaves them about equal; of small ones the fuller is better."""
    for zone in "abc":
        workload.add_whole(f"a100-{zone}", 32, labels={ZONE: zone})
    workload.publish()
    spread = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    pods = [workload.pod(ONE, labels={"app": "spread"}, topologySpreadConstraints=[spread]) for _ in range(6)]
    nodes = [workload.place(pod) for pod in pods]
    assert sorted(nodes) == sorted(2 * [workload.name(f"a100-{zone}") for zone in "abc"])


def test_without_a_preference_our_order_decides_against_kube_schedulers(workload: Workload) -> None:
    """kube-scheduler by itself prefers the node with more free processors and memory."""
    large = workload.add_whole("large", 8)
    small = workload.add_whole("small", 1)
    workload.publish()
    workload.load(small)
    pod = workload.pod(ONE)
    assert workload.installation.explain(pod)["best"] == [small]
    assert workload.place(pod) == small
    by_itself = workload.pod(ONE, scheduler="default-scheduler")
    workload.remove(pod["metadata"]["name"])
    assert workload.place(by_itself) == large
