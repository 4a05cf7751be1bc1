"""A node as one short JSON array, for a page that shows thousands of them.

A node with GPUs is ``[name, pool, kind, state, marks, namespaces, adrift, groups]``, with a group
``[model, totalMiB, devices]`` for GPUs that are alike:

- ``kind`` is how its GPUs are handed out: whole, shares, mig, time-slicing, mps, or labels where no report
  tells anything but their number.
- ``state`` is Fresh, Stale or Missing; ``marks`` are some of spot and changing.
- ``namespaces`` are those whose pods hold GPUs there, ``adrift`` how many GPUs' worth is held on devices that
  nobody named.
- A device is ``[index, reserved, requested, used, unaccounted, free, held]``: MiB, unaccounted null where
  nobody could tell, free what may still be promised, and the part of the GPU that somebody holds, 0 to 1;
  ``[index]`` where labels speak.
  What is out of the ordinary follows in an object: ``sick`` with the reason, ``cordoned``, ``replicas`` (how
  many pods may share it), ``mig`` with the ``grid`` in slots and ``instances`` of
  ``[start, size, profile, held]``.
"""

from __future__ import annotations

from typing import Any

from scheduler_ext.core.gpu import Device, Report
from scheduler_ext.core.holdings import DeviceHoldings, holdings_of
from scheduler_ext.core.node import Node, NodeInfo
from scheduler_ext.core.resources import ResourceNames
from scheduler_ext.extender.device_usage import device_usage
from scheduler_ext.extender.listing import mig_place

# The grid of all GPUs with seven slices, where neither report nor table names another.
_USUAL_GRID = 8


def node_row(node: Node, resources: ResourceNames, headroom_percent: int) -> list[Any] | None:
    """The row of a node; None of one without GPUs. ``headroom_percent`` is what shares leave untouched."""
    info = node.info
    if info.report is None and info.estimate is None and info.freshness == "Fresh":
        return None
    marks = [name for name, marked in (("spot", info.spot), ("changing", info.changing)) if marked]
    return [
        info.name,
        info.pool,
        _kind(info),
        info.freshness,
        marks,
        _namespaces(info),
        round(node.state.adrift, 2),
        _reported(node, info.report, resources, headroom_percent) if info.report else _estimated(info),
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


def _reported(node: Node, report: Report, resources: ResourceNames, headroom_percent: int) -> list[list[Any]]:
    """By model and memory, for one node's GPUs are nearly always alike."""
    held = holdings_of(node.info, resources)
    idle = dict(zip(node.uuids, (slot.idle for slot in node.state.slots), strict=False))
    alike: dict[tuple[str, int], list[list[Any]]] = {}
    for device in sorted(report.devices, key=lambda device: device.index):
        part = round(1 - idle.get(device.uuid, 0.0), 3)
        row = _device(node.info, device, held.devices[device.uuid], part, headroom_percent)
        alike.setdefault((device.model.name, device.memory.total_mib), []).append(row)
    return [[model, total_mib, rows] for (model, total_mib), rows in alike.items()]


def _estimated(info: NodeInfo) -> list[list[Any]]:
    estimate = info.estimate
    if estimate is None:
        return []
    return [[estimate.model.name, estimate.memory_mib, [[index] for index in range(estimate.count)]]]


def _device(
    info: NodeInfo, device: Device, held: DeviceHoldings, part: float, headroom_percent: int
) -> list[Any]:
    usage = device_usage(info, device, held, headroom_percent)
    row: list[Any] = [
        device.index,
        device.memory.reserved_mib,
        usage.requested_mib,
        device.memory.used_mib,
        usage.unaccounted_mib,
        usage.free_mib,
        part,
    ]
    special: dict[str, Any] = {}
    if not device.healthy:
        special["sick"] = device.health_reason or "unhealthy"
    if device.cordoned:
        special["cordoned"] = True
    if info.report is not None and info.report.sharing_strategy != "none":
        special["replicas"] = info.report.replicas
    if device.mig.enabled:
        special["mig"] = _mig(device, held)
    return [*row, special] if special else row


def _mig(device: Device, held: DeviceHoldings) -> dict[str, Any]:
    return {
        "grid": device.mig.geometry.grid if device.mig.geometry is not None else _USUAL_GRID,
        "instances": [
            [instance.start, instance.size, instance.profile, instance.uuid in held.instances]
            for instance in sorted(device.mig.instances, key=mig_place)
        ],
    }
