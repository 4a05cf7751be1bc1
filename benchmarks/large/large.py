"""A large cluster for tests and benchmarks: Nodes, GPUNodes and Pods of real size, always the same.

One pod in ten requests a GPU and is bound to a node with a free one; the GPUNodes report it as holder. Pods
without a free GPU are pending.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache

from benchmarks.large.large_pod import LargePod, pod
from benchmarks.large.large_report import managed_fields, report
from scheduler_ext.core.request.gang_request import GATE
from tests.kube_objects import Json

SEED = 20261121
DEVICES = 8
# One pod in so many requests a GPU.
GPU_EVERY = 10
_CREATED = "2026-09-01T08:00:00Z"


def node_name(index: int) -> str:
    return f"gpu-h100-{index:05d}.cluster.example"


def device_uuid(node: int, device: int) -> str:
    """As NVML writes it."""
    return f"GPU-{node:08x}-{device:04x}-4{node % 0xFFF:03x}-8000-{node * 64 + device:012x}"


@lru_cache(maxsize=4)
def placement(pods: int, nodes: int, devices: int = DEVICES) -> dict[int, tuple[int, int]]:
    """Node and device of each pod that holds a GPU, by the pod's index."""
    asking = range(0, pods, GPU_EVERY)
    room = nodes * devices
    slots = random.Random(SEED).sample(range(room), min(len(asking), room))
    return {index: divmod(slot, devices) for index, slot in zip(asking, slots, strict=False)}


def nodes(count: int, devices: int = DEVICES) -> Iterator[Json]:
    """Nodes of some 8 kB with `devices` GPUs each."""
    for index in range(count):
        yield _node(index, devices)


def gpunodes(count: int, devices: int = DEVICES, pods: int = 0) -> Iterator[Json]:
    """The Nodes' GPUNodes, some 8 kB with 8 devices, held by some of so many `pods`."""
    held = {place: index for index, place in placement(pods, count, devices).items()}
    for index in range(count):
        uuids = [device_uuid(index, device) for device in range(devices)]
        holders = [held.get((index, device)) for device in range(devices)]
        status = report(index, uuids, [None if one is None else pod_of(one) for one in holders])
        yield {
            "apiVersion": "gpu.scheduler-ext.io/v1alpha1",
            "kind": "GPUNode",
            "metadata": {
                "name": node_name(index),
                "uid": f"{index:08x}-0000-4000-8000-0000000b0de5",
                "creationTimestamp": _CREATED,
                "generation": 1,
                "managedFields": [managed_fields(status)],
            },
            "status": status,
        }


def pods(count: int, nodes: int = 5000, devices: int = DEVICES) -> Iterator[Json]:
    """Pods of some 8 kB, bound to so many `nodes`."""
    held = placement(count, nodes, devices)
    for index in range(count):
        place = held.get(index)
        asks = index % GPU_EVERY == 0
        where = place[0] if place else None if asks else index * 7919 % nodes
        yield pod(
            pod_of(index),
            on=None if where is None else node_name(where),
            gpu=asks,
            device=device_uuid(*place) if place else None,
        )


def gang(members: int, first: int, devices: int = DEVICES) -> Iterator[Json]:
    """Pods that start together or not at all, each on all GPUs of a node; `first` is the index of the first
    one."""
    notes = {"gpu.scheduler-ext.io/gang": "large", "gpu.scheduler-ext.io/gang-size": str(members)}
    for number in range(members):
        made = pod(
            LargePod(first + number, "team-00", f"gang-{number:03d}-x2k4q"), on=None, gpu=True, device=None
        )
        made["metadata"]["annotations"] |= notes
        made["spec"] |= {"schedulerName": "gpu-scheduler", "schedulingGates": [{"name": GATE}]}
        resources = {"cpu": "4", "memory": "32Gi", "nvidia.com/gpu": str(devices)}
        made["spec"]["containers"][0]["resources"] = {"limits": resources, "requests": resources}
        yield made


def pod_of(index: int) -> LargePod:
    gpu = index % GPU_EVERY == 0
    team = f"team-{index % 40:02d}"
    return LargePod(index, team, f"{'train' if gpu else 'serve'}-{index:06d}-7c9d8b6f5-x2k4q")


def _node(index: int, devices: int) -> Json:
    name = node_name(index)
    room = {
        "cpu": "192",
        "ephemeral-storage": "3455466296Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": "2113538912Ki",
        "nvidia.com/gpu": str(devices),
        "pods": "110",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"{index:08x}-0000-4000-8000-00000000f0de",
            "creationTimestamp": _CREATED,
            "labels": _labels(index, name, devices),
            "annotations": _annotations(index),
        },
        "spec": {
            "podCIDR": f"10.{index // 256 % 256}.{index % 256}.0/24",
            "podCIDRs": [f"10.{index // 256 % 256}.{index % 256}.0/24"],
            "providerID": f"metal:///rack-{index // 8:04d}/{name}",
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": f"172.16.{index // 256 % 256}.{index % 256}"},
                {"type": "Hostname", "address": name},
            ],
            "allocatable": room,
            "capacity": room,
            "conditions": _conditions(),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": [_image(number) for number in range(22)],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": f"{index:08x}-1111-4000-8000-000000000b07",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.8.0-1035-nvidia",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.36.2",
                "machineID": f"{index:032x}",
                "operatingSystem": "linux",
                "osImage": "Ubuntu 24.04.3 LTS",
                "systemUUID": f"{index:08x}-2222-4000-8000-000000000b07",
            },
        },
    }


def _labels(index: int, name: str, devices: int) -> Json:
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "eu-1",
        "topology.kubernetes.io/zone": f"eu-1{'abc'[index % 3]}",
        "node.kubernetes.io/instance-type": "metal.h100.8",
        "nvidia.com/cuda.driver-version.full": "570.124.06",
        "nvidia.com/cuda.runtime-version.full": "12.8",
        "nvidia.com/gpu.compute.major": "9",
        "nvidia.com/gpu.compute.minor": "0",
        "nvidia.com/gpu.count": str(devices),
        "nvidia.com/gpu.family": "hopper",
        "nvidia.com/gpu.machine": "DGXH100",
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "none",
    }
    features = ("ADX", "AESNI", "AMXBF16", "AMXINT8", "AMXTILE", "AVX", "AVX2", "AVX512F", "FMA3", "VNNI")
    return labels | {f"feature.node.kubernetes.io/cpu-cpuid.{feature}": "true" for feature in features}


def _annotations(index: int) -> Json:
    return {
        "csi.volume.kubernetes.io/nodeid": f'{{"csi.storage.example":"node-{index:05d}"}}',
        "nfd.node.kubernetes.io/feature-labels": ",".join(
            f"cpu-cpuid.FEATURE{number}" for number in range(24)
        ),
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }


def _conditions() -> list[Json]:
    kinds = {
        "NetworkUnavailable": ("False", "CalicoIsUp", "Calico is running on this node"),
        "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
    }
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": "2026-11-20T13:10:16Z",
            "lastTransitionTime": _CREATED,
        }
        for kind, (status, reason, message) in kinds.items()
    ]


def _image(number: int) -> Json:
    digest = f"{number:02x}" * 32
    name = f"registry.example/platform/component-{number:02d}"
    return {
        "names": [f"{name}@sha256:{digest}", f"{name}:v1.{number}.0"],
        "sizeBytes": 41_943_040 * (number + 1),
    }
