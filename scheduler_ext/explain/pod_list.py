"""Pods with GPUs, with their node and devices, and waiting pods, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.explain.decision_rows import asks
from scheduler_ext.explain.explain import API_VERSION


def pod_list(infos: Iterable[NodeInfo], waiting: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The GPUPodList of these nodes, by namespace and name; ``waiting`` are lines of ``Waiting``."""
    held = [_held(pod, info) for info in infos for pod in info.pods if pod.holds and pod.request.asks_gpu]
    items = [*held, *(_waits(line) for line in waiting)]
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUPodList",
        "items": sorted(items, key=lambda item: (item["namespace"], item["name"])),
    }


def _held(pod: BoundPod, info: NodeInfo) -> dict[str, Any]:
    state = "Assumed" if pod.uid in info.assumed else "Terminating" if pod.terminating else "Bound"
    return _item(pod.namespace, pod.name, pod.uid, state, pod.priority, asks(pod.request)) | {
        "node": info.name,
        "devices": held_devices(pod, info),
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


def _waits(line: Mapping[str, Any]) -> dict[str, Any]:
    item = _item(line["namespace"], line["name"], line["uid"], "Waiting", line["priority"], line["asks"])
    return item | {key: line[key] for key in ("reason", "nearest", "commonest", "since")}


def _item(namespace: str, name: str, uid: str, state: str, priority: int, asks: str) -> dict[str, Any]:
    return {
        "namespace": namespace,
        "name": name,
        "uid": uid,
        "state": state,
        "node": None,
        "priority": priority,
        "asks": asks,
        "devices": [],
        "reason": None,
        "nearest": None,
        "commonest": None,
        "since": None,
    }
