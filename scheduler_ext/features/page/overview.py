"""A node as one short JSON array, for a page that shows thousands of them.

A node with GPUs is `[name, pool, kind, state, marks, namespaces, unattributed, groups, readings]`, with a
group `[model, totalMiB, devices]` for GPUs that are alike:

- `kind` is how its GPUs are handed out: whole, shares, mig, time-slicing, mps, or labels where only their
  number is known.
- `state` is Fresh, Stale or Missing; `marks` are some of spot and changing.
- `namespaces` are those whose pods hold GPUs there, `unattributed` are texts about what pods hold there
  on unknown GPUs.
- A device is `[index, reserved, requested, used, unaccounted, free, held]`: MiB, unaccounted null if
  it is unknown, free the memory that may still be promised, held the part of the GPU that pods hold, 0 to 1;
  `[index, held]` for GPUs known by labels, followed by the part that is not offered, if any is. Holdings on
  unknown GPUs, and what is not offered, count on some of those that they may be on, so that sums are right.
  Anything unusual follows in an object: `maybe` if the GPU may be one of those, with `[requested, free,
  held]` if it is none, `withheld` with the part that counts as not offered, `sick` with the reason,
  `cordoned`, `claimed` if a ResourceClaim holds it or a part of it, `replicas` (how many pods may share it),
  `mig` with the `grid` in slots and `instances` of `[start, size, profile, held]`, held null if it may be.
- `readings` are `[index, busy, celsius, watts, idle]` of GPUs whose report has one of them: percent of time,
  degrees, watts, and seconds since the GPU last computed; null if unknown. true follows if the GPU is idle.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence, Set
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple

from scheduler_ext.core.gpu.gpu import Device, Report
from scheduler_ext.core.gpu.readings import NO_READINGS, NodeReadings, Readings
from scheduler_ext.core.node.attribution import Attribution, attribute
from scheduler_ext.core.node.claimed import claimed_gpus
from scheduler_ext.core.node.holdings import Holdings, holdings_of
from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.node.state import resolve_held
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.explain.sentences import unattributed
from scheduler_ext.views.listing import mig_place
from scheduler_ext.views.node_usage import device_usage, promises_memory
from scheduler_ext.wire.extender_args import encode_json

# The grid of all GPUs with seven slices, where neither report nor table names another.
_USUAL_GRID = 8
NO_GPUS: Set[str] = frozenset()
NO_IDLE: Mapping[str, Set[str]] = MappingProxyType({})
# Removed nodes are remembered for pages that have not seen the removal yet; later pages get everything again.
_MOST_GONE = 10_000
# So much work at a time, then so long a rest: decisions are made by the same interpreter.
_WORK_S = 0.001
_REST_S = 0.002


def node_row(node: Node, resources: ResourceNames, headroom_percent: int) -> list[Any] | None:
    """The row of a node without its readings; None for one without GPUs. `headroom_percent` of each GPU stays
    free of shares."""
    info = node.info
    if info.report is None and info.estimate is None and info.freshness == "Fresh":
        return None
    known = holdings_of(info, resources)
    attribution = attribute(info, known, resources, node)
    marked = (("spot", info.spot), ("changing", info.changing), ("by allocatable", info.takes_unreported))
    marks = [name for name, holds in marked if holds]
    return [
        info.name,
        info.pool,
        _kind(info),
        info.freshness,
        marks,
        _namespaces(info),
        [each["text"] for each in unattributed(info, attribution.unknown, resources.share)],
        _reported(node, info.report, known, attribution, (resources, headroom_percent))
        if info.report
        else _estimated(node, attribution.beyond),
    ]


def _readings_row(
    info: NodeInfo, readings: Sequence[Readings], idle: Set[str]
) -> list[list[int | bool | None]]:
    """Of the GPUs that the row shows."""
    index = {device.uuid: device.index for device in info.devices}
    rows: list[list[int | bool | None]] = []
    for did in readings:
        if did.uuid in index:
            values = [did.utilization_percent, did.temperature_celsius, did.power_watts, did.idle_s]
            marks = [True] if did.uuid in idle else []
            if marks or values != [None] * 4:
                rows.append([index[did.uuid], *values, *marks])
    return rows


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
    namespaces.update(each.claim.namespace for each in claimed_gpus(info))
    for device in info.devices:
        holders = [*device.holders, *(it.holder for it in device.mig.instances if it.holder is not None)]
        namespaces.update(holder.namespace for holder in holders if holder.namespace)
    return sorted(namespaces)


def _reported(
    node: Node, report: Report, known: Holdings, attribution: Attribution, sizes: tuple[ResourceNames, int]
) -> list[list[Any]]:
    """The GPUs of a node with a report, by model and memory, since one node's GPUs are nearly always alike;
    `known` are the holdings on known devices."""
    resources, headroom_percent = sizes
    certain = charged = _parts(node)
    pairs = zip(node.uuids, node.state.slots, strict=True)
    slots = {(uuid, known.devices[uuid].amounts): slot for uuid, slot in pairs if uuid is not None}
    if attribution.held is not known:
        charged = _parts(resolve_held(node.info, attribution.held, resources, headroom_percent, slots))
    taken = charged
    if attribution.beyond:
        taken = _parts(resolve_held(node.info, attribution.taken.held, resources, headroom_percent, slots))
    alike: dict[tuple[str, int | None], list[list[Any]]] = {}
    for device in sorted(report.devices, key=lambda device: device.index):
        uuid, memory = device.uuid, device.memory
        held, here = attribution.held.devices[uuid], attribution.taken.held.devices[uuid]
        usage = device_usage(node.info, device, held, here, headroom_percent)
        promised, measured = promises_memory(node.info, device), memory.measured
        row: list[Any] = [
            device.index,
            memory.reserved_mib if measured else None,
            usage.requested_mib if promised else None,
            memory.used_mib if measured else None,
            usage.unaccounted_mib if measured else None,
            usage.free_mib if promised else None,
            charged[uuid],
        ]
        special = _special(device, report, held.instances, attribution.instances)
        if held.claimed is not None:
            special["claimed"] = True
        if not all(attribution.offers(each) for each in (uuid, *(it.uuid for it in device.mig.instances))):
            left = 1.0 if uuid in attribution.closed else taken[uuid]
            special["withheld"] = round(left - charged[uuid], 3)
        if uuid in attribution.devices | attribution.taken.devices:
            may_be_held = uuid in attribution.devices
            least = known.devices[uuid] if may_be_held else held
            surely = attribution.least_taken(uuid, known.devices[uuid])
            usage = device_usage(node.info, device, least, surely, headroom_percent)
            amounts = [usage.requested_mib, usage.free_mib] if promised else [None, None]
            special = {"maybe": [*amounts, (certain if may_be_held else charged)[uuid]], **special}
        rows = alike.setdefault((device.model.name, memory.total_mib or None), [])
        rows.append([*row, special] if special else row)
    return [[model, total_mib, rows] for (model, total_mib), rows in alike.items()]


def _special(device: Device, report: Report, held: Set[str], maybe: Set[str]) -> dict[str, Any]:
    special: dict[str, Any] = {}
    if not device.healthy:
        special["sick"] = device.health_reason or "unhealthy"
    if device.cordoned:
        special["cordoned"] = True
    if (replicas := report.replicas if report.hands_out_instances(device) else report.replicas_of()) > 1:
        special["replicas"] = replicas
    if device.mig.enabled:
        instances = [
            [each.start, each.size, each.profile, None if each.uuid in maybe else each.uuid in held]
            for each in sorted(device.mig.instances, key=mig_place)
        ]
        grid = device.mig.geometry.grid if device.mig.geometry is not None else _USUAL_GRID
        special["mig"] = {"grid": grid, "instances": instances}
    return special


def _parts(node: Node) -> dict[str | None, float]:
    """The part of each GPU that is held, by UUID."""
    slots = zip(node.uuids, node.state.slots, strict=True)
    return {uuid: round(1 - slot.idle, 3) for uuid, slot in slots}


def _estimated(node: Node, beyond: Mapping[str, int]) -> list[list[Any]]:
    """GPUs known by labels: pods hold a number of them, or of their replicas, spread evenly over all, and so
    is what is `beyond` allocatable."""
    estimate = node.info.estimate
    if estimate is None:
        return []
    row = [round(min(1.0, node.state.adrift / max(1, estimate.count)), 3)]
    if beyond:
        row.append(round(sum(beyond.values()) / max(1, estimate.count * estimate.replicas), 3))
    return [[estimate.model.name, estimate.memory_mib, [[index, *row] for index in range(estimate.count)]]]


class Change(NamedTuple):
    """What changed: rows as JSON, and names of nodes that are gone. `full`: these are all there are."""

    version: int
    generation: int
    full: bool
    rows: list[bytes]
    gone: list[str]


class OverviewRows:
    """Rows as JSON by node, each with the version at which it changed last. `update` is for one thread;
    `since` for any, and waits for no computation."""

    def __init__(self, resources: ResourceNames, headroom_percent: int) -> None:
        self._resources = resources
        self._headroom_percent = headroom_percent
        self._lock = Lock()
        self._nodes: Mapping[str, Node] = {}
        self._readings: NodeReadings = {}
        self._idle: Mapping[str, Set[str]] = {}
        # Rows without the readings, which change with every report.
        self._states: dict[str, list[Any] | None] = {}
        self._rows: dict[str, tuple[int, bytes]] = {}
        self._gone: OrderedDict[str, int] = OrderedDict()
        # Pages with an older version get everything.
        self._known_from = 0
        self._version = 0
        self._generation = 0

    @property
    def version(self) -> int:
        """Grows with every change; 0 before the first snapshot."""
        return self._version

    def update(
        self,
        snapshot: Snapshot,
        readings: NodeReadings = NO_READINGS,
        idle: Mapping[str, Set[str]] = NO_IDLE,
    ) -> None:
        """Take a snapshot, the activity of its GPUs, and by node the UUIDs of idle GPUs: rows of unchanged
        objects stay."""
        same = readings is self._readings and idle is self._idle
        if self._version and snapshot.generation == self._generation and same:
            return
        nodes = dict(snapshot.nodes)
        changed = self._changed(nodes, readings, idle)
        with self._lock:
            version = self._version + 1
            for name in [name for name in self._rows if name not in nodes]:
                self._drop(name, version)
                self._states.pop(name, None)
            for name, row in changed.items():
                if row is None:
                    self._drop(name, version)
                elif name not in self._rows or self._rows[name][1] != row:
                    self._rows[name] = version, row
                    self._gone.pop(name, None)
            while len(self._gone) > _MOST_GONE:
                _, self._known_from = self._gone.popitem(last=False)
            self._nodes, self._generation, self._version = nodes, snapshot.generation, version
            self._readings, self._idle = readings, idle

    def since(self, version: int) -> Change:
        """The changes since this version; all rows if the changes are no longer known."""
        with self._lock:
            full = not self._known_from <= version <= self._version or version == 0
            rows = [row for at, row in self._rows.values() if full or at > version]
            gone = [] if full else [name for name, at in self._gone.items() if at > version]
            return Change(self._version, self._generation, full, rows, gone)

    def _changed(
        self, nodes: Mapping[str, Node], readings: NodeReadings, idle: Mapping[str, Set[str]]
    ) -> dict[str, bytes | None]:
        rows: dict[str, bytes | None] = {}
        rest_at = time.monotonic() + _WORK_S
        for name, node in nodes.items():
            did, lazy = readings.get(name, ()), idle.get(name, NO_GPUS)
            if self._nodes.get(name) is not node:
                self._states[name] = node_row(node, self._resources, self._headroom_percent)
            elif self._readings.get(name, ()) is did and self._idle.get(name, NO_GPUS) == lazy:
                continue
            state = self._states[name]
            rows[name] = None if state is None else encode_json([*state, _readings_row(node.info, did, lazy)])
            if time.monotonic() > rest_at:
                time.sleep(_REST_S)
                rest_at = time.monotonic() + _WORK_S
        return rows

    def _drop(self, name: str, version: int) -> None:
        if self._rows.pop(name, None) is not None:
            self._gone[name] = version
            self._gone.move_to_end(name)
