"""The preferences that a pod states decide first. The extender's packing decides among the nodes that they
leave equal, and before everything that the pod does not state.

kube-scheduler prefers the emptier nodes by itself, and the extender fuller ones. So a pod that lands on an
empty node followed a preference, and a pod that lands on a full one followed the extender.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.cluster.api import Json, eventually
from tests.e2e.workload import Workload
from tests.kube_objects import ANNOTATION

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CHIP = "example.com/chip"
ORDER = {f"{ANNOTATION}model": "H100,A100-80GB"}
ONE = {"nvidia.com/gpu": "1"}
WEB = {"app": "web"}
TERM = {"topologyKey": ZONE, "labelSelector": {"matchLabels": WEB}}


def prefer(key: str, value: str, weight: int = 100) -> Json:
    """A term of preferred node affinity."""
    expression = {"key": key, "operator": "In", "values": [value]}
    return {"weight": weight, "preference": {"matchExpressions": [expression]}}


def nodes_of(*terms: Json) -> Json:
    return {"affinity": {"nodeAffinity": {PREFERRED: list(terms)}}}


def pods_of(kind: str, weight: int) -> Json:
    """Preferred affinity (`podAffinity`) for pods of `WEB`, or anti-affinity."""
    return {"affinity": {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": TERM}]}}}


def spread(key: str = ZONE) -> Json:
    constraint = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    return {"topologySpreadConstraints": [constraint | {"labelSelector": {"matchLabels": WEB}}]}


class Zones:
    """A node of four GPUs in zone b, which pods fill and packing prefers, and an empty one in zone a."""

    def __init__(self, workload: Workload, gpus: int = 4, used: int = 2) -> None:
        self._workload = workload
        self.full = workload.add_whole("full", gpus, labels={ZONE: "b"})
        self.empty = workload.add_whole("empty", gpus, labels={ZONE: "a", CHIP: "new"})
        workload.publish()
        for _ in range(used):
            self.put(self.full)

    def put(self, node: str, **pod: Any) -> None:
        """Have a pod with one GPU there."""
        self._workload.place_seen(self._workload.pod(ONE, nodeName=node, **pod))


EVERY = (prefer(ZONE, "a"), prefer(ZONE, "b"))


@pytest.mark.parametrize(
    ("spec", "decides"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param(nodes_of(prefer(ZONE, "a", 1)), True, id="node affinity with the smallest weight"),
        # 100 of 101 is one step less than 101 of 101, the smallest difference that kube-scheduler keeps.
        pytest.param(nodes_of(*EVERY, prefer(CHIP, "new", 1)), True, id="the larger sum of weights"),
        pytest.param(nodes_of(*EVERY), False, id="node affinity to both"),
        pytest.param(pods_of("podAffinity", 1), True, id="affinity to pods"),
    ],
)
def test_what_a_pod_states_decides_before_packing(workload: Workload, spec: Json, decides: bool) -> None:
    """Packing decides among the nodes that it leaves equal."""
    zones = Zones(workload, used=3)
    zones.put(zones.empty, labels=WEB)
    assert workload.place(workload.pod(ONE, **spec)) == (zones.empty if decides else zones.full)


def test_preferred_node_affinity_decides_before_the_order_of_models(workload: Workload) -> None:
    liked = workload.add_whole("liked", 4, "A100-80GB", labels={ZONE: "a"})
    workload.add_whole("better", 4, "H100-80GB", labels={ZONE: "b"})
    workload.publish()
    pod = workload.pod(ONE, annotations=ORDER, **nodes_of(prefer(ZONE, "a", 1)))
    assert workload.place(pod) == liked


def test_the_pods_own_spread_decides_before_packing(workload: Workload) -> None:
    """Small nodes, of which packing would fill one: each next pod goes to the other zone."""
    zones = Zones(workload, 4, used=1)
    pods = [workload.pod(ONE, labels=WEB, **spread()) for _ in range(4)]
    nodes = [workload.place_seen(pod) for pod in pods]
    assert sorted(nodes) == sorted(2 * [zones.full, zones.empty])
    assert nodes[0] == zones.full, "packing decides among equal zones"
    assert workload.place(workload.pod(ONE)) == zones.full


def placed_replicas(workload: Workload, pod: Json, replicas: int) -> list[str]:
    """The nodes of a Deployment's pods; it is deleted again."""
    template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": WEB}, "template": template}
    path = f"/apis/apps/v1/namespaces/{workload.namespace}/deployments"
    workload.api.create(path, {"metadata": {"name": "web"}, "spec": spec})

    def placed() -> list[str] | None:
        pods = [each for each in workload.all_pods() if each["metadata"]["name"].startswith("web-")]
        nodes = [each["spec"].get("nodeName") for each in pods]
        return nodes if len(nodes) == replicas and all(nodes) else None

    try:
        return eventually(placed, "all pods are bound")
    finally:
        workload.installation.plane.kubectl(
            *("-n", workload.namespace, "delete", "deployment", "web", "--cascade=foreground")
        )


def test_pods_of_a_deployment_are_packed_unless_they_state_a_spread(workload: Workload) -> None:
    """kube-scheduler would spread them over hosts and zones by default."""
    zones = Zones(workload, 8)
    pod = workload.pod(ONE, labels=WEB)
    assert placed_replicas(workload, pod, 3) == 3 * [zones.full]
    pod["spec"] |= spread(HOST)
    assert set(placed_replicas(workload, pod, 2)) == {zones.full, zones.empty}


def test_the_preferences_of_other_pods_do_not_decide_before_packing(workload: Workload) -> None:
    """A pod on the full node would rather have no such neighbour, and one on the empty node needs one."""
    zones = Zones(workload, 8)
    zones.put(zones.full, **pods_of("podAntiAffinity", 100))
    zones.put(zones.empty, labels=WEB, affinity={"podAffinity": {REQUIRED: [TERM]}})
    assert workload.place(workload.pod(ONE, labels=WEB)) == zones.full
