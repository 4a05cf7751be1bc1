"""What explain says of counted GPUs: what nodes offer, the profiles that fit, and devices that are closed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.dra.device import DraDevice, NodeDevices
from scheduler_ext.core.dra.published import DeviceId
from scheduler_ext.core.filters import REASONS, reason_text
from scheduler_ext.core.filters.counts import GpuCount, MigPlacement, offers
from scheduler_ext.core.framework.criterion import Trial
from scheduler_ext.core.framework.refusal import NearestMiss
from scheduler_ext.core.gpu.gpu import Mig, MigInstance
from scheduler_ext.core.intree.affinity import Taint
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.state import resolve
from scheduler_ext.core.request.request import GpuRequest, UnitRequest
from scheduler_ext.core.snapshot.table import build_snapshot
from tests.core.asked import mig, whole
from tests.core.reported import NAMES, ONE_G, WHOLE, device, node


@pytest.mark.parametrize(
    ("info", "resources"),
    [
        pytest.param(node(device(0), allocatable={WHOLE: 1, ONE_G: 7}), {WHOLE, ONE_G}, id="its allocatable"),
        pytest.param(
            node(device(0), allocatable={WHOLE: 1, ONE_G: 0}), {WHOLE}, id="but none of an amount of 0"
        ),
        pytest.param(
            node(device(0, healthy=False), allocatable={WHOLE: 0}),
            {WHOLE},
            id="a sick GPU that the device plugin withdrew",
        ),
        pytest.param(node(device(0)), {WHOLE}, id="all GPUs of a node without a Node object"),
    ],
)
def test_a_node_offers(info: NodeInfo, resources: set[str]) -> None:
    assert set(offers([resolve(info, NAMES, 10)])) == resources


def cut_into(profile: str) -> NodeInfo:
    """A node of one GPU with one such instance."""
    cut = Mig(enabled=True, instances=(MigInstance("MIG-0", profile, 0, 1),))
    return node(device(0, mig=cut), report={"mig_strategy": "mixed"})


@pytest.mark.parametrize(
    ("offered", "named"),
    [
        pytest.param(
            ["3g.20gb", "1g.20gb", "2g.20gb"],
            ["1g.20gb", "2g.20gb", "3g.20gb"],
            id="equally near ones by their names",
        ),
        pytest.param(
            ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb"],
            ["3g.40gb", "1g.20gb", "2g.20gb"],
            id="no more than three",
        ),
    ],
)
def test_other_profiles_than_the_asked_one(offered: Sequence[str], named: Sequence[str]) -> None:
    """Each node offers one profile, so that the profiles are found in the order of the nodes."""
    snapshot = build_snapshot({profile: resolve(cut_into(profile), NAMES, 10) for profile in offered}, 0)

    def where(request: GpuRequest) -> Bools:
        decision = filter_nodes(request, snapshot, SchedulingPolicy())
        fit: Bools = decision.fits[snapshot.state_of[:-1]]
        return fit

    changes = [text for text, _ in MigPlacement().smaller(mig("7g.80gb"), Trial(snapshot, where))]
    assert changes == [f"with 1 nvidia.com/mig-{each} instead of nvidia.com/mig-7g.80gb" for each in named]


def test_a_smaller_count_may_be_one_of_thousands() -> None:
    slices = {"sharing_strategy": "time-slicing", "replicas": 16384}
    snapshot = build_snapshot({"n": resolve(node(device(0), report=slices), NAMES, 10)}, 0)

    def where(request: GpuRequest) -> Bools:
        fit: Bools = filter_nodes(request, snapshot, SchedulingPolicy()).fits[snapshot.state_of[:-1]]
        return fit

    ((text, _),) = GpuCount().smaller(whole(20_000, sharing="any"), Trial(snapshot, where))
    assert text == "with 16,384 nvidia.com/gpu instead of 20,000"


XID = Taint("xid", "79", "NoSchedule")
OLD = Taint("old", "", "NoExecute")
NOTE = Taint("note", "", "None")


@pytest.mark.parametrize(
    ("taints", "told"),
    [
        pytest.param([[], []], "", id="no device is tainted"),
        pytest.param([[XID], []], "; 1 device is tainted: xid", id="one is"),
        pytest.param([[XID], [XID, OLD]], "; 2 devices are tainted: old, xid", id="two are, by several keys"),
        pytest.param(
            [[XID], [NOTE]], "; 1 device is tainted: xid", id="a taint that only informs closes none"
        ),
    ],
)
def test_devices_of_claims_that_taints_close_are_told(taints: list[list[Taint]], told: str) -> None:
    devices = tuple(
        DraDevice(
            DeviceId("gpu.nvidia.com", "n", f"gpu-{i}"),
            "nvidia",
            f"GPU-{i}",
            f"GPU-{i}",
            None,
            "H100",
            81559,
            taints=tuple(each),
        )
        for i, each in enumerate(taints)
    )
    on = resolve(node(dra=NodeDevices(devices)), NAMES, 10)
    miss = NearestMiss("gpu-count", None, 3, 1, WHOLE)
    assert GpuCount().sentence(miss, on) == f"n has 1 of 3 nvidia.com/gpu free{told}"


CLASS = "deviceclass.resource.kubernetes.io/gpu.example.com"


@pytest.mark.parametrize(
    ("units", "text"),
    [
        pytest.param([UnitRequest(WHOLE, 2)], "Insufficient nvidia.com/gpu per device", id="NVIDIA's"),
        pytest.param(
            [UnitRequest("amd.com/gpu", 2)], "Insufficient amd.com/gpu per device", id="another vendor's"
        ),
        pytest.param(
            [UnitRequest("amd.com/gpu", 1), UnitRequest(WHOLE, 1)],
            "Insufficient amd.com/gpu or nvidia.com/gpu per device",
            id="two: the text is the same on every node",
        ),
        pytest.param(
            [UnitRequest(WHOLE, 1), UnitRequest(ONE_G, 1, "1g.10gb")],
            "Insufficient nvidia.com/gpu per device",
            id="MIG instances have a reason of their own",
        ),
        pytest.param([UnitRequest(CLASS, 1)], f"Insufficient {CLASS} per device", id="a class as a resource"),
        pytest.param(
            [UnitRequest(f"{CLASS}?0a1b", 1, by_claim=True), UnitRequest(CLASS, 1, by_claim=True)],
            "Insufficient gpu.example.com per device",
            id="claims: their class, without their requirements",
        ),
    ],
)
def test_the_reason_names_the_resource_of_the_pod(units: Sequence[UnitRequest], text: str) -> None:
    code = REASONS.index(GpuCount.reason) + 1
    assert reason_text(code, GpuRequest(units=tuple(units))) == text
