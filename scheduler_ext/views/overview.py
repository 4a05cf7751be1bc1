"""A node as one short JSON array, for a page that shows thousands of them.

A node with GPUs is ``[name, pool, kind, state, marks, namespaces, unattributed, groups]``, with a group
``[model, totalMiB, devices]`` for GPUs that are alike:

- ``kind`` is how its GPUs are handed out: whole, shares, mig, time-slicing, mps, or labels where no report
  tells anything but their number.
- ``state`` is Fresh, Stale or Missing; ``marks`` are some of spot and changing.
- ``namespaces`` are those whose pods hold GPUs there, ``unattributed`` says in texts what pods hold there on
  GPUs that are not known.
- A device is ``[index, reserved, requested, used, unaccounted, free, held]``: MiB, unaccounted null where
  nobody could tell, free what may still be promised, and the part of the GPU that somebody holds, 0 to 1;
  ``[index, held]`` where labels speak. What is held on GPUs that are not known counts on some of those that
  it may be on, so that sums are right.
  What is out of the ordinary follows in an object: ``maybe`` where the GPU may be one of those, with
  ``[requested, free, held]`` if it is none, ``sick`` with the reason, ``cordoned``, ``replicas`` (how
  many pods may share it), ``mig`` with the ``grid`` in slots and ``instances`` of
  ``[start, size, profile, held]``, held null where it may be.
"""

from __future__ import annotations

from typing import Any

from scheduler_ext.core.gpu.gpu import Device, Report
from scheduler_ext.core.node.attribution import Attribution, attribute
from scheduler_ext.core.node.holdings import Holdings, holdings_of
from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.node.state import resolve_held
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.explain.sentences import unattributed
from scheduler_ext.views.device_usage import DeviceUsage, device_usage
from scheduler_ext.views.listing import mig_place

# The grid of all GPUs with seven slices, where neither report nor table names another.
_USUAL_GRID = 8


def node_row(node: Node, resources: ResourceNames, headroom_percent: int) -> list[Any] | None:
    """The row of a node; None of one without GPUs. ``headroom_percent`` is what shares leave untouched."""
    info = node.info
    if info.report is None and info.estimate is None and info.freshness == "Fresh":
        return None
    known = holdings_of(info, resources)
    attribution = attribute(info, known, resources, node)
    marks = [name for name, marked in (("spot", info.spot), ("changing", info.changing)) if marked]
    return [
        info.name,
        info.pool,
        _kind(info),
        info.freshness,
        marks,
        _namespaces(info),
        [each["text"] for each in unattributed(info, attribution.unknown, resources.share)],
        _Reported(node, info.report, known, attribution, resources, headroom_percent).groups()
        if info.report
        else _estimated(node),
    ]


def _kind(info: NodeInfo) -> str:
    if info.report is None:
        return "labels"
    if info.share_node:
        return "shares"
    if info.report.sharing_strategy != "none":
        return info.report.sharing_strategy
    return "mig" if any(device.mig.enabled for device in info.report.devices) else "whole"


def _namespaces(info: NodeInfo) -> list[str]:
    namespaces = {pod.namespace for pod in info.pods if pod.holds and pod.request.asks_gpu}
    for device in info.report.devices if info.report is not None else ():
        holders = [*device.holders, *(it.holder for it in device.mig.instances if it.holder is not None)]
        namespaces.update(holder.namespace for holder in holders if holder.namespace)
    return sorted(namespaces)


class _Reported:
    """The GPUs of a node with a report; ``known`` is what is held on devices that are known."""

    def __init__(
        self,
        node: Node,
        report: Report,
        known: Holdings,
        attribution: Attribution,
        resources: ResourceNames,
        headroom_percent: int,
    ) -> None:
        self._info = node.info
        self._report = report
        self._known = known
        self._attribution = attribution
        self._headroom_percent = headroom_percent
        self._parts = _parts(node)
        self._parts_charged = self._parts
        if attribution.held is not known:
            pairs = zip(node.uuids, node.state.slots, strict=True)
            slots = {(uuid, known.devices[uuid].amounts): slot for uuid, slot in pairs if uuid is not None}
            charged = resolve_held(node.info, attribution.held, resources, headroom_percent, slots)
            self._parts_charged = _parts(charged)

    def groups(self) -> list[list[Any]]:
        """By model and memory, for one node's GPUs are nearly always alike."""
        alike: dict[tuple[str, int], list[list[Any]]] = {}
        for device in sorted(self._report.devices, key=lambda device: device.index):
            alike.setdefault((device.model.name, device.memory.total_mib), []).append(self._device(device))
        return [[model, total_mib, rows] for (model, total_mib), rows in alike.items()]

    def _device(self, device: Device) -> list[Any]:
        usage = self._usage(device, self._attribution.held)
        row: list[Any] = [
            device.index,
            device.memory.reserved_mib,
            usage.requested_mib,
            device.memory.used_mib,
            usage.unaccounted_mib,
            usage.free_mib,
            self._parts_charged[device.uuid],
        ]
        special = self._special(device)
        return [*row, special] if special else row

    def _usage(self, device: Device, held: Holdings) -> DeviceUsage:
        return device_usage(self._info, device, held.devices[device.uuid], self._headroom_percent)

    def _special(self, device: Device) -> dict[str, Any]:
        special: dict[str, Any] = {}
        if device.uuid in self._attribution.devices:
            usage = self._usage(device, self._known)
            special["maybe"] = [usage.requested_mib, usage.free_mib, self._parts[device.uuid]]
        if not device.healthy:
            special["sick"] = device.health_reason or "unhealthy"
        if device.cordoned:
            special["cordoned"] = True
        if self._report.sharing_strategy != "none":
            special["replicas"] = self._report.replicas
        if device.mig.enabled:
            special["mig"] = self._mig(device)
        return special

    def _mig(self, device: Device) -> dict[str, Any]:
        held, maybe = self._attribution.held.devices[device.uuid].instances, self._attribution.instances
        return {
            "grid": device.mig.geometry.grid if device.mig.geometry is not None else _USUAL_GRID,
            "instances": [
                [
                    instance.start,
                    instance.size,
                    instance.profile,
                    None if instance.uuid in maybe else instance.uuid in held,
                ]
                for instance in sorted(device.mig.instances, key=mig_place)
            ],
        }


def _parts(node: Node) -> dict[str | None, float]:
    """The part of each GPU that is held, by UUID."""
    slots = zip(node.uuids, node.state.slots, strict=True)
    return {uuid: round(1 - slot.idle, 3) for uuid, slot in slots}


def _estimated(node: Node) -> list[list[Any]]:
    """GPUs known by labels: pods hold a number of them, or of their replicas, which counts on all alike."""
    estimate = node.info.estimate
    if estimate is None:
        return []
    part = round(min(1.0, node.state.adrift / max(1, estimate.count)), 3)
    return [[estimate.model.name, estimate.memory_mib, [[index, part] for index in range(estimate.count)]]]
