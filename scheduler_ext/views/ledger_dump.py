"""The whole ledger as plain JSON values: the holders of each GPU, with their amounts and states."""

from collections import defaultdict
from collections.abc import Iterator, Set
from dataclasses import replace
from typing import Any

from scheduler_ext.core.dra.device import memory_mib
from scheduler_ext.core.gpu.gpu import Device, MigInstance
from scheduler_ext.core.node.claimed import claimed_gpus
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
            if node.info.report is not None or node.info.pods or node.info.nominated or node.info.planned
        },
    }


def node_ledger(info: NodeInfo, resources: ResourceNames) -> dict[str, Any]:
    """The pods that hold units of one node, and those that wait for it."""
    held = holdings_of(info, resources)
    pods = [(pod, "Assumed" if pod.uid in info.assumed else "Confirmed") for pod in info.pods if pod.holds]
    pods += [(pod, "Nominated") for pod in (*info.nominated, *info.planned)]
    # The shares of a pod are in the pod itself.
    alone = [
        (pod, state, _alone(info, pod, resources) if pod.request.units else Holdings()) for pod, state in pods
    ]
    claimed = _claimed(info)
    return {
        "unknownDeviceGpus": unknown_gpus(info, held),
        "unknownDevices": [
            entry for pod, state, its in alone for entry in _without_device(pod, state, its, info, resources)
        ],
        "unplacedShares": [f"{pod.namespace}/{pod.name}" for pod in held.unplaced],
        "departed": [
            _named(pod)
            | {
                # What the last report still counts of it.
                "memoryMiB": {
                    uuid: held.departed_mib
                    for uuid, held in _alone(info, pod, resources).devices.items()
                    if held.departed_mib
                }
            }
            for pod in info.pods
            if pod.departed
        ],
        "devices": {
            device.uuid: {
                "totalMiB": device.memory.total_mib or None,
                "holdings": [
                    *(
                        entry
                        for pod, state, its in alone
                        for entry in _on(device, pod, state, its, info, claimed[pod.uid])
                    ),
                    *_by_claim(device, info),
                ],
            }
            for device in info.devices
        },
    }


def _alone(info: NodeInfo, pod: BoundPod, resources: ResourceNames) -> Holdings:
    """The holdings of one pod alone."""
    return holdings_of(replace(info, pods=(pod,), nominated=()), resources)


def _sizes(pod: BoundPod) -> tuple[tuple[str, int], ...]:
    """The share of each container, in MiB."""
    return pod.request.shares.by_container if pod.request.shares is not None else ()


def _without_device(
    pod: BoundPod, state: str, its: Holdings, info: NodeInfo, resources: ResourceNames
) -> Iterator[dict[str, Any]]:
    """The pod's holdings or nominations on unknown GPUs: units, and shares in MiB."""
    units = [(None, name, count) for name, count in its.unknown.items() if count]
    shares = [
        (container, resources.share, mib)
        for container, mib in _sizes(pod)
        if not known_devices(pod, container, info.devices)
    ]
    for container, resource, count in (*units, *shares):
        holding = {"container": container, "resource": resource, "count": count, "state": state}
        yield _named(pod) | holding


def _claimed(info: NodeInfo) -> defaultdict[str, set[str | None]]:
    """The UUIDs of the GPUs and instances that pods have by claim, by the pod's uid."""
    found: defaultdict[str, set[str | None]] = defaultdict(set)
    for claim, _, part in claimed_gpus(info):
        for uid, _ in claim.pods:
            found[uid].add(part.on if part.profile is None else part.uuid)
    return found


def _on(
    device: Device, pod: BoundPod, state: str, its: Holdings, info: NodeInfo, claimed: Set[str | None]
) -> Iterator[dict[str, Any]]:
    """What a pod holds of one GPU: its shares, its instances, or all of it; without those that are `claimed`,
    which `_by_claim` lists."""
    for container, mib in _sizes(pod):
        if device.uuid in known_devices(pod, container, info.devices):
            yield _entry(pod, state, container, mib)
    for instance in device.mig.instances:
        if instance.holder is not None and pod.is_holder(instance.holder) and instance.uuid not in claimed:
            yield _entry(pod, state, instance.holder.container, None, instance)
    if not pod.request.units or device.uuid in claimed:
        return
    holders = [each for each in device.holders if each.memory_mib is None and pod.is_holder(each)]
    containers = [each.container for each in holders]
    if not holders and pod.request.shares is None and pod.uid in its.devices[device.uuid].pods:
        # Seen by what it uses.
        containers = [None]
    for whose in containers:
        yield _entry(pod, state, whose, device.memory.total_mib or None)


def _by_claim(device: Device, info: NodeInfo) -> Iterator[dict[str, Any]]:
    """What claims hold of one GPU, for each pod of theirs; without a pod while they are reserved for none."""
    for claim, held, part in claimed_gpus(info):
        if part.on != device.uuid:
            continue
        instance = next((each for each in device.mig.instances if each.uuid == part.uuid), None)
        mib = memory_mib(held.consumed) if part.multiple else 0
        for uid, name in claim.pods or ((None, None),):
            yield {
                "uid": uid,
                "namespace": claim.namespace,
                "name": name,
                "container": None,
                "memoryMiB": (mib or device.memory.total_mib or None) if part.profile is None else None,
                "profile": part.profile,
                "start": instance.start if instance is not None else None,
                "state": "Assumed" if uid in info.assumed else "Confirmed",
                "by": "claim",
                "claim": claim.name,
            }


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
