"""The meaning of slices, classes and claims for each node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler_ext.core.cache.device_index import DeviceIndex
from scheduler_ext.core.dra import device_names
from scheduler_ext.core.dra.device import NodeDevices
from scheduler_ext.core.dra.device_names import MOST_ASKS, class_resource
from scheduler_ext.core.dra.known_claims import ClaimRequest
from scheduler_ext.core.dra.published import DeviceClass, DeviceRequirements, ResourceSlice, TaintRule
from scheduler_ext.core.intree.affinity import Taint
from scheduler_ext.core.request.request import UnitRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.dra.device_selector import DeviceSelector
from tests.core.dra.published import (
    DRIVER,
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

SICK = Taint("example.com/sick", "", "NoSchedule")
H100 = DeviceRequirements(
    DRIVER, ("device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'",)
)


def on_node(index: DeviceIndex) -> NodeDevices:
    devices = index.node("node")
    assert devices is not None
    return devices


def part(index: int, **fields: Any) -> ResourceSlice:
    """A slice of one GPU."""
    return one_slice("node", [gpu(index)], **fields)


@pytest.mark.parametrize(
    ("slices", "names"),
    [
        pytest.param(
            [part(0, name="a", slices=2), part(1, name="b", slices=2)],
            ["gpu-0", "gpu-1"],
            id="a pool of two slices with both of them",
        ),
        pytest.param([part(0, slices=2)], [], id="a pool that is half published offers nothing"),
        pytest.param([part(0), part(1, generation=2)], ["gpu-1"], id="only the newest generation counts"),
        pytest.param(
            [part(0), part(1, generation=2, slices=2)],
            [],
            id="an older complete generation does not stand in for a newer one that is half published",
        ),
        pytest.param(
            [part(0, name="a", slices=2), part(0, name="b", slices=2)],
            [],
            id="a pool with two devices of one name is invalid",
        ),
    ],
)
def test_devices_of_a_node(slices: list[ResourceSlice], names: list[str]) -> None:
    devices = index_of(GPU_CLASS, *slices).node("node")
    assert [device.id.name for device in (devices.devices if devices else ())] == names


def test_a_generation_that_goes_back_counts_when_the_newer_one_is_gone() -> None:
    index = index_of(GPU_CLASS, part(0, generation=7))
    index.update_slice(part(1, generation=1))
    assert index.remove_slice("node-7") == {"node"}
    assert [device.id.name for device in on_node(index).devices] == ["gpu-1"]


def test_names_under_which_a_device_is_asked() -> None:
    index = index_of(GPU_CLASS, MIG_CLASS, one_slice("node", [gpu(0), instance(0, parent=1)]))
    devices = on_node(index)
    whole, part = devices.devices
    assert whole.resources == {WHOLE, IMPLICIT}
    assert part.resources == {"deviceclass.resource.kubernetes.io/mig.nvidia.com"}
    assert (part.gpu, part.profile, part.memory_mib) == ("GPU-1", "1g.10gb", 9728)
    assert (devices.driver_version, devices.cuda_version) == ("580.95.5", (13, 0))


def test_of_two_classes_with_one_extended_resource_the_newest_serves_it() -> None:
    index = index_of(
        replace(GPU_CLASS, created_at=1.0),
        DeviceClass("newer", ("device.driver == 'nic.example.com'",), WHOLE, created_at=2.0),
        part(0),
    )
    assert on_node(index).devices[0].resources == {IMPLICIT}
    assert index.remove_class("newer") == {"node"}
    assert WHOLE in on_node(index).devices[0].resources


def test_what_a_selector_cannot_decide_may_be_admitted() -> None:
    index = index_of(DeviceClass("gpu.nvidia.com", ("device.future == 1",), WHOLE), part(0))
    assert WHOLE in on_node(index).devices[0].resources
    assert "selectors[0]" in index.problems()[WHOLE]


def names_of(index: DeviceIndex) -> list[frozenset[str]]:
    return [device.resources for device in on_node(index).devices]


def test_requirements_of_a_waiting_claim_have_a_name_of_their_own() -> None:
    index = index_of(GPU_CLASS, one_slice("node", [gpu(0), gpu(1, "NVIDIA L4")]))
    index.update_claim(waiting("h100", H100))
    assert index.take_renamed(10) == ["node"]
    assert [class_resource(H100) in names for names in names_of(index)] == [True, False]
    index.update_claim(waiting("second", H100))
    assert index.take_renamed(10) == [], "nothing is answered again"


def test_a_name_is_used_when_every_node_knows_it() -> None:
    slices = [one_slice(name, [gpu(0)]) for name in ("a", "b", "c")]
    index = index_of(GPU_CLASS, *slices)
    assert index.node("b") is not None
    index.update_claim(waiting("h100", H100))
    of_class = (UnitRequest(IMPLICIT, 1, by_claim=True),)
    beyond = ("requirements beyond the DeviceClass of ResourceClaim default/h100",)
    assert index.claim_request("default", ["h100"]) == ClaimRequest(of_class, beyond)
    assert index.take_renamed(1, read=["b"]) == ["a"]
    assert index.take_renamed(1) == ["c"]
    assert index.claim_request("default", ["h100"]).units == of_class, "c may still be on its way"
    assert index.take_renamed(1) == []
    assert not index.is_renaming
    assert index.claim_request("default", ["h100"]) == ClaimRequest(
        (UnitRequest(class_resource(H100), 1, by_claim=True),)
    )


def test_names_stay_while_there_is_room_for_them() -> None:
    index = index_of(GPU_CLASS, part(0), waiting("h100", H100))
    index.settle()
    index.remove_claim("uid-h100")
    index.update_claim(waiting("other", DeviceRequirements(DRIVER, ("device.attributes['x'].n == 1",))))
    index.settle()
    index.update_claim(waiting("h100", H100))
    assert index.take_renamed(10) == [], "pods of two templates that take turns"
    index.update_class(replace(GPU_CLASS, extended_resource=None))
    assert class_resource(H100) in names_of(index)[0]


def test_claims_with_too_many_different_requirements_count_as_those_of_their_class() -> None:
    index = index_of(GPU_CLASS, part(0))
    asks = [DeviceRequirements(DRIVER, (f"device.attributes['x'].n == {i}",)) for i in range(MOST_ASKS + 1)]
    for i, ask in enumerate(asks):
        index.update_claim(waiting(f"c{i}", ask))
    index.settle()
    names_of(index)
    assert [index.resource_of(ask) == class_resource(ask) for ask in asks] == [*[True] * MOST_ASKS, False]
    assert index.resource_of(asks[-1]) == IMPLICIT
    index.remove_claim("uid-c0")
    index.update_claim(waiting("again", asks[-1]))
    index.settle()
    assert index.resource_of(asks[-1]) == class_resource(asks[-1]), "a claim that is gone makes room"


def test_requirements_have_fewer_names_where_there_are_many_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_names, "MOST_ANSWERS", 8)
    asks = [DeviceRequirements(DRIVER, (f"device.attributes['x'].n == {i}",)) for i in range(3)]
    claims = [waiting(f"c{i}", ask) for i, ask in enumerate(asks)]
    index = index_of(GPU_CLASS, one_slice("node", [gpu(i) for i in range(4)]), *claims)
    index.settle()
    names_of(index)
    assert [index.resource_of(ask) == class_resource(ask) for ask in asks] == [True, True, False]


def test_a_claim_that_changes_keeps_its_gpu_when_slices_are_gone() -> None:
    index = index_of(GPU_CLASS, part(0), claim("train", "gpu-0"))
    index.remove_slice("node-1")
    index.update_claim(replace(claim("train", "gpu-0"), pods=()))
    assert [device.gpu for device in on_node(index).devices] == ["GPU-0"]


def test_a_claim_that_comes_before_its_slice() -> None:
    without_node = replace(claim("train", "gpu-0"), node=None)
    index = index_of(GPU_CLASS, without_node)
    assert index.claims_on("node") == ()
    assert index.update_slice(part(0)) == {"node"}
    assert index.claims_on("node") == (without_node,)


def test_devices_that_several_nodes_reach_cannot_be_counted() -> None:
    index = DeviceIndex(DeviceSelector, ResourceNames(), lambda: ("node", "other"))
    index.update_slice(part(0))
    nic = replace(gpu(1), facts=replace(gpu(1).facts, driver="nic.example.com"))
    fabric = replace(one_slice(None, [nic], name="fabric"), driver="nic.example.com")
    assert index.update_slice(fabric) == set(), "no GPU, as far as classes say"
    nic_class = DeviceClass("fabric-gpu", ("device.driver == 'nic.example.com'",), WHOLE)
    assert index.update_class(nic_class) == {"node", "other"}
    for name in ("node", "other"):
        devices = index.node(name)
        assert devices is not None
        assert WHOLE in devices.open
    assert index.remove_slice("fabric") == {"node", "other"}
    assert index.node("other") is None


@pytest.mark.parametrize(
    ("rule", "tainted"),
    [
        pytest.param(TaintRule("r", SICK, DRIVER, "node", "gpu-0"), ["gpu-0"], id="one device"),
        pytest.param(TaintRule("r", SICK, DRIVER, "node"), ["gpu-0", "gpu-1"], id="a pool"),
        pytest.param(TaintRule("r", SICK, "gpu.amd.com"), [], id="another driver's"),
        pytest.param(TaintRule("r", SICK, is_empty=True), [], id="none, without a selector"),
    ],
)
def test_devices_that_a_rule_taints(rule: TaintRule, tainted: list[str]) -> None:
    index = index_of(GPU_CLASS, one_slice("node", [gpu(0), gpu(1)]))

    def found() -> list[str]:
        devices = on_node(index)
        return [device.id.name for device in devices.devices if SICK in device.taints]

    assert found() == []
    index.update_rule(rule)
    assert found() == tainted
    assert index.update_rule(rule) == set()
    index.update_rule(replace(rule, is_empty=True))
    assert found() == []
    index.update_rule(rule)
    index.remove_rule("r")
    assert found() == []


def test_a_claim_keeps_its_gpu_while_a_pool_is_half_published() -> None:
    index = index_of(GPU_CLASS, part(0), claim("train", "gpu-0"))
    index.update_slice(part(0, name="node-1", generation=2, slices=2))
    assert [(device.gpu, device.resources) for device in on_node(index).devices] == [("GPU-0", frozenset())]


_IS_NIC = ("device.driver == 'nic.example.com'",)


@pytest.mark.parametrize(
    ("classes", "configured", "is_gpu"),
    [
        pytest.param([DeviceClass("nics", _IS_NIC)], (), False, id="a class of NICs"),
        pytest.param(
            [DeviceClass("nics", _IS_NIC, "example.com/nic")], (), False, id="a class with a resource of NICs"
        ),
        pytest.param(
            [DeviceClass("gpus", _IS_NIC, "amd.com/gpu")], (), True, id="a class with a resource of GPUs"
        ),
        pytest.param([DeviceClass("gpus", _IS_NIC)], ("gpus",), True, id="a class that is configured"),
    ],
)
def test_devices_of_other_drivers(
    classes: list[DeviceClass], configured: tuple[str, ...], is_gpu: bool
) -> None:
    nic = replace(gpu(0), facts=replace(gpu(0).facts, driver="nic.example.com"))
    index = DeviceIndex(DeviceSelector, ResourceNames(device_classes=configured))
    for each in (GPU_CLASS, *classes):
        index.update_class(each)
    index.update_slice(replace(one_slice("node", [nic]), driver="nic.example.com"))
    assert (index.node("node") is not None) == is_gpu
