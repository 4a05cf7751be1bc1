"""Idle pods, by the readings of their GPUs: an oracle that knows the GPUs of each pod, and single cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from scheduler_ext.core.gpu.gpu import Device, Holder
from scheduler_ext.core.gpu.readings import HolderReadings, InstanceReadings, Readings
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.node.pod_facts import PodFacts
from scheduler_ext.core.request.request import GpuRequest, ShareRequest, UnitRequest
from scheduler_ext.features.idle.idle import NOT_IDLE, Idleness, idleness, parts_of
from scheduler_ext.wire.objects import assemble, read_objects
from tests.core.asked import labelled
from tests.core.reported import NAMES, ONE_G, SHARE, WHOLE, bound, device, node, sliced, wants
from tests.dra_objects import device_class, gpu_device, resource_claim, resource_slice
from tests.kube_objects import gpu, gpu_node, inventory
from tests.kube_objects import node as kube_node

NOW = 1_000_000.0
AFTER_S = 1800
# Around the limit, and far from it.
TIMES = (0, 1799, 1800, 90_000)


def judged(info: NodeInfo, readings: Sequence[Readings], **ran_s: float | None) -> Idleness:
    """The idle pods of a node whose pods, by name, ran for so long."""
    facts = {
        f"uid-{name}": PodFacts(running_since=None if each is None else NOW - each)
        for name, each in ran_s.items()
    }
    return idleness(info, readings, facts, NOW, AFTER_S)


def names(found: Idleness) -> list[str]:
    return [each.pod.name for each in found.pods]


# The law


@dataclass
class Truth:
    """A pod, the places that it holds, when it last computed on each, and for how long it has run. `hidden`:
    the agent did not see one of its places."""

    name: str
    ran_s: int | None
    hidden: bool = False
    idle_s: list[int | None] = field(default_factory=list)
    gpus: list[str] = field(default_factory=list)
    units: int = 0
    instances: int = 0
    share_on: tuple[str, ...] = ()

    @property
    def uid(self) -> str:
        return f"uid-{self.name}"

    @property
    def is_unknown(self) -> bool:
        return bool(self.idle_s) and self.ran_s is not None and (self.hidden or None in self.idle_s)

    @property
    def is_idle(self) -> bool:
        return (
            bool(self.idle_s)
            and not self.hidden
            and self.ran_s is not None
            and min([self.ran_s, *(-1 if each is None else each for each in self.idle_s)]) >= AFTER_S
        )


_time = st.sampled_from((None, *TIMES))
# The clock of a node may be ahead.
_ran = st.sampled_from((None, -3600, *TIMES))


@st.composite
def nodes(draw: DrawFn) -> tuple[NodeInfo, list[Readings], list[Truth]]:
    """A node whose GPUs are held whole, in MIG instances, or in shares."""
    pods = [Truth(name, draw(_ran)) for name in ("a", "b", "c")]
    devices, readings = [], []
    for index in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from((_whole, _partitioned, _shared)))
        built, did = kind(draw, index, pods)
        devices.append(built)
        readings.append(did)
    return node(*devices, pods=tuple(map(_bound, pods))), readings, pods


def _whole(draw: DrawFn, index: int, pods: list[Truth]) -> tuple[Device, Readings]:
    """Held by a pod or by none; the agent may see what the pod's own processes do, and other users."""
    pod = draw(st.sampled_from((None, *pods)))
    own, of_gpu = draw(_time), draw(_time)
    holders: list[HolderReadings] = []
    held: tuple[Holder, ...] = ()
    if pod is not None:
        pod.units += 1
        pod.gpus.append(f"GPU-{index}")
        pod.idle_s.append(of_gpu if own is None else own)
        if draw(st.sampled_from((False, False, False, True))):
            pod.hidden = True
        else:
            held = (Holder(uid=pod.uid, container="main"),)
            other = HolderReadings(Holder(uid="uid-stranger"), None, draw(_time), None)
            holders = [HolderReadings(held[0], None, own, 5), other]
    return device(index, holders=held), Readings(f"GPU-{index}", idle_s=of_gpu, holders=tuple(holders))


def _partitioned(draw: DrawFn, index: int, pods: list[Truth]) -> tuple[Device, Readings]:
    """Instances know when they last computed. Of those that do not, a GPU knows that computed nothing."""
    of_gpu = draw(_time)
    rest = of_gpu if of_gpu is not None and of_gpu >= AFTER_S else None
    owners = [draw(st.sampled_from((None, *pods))) for _ in range(3)]
    holders, instances = {}, []
    for start, pod in enumerate(owners):
        idle_s = draw(_time)
        if pod is not None:
            holders[start] = Holder(uid=pod.uid)
            pod.instances += 1
            pod.gpus.append(f"GPU-{index}")
            pod.idle_s.append(rest if idle_s is None else idle_s)
        instances.append(InstanceReadings(f"MIG-{index}-{start}", 50, idle_s))
    mig = sliced(*(("1g.10gb", start) for start in range(3)), holders=holders)
    mig = replace(
        mig, instances=tuple(replace(each, uuid=f"MIG-{index}-{each.start}") for each in mig.instances)
    )
    return device(index, mig=mig), Readings(f"GPU-{index}", idle_s=of_gpu, instances=tuple(instances))


def _shared(draw: DrawFn, index: int, pods: list[Truth]) -> tuple[Device, Readings]:
    """A share for one or two pods that have none yet."""
    of_gpu = draw(_time)
    free = [pod for pod in pods if not pod.share_on]
    holders = []
    for pod in free[: draw(st.integers(0, 2))]:
        own = draw(_time)
        pod.share_on = (f"GPU-{index}",)
        pod.gpus.append(f"GPU-{index}")
        pod.idle_s.append(of_gpu if own is None else own)
        if own is not None:
            holders.append(HolderReadings(Holder(uid=pod.uid), None, own, None))
    return device(index), Readings(f"GPU-{index}", idle_s=of_gpu, holders=tuple(holders))


def _bound(truth: Truth) -> BoundPod:
    units = []
    if truth.units:
        units.append(UnitRequest(WHOLE, truth.units))
    if truth.instances:
        units.append(UnitRequest(ONE_G, truth.instances, "1g.10gb"))
    shares = ShareRequest((("share", 4096),)) if truth.share_on else None
    told = {"share": truth.share_on} if truth.share_on else {}
    return BoundPod(truth.uid, "ns", truth.name, 0, GpuRequest(tuple(units), shares), told)


def _with_pods(info: NodeInfo, **state: Any) -> NodeInfo:
    """The node where all its pods are in this state."""
    return replace(info, pods=tuple(replace(pod, **state) for pod in info.pods))


@given(nodes())
def test_a_pod_is_idle_if_all_that_it_holds_is(drawn: tuple[NodeInfo, list[Readings], list[Truth]]) -> None:
    """And a GPU if every pod on it leaves it so."""
    info, readings, truths = drawn
    ran_s = {each.name: each.ran_s for each in truths}
    found = judged(info, readings, **ran_s)
    expected = {each.name for each in truths if each.is_idle}
    assert set(names(found)) == expected
    unknown = {each.name for each in truths if each.is_unknown}
    assert {each.name for each in found.unknown} == unknown
    for each in found.pods:
        (truth,) = [truth for truth in truths if truth.name == each.pod.name]
        assert truth.ran_s is not None
        assert each.idle_s == min(truth.ran_s, *(idle for idle in truth.idle_s if idle is not None))
    for freshness in ("Stale", "Missing"):
        stale = judged(replace(info, freshness=freshness), readings, **ran_s)
        assert {each.name for each in stale.unknown} == unknown | expected
        assert (stale.pods, stale.gpus) == ((), frozenset())

    on: dict[str, list[tuple[int | None, int]]] = {}
    for truth in truths:
        if truth.hidden:
            continue
        for uuid, idle_s in zip(truth.gpus, truth.idle_s, strict=True):
            on.setdefault(uuid, []).append((idle_s, truth.ran_s or 0))
    known = {uuid for uuid, each in on.items() if all(idle_s is not None for idle_s, _ in each)}
    assert found.known == known
    assert found.gpus == {
        uuid
        for uuid in known
        if all(min(idle_s, ran_s) >= AFTER_S for idle_s, ran_s in on[uuid] if idle_s is not None)
    }
    not_bound = replace(info, assumed=frozenset(each.uid for each in truths))
    for leaving in (not_bound, _with_pods(info, terminating=True)):
        there = judged(leaving, readings, **ran_s)
        assert (there.pods, there.gpus) == ((), found.gpus)
    for gone in (_with_pods(info, finished=True), _with_pods(info, departed=True)):
        assert judged(gone, readings, **ran_s) == NOT_IDLE


# Single cases


def whole(name: str = "p", gpus: int = 1) -> BoundPod:
    return bound(name, wants(gpus, WHOLE))


def held_by(name: str) -> tuple[Holder, ...]:
    return (Holder(namespace="ns", name=name),)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param([("weights", ["gpu-0"])], ["train"], id="a claim for an idle GPU"),
        pytest.param([("weights", ["gpu-0"]), ("more", ["gpu-1"])], [], id="a second claim for a busy GPU"),
        pytest.param([("weights", ["gpu-0", "gpu-9"])], [], id="a claim for a GPU that no slice lists"),
    ],
)
def test_claims(claims: list[tuple[str, list[str]]], expected: list[str]) -> None:
    published = resource_slice("n", [gpu_device(0), gpu_device(1)])
    objects = [resource_claim(name, on="n", devices=gpus, pod="train") for name, gpus in claims]
    report = gpu_node("n", [gpu(0, "GPU-0"), gpu(1, "GPU-1")])
    text = inventory(kube_node("n", {}), device_class(), published, report, *objects)
    (info,) = assemble(read_objects(text), NAMES).values()
    found = judged(info, [Readings("GPU-0", idle_s=9000), Readings("GPU-1", idle_s=0)], train=9000)
    assert names(found) == expected


def test_of_a_node_without_an_agent_nothing_is_known() -> None:
    """Only pods that run count."""
    found = judged(replace(labelled("NVIDIA-L4"), pods=(whole("p"), whole("new"))), [], p=9000)
    assert (names(found), [each.name for each in found.unknown]) == ([], ["p"])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, 2 * 2.0, id="by the configuration"),
        pytest.param({"value": 1.5}, 2 * 1.5, id="by the node's label first"),
        pytest.param({"fraction": 4}, 2 * 0.5, id="a fraction of it for fractions"),
        pytest.param({"value": 1.5, "fraction": 4}, 2 * 1.5, id="of which a label states the value"),
    ],
)
def test_the_value_of_what_it_wastes(fields: dict[str, Any], expected: float) -> None:
    devices = (device(i, holders=held_by("p")) for i in range(2))
    info = node(*devices, pods=(whole(gpus=2),), **fields)
    readings = [Readings("GPU-0", idle_s=9000), Readings("GPU-1", idle_s=9000)]
    (idle,) = judged(info, readings, p=9000).pods
    assert idle.value_per_hour(info, {"A100-80GB": 2.0}) == pytest.approx(expected)


SLICES = {"sharing_strategy": "time-slicing", "replicas": 4}
INSTANCES = sliced(("1g.10gb", 0), ("3g.40gb", 4), holders={0: Holder(uid="uid-p")})
SHARE_POD = bound("p", wants(8192, SHARE), devices={"main": ("GPU-0",)})


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        pytest.param(
            node(device(0, mig=INSTANCES), pods=(bound("p", wants(1, ONE_G)),)),
            ("MIG-0", 0.2),
            id="an instance as its part of the instances",
        ),
        pytest.param(
            node(device(0, holders=held_by("p")), pods=(whole(),), report=SLICES),
            ("GPU-0", 0.25),
            id="a replica as one of four",
        ),
        pytest.param(node(device(0), pods=(SHARE_POD,)), ("GPU-0", 0.1), id="a share as its part of it"),
        pytest.param(
            node(device(0, holders=held_by("p")), pods=(whole(),), fraction=8),
            ("GPU-0", 0.125),
            id="a fraction by the cloud as that",
        ),
        pytest.param(
            node(device(0, holders=held_by("p")), pods=(whole(),), fraction=0),
            ("GPU-0", 1.0),
            id="one of unknown size as a GPU, which it costs",
        ),
    ],
)
def test_a_part_of_a_gpu_counts_as_that(info: NodeInfo, expected: tuple[str, float]) -> None:
    (part,) = parts_of(info.pods[0], info) or ()
    assert (part.uuid, part.gpus) == expected
