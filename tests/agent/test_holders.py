"""Holders from the kubelet's answers and from processes, rule by rule and as laws."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from scheduler_ext.agent.holders import DeviceHolders, PodOf, find_holders
from scheduler_ext.agent.node_reading import DeviceReading, InstanceReading, NodeReading, Process
from scheduler_ext.agent.pod_resources import Allocation
from scheduler_ext.agent.processes import NOT_A_POD
from scheduler_ext.wire.gpunode import HolderStatus

# PIDs 1xx are pod A's, 2xx pod B's, 9xx the host's; of others nothing is known.
PODS: dict[int, str] = {1: "uid-a", 2: "uid-b", 9: NOT_A_POD}


def pod_of(pid: int) -> str | None:
    return PODS.get(pid // 100)


def gpu(*processes: Process, used: int | None = 10_000, seen: bool = True) -> DeviceReading:
    return DeviceReading("GPU-a", 0, 81920, used_mib=used, processes=processes if seen else None)


def partitioned(*processes: tuple[Process, ...] | None) -> DeviceReading:
    instances = tuple(
        InstanceReading(f"MIG-{i}", "1g.10gb", gpu_instance_id=i, processes=of)
        for i, of in enumerate(processes)
    )
    return DeviceReading("GPU-a", 0, 81920, used_mib=10_000, mig_enabled=True, instances=instances)


def train(*ids: str, namespace: str = "ml", pod: str = "train", container: str = "main") -> Allocation:
    return Allocation(namespace, pod, container, "nvidia.com/gpu", ids)


def held(
    device: DeviceReading, *allocations: Allocation, pods: PodOf | None = pod_of, asked: bool = True
) -> DeviceHolders:
    return find_holders(NodeReading((device,)), allocations if asked else None, pods)["GPU-a"]


TRAIN = HolderStatus(namespace="ml", name="train", container="main")


@pytest.mark.parametrize(
    ("device", "allocations", "holders"),
    [
        pytest.param(
            partitioned(()), [train("GPU-a")], [TRAIN], id="a partitioned device that is given whole"
        ),
        pytest.param(gpu(), [train("GPU-a::0", "GPU-a::3")], [TRAIN] * 2, id="each replica is held"),
        pytest.param(gpu(), [train("GPU-a", "GPU-a")], [TRAIN], id="the same id twice is one"),
        pytest.param(
            gpu(),
            [train("GPU-a::1"), train("GPU-a::0", pod="serve"), train("GPU-a::2", namespace="dev")],
            [TRAIN.but(namespace="dev"), TRAIN.but(name="serve"), TRAIN],
            id="several in the order of their names",
        ),
        pytest.param(
            gpu(Process(201, 5), Process(101, 300), Process(102, 40)),
            [],
            [HolderStatus("uid-a", memory_mib=340), HolderStatus("uid-b", memory_mib=5)],
            id="pods by their processes with the sum of each",
        ),
        pytest.param(
            gpu(Process(101, 300)),
            [train("GPU-a")],
            [TRAIN, HolderStatus("uid-a", memory_mib=300)],
            id="a pod by name and by UID that the agent cannot join",
        ),
        pytest.param(
            gpu(Process(101, 80_000), Process(102, 80_000)),
            [],
            [HolderStatus("uid-a", memory_mib=81920)],
            id="no more than the GPU has",
        ),
        pytest.param(gpu(Process(901, 300), Process(701, 5)), [], [], id="neither the host nor the unknown"),
        pytest.param(
            gpu(),
            [train("GPU-a", namespace="Not A Namespace", pod="../x", container="a" * 64)],
            [HolderStatus()],
            id="names without a pod are left out, but their GPUs stay held",
        ),
        pytest.param(
            gpu(),
            [train(*(f"GPU-a::{n}" for n in range(1500)))],
            [TRAIN] * 1000,
            id="no more than a report may say",
        ),
    ],
)
def test_a_device_is_held_by(
    device: DeviceReading, allocations: list[Allocation], holders: list[HolderStatus]
) -> None:
    assert list(held(device, *allocations).holders) == holders


@pytest.mark.parametrize("uid", ["", "a\nb"])
def test_a_uid_that_no_report_may_say_is_left_out(uid: str) -> None:
    assert held(gpu(Process(1, 7)), pods=lambda _: uid).holders == (HolderStatus(memory_mib=7),)


@pytest.mark.parametrize(
    ("device", "unaccounted"),
    [
        pytest.param(gpu(Process(901, 300), Process(101, 5)), 9995, id="everything except a pod's"),
        pytest.param(gpu(Process(901, 300), used=200), 200, id="no more than is used"),
        pytest.param(gpu(Process(901, 300), Process(902)), None, id="a process of unknown size"),
        pytest.param(gpu(Process(901, 300), Process(701, 1)), None, id="an unknown process"),
        pytest.param(gpu(seen=False), None, id="processes that cannot be seen"),
        pytest.param(
            partitioned((Process(101, 3),), (Process(201, 5), Process(902, 4))), 9992, id="instances"
        ),
        pytest.param(partitioned((Process(901, 3),), None), None, id="an instance that cannot be seen"),
        pytest.param(
            replace(partitioned((Process(101, 3),)), processes=(Process(101, 3),)),
            9997,
            id="what runs in an instance does not count twice",
        ),
    ],
)
def test_use_by_no_pod_is_known_to_the_last_process_or_not_at_all(
    device: DeviceReading, unaccounted: int | None
) -> None:
    assert held(device).unaccounted_mib == unaccounted


def test_where_host_processes_are_not_seen_only_kubelet_is_believed() -> None:
    device = gpu(Process(101, 300), Process(901, 5))
    assert held(device, train("GPU-a"), pods=None) == DeviceHolders((TRAIN,), {}, None)


def test_where_kubelet_does_not_answer_processes_are() -> None:
    expected = DeviceHolders((HolderStatus("uid-a", memory_mib=300),), {}, 9700)
    assert held(gpu(Process(101, 300), Process(901, 5)), asked=False) == expected


MIG = train("MIG-0")


@pytest.mark.parametrize(
    ("device", "allocations", "instances"),
    [
        pytest.param(
            partitioned((Process(201, 5), Process(202, 4))),
            [MIG],
            {"MIG-0": TRAIN.but(memory_mib=9)},
            id="the container that has it, with the use of the pod on it",
        ),
        pytest.param(
            partitioned((Process(101, 9), Process(201, 4))),
            [MIG],
            {"MIG-0": TRAIN},
            id="kubelet before processes of several pods",
        ),
        pytest.param(
            partitioned(()),
            [train("MIG-0::1", pod="zz"), train("MIG-0::0", pod="aa")],
            {"MIG-0": TRAIN.but(name="aa")},
            id="the first by name of those that share it",
        ),
        pytest.param(
            partitioned((Process(101, 3), Process(201, 4))),
            [],
            {"MIG-0": HolderStatus("uid-b", memory_mib=4)},
            id="the pod that uses most",
        ),
        pytest.param(
            partitioned((Process(201, 4), Process(101, 4))),
            [],
            {"MIG-0": HolderStatus("uid-a", memory_mib=4)},
            id="the first by UID of those that use the same",
        ),
    ],
)
def test_an_instance_has_one_holder(
    device: DeviceReading, allocations: list[Allocation], instances: dict[str, HolderStatus]
) -> None:
    found = held(device, *allocations)
    assert found.instances == instances
    assert found.holders == ()


def test_devices_are_apart_and_none_is_left_out() -> None:
    devices = (gpu(), replace(gpu(Process(101, 3)), uuid="GPU-b", index=1))
    found = find_holders(NodeReading(devices), [train("GPU-a", "GPU-b")], pod_of)
    assert list(found) == ["GPU-a", "GPU-b"]
    assert found["GPU-a"].holders == (TRAIN,)
    assert found["GPU-b"].holders == (TRAIN, HolderStatus("uid-a", memory_mib=3))


def processes() -> SearchStrategy[tuple[Process, ...] | None]:
    pids = st.builds(lambda kind, n: 100 * kind + n, st.sampled_from([1, 2, 7, 9, 9]), st.integers(0, 5))
    sizes = st.one_of(st.none(), st.integers(0, 60_000), st.integers(0, 60_000))
    known = st.lists(st.builds(Process, pids, sizes), max_size=5, unique_by=lambda p: p.pid).map(tuple)
    return st.one_of(st.none(), known, known, known)


@st.composite
def devices(draw: st.DrawFn) -> DeviceReading:
    instances = tuple(
        InstanceReading(f"MIG-{i}", "1g.10gb", gpu_instance_id=i, processes=draw(processes()))
        for i in range(draw(st.integers(0, 3)))
    )
    used = draw(st.one_of(st.none(), st.integers(0, 81920)))
    return DeviceReading("GPU-a", 0, 81920, used_mib=used, instances=instances, processes=draw(processes()))


def allocations() -> SearchStrategy[list[Allocation]]:
    ids = st.sampled_from(["GPU-a", "GPU-a::0", "GPU-a::1", "MIG-0", "MIG-1::0", "MIG-2", "GPU-z", "0", "x"])
    names = st.sampled_from(["train", "serve", "Bad Name"])
    held_by = st.builds(
        lambda ids, pod, box: train(*ids, pod=pod, container=box), st.lists(ids), names, names
    )
    return st.lists(held_by, max_size=4)


@given(devices(), allocations(), st.sampled_from([pod_of, None]), st.randoms(use_true_random=False))
def test_the_same_in_another_order_is_the_same(
    device: DeviceReading, given_to: list[Allocation], pods: PodOf | None, order: random.Random
) -> None:
    def mixed(of: tuple[Process, ...] | None) -> tuple[Process, ...] | None:
        return None if of is None else tuple(order.sample(of, len(of)))

    instances = [replace(instance, processes=mixed(instance.processes)) for instance in device.instances]
    order.shuffle(instances)
    other = replace(device, instances=tuple(instances), processes=mixed(device.processes))
    mixed_up = [replace(a, device_ids=tuple(order.sample(a.device_ids, len(a.device_ids)))) for a in given_to]
    order.shuffle(mixed_up)
    assert held(other, *mixed_up, pods=pods) == held(device, *given_to, pods=pods)


@given(devices(), allocations(), st.sampled_from([pod_of, None]))
def test_nothing_is_made_up(device: DeviceReading, given_to: list[Allocation], pods: PodOf | None) -> None:
    found = held(device, *given_to, pods=pods)
    if found.unaccounted_mib is not None:
        assert device.used_mib is not None
        assert 0 <= found.unaccounted_mib <= device.used_mib
    assert set(found.instances) <= {instance.uuid for instance in device.instances}
    for holder in (*found.holders, *found.instances.values()):
        # By name from the kubelet, without memory on a device; or by UID with memory, from processes.
        assert holder.uid is None or holder.memory_mib is not None
        assert holder.uid is not None or holder.memory_mib is None or holder in found.instances.values()
        assert holder.uid is None or (pods and holder.name is holder.namespace is holder.container is None)
        assert holder.uid in (None, "uid-a", "uid-b")
        assert holder.memory_mib is None or 0 <= holder.memory_mib <= device.total_mib


@given(
    st.lists(st.builds(Process, st.sampled_from([101, 102, 201, 901, 902]), st.integers(0, 9000)), max_size=8)
)
def test_every_mib_in_use_is_a_pods_or_unaccounted(found: list[Process]) -> None:
    holdings = held(gpu(*found, used=81920))
    assert holdings.unaccounted_mib is not None
    pods = sum(holder.memory_mib or 0 for holder in holdings.holders)
    assert pods + holdings.unaccounted_mib == 81920
