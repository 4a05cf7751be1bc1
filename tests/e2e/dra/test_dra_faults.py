"""Faults on a node whose GPUs device plugin and DRA both offer: a pod holds one of two GPUs, and whatever
breaks, no pod is placed the other way, in which it could get the same GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.dra_objects import request
from tests.e2e.agents.gpunode_api import PATH as GPU_NODES
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.dra.dra_workload import SLICES, DraWorkload
from tests.e2e.installation import NAMESPACE
from tests.kube_objects import gpu

ONE = {"nvidia.com/gpu": "1"}
TWICE = "node(s) had GPUs that device plugin and DRA could hand out twice"
PLUGIN, CLAIM = "device plugin", "claim"


Fault = Callable[[DraWorkload, str], None]


def nothing(workload: DraWorkload, node: str) -> None:
    """The control: no fault."""


def the_agent_is_gone(workload: DraWorkload, node: str) -> None:
    workload.api.delete(f"{GPU_NODES}/{node}")


def the_slices_are_gone(workload: DraWorkload, node: str) -> None:
    workload.api.delete(f"{SLICES}/{node}-slice")


def the_pool_is_half_published(workload: DraWorkload, node: str) -> None:
    _republish(workload, node, generation=2, resourceSliceCount=2)


def the_generation_goes_back(workload: DraWorkload, node: str) -> None:
    _republish(workload, node, generation=7, resourceSliceCount=1)
    workload.api.delete(f"{SLICES}/{node}-slice")
    workload.publish_slice(node, [workload.device(node, i) for i in range(2)], generation=1)


def everything_restarts(workload: DraWorkload, node: str) -> None:
    before = {pod.name for pod in workload.installation.pods()}
    for name in before:
        workload.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}", 0)
    eventually(
        lambda: not before & {pod.name for pod in workload.installation.pods()}, "the old pods are gone", 60
    )
    workload.installation.await_ready()


def the_agent_and_the_slices_go_and_everything_restarts(workload: DraWorkload, node: str) -> None:
    the_agent_is_gone(workload, node)
    the_slices_are_gone(workload, node)
    everything_restarts(workload, node)


# Claims get nothing there, so that kube-scheduler does not ask.
WITHOUT_DEVICES = (
    the_slices_are_gone,
    the_pool_is_half_published,
    the_agent_and_the_slices_go_and_everything_restarts,
)
FAULTS = (nothing, the_agent_is_gone, the_generation_goes_back, everything_restarts, *WITHOUT_DEVICES)


def _republish(workload: DraWorkload, node: str, **pool: int) -> None:
    workload.api.patch(f"{SLICES}/{node}-slice", {"spec": {"pool": {"name": node, **pool}}})


def asking(workload: DraWorkload, way: str, name: str) -> Json:
    """A pod that asks one GPU this way."""
    return workload.pod(ONE) if way == PLUGIN else workload.pod(**workload.claim(name, request()))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__.replace("_", " "))
@pytest.mark.parametrize("held", [PLUGIN, CLAIM])
def test_no_gpu_is_used_in_both_ways(workload: DraWorkload, held: str, fault: Fault) -> None:
    labels = {"gpu.scheduler-ext.io/handed-out-by": "dra"} if held == CLAIM else {}
    node = workload.add_dra("both", 2, resources={"nvidia.com/gpu": "2"}, labels=labels)
    workload.report(node, [gpu(i, f"GPU-{node}-{i}", model="H100-80GB", total=81559) for i in range(2)])
    workload.publish()
    holder = workload.create(asking(workload, held, "first"))
    assert workload.await_node(holder) == node
    eventually(lambda: held == PLUGIN or workload.held(), "the extenders know the holder")
    fault(workload, node)
    # Until no extender learns anything new.
    workload.installation.await_inventory(None, dict.fromkeys(workload.installation.pods(), -1.0))
    other = workload.create(asking(workload, CLAIM if held == PLUGIN else PLUGIN, "second"))
    waits = eventually(lambda: workload.unscheduled(other), "the other waits")
    without_devices = held == PLUGIN and fault in WITHOUT_DEVICES
    assert ("cannot allocate all claims" if without_devices else TWICE) in waits["message"]
    workload.remove(holder)
