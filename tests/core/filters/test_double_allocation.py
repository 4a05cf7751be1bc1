"""Nodes on which a device plugin and DRA offer the same GPUs, and what DRA can still hand out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.core.cache.device_index import DeviceIndex
from scheduler_ext.core.cache.ledger import NodePods
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.cycle.cycle import FITS, filter_nodes
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.dra.consumable import RequestPolicy
from scheduler_ext.core.dra.device import amounts
from scheduler_ext.core.dra.published import (
    Attribute,
    Claim,
    Consumption,
    DeviceFacts,
    DeviceRequirements,
    PublishedDevice,
)
from scheduler_ext.core.filters import REASONS
from scheduler_ext.core.filters.double_allocation import DoubleAllocation
from scheduler_ext.core.framework.criterion import View
from scheduler_ext.core.gpu.gpu import Device, Holder, Memory, Report
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.intree.affinity import Taint, Toleration
from scheduler_ext.core.node.node import BoundPod, Node
from scheduler_ext.core.node.nominated import with_nominated_pods
from scheduler_ext.core.node.state import resolve
from scheduler_ext.core.request.request import GpuRequest, ShareRequest, UnitRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.table import build_snapshot
from tests.core.dra.published import (
    GPU_CLASS,
    IMPLICIT,
    MIG_CLASS,
    WHOLE,
    claim,
    gpu,
    index_of,
    instance,
    one_slice,
    waiting,
)

TWICE = "node(s) had GPUs that device plugin and DRA could hand out twice"
SHORT = "Insufficient nvidia.com/gpu per device"
MIG = "deviceclass.resource.kubernetes.io/mig.nvidia.com"
TWO = one_slice("node", [gpu(0), gpu(1)])
PLUGIN = {WHOLE: 2}


def device(index: int, **changes: object) -> Device:
    model = canonical_model("NVIDIA H100 80GB HBM3")
    plain = Device(f"GPU-{index}", index, "nvidia", "H100", model, (9, 0), Memory(81559))
    return replace(plain, **changes)  # type: ignore[arg-type]  # fields of Device


REPORT = Report((device(0), device(1)))
CORDONED_0 = Report((device(0, cordoned=True), device(1)))
CORDONED_1 = Report((device(0), device(1, cordoned=True)))
SICK_0 = Report((device(0, healthy=False), device(1)))
SICK_1 = Report((device(0), device(1, healthy=False)))
HELD_BY_PLUGIN = Report((device(0, holders=(Holder(uid="pod-a", container="main"),)), device(1)))


def pod(name: str, *, extended: bool = False) -> BoundPod:
    ask = UnitRequest(WHOLE, 1)
    return BoundPod(
        f"pod-{name}",
        "default",
        f"pod-{name}",
        0,
        GpuRequest(units=(ask,), by_container=(("main", WHOLE, 1),)),
        extended_claim="claim" if extended else None,
    )


def node(
    index: DeviceIndex,
    allocatable: Mapping[str, int] | None = None,
    report: Report | None = None,
    pods: Sequence[BoundPod] = (),
    **facts: Any,
) -> Node:
    record = NodeRecord(allocatable=dict(allocatable or {}), **facts)
    info = record.info(
        "node", report, NodePods(tuple(pods)), devices=index.node("node"), claims=index.claims_on("node")
    )
    return resolve(info, ResourceNames(), 0)


def dra(
    *claims: Claim,
    allocatable: Mapping[str, int] | None = None,
    report: Report | None = None,
    pods: Sequence[BoundPod] = (),
    **facts: Any,
) -> Node:
    """A node of two GPUs in slices of a class."""
    return node(index_of(GPU_CLASS, TWO, *claims), allocatable, report, pods, **facts)


def verdict(on: Node, resource: str = WHOLE, count: int = 1, *, judged: bool = False) -> str | None:
    ask = UnitRequest(resource, count, by_claim=judged)
    return answer(on, GpuRequest(units=(ask,), claims_judged=judged))


def answer(on: Node, request: GpuRequest) -> str | None:
    decision = filter_nodes(request, build_snapshot({"node": on}, 1), SchedulingPolicy())
    code = int(decision.verdict[decision.snapshot.state_at("node")])
    return None if code == FITS else REASONS[code - 1].text


TAINTED = gpu(0, "H100", "80Gi", Taint("xid", "79", "NoSchedule"))
# A pod of the device plugin, whose GPU the agent has seen or not; one of DRA, whose claim arrives later.
SEEN = dra(allocatable=PLUGIN, report=HELD_BY_PLUGIN, pods=[pod("a")])
UNSEEN = dra(allocatable=PLUGIN, report=REPORT, pods=[pod("a")])
LATE = dra(report=REPORT, pods=[pod("a", extended=True)])
ARRIVED = dra(claim("x", "gpu-0", pod="pod-a", extended=True), report=REPORT, pods=[pod("a", extended=True)])


@pytest.mark.parametrize(
    ("on", "resource", "count", "expected"),
    [
        pytest.param(dra(), WHOLE, 2, None, id="DRA alone, without an agent"),
        pytest.param(dra(allocatable={WHOLE: 0}), WHOLE, 2, None, id="allocatable of 0 is DRA's"),
        pytest.param(dra(), IMPLICIT, 2, None, id="the implicit name of the class"),
        pytest.param(dra(), WHOLE, 3, SHORT, id="more than the slices offer"),
        pytest.param(node(index_of(TWO)), WHOLE, 1, SHORT, id="slices without a class serve no resource"),
        pytest.param(dra(claim("x", "gpu-0")), WHOLE, 2, SHORT, id="a claim holds one of two"),
        pytest.param(
            dra(allocatable=PLUGIN, report=REPORT), WHOLE, 2, None, id="both ways, and nothing is held"
        ),
        pytest.param(
            dra(claim("x", "gpu-0"), allocatable=PLUGIN, report=REPORT),
            WHOLE,
            1,
            TWICE,
            id="the plugin could hand out a claimed GPU",
        ),
        pytest.param(SEEN, IMPLICIT, 1, TWICE, id="a claim could get a GPU of the plugin's pod"),
        pytest.param(SEEN, WHOLE, 1, None, id="the plugin itself knows what it has handed out"),
        pytest.param(
            UNSEEN, IMPLICIT, 1, TWICE, id="a pod of the plugin whose GPU is not seen yet may have any"
        ),
        pytest.param(LATE, WHOLE, 1, None, id="a pod of DRA whose claim has not arrived takes one of two"),
        pytest.param(LATE, WHOLE, 2, SHORT, id="and leaves no two"),
        pytest.param(ARRIVED, WHOLE, 1, None, id="a pod and its claim count once"),
        pytest.param(
            node(index_of(GPU_CLASS, claim("x", "gpu-0")), PLUGIN, REPORT),
            WHOLE,
            1,
            TWICE,
            id="slices that are gone leave a claim behind whose GPU is unknown",
        ),
        pytest.param(
            node(index_of(GPU_CLASS, one_slice("node", [gpu(1)]), claim("x", "gpu-1")), {WHOLE: 1}, REPORT),
            WHOLE,
            1,
            TWICE,
            id="which GPU the plugin offers is unknown",
        ),
        pytest.param(
            node(index_of(GPU_CLASS, one_slice("node", [TAINTED, gpu(1)]))),
            WHOLE,
            2,
            SHORT,
            id="a tainted device is not handed out",
        ),
        pytest.param(
            dra(report=CORDONED_0), WHOLE, 1, SHORT, id="kube-scheduler could choose a cordoned GPU"
        ),
        pytest.param(
            node(
                index_of(MIG_CLASS, one_slice("node", [instance(0), instance(1)]), claim("x", "gpu-0-mig-0"))
            ),
            MIG,
            2,
            SHORT,
            id="no second MIG instance beside a claimed one",
        ),
    ],
)
def test_verdicts(on: Node, resource: str, count: int, expected: str | None) -> None:
    assert verdict(on, resource, count) == expected


BOTH: dict[str, Any] = {"allocatable": PLUGIN, "report": REPORT}
BY_DRA: dict[str, Any] = {**BOTH, "handed_out_by": "claims"}
BY_PLUGIN: dict[str, Any] = {**BOTH, "handed_out_by": "device plugin"}
CLAIMED = claim("x", "gpu-0")
PLUGIN_SEEN: dict[str, Any] = {"allocatable": PLUGIN, "report": HELD_BY_PLUGIN, "pods": [pod("a")]}
SHARE = GpuRequest(shares=ShareRequest((("main", 1000),)))
OF_SHARES: dict[str, Any] = {
    "allocatable": {ResourceNames().share: 160_000},
    "report": REPORT,
    "share_node": True,
}


@pytest.mark.parametrize(
    ("on", "open_to"),
    [
        pytest.param(dra(**BOTH), "plugin", id="nothing is held and no label says otherwise"),
        pytest.param(dra(**BY_DRA), "claim", id="the label says DRA"),
        pytest.param(dra(**BY_PLUGIN), "plugin", id="the label says device plugin"),
        pytest.param(dra(CLAIMED, **BOTH), "claim", id="a claim holds a GPU"),
        pytest.param(dra(CLAIMED, **BY_PLUGIN), "claim", id="a claim holds a GPU, whatever the label"),
        pytest.param(dra(**PLUGIN_SEEN), "plugin", id="a pod of the device plugin holds a GPU"),
        pytest.param(
            dra(**PLUGIN_SEEN, handed_out_by="claims"),
            "plugin",
            id="a pod of the device plugin holds a GPU, whatever the label",
        ),
        pytest.param(
            dra(claim("x", "gpu-1"), **PLUGIN_SEEN), "", id="pods hold GPUs both ways: one has to leave"
        ),
        pytest.param(
            dra(**{**BOTH, "report": CORDONED_1}),
            "",
            id="a cordon closes the plugin's node, and opens it to nobody",
        ),
        pytest.param(
            dra(report=REPORT, allocatable={WHOLE: 0}, capacity=PLUGIN),
            "",
            id="the plugin starts again, and the kubelet still counts its GPUs",
        ),
        pytest.param(
            dra(report=REPORT, allocatable={WHOLE: 0}, capacity={WHOLE: 0}), "claim", id="the plugin has gone"
        ),
        pytest.param(
            dra(report=REPORT, pods=[pod("a")]),
            "",
            id="the plugin has gone, its pod and the pod's GPU have not",
        ),
        pytest.param(dra(**OF_SHARES), "share", id="memory shares count as the device plugin's"),
        pytest.param(
            dra(**OF_SHARES, handed_out_by="claims"), "claim", id="a node of shares, by label for DRA"
        ),
        pytest.param(dra(CLAIMED, **OF_SHARES), "claim", id="a node of shares with a claim"),
    ],
)
def test_a_node_hands_out_its_gpus_in_one_way(on: Node, open_to: str) -> None:
    """Every pod gets the same answer, whichever asks first."""
    asked = {
        "claim": GpuRequest(units=(UnitRequest(IMPLICIT, 1, by_claim=True),), claims_judged=True),
        "plugin": GpuRequest(units=(UnitRequest(WHOLE, 1),)),
        "share": SHARE,
    }
    if on.info.by_claim(WHOLE):
        # The same as by the implicit name.
        del asked["plugin"]
    assert {way for way, request in asked.items() if answer(on, request) is None} == {open_to} - {""}


def test_a_claim_pod_that_was_promised_a_place_holds_its_node() -> None:
    nominated = replace(pod("a"), request=GpuRequest(units=(UnitRequest(IMPLICIT, 1),)))
    both = dra(**BOTH)
    seen = with_nominated_pods(replace(both.info, nominated=(nominated,)), "other", 0)
    assert verdict(resolve(seen, ResourceNames(), 0), WHOLE) == TWICE
    alone = with_nominated_pods(replace(dra().info, nominated=(nominated,)), "other", 0)
    assert verdict(resolve(alone, ResourceNames(), 0), WHOLE, 2) == SHORT


@pytest.mark.parametrize(
    ("on", "resource", "sentence"),
    [
        (dra(CLAIMED, **BOTH), WHOLE, "has some held through claims"),
        (dra(**PLUGIN_SEEN), IMPLICIT, "has some held through the device plugin"),
        (
            dra(**BOTH),
            IMPLICIT,
            "has no label gpu.scheduler-ext.io/handed-out-by: the device plugin hands them out",
        ),
        (dra(**BY_DRA), WHOLE, "by its label claims hand them out"),
    ],
)
def test_the_sentence_says_what_decided(on: Node, resource: str, sentence: str) -> None:
    filter_ = DoubleAllocation()
    view = View(GpuRequest(units=(UnitRequest(resource, 1),)), build_snapshot({"node": on}, 1))
    start = "node offers the same GPUs through device plugin and DRA, and "
    assert filter_.sentence(filter_.miss(view, on), on) == start + sentence


def test_claims_are_counted_by_kube_scheduler() -> None:
    full = dra(claim("x", "gpu-0"), claim("y", "gpu-1"))
    assert verdict(full, IMPLICIT, 1) == SHORT
    assert verdict(full, IMPLICIT, 1, judged=True) is None
    assert verdict(node(index_of(GPU_CLASS)), IMPLICIT, 1, judged=True) is None, (
        "no slice is known here (yet)"
    )


def test_a_claim_does_not_get_a_cordoned_gpu() -> None:
    cordoned = dra(report=CORDONED_0)
    assert verdict(cordoned, IMPLICIT, 1, judged=True) == SHORT
    taken = dra(claim("x", "gpu-0"), report=CORDONED_0)
    assert verdict(taken, IMPLICIT, 1, judged=True) is None


def test_devices_that_cannot_be_counted_are_left_to_kube_scheduler() -> None:
    fabric = one_slice(None, [gpu(5)], name="fabric")
    assert verdict(node(index_of(GPU_CLASS, TWO, fabric)), WHOLE, 9) is None


def test_a_gpu_counts_once_by_uuid_and_by_pci_bus_id() -> None:
    report = Report((device(0), device(1, uuid="GPU-other", pci_bus_id="00000000:01:00.0")))
    both = dra(report=report)
    assert both.uuids == ("GPU-0", "GPU-other")
    assert verdict(both, WHOLE, 2) is None
    more = dra(report=Report((device(0),)))
    assert sorted(map(str, more.uuids)) == ["GPU-0", "GPU-1"], "a GPU that only slices list"
    assert [each.index for each in more.info.devices] == [0, 1]


def test_slices_alone_describe_the_gpus() -> None:
    on = dra()
    assert on.info.report is not None
    (slot, _) = on.state.slots
    assert (slot.model.name, slot.total_mib, slot.compute_capability) == ("H100-80GB", 81559, 9_000_000)
    assert (on.info.report.from_slices, on.state.cuda) == (True, 13_000_000)


def planned(name: str, profile: str | None, memory: str, amount: int) -> PublishedDevice:
    """A GPU of seven parts, or a partition of it that a claim would create."""
    kind: dict[str, Attribute] = {"type": "mig", "profile": profile} if profile else {"type": "gpu"}
    facts = DeviceFacts("gpu.nvidia.com", kind | {"parentUUID": "GPU-0"}, {"memory": memory})
    return PublishedDevice(name, facts, (Consumption("set", "slices", amount),))


@pytest.mark.parametrize(
    ("held", "resource", "free"),
    [
        pytest.param((), WHOLE, 1, id="the whole GPU while no partition is held"),
        pytest.param((), MIG, 2, id="partitions share the counters of their GPU: 4 and 3 of 7"),
        pytest.param(("half",), WHOLE, 0, id="a partition closes the whole GPU"),
        pytest.param(("half",), MIG, 1, id="three of seven parts are left"),
        pytest.param(("gpu-0",), MIG, 0, id="the whole GPU closes its partitions"),
    ],
)
def test_partitions_that_claims_create(held: tuple[str, ...], resource: str, free: int) -> None:
    devices = [
        planned("gpu-0", None, "80Gi", 7),
        planned("half", "4g.40gb", "40Gi", 4),
        planned("third", "3g.40gb", "40Gi", 3),
        planned("other", "3g.40gb", "40Gi", 3),
    ]
    item = replace(one_slice("node", devices), counters={("set", "slices"): 7})
    claims = [claim(name, name) for name in held]
    on = node(index_of(GPU_CLASS, MIG_CLASS, item, *claims))
    assert verdict(on, resource, free + 1) == SHORT
    assert not free or verdict(on, resource, free) is None


def partible(index: int, **facts: object) -> PublishedDevice:
    """A GPU of 80 GiB that several claims may share."""
    plain = gpu(index, memory="80Gi")
    return replace(plain, facts=replace(plain.facts, allow_multiple_allocations=True, **facts))  # type: ignore[arg-type]


def part(name: str, memory: str) -> Claim:
    """A claim that holds so much of the first GPU."""
    one = claim(name, "gpu-0")
    (held,) = one.devices or ()
    return replace(one, devices=(replace(held, consumed=amounts({"memory": memory})),))


def test_a_part_of_a_shared_device_is_as_large_as_it_was_asked() -> None:
    quarter = DeviceRequirements("gpu.nvidia.com", capacity=(("memory", "20Gi"),))
    index = index_of(GPU_CLASS, one_slice("node", [partible(0)]), waiting("next", quarter))
    ((slot,), name) = node(index).state.slots, index.resource_of(quarter)
    (unit,) = (unit for unit in slot.units if unit.resource == name)
    assert (unit.free, unit.memory_mib, unit.gpu_part) == (4, 20480, 0.25)
    (whole,) = (unit for unit in slot.units if unit.resource == WHOLE)
    assert (whole.free, whole.memory_mib, whole.gpu_part) == (1, 81920, 1.0)


OURS = Taint("gpu.scheduler-ext.io/unhealthy", "", "NoSchedule")
UNHEALTHY = "node(s) had unhealthy GPUs"


def two(first: PublishedDevice, second: PublishedDevice) -> DeviceIndex:
    return index_of(GPU_CLASS, one_slice("node", [first, second]))


def tainted(index: int) -> PublishedDevice:
    return replace(gpu(index), taints=(OURS,))


def shared(index: int) -> PublishedDevice:
    return partible(index, capacity={})


@pytest.mark.parametrize("judged", [False, True], ids=["counted here", "counted by kube-scheduler"])
@pytest.mark.parametrize(
    ("index", "report", "count", "expected"),
    [
        pytest.param(
            two(gpu(0), gpu(1)), SICK_0, 1, UNHEALTHY, id="kube-scheduler would choose the sick one"
        ),
        pytest.param(two(gpu(0), gpu(1)), SICK_1, 1, None, id="the sick one is not chosen yet"),
        pytest.param(two(gpu(0), gpu(1)), SICK_1, 2, UNHEALTHY, id="the sick one is needed"),
        pytest.param(two(tainted(0), gpu(1)), SICK_0, 1, None, id="a taint keeps kube-scheduler from it"),
        pytest.param(two(gpu(0), gpu(1)), CORDONED_1, 1, SHORT, id="a cordoned one closes its node"),
        pytest.param(two(gpu(0), tainted(1)), CORDONED_1, 1, None, id="unless it is tainted"),
        pytest.param(
            two(shared(0), shared(1)),
            SICK_1,
            2,
            UNHEALTHY,
            id="two parts are of two GPUs, the second one is sick",
        ),
    ],
)
def test_sick_and_cordoned_gpus_of_dra(
    index: DeviceIndex, report: Report, count: int, expected: str | None, judged: bool
) -> None:
    assert verdict(node(index, report=report), IMPLICIT, count, judged=judged) == expected


def test_a_tainted_sick_gpu_is_the_reason_where_it_is_needed() -> None:
    assert verdict(node(two(tainted(0), gpu(1)), report=SICK_0), IMPLICIT, 2) == UNHEALTHY


TEN_GI = 10 * 2**30 * 1000
DEFAULT = RequestPolicy(default=TEN_GI, minimum=TEN_GI, step=TEN_GI)


@pytest.mark.parametrize(
    ("held", "policy", "asked", "free"),
    [
        pytest.param(None, None, "20Gi", 4, id="four parts of an empty GPU"),
        pytest.param("30Gi", None, "20Gi", 2, id="two beside a claim of 30 of 80 GiB"),
        pytest.param("10Gi", DEFAULT, None, 7, id="claims without a request take the default"),
        pytest.param("10Gi", None, None, 0, id="without a default they take all, and some is held"),
        pytest.param("10Gi", DEFAULT, "15Gi", 3, id="requests are rounded up"),
        pytest.param("10Gi", None, "200Gi", 0, id="more than a shared GPU has"),
    ],
)
def test_claims_that_share_a_gpu(
    held: str | None, policy: RequestPolicy | None, asked: str | None, free: int
) -> None:
    device_ = replace(partible(0), policies={} if policy is None else {"memory": policy})
    ask = DeviceRequirements("gpu.nvidia.com", capacity=(("memory", asked),) if asked else ())
    index = index_of(GPU_CLASS, one_slice("node", [device_]), waiting("next", ask))
    if held:
        index.update_claim(part("c", held))
    name = index.resource_of(ask)
    assert name is not None
    assert verdict(node(index), name, free + 1) == SHORT
    assert not free or verdict(node(index), name, free) is None


def test_gpus_without_capacity_are_shared_without_limit() -> None:
    on = node(index_of(GPU_CLASS, one_slice("node", [shared(i) for i in range(4)])))
    assert verdict(on, WHOLE, 4) is None


@pytest.mark.parametrize(
    ("index", "report"),
    [
        pytest.param(two(tainted(0), gpu(1)), SICK_0, id="a sick GPU"),
        pytest.param(
            two(replace(gpu(0), taints=(Taint("gpu.scheduler-ext.io/cordoned", "", "NoSchedule"),)), gpu(1)),
            CORDONED_0,
            id="a cordoned GPU",
        ),
    ],
)
def test_a_claim_that_tolerates_the_taint_gets_the_gpu(index: DeviceIndex, report: Report) -> None:
    """As a diagnosis asks for it."""
    tolerant = DeviceRequirements("gpu.nvidia.com", tolerations=(Toleration("", "Exists", "", ""),))
    index.update_claim(waiting("diagnosis", tolerant))
    index.settle()
    name = index.resource_of(tolerant)
    assert name is not None
    assert verdict(node(index, report=report), name, judged=True) is None
    assert verdict(node(index, report=report), IMPLICIT, judged=True) is None


def test_claims_that_share_a_device_share_its_counters() -> None:
    """kube-scheduler counts them once for a device, not for each of its claims."""
    counted = replace(partible(0), consumes=(Consumption("gpu-0", "memory", 80),))
    item = replace(one_slice("node", [counted, gpu(1)]), counters={("gpu-0", "memory"): 80})
    ask = DeviceRequirements("gpu.nvidia.com", capacity=(("memory", "10Gi"),))
    index = index_of(GPU_CLASS, item, waiting("next", ask), part("c", "10Gi"))
    name = index.resource_of(ask)
    assert name is not None
    assert verdict(node(index, report=SICK_1), name, judged=True) is None
    assert verdict(node(index), name, 8) is None


@pytest.mark.parametrize(("every", "expected"), [(False, None), (True, UNHEALTHY)])
def test_a_number_that_depends_on_the_node(every: bool, expected: str | None) -> None:
    ask = UnitRequest(IMPLICIT, 0, by_claim=True, every=every)
    snapshot = build_snapshot({"node": node(two(gpu(0), gpu(1)), report=SICK_1)}, 1)
    decision = filter_nodes(GpuRequest(units=(ask,), claims_judged=True), snapshot, SchedulingPolicy())
    code = int(decision.verdict[snapshot.state_at("node")])
    assert (None if code == FITS else REASONS[code - 1].text) == expected
