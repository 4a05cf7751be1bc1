"""Sick and cordoned GPUs reach schedulers without an extender, by DeviceTaintRules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.cluster.api import eventually
from tests.e2e.dra.dra_workload import DraWorkload, running_dra_installation
from tests.e2e.installation import Installation
from tests.e2e.kustomization import write_kustomization
from tests.kube_objects import gpu

ONE = {"nvidia.com/gpu": "1"}
SICK = {"health": {"state": "Unhealthy", "reason": "XID 79"}}


@pytest.fixture(scope="module")
def dra(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The overlay dra with the component dra-health, and the switch in a configuration of its own."""
    directory = tmp_path_factory.mktemp("health")
    mine = write_kustomization(
        directory / "my-cluster", "overlays/dra", ["dra-health"], extender={"dra": {"deviceTaints": True}}
    )
    with running_dra_installation(directory, mine) as installation:
        yield installation


def test_a_stock_scheduler_gives_no_sick_gpu_to_a_claim(workload: DraWorkload) -> None:
    node = workload.add_dra("h100", 2)

    def report(**first: object) -> None:
        devices = [gpu(i, f"GPU-{node}-{i}", model="H100-80GB", total=81559) for i in range(2)]
        workload.report(node, [devices[0] | first, devices[1]])
        workload.publish()

    report(**SICK)
    eventually(lambda: len(workload.rules()) == 1, "there is a rule")
    stock = workload.create(workload.pod(ONE, scheduler="default-scheduler"))
    assert workload.await_node(stock) == node
    assert workload.held() == [(node, "gpu-1")]
    second = workload.create(workload.pod(ONE, scheduler="default-scheduler"))
    eventually(lambda: workload.unscheduled(second), "it waits")
    report()
    eventually(lambda: not workload.rules(), "the rule is gone")
    assert workload.await_node(second, 60) == node
