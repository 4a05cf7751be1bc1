"""A dry run on one node: whether a request fits when some of the node's pods are gone.

A node's holdings are the sum of its pods' holdings. The part of each pod is computed once; any set of pods is
then a subtraction. The filters give the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from scheduler_ext.core.cycle.cycle import Decision, filter_nodes
from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.framework.allocate import MAX_SEARCH_STEPS, placeable
from scheduler_ext.core.gpu.gpu import Device, Report
from scheduler_ext.core.gpu.room import NOTHING_HELD, DeviceHoldings, Room
from scheduler_ext.core.node.holdings import Holdings, holdings_of
from scheduler_ext.core.node.node import UNLIMITED, BoundPod, Node, NodeInfo, Slot
from scheduler_ext.core.node.state import resolve_held
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.table import build_snapshot

# Pods by their index among those that may leave.
Gone = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Relief:
    """The resources that the departure of one pod frees: by device UUID, and for the node.

    ``departed_mib`` of a device is below zero: more of the report's use no longer counts.
    """

    devices: Mapping[str, DeviceHoldings]
    unknown: Mapping[str, int]
    requested: Mapping[str, int]
    unplaced: bool


class DryRun:
    """A node, the pods of it that may leave, and a request that is to fit when some of them have left."""

    def __init__(
        self,
        info: NodeInfo,
        pods: Sequence[BoundPod],
        request: GpuRequest,
        sizing: Sizing,
        steps: list[int] | None = None,
    ) -> None:
        """``steps`` bounds the cost of placing shares over all questions (as for ShareFit)."""
        self.info = info
        self.pods = pods
        self.sizing = sizing
        self._request = request
        self._steps = [MAX_SEARCH_STEPS] if steps is None else steps
        self.held = holdings_of(info, sizing.resources)
        # Of two pods with one name, the agent may have seen either, so that parts do not add up.
        self._adds_up = _distinct(info.pods)
        self.reliefs = self._reliefs()
        self._fits: dict[Gone, bool] = {}
        self._rooms: dict[str, tuple[Room, int]] | None = None
        # Then no pod's departure makes a fit impossible. Not worth the cost for a single question.
        self.only_room_grows = bool(pods) and self._only_room_changes()
        # A device looks the same whichever other pods have gone: a new set of pods has few new devices.
        self._devices: dict[tuple[str, Gone], DeviceHoldings] = {}
        self._slots: dict[tuple[str, Hashable], Slot] = {}

    @property
    def evaluations(self) -> int:
        """The number of sets of pods that were evaluated."""
        return len(self._fits)

    def fits(self, gone: Gone) -> bool:
        """Whether the request fits when these pods have gone."""
        return self.first_fit((gone,)) is not None

    def first_fit(self, sets: Sequence[Gone]) -> Gone | None:
        """The first of these sets after which the request fits; all of them are evaluated together."""
        new = [gone for gone in dict.fromkeys(sets) if gone not in self._fits]
        if new and self.only_room_grows:
            self._fits.update((gone, self._fits_by_room(gone)) for gone in new)
        elif new:
            self._decide(new)
        return next((gone for gone in sets if self._fits[gone]), None)

    def confirm(self, gone: Gone) -> bool:
        """Whether the filters agree that a set suffices; after a disagreement only the filters are asked."""
        if not self.only_room_grows:
            return self.fits(gone)
        self._decide([gone])
        if not self._fits[gone]:
            self.only_room_grows = False
            self._fits.clear()
            return False
        return True

    def node_without(self, gone: Gone) -> Node:
        """The node when these pods have gone."""
        held = self._held_without(gone) if gone else self.held
        sizing = self.sizing
        return resolve_held(self.info, held, sizing.resources, sizing.headroom_percent, self._slots)

    def _decision(self, sets: Sequence[Gone]) -> Decision:
        snapshot = build_snapshot({str(i): self.node_without(gone) for i, gone in enumerate(sets)}, 0)
        return filter_nodes(self._request, snapshot, self.sizing.policy, self._steps)

    def _decide(self, sets: Sequence[Gone]) -> None:
        decision = self._decision(sets)
        fits = decision.fits[decision.snapshot.state_of[:-1]]
        self._fits.update(zip(sets, fits.tolist(), strict=True))

    def _only_room_changes(self) -> bool:
        """Whether departures change nothing but the room for shares, which only grows: no pod has whole GPUs
        or instances."""
        held, request = self.held, self._request
        return (
            self.info.report is not None
            and request.shares is not None
            and not request.units
            and self._adds_up
            and not any(held.unknown.values())
            and not any(
                each.units or each.instances for relief in self.reliefs for each in relief.devices.values()
            )
        )

    def _fits_by_room(self, gone: Gone) -> bool:
        """The answer of the filters at a tenth of the cost, where only room for shares changes."""
        shares = self._request.shares
        assert shares is not None
        if self._rooms is None:
            self._rooms = self._share_rooms()
        if self._share_limit(gone) < shares.total_mib:
            return False
        parts: dict[str, list[DeviceHoldings]] = {}
        for i in gone:
            for uuid, part in self.reliefs[i].devices.items():
                parts.setdefault(uuid, []).append(part)
        least = self._request.min_free_mib
        free = [
            room.without(parts[uuid]).free if uuid in parts else now
            for uuid, (room, now) in self._rooms.items()
        ]
        return placeable([mib if mib >= least else -1 for mib in free], shares, self._steps)

    def _share_rooms(self) -> dict[str, tuple[Room, int]]:
        """The room on the GPUs that take shares when all pods have gone, and how much of it is free now: no
        other GPU takes shares while some of the pods stay."""
        decision = self._decision([tuple(range(len(self.pods)))])
        state = decision.snapshot.state_of[0]
        if self.info.report is None or not decision.fits[state]:
            return {}
        (node,) = decision.snapshot.nodes.values()
        free = decision.share_room_mib[:, state].tolist()
        takes = {uuid for uuid, room in zip(node.uuids, free, strict=False) if room >= 0}
        percent, held = self.sizing.headroom_percent, self.held.devices
        rooms = {
            device.uuid: Room.of(device.memory, held[device.uuid], percent)
            for device in self.info.report.devices
            if device.uuid in takes
        }
        return {uuid: (room, room.free) for uuid, room in rooms.items()}

    def _share_limit(self, gone: Gone) -> int:
        """What the node's sum leaves for shares; 0 while the device of a pod's share is unknown."""
        unplaced = len(self.held.unplaced) - sum(self.reliefs[i].unplaced for i in gone)
        if unplaced or self.info.allocatable is None:
            return 0 if unplaced else UNLIMITED
        name = self.sizing.resources.share
        freed = sum(self.reliefs[i].requested.get(name, 0) for i in gone)
        return self.info.allocatable.get(name, 0) - self.held.requested[name] + freed

    def _held_without(self, gone: Gone) -> Holdings:
        if not self._adds_up:
            return self._holdings(without(self.info, [self.pods[i] for i in gone]))
        unknown, requested = Counter(self.held.unknown), Counter(self.held.requested)
        touched: dict[str, list[int]] = {}
        for i in gone:
            for uuid in self.reliefs[i].devices:
                touched.setdefault(uuid, []).append(i)
            unknown.subtract(self.reliefs[i].unknown)
            requested.subtract(self.reliefs[i].requested)
        uids = {self.pods[i].uid for i in gone if self.reliefs[i].unplaced}
        unplaced = [pod for pod in self.held.unplaced if pod.uid not in uids]
        devices = dict(self.held.devices)
        devices.update((uuid, self._device_without(uuid, tuple(here))) for uuid, here in touched.items())
        return Holdings(devices=devices, unplaced=unplaced, unknown=unknown, requested=requested)

    def _device_without(self, uuid: str, gone: Gone) -> DeviceHoldings:
        found = self._devices.get((uuid, gone))
        if found is None:
            parts = (self.reliefs[i].devices[uuid] for i in gone)
            found = self._devices[uuid, gone] = reduce(DeviceHoldings.less, parts, self.held.devices[uuid])
        return found

    def _reliefs(self) -> list[Relief]:
        if not self._adds_up:
            return [_relief(self.held, self._holdings(without(self.info, [pod]))) for pod in self.pods]
        unplaced = {pod.uid for pod in self.held.unplaced}
        reliefs = []
        for pod in self.pods:
            report = _report_on(pod, self.info.report, pod.uid in unplaced)
            alone = replace(self.info, report=report, pods=(pod,))
            reliefs.append(_relief(self._holdings(alone), self._holdings(without(alone, [pod]))))
        return reliefs

    def _holdings(self, info: NodeInfo) -> Holdings:
        return holdings_of(info, self.sizing.resources)


def without(info: NodeInfo, gone: Sequence[BoundPod]) -> NodeInfo:
    """The node when these pods have departed; the same object where there are none."""
    if not gone:
        return info
    uids = {pod.uid for pod in gone}
    return replace(
        info, pods=tuple(replace(pod, departed=True) if pod.uid in uids else pod for pod in info.pods)
    )


def _distinct(pods: Sequence[BoundPod]) -> bool:
    names = {(pod.namespace, pod.name) for pod in pods}
    return len(names) == len({pod.uid for pod in pods}) == len(pods)


def _report_on(pod: BoundPod, report: Report | None, anywhere: bool) -> Report | None:
    """A report of the devices that a pod may be on; ``anywhere`` where its devices are unknown.

    Other pods count as strangers there. This does not matter: they do so with the pod and without it.
    """
    if report is None or anywhere:
        return report
    told = {uuid for uuids in pod.devices.values() for uuid in uuids}
    devices = [each for each in report.devices if each.uuid in told or _is_on(pod, each)]
    return replace(report, devices=tuple(devices))


def _is_on(pod: BoundPod, device: Device) -> bool:
    if any(map(pod.is_holder, device.holders)):
        return True
    holders = (instance.holder for instance in device.mig.instances)
    return any(holder is not None and pod.is_holder(holder) for holder in holders)


def _relief(before: Holdings, after: Holdings) -> Relief:
    parts = {uuid: held.less(after.devices[uuid]) for uuid, held in before.devices.items()}
    return Relief(
        devices={uuid: part for uuid, part in parts.items() if part != NOTHING_HELD},
        unknown=_more(before.unknown, after.unknown),
        requested=_more(before.requested, after.requested),
        unplaced=len(before.unplaced) > len(after.unplaced),
    )


def _more(before: Counter[str], after: Counter[str]) -> dict[str, int]:
    return {name: count - after[name] for name, count in before.items() if count != after[name]}
