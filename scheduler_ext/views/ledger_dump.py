"""The whole ledger as plain JSON values: who holds what, on which GPU, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from scheduler_ext.core.gpu.gpu import Device, MigInstance
from scheduler_ext.core.node.holdings import Holdings, holdings_of, known_devices, unknown_gpus
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot


def ledger_dump(snapshot: Snapshot | None, resources: ResourceNames) -> dict[str, Any]:
    """Every node that has GPUs or pods that hold or wait for some, at one generation."""
    if snapshot is None:
        return {"generation": 0, "nodes": {}}
    return {
        "generation": snapshot.generation,
        "nodes": {
            name: node_ledger(node.info, resources)
            for name, node in sorted(snapshot.nodes.items())
            if node.info.report is not None or node.info.pods or node.info.nominated
        },
    }


def node_ledger(info: NodeInfo, resources: ResourceNames) -> dict[str, Any]:
    """Who holds what on one node, and who waits for it."""
    held = holdings_of(info, resources)
    pods = [(pod, _state(pod, info)) for pod in info.pods if pod.holds]
    pods += [(pod, "Nominated") for pod in info.nominated]
    # One pod's part is the part that would remain without all others; for shares the pod itself has it.
    nothing = Holdings()
    alone = [
        (pod, state, holdings_of(_only(info, pod), resources) if pod.request.units else nothing)
        for pod, state in pods
    ]
    return {
        "unknownDeviceGpus": unknown_gpus(info, held),
        "unknownDevices": [
            entry for pod, state, its in alone for entry in _without_device(pod, state, its, info, resources)
        ],
        "unplacedShares": [f"{pod.namespace}/{pod.name}" for pod in held.unplaced],
        "departed": [_departed(pod, info, resources) for pod in info.pods if pod.departed],
        "devices": {
            device.uuid: {
                "totalMiB": device.memory.total_mib,
                "holdings": [
                    entry for pod, state, its in alone for entry in _on(device, pod, state, its, info)
                ],
            }
            for device in _devices(info)
        },
    }


def _devices(info: NodeInfo) -> tuple[Device, ...]:
    return info.report.devices if info.report is not None else ()


def _only(info: NodeInfo, pod: BoundPod) -> NodeInfo:
    return replace(info, pods=(pod,), nominated=())


def _state(pod: BoundPod, info: NodeInfo) -> str:
    return "Assumed" if pod.uid in info.assumed else "Confirmed"


def _sizes(pod: BoundPod) -> tuple[tuple[str, int], ...]:
    """The share of each container, in MiB."""
    return pod.request.shares.by_container if pod.request.shares is not None else ()


def _without_device(
    pod: BoundPod, state: str, its: Holdings, info: NodeInfo, resources: ResourceNames
) -> Iterator[dict[str, Any]]:
    """The pod's holdings or nominations on unknown GPUs: units, and shares in MiB."""
    unknown: list[tuple[str | None, str, int]] = [
        (None, name, count) for name, count in its.unknown.items() if count
    ]
    unknown += [
        (container, resources.share, mib)
        for container, mib in _sizes(pod)
        if not known_devices(pod, container, _devices(info))
    ]
    for container, resource, count in unknown:
        yield _named(pod) | {
            "container": container,
            "resource": resource,
            "count": count,
            "state": state,
        }


def _departed(pod: BoundPod, info: NodeInfo, resources: ResourceNames) -> dict[str, Any]:
    """A pod that has left, and what the last report still counts of it, in MiB by GPU."""
    its = holdings_of(_only(info, pod), resources).devices
    return _named(pod) | {
        "memoryMiB": {uuid: held.departed_mib for uuid, held in its.items() if held.departed_mib}
    }


def _on(device: Device, pod: BoundPod, state: str, its: Holdings, info: NodeInfo) -> Iterator[dict[str, Any]]:
    """What a pod holds of one GPU: its shares, its instances, or all of it."""
    for container, mib in _sizes(pod):
        if device.uuid in known_devices(pod, container, _devices(info)):
            yield _entry(pod, state, container, mib)
    for instance in device.mig.instances:
        if instance.holder is not None and pod.is_holder(instance.holder):
            yield _entry(pod, state, instance.holder.container, None, instance)
    told = [holder for holder in device.holders if holder.memory_mib is None and pod.is_holder(holder)]
    containers = [holder.container for holder in told]
    if not pod.request.units:
        return
    if not told and pod.request.shares is None and pod.uid in its.devices[device.uuid].pods:
        # Seen by what it uses.
        containers = [None]
    for whose in containers:
        yield _entry(pod, state, whose, device.memory.total_mib)


def _entry(
    pod: BoundPod, state: str, container: str | None, mib: int | None, instance: MigInstance | None = None
) -> dict[str, Any]:
    return _named(pod) | {
        "container": container,
        "memoryMiB": mib,
        "profile": instance.profile if instance is not None else None,
        "start": instance.start if instance is not None else None,
        "state": state,
    }


def _named(pod: BoundPod) -> dict[str, Any]:
    return {"uid": pod.uid, "namespace": pod.namespace, "name": pod.name}
