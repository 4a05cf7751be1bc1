"""kube-scheduler examines a part of a large cluster, in turns. A pod that only other nodes take is nominated
there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.installation import Installation, running_installation
from tests.e2e.workload import Workload
from tests.kube_objects import gpu

ONE = {"nvidia.com/gpu": "1"}
# Of so many, kube-scheduler examines 142.
NODES = 300
PODS = 40
# What a planner does not check: preferences, and requirements that most nodes meet.
UNCHECKED: dict[str, Any] = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
    ],
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
            ]
        }
    },
}
SICK = {"state": "Unhealthy", "reason": "XID 79"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running_installation(tmp_path_factory.mktemp("sampled")) as installation:
        yield installation


@pytest.fixture
def large(installed: Installation) -> Iterator[Workload]:
    with Workload(installed) as workload:
        yield workload


def bound_by_nominations(workload: Workload, node: str, spec: dict[str, Any], **wishes: str) -> None:
    """Pods that only this node takes are bound there, one after the other, until one was nominated."""

    def nominated() -> float:
        return workload.installation.metric("gpu_extender_nominations_total", outcome="bound")

    annotations = {f"gpu.scheduler-ext.io/{name}": value for name, value in wishes.items()}
    before, pods = nominated(), 0
    while nominated() == before:
        assert pods < PODS, "no pod was nominated"
        assert workload.place(workload.pod(ONE, annotations=annotations, **spec)) == node
        pods += 1


def test_pods_of_a_model_that_one_node_has(large: Workload) -> None:
    for number in range(NODES - 1):
        large.add_whole(f"t4-{number}", 1, model="T4")
    rare = large.add_whole("rare", PODS)
    large.publish()
    for spec in ({}, UNCHECKED):
        bound_by_nominations(large, rare, spec, model="A100")


def test_pods_beside_many_sick_gpus(large: Workload) -> None:
    for number in range(NODES - 1):
        large.add_node(f"sick-{number}", ONE, [gpu(0, f"GPU-sick-{number}", health=SICK)])
    healthy = large.add_whole("healthy", PODS)
    large.publish(all_known=False)
    bound_by_nominations(large, healthy, {})
