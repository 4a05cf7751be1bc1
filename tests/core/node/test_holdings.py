"""Holders on a node: pods matched with the agent's observations, and the unknown rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.gpu.gpu import Device, Holder
from scheduler_ext.core.node.holdings import Holdings, holdings_of
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.request.request import ContainerAsk, Role
from tests.core.reported import NAMES, ONE_G, SHARE, WHOLE, bound, device, node, sliced, wants

BY_UID = Holder(uid="uid-a")
BY_NAME = Holder(namespace="ns", name="a")


def held_on(*devices: Device, pods: tuple[BoundPod, ...] = (), mig_strategy: str = "none") -> Holdings:
    return holdings_of(node(*devices, pods=pods, report={"mig_strategy": mig_strategy}), NAMES)


def units(held: Holdings) -> list[int]:
    return [device.units for device in held.devices.values()]


def promised(held: Holdings) -> list[int]:
    return [device.requested_mib for device in held.devices.values()]


def foreign(held: Holdings) -> list[int]:
    return [device.foreign_mib for device in held.devices.values()]


@pytest.mark.parametrize(
    "holder",
    [
        pytest.param(BY_NAME, id="by namespace and name"),
        pytest.param(
            Holder(uid="uid-a", namespace="old", name="renamed"), id="the uid decides where both stand"
        ),
    ],
)
def test_a_pod_is_found_on_the_device_the_agent_saw_it_on(holder: Holder) -> None:
    held = held_on(device(0), device(1, holders=(holder,)), pods=(bound("a", wants(1, WHOLE)),))
    assert units(held) == [0, 1]
    assert promised(held) == [0, 0]
    assert held.unknown[WHOLE] == 0
    assert held.requested[WHOLE] == 1


@pytest.mark.parametrize(
    ("holder", "unmatched_units", "unmatched_mib"),
    [
        pytest.param(
            Holder(uid="uid-z", namespace="ns", name="a"), 1, 0, id="the name of a pod, but not its uid"
        ),
        pytest.param(Holder(uid="uid-z", memory_mib=700), 0, 700, id="another uid that uses memory only"),
    ],
)
def test_a_holder_that_is_no_known_pod_holds_what_the_agent_saw(
    holder: Holder, unmatched_units: int, unmatched_mib: int
) -> None:
    held = held_on(device(0, holders=(holder,)), pods=(bound("a", wants(1, WHOLE)),))
    assert units(held) == [unmatched_units]
    assert promised(held) == [0]
    assert foreign(held) == [unmatched_mib]
    assert held.unknown[WHOLE] == 1


KUBELET_SAID = BY_NAME


def test_kubelets_allocation_goes_before_observed_use() -> None:
    """A pod of two GPUs that uses one of them, and another GPU."""
    used = Holder(uid="uid-a", memory_mib=500)
    devices = (
        device(0, holders=(KUBELET_SAID, used)),
        device(1, holders=(KUBELET_SAID,)),
        device(2, holders=(used,)),
    )
    held = held_on(*devices, pods=(bound("a", wants(2, WHOLE)),))
    assert (units(held), foreign(held)) == ([1, 1, 0], [0, 0, 500])


def test_two_time_slices_of_one_gpu_are_two_units_of_it() -> None:
    used = Holder(uid="uid-a", memory_mib=500)
    held = held_on(
        device(0, holders=(KUBELET_SAID, KUBELET_SAID, used)), device(1), pods=(bound("a", wants(2, WHOLE)),)
    )
    assert (units(held), held.unknown[WHOLE]) == ([2, 0], 0)


def test_without_kubelets_word_each_gpu_in_use_is_one_unit() -> None:
    used = Holder(uid="uid-a", memory_mib=500)
    held = held_on(device(0, holders=(used, used)), device(1), pods=(bound("a", wants(2, WHOLE)),))
    assert (units(held), held.unknown[WHOLE]) == ([1, 0], 1)


def test_a_pod_never_holds_more_devices_than_it_asks() -> None:
    held = held_on(*(device(i, holders=(BY_UID,)) for i in range(3)), pods=(bound("a", wants(2, WHOLE)),))
    assert units(held) == [1, 1, 0]
    assert held.unknown[WHOLE] == 0


def test_gpus_of_another_vendor_are_not_the_ones_asked() -> None:
    pods = (bound("a", wants(1, "amd.com/gpu")),)
    held = held_on(device(0, holders=(BY_UID,)), pods=pods)
    assert units(held) == [0]
    assert held.unknown["amd.com/gpu"] == 1


def test_finished_pods_hold_nothing_whatever_an_old_report_says() -> None:
    mig = sliced(("1g.10gb", 0), holders={0: BY_UID})
    containers = (wants(1, WHOLE), wants(1, ONE_G, "mig"), wants(100, SHARE, "share"))
    pods = (bound("a", *containers, finished=True, devices={"share": ("GPU-0",)}),)
    held = held_on(device(0, holders=(BY_UID,)), device(1, mig=mig), pods=pods, mig_strategy="mixed")
    assert (units(held), promised(held)) == ([0, 0], [0, 0])
    assert held.devices["GPU-1"].instances == set()
    assert not held.requested


class TestMigInstances:
    def test_held_instances_are_found_by_their_holder(self) -> None:
        mig = sliced(("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 2), holders={1: BY_UID})
        held = held_on(device(0, mig=mig), pods=(bound("a", wants(1, ONE_G)),), mig_strategy="mixed")
        assert held.devices["GPU-0"].instances == {"MIG-1"}
        assert held.unknown[ONE_G] == 0

    def test_an_instance_of_another_profile_is_not_the_one_asked(self) -> None:
        mig = sliced(("2g.20gb", 2), holders={2: BY_UID})
        held = held_on(device(0, mig=mig), pods=(bound("a", wants(1, ONE_G)),), mig_strategy="mixed")
        assert held.devices["GPU-0"].instances == {"MIG-2"}
        assert held.unknown[ONE_G] == 1

    def test_under_strategy_single_a_whole_gpu_is_an_instance(self) -> None:
        mig = sliced(("1g.10gb", 0), ("1g.10gb", 1), holders={0: BY_UID})
        held = held_on(device(0, mig=mig), pods=(bound("a", wants(1, WHOLE)),), mig_strategy="single")
        assert held.devices["GPU-0"].instances == {"MIG-0"}
        assert (units(held), held.unknown[WHOLE]) == ([0], 0)


class TestShares:
    def test_a_share_is_on_the_device_its_binding_names(self) -> None:
        pods = (bound("a", wants(500, SHARE), devices={"main": ("GPU-1",)}),)
        held = held_on(device(0), device(1), pods=pods)
        assert promised(held) == [0, 500]
        assert held.requested[SHARE] == 500

    def test_a_share_is_on_the_device_the_agent_saw_its_container_on(self) -> None:
        on_log, on_main = Holder(uid="uid-a", container="log"), Holder(uid="uid-a", container="main")
        pods = (bound("a", wants(100, SHARE, "log"), wants(500, SHARE)),)
        held = held_on(device(0, holders=(on_log,)), device(1, holders=(on_main,)), pods=pods)
        assert promised(held) == [100, 500]

    def test_the_binding_is_believed_before_the_agent(self) -> None:
        pods = (bound("a", wants(500, SHARE), devices={"main": ("GPU-1",)}),)
        assert promised(held_on(device(0, holders=(BY_UID,)), device(1), pods=pods)) == [0, 500]

    @pytest.mark.parametrize(
        "devices",
        [
            pytest.param({}, id="unreported"),
            pytest.param({"main": ("GPU-9",)}, id="the device named is not here any more"),
            pytest.param({"other": ("GPU-1",)}, id="the device named is that of another container"),
        ],
    )
    def test_a_share_on_an_unknown_device_counts_on_every_one(
        self, devices: dict[str, tuple[str, ...]]
    ) -> None:
        pods = (bound("a", wants(500, SHARE), devices=devices), bound("b", wants(30, SHARE)))
        assert promised(held_on(device(0), device(1), device(2), pods=pods)) == [530, 530, 530]

    def test_the_use_of_an_unknown_pod_counts_beside_the_shares(self) -> None:
        stranger = Holder(uid="uid-z", memory_mib=70)
        pods = (bound("a", wants(500, SHARE), devices={"main": ("GPU-0",)}),)
        held = held_on(device(0, holders=(stranger,)), pods=pods)
        assert (promised(held), foreign(held)) == ([500], [70])

    def test_the_use_of_a_pod_on_the_gpu_of_its_share_counts_as_its_own(self) -> None:
        user = Holder(uid="uid-a", memory_mib=70)
        pods = (bound("a", wants(500, SHARE), devices={"main": ("GPU-0",)}),)
        assert foreign(held_on(device(0, holders=(user,)), pods=pods)) == [0]

    def test_use_of_another_gpu_by_a_pod_is_unaccounted(self) -> None:
        user = Holder(uid="uid-a", memory_mib=70)
        pods = (bound("a", wants(500, SHARE), devices={"main": ("GPU-0",)}),)
        held = held_on(device(0), device(1, holders=(user,)), pods=pods)
        assert (promised(held), foreign(held)) == ([500, 0], [0, 70])


def init(mib: int, name: str) -> ContainerAsk:
    return wants(mib, SHARE, name, Role.INIT)


def sidecar(mib: int, name: str) -> ContainerAsk:
    return wants(mib, SHARE, name, Role.SIDECAR)


@pytest.mark.parametrize(
    ("containers", "devices", "peak"),
    [
        pytest.param(
            (init(900, "load"), wants(400, SHARE)),
            {"load": ("GPU-0",), "main": ("GPU-0",)},
            [900, 0],
            id="an init container and the app on one device: the larger",
        ),
        pytest.param(
            (sidecar(100, "log"), init(900, "load"), wants(400, SHARE)),
            {"log": ("GPU-0",), "load": ("GPU-0",), "main": ("GPU-0",)},
            [1000, 0],
            id="a sidecar runs beside the init container after it",
        ),
        pytest.param(
            (init(900, "load"), sidecar(100, "log"), wants(400, SHARE)),
            {"log": ("GPU-0",), "load": ("GPU-0",), "main": ("GPU-0",)},
            [900, 0],
            id="a sidecar is not there yet for the one before it",
        ),
        pytest.param(
            (sidecar(100, "log"), init(900, "load"), wants(400, SHARE)),
            {"log": ("GPU-1",), "load": ("GPU-0",), "main": ("GPU-1",)},
            [900, 500],
            id="a sidecar on another device adds to the app there",
        ),
        pytest.param(
            (sidecar(100, "log"), wants(400, SHARE)),
            {"log": ("GPU-0",)},
            [500, 400],
            id="one share known and one unknown",
        ),
    ],
)
def test_the_peak_over_the_phases_counts_on_each_device(
    containers: tuple[ContainerAsk, ...], devices: dict[str, tuple[str, ...]], peak: list[int]
) -> None:
    assert promised(held_on(device(0), device(1), pods=(bound("a", *containers, devices=devices),))) == peak


def test_pods_of_a_node_without_a_report_hold_without_devices() -> None:
    pods = (bound("a", wants(2, WHOLE), wants(500, SHARE, "view")),)
    held = holdings_of(NodeInfo("n", pods=pods), NAMES)
    assert held.devices == {}
    assert held.unknown == {WHOLE: 2}
    assert held.requested == {WHOLE: 2, SHARE: 500}


class TestASharePodThatSomebodyElseBound:
    """No annotation has the GPU of its shares."""

    BOUND = bound("a", wants(4000, SHARE))

    @pytest.mark.parametrize(
        ("holders", "expected"),
        [
            pytest.param((), [4000, 4000], id="is anywhere while it is unseen"),
            pytest.param((replace(BY_NAME, memory_mib=300),), [4000, 0], id="is where it was seen"),
        ],
    )
    def test_a_share_bound_by_another_program_closes_its_node_to_shares(
        self, holders: tuple[Holder, ...], expected: list[int]
    ) -> None:
        held = held_on(device(0, holders=holders), device(1), pods=(self.BOUND,))
        assert promised(held) == expected
        assert held.unplaced == [self.BOUND]

    @pytest.mark.parametrize(
        ("devices", "closed"),
        [
            pytest.param({"main": ("GPU-0",), "other": ("GPU-1",)}, False, id="all annotated"),
            pytest.param({"main": ("GPU-0",)}, True, id="one of two"),
            pytest.param({"main": ("GPU-0",), "other": ("GPU-x",)}, True, id="with a GPU that is not there"),
        ],
    )
    def test_every_share_needs_its_annotation(
        self, devices: dict[str, tuple[str, ...]], closed: bool
    ) -> None:
        two = bound("a", wants(10, SHARE), wants(10, SHARE, "other"), devices=devices)
        held = held_on(device(0, holders=(BY_UID,)), device(1, holders=(BY_UID,)), pods=(two,))
        assert held.unplaced == ([two] if closed else [])
