"""Whether a pod fits one node, and the reason if not, in sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.cycle.cycle import FITS, filter_nodes
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.filters import REASONS
from scheduler_ext.core.filters.counts import GpuCount, MigPlacement
from scheduler_ext.core.filters.fresh import FreshInventory
from scheduler_ext.core.filters.health import Health
from scheduler_ext.core.filters.memory import FreeMemory
from scheduler_ext.core.filters.model import Model
from scheduler_ext.core.filters.sharing import Replicas, Sharing
from scheduler_ext.core.framework.refusal import Reason
from scheduler_ext.core.gpu.gpu import Device
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.request import GpuRequest
from tests.core.asked import HELD, mig, share, t4, whole
from tests.core.reported import WHOLE, ask, device, node, sliced, wants
from tests.strategies import snapshot_of

MIXED = {"mig_strategy": "mixed"}
SINGLE = {"mig_strategy": "single"}
MPS = {"sharing_strategy": "mps", "replicas": 2}
TIME_SLICED = {"sharing_strategy": "time-slicing", "replicas": 4}
HALVES = sliced(("3g.40gb", 0), ("3g.40gb", 4))
SHARED_HALVES = {**MIXED, **MPS, "own_replicas": (("", 1),)}
SLICE = "A100-80GB-MIG-2G.20GB"


def a100s(count: int, sick: int = 0) -> tuple[Device, ...]:
    return tuple(device(i, healthy=i >= sick) for i in range(count))


def reason_on(info: NodeInfo, request: GpuRequest, *others: NodeInfo) -> Reason | None:
    snapshot = snapshot_of([info, *others])
    code = int(filter_nodes(request, snapshot, SchedulingPolicy()).verdict[snapshot.state_of[0]])
    return None if code == FITS else REASONS[code - 1]


@pytest.mark.parametrize(
    ("info", "request_", "reason"),
    [
        pytest.param(
            node(device(0), t4(1)),
            whole(models=("A100",)),
            Model.reason,
            id="a free GPU of another model refuses, as kubelet might pick it",
        ),
        pytest.param(
            node(device(0), t4(1)), share(4096, models=("A100",)), None, id="we pick the GPU of a share"
        ),
        pytest.param(
            node(*a100s(8, sick=2)),
            whole(8),
            Health.reason,
            id="what would fit with the sick GPUs, they refuse",
        ),
        pytest.param(
            node(t4(), report=TIME_SLICED),
            whole(sharing="exclusive"),
            Sharing.reason,
            id="an exclusive wish refuses time-sliced GPUs",
        ),
        pytest.param(
            node(*a100s(2), device(2, mig=HALVES), report=SHARED_HALVES),
            whole(2, sharing="exclusive"),
            None,
            id="GPUs beside shared instances are not shared",
        ),
        pytest.param(
            node(*a100s(2), device(2, mig=HALVES), report=SHARED_HALVES),
            replace(mig("3g.40gb"), sharing="exclusive"),
            Sharing.reason,
            id="but an exclusive wish refuses the instances",
        ),
        pytest.param(
            node(device(0, mig=HALVES), report=SINGLE),
            whole(2),
            Sharing.reason,
            id="a pod of several refuses instances that are called GPUs",
        ),
        pytest.param(
            node(device(0, mig=HALVES), report=SINGLE),
            whole(2, sharing="any"),
            None,
            id="unless it takes any",
        ),
        pytest.param(
            node(device(0, mig=HALVES), report=SINGLE),
            whole(sharing="exclusive"),
            Sharing.reason,
            id="and so does a pod of one with an exclusive wish",
        ),
        pytest.param(node(device(0, mig=HALVES), report=SINGLE), whole(), None, id="but no other pod of one"),
        pytest.param(
            node(t4(), report=MPS),
            whole(2, sharing="any"),
            Replicas.reason,
            id="MPS gives a container one replica",
        ),
        pytest.param(node(t4(), report=MPS), whole(2), Sharing.reason, id="and a pod of several none"),
        pytest.param(
            node(t4(), report=MPS),
            replace(ask(wants(1, WHOLE), wants(1, WHOLE, "other")), sharing="any"),
            None,
            id="MPS gives two containers one each",
        ),
        pytest.param(
            node(t4(), report=MPS, one_replica=False),
            whole(2, sharing="any"),
            None,
            id="an operator allows several under MPS",
        ),
        pytest.param(
            node(t4(), report=TIME_SLICED), whole(2, sharing="any"), None, id="time-slicing gives several"
        ),
        pytest.param(
            node(t4(), report=TIME_SLICED, one_replica=True),
            whole(2, sharing="any"),
            Replicas.reason,
            id="an operator allows one under time-slicing",
        ),
        pytest.param(
            node(t4(), report=TIME_SLICED, one_replica=True),
            whole(2, resource="nvidia.com/gpu.shared"),
            Replicas.reason,
            id="of a shared resource as well",
        ),
        pytest.param(
            node(t4(), t4(1), one_replica=True), whole(2), None, id="of whole GPUs it gives several"
        ),
        pytest.param(
            node(t4()),
            whole(resource="nvidia.com/gpu.shared"),
            Sharing.reason,
            id="a shared resource refuses GPUs that are not shared",
        ),
        pytest.param(
            node(device(0, mig=sliced(("1g.10gb", 0), holders={0: HELD[0]})), report=MIXED),
            mig("1g.10gb"),
            MigPlacement.reason,
            id="a held instance is none, though another could be created",
        ),
        pytest.param(
            node(device(0)), whole(min_compute_capability=(8, 0)), None, id="a capability that is met exactly"
        ),
        pytest.param(
            NodeInfo("n", allocatable={}),
            whole(resource="nvidia.com/gpu.shared"),
            GpuCount.reason,
            id="a node without GPUs has no sharing mode, and lacks shared ones",
        ),
        pytest.param(NodeInfo("n"), whole(), FreshInventory.reason, id="the node is unknown"),
        pytest.param(
            NodeInfo("n", allocatable={}),
            whole(),
            GpuCount.reason,
            id="a node known to have no GPU lacks them",
        ),
        pytest.param(
            node(device(0), report={"cuda_version": (12, 10)}),
            whole(min_cuda=(12, 9)),
            None,
            id="12.10 is above 12.9",
        ),
        pytest.param(
            node(device(0), t4(1)),
            GpuRequest(units=whole().units, shares=share(40000).shares),
            FreeMemory.reason,
            id="no share that only fits while kubelet picks the other GPU",
        ),
    ],
)
def test_on_a_node(info: NodeInfo, request_: GpuRequest, reason: Reason | None) -> None:
    assert reason_on(info, request_) == reason


@pytest.mark.parametrize("wished", ["A100", "H100"])
def test_a_node_without_gpus_lacks_them_whatever_models_other_nodes_have(wished: str) -> None:
    a100 = NodeInfo("other", report=node(device(0)).report)
    request = whole(models=(wished,))
    assert reason_on(NodeInfo("n", allocatable={}), request, a100) == GpuCount.reason
