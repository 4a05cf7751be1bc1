"""Pods with GPUs, with their node and devices, and waiting pods, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.explain.explain import API_VERSION
from scheduler_ext.explain.sentences import asks

_ITEM: dict[str, Any] = dict.fromkeys(
    (
        *("namespace", "name", "uid", "state", "node", "priority", "asks", "devices"),
        *("reason", "nearest", "commonest", "since"),
    )
)


def pod_list(infos: Iterable[NodeInfo], waiting: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The GPUPodList of these nodes, by namespace and name; ``waiting`` are lines of ``Waiting``."""
    items = [
        _ITEM
        | {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid, "priority": pod.priority}
        | {
            "state": "Assumed" if pod.uid in info.assumed else "Terminating" if pod.terminating else "Bound",
            "node": info.name,
            "asks": asks(pod.request),
            "devices": held_devices(pod, info),
        }
        for info in infos
        for pod in info.pods
        if pod.holds and pod.request.asks_gpu
    ]
    for line in waiting:
        waits = {key: value for key, value in line.items() if key in _ITEM}
        items.append(_ITEM | waits | {"state": "Waiting", "devices": []})
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUPodList",
        "items": sorted(items, key=lambda item: (item["namespace"], item["name"])),
    }


def held_devices(pod: BoundPod, info: NodeInfo) -> list[dict[str, Any]]:
    """The GPUs and MIG instances that the pod was seen on, or was given."""
    given = [
        {"container": container, "uuid": uuid} for container, uuids in pod.devices.items() for uuid in uuids
    ]
    if given or info.report is None:
        return given
    seen = [
        (holder.container, uuid)
        for device in info.report.devices
        for uuid, holder in (
            *((device.uuid, holder) for holder in device.holders if holder.memory_mib is None),
            *((each.uuid, each.holder) for each in device.mig.instances if each.holder is not None),
        )
        if pod.is_holder(holder)
    ]
    return [{"container": container, "uuid": uuid} for container, uuid in seen]
