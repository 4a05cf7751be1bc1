"""One node without some of its pods: would a request fit?

What a node holds is the sum of what its pods hold, so what each of them leaves behind is worked out once, and
any number of pods that might go together is then a matter of subtracting. The answer is that of the filters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.policy import Policy
from scheduler_ext.core.framework.allocate import MAX_SEARCH_STEPS
from scheduler_ext.core.gpu.gpu import Device, Holder, Report
from scheduler_ext.core.node.holdings import DeviceHoldings, Holdings, holdings_of
from scheduler_ext.core.node.node import UNLIMITED, BoundPod, Node, NodeInfo, Slot
from scheduler_ext.core.node.state import resolve_held
from scheduler_ext.core.preemption.share_rooms import ShareRooms
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.table import build_snapshot

# Pods by their place among those that may go.
Gone = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Relief:
    """What a pod that departs leaves behind. ``devices`` are those it touches, by UUID: what is held less;
    ``departed_mib`` is below zero there, for it is more of the report's use that no longer counts."""

    devices: Mapping[str, DeviceHoldings]
    unknown: Mapping[str, int]
    requested: Mapping[str, int]
    unplaced: bool


class DryRun:
    """A node, the pods of it that may go, and a request that is to fit when some of them have gone."""

    def __init__(
        self,
        info: NodeInfo,
        pods: Sequence[BoundPod],
        request: GpuRequest,
        policy: Policy,
        resources: ResourceNames,
        headroom_percent: int,
        steps: list[int] | None = None,
    ) -> None:
        """``steps`` bound what placing shares may cost, over all that is asked of it (as for ShareFit)."""
        self.info = info
        self.pods = pods
        self._request = request
        self._policy = policy
        self._resources = resources
        self._steps = [MAX_SEARCH_STEPS] if steps is None else steps
        self.headroom_percent = headroom_percent
        self.held = holdings_of(info, resources)
        # Of two of one name, what the agent saw of one may be the other's: then nothing simply adds up.
        self._adds_up = _distinct(info.pods)
        self.reliefs = self._reliefs()
        self._fits: dict[Gone, bool] = {}
        self._rooms: ShareRooms | None = None
        # Then who leaves is never in the way; not worth finding out for a single question.
        self.only_room_grows = bool(pods) and self._only_room_changes()
        # A device looks the same whoever else has gone: few of them are new in a set.
        self._devices: dict[tuple[str, Gone], DeviceHoldings] = {}
        self._slots: dict[tuple[str, Hashable], Slot] = {}

    @property
    def evaluations(self) -> int:
        """How many sets of pods were looked at."""
        return len(self._fits)

    def fits(self, gone: Gone) -> bool:
        """Whether the request fits when these have gone."""
        return self.first_fit((gone,)) is not None

    def first_fit(self, sets: Sequence[Gone]) -> Gone | None:
        """The first of these sets after which the request fits; all of them are looked at together."""
        new = [gone for gone in dict.fromkeys(sets) if gone not in self._fits]
        if new and self.only_room_grows:
            self._look_at_rooms(new)
        elif new:
            self._decide(new)
        return next((gone for gone in sets if self._fits[gone]), None)

    def confirm(self, gone: Gone) -> bool:
        """Whether the filters say the same of a set that is taken to suffice; else only they are asked from
        now on."""
        if not self.only_room_grows:
            return self.fits(gone)
        self._decide([gone])
        if not self._fits[gone]:
            self.only_room_grows = False
            self._fits.clear()
            return False
        return True

    def _decide(self, sets: Sequence[Gone]) -> None:
        snapshot = build_snapshot({str(i): self.node_without(gone) for i, gone in enumerate(sets)}, 0)
        fits = filter_nodes(self._request, snapshot, self._policy, self._steps).fits[snapshot.state_of[:-1]]
        self._fits.update(zip(sets, fits.tolist(), strict=True))

    def _look_at_rooms(self, sets: Sequence[Gone]) -> None:
        shares = self._request.shares
        assert shares is not None
        if self._rooms is None:
            self._rooms = self._share_rooms()
        for gone in sets:
            self._fits[gone] = self._share_limit(gone) >= shares.total_mib and self._rooms.fit(
                shares, gone, self._steps
            )

    def _only_room_changes(self) -> bool:
        """Whether nothing but room for shares tells the node before from the node after, and that only grows:
        nobody has whole GPUs or instances."""
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

    def _share_rooms(self) -> ShareRooms:
        """The GPUs that take shares when everybody has gone; who is left makes no other one do so."""
        everybody = tuple(range(len(self.pods)))
        node = self.node_without(everybody)
        snapshot = build_snapshot({"0": node}, 0)
        decision = filter_nodes(self._request, snapshot, self._policy, self._steps)
        state = snapshot.state_of[0]
        takes: set[str | None] = set()
        if decision.fits[state]:
            rooms = decision.share_room_mib[:, state].tolist()
            takes = {uuid for uuid, room in zip(node.uuids, rooms, strict=False) if room >= 0}
        devices = self.info.report.devices if self.info.report is not None else ()
        return ShareRooms(
            [device for device in devices if device.uuid in takes],
            [tuple(relief.devices) for relief in self.reliefs],
            self._device_without,
            self.headroom_percent,
            self._request.min_free_mib,
        )

    def _share_limit(self, gone: Gone) -> int:
        """What the node's sum has left for shares; none while nobody has told where somebody's share is."""
        unplaced = len(self.held.unplaced) - sum(self.reliefs[i].unplaced for i in gone)
        if unplaced or self.info.allocatable is None:
            return 0 if unplaced else UNLIMITED
        name = self._resources.share
        freed = sum(self.reliefs[i].requested.get(name, 0) for i in gone)
        return self.info.allocatable.get(name, 0) - self.held.requested[name] + freed

    def node_without(self, gone: Gone) -> Node:
        """The node when these have gone."""
        held = self._held_less(gone) if gone else self.held
        return resolve_held(self.info, held, self._resources, self.headroom_percent, self._slots)

    def _held_less(self, gone: Gone) -> Holdings:
        if not self._adds_up:
            return holdings_of(without(self.info, [self.pods[i] for i in gone]), self._resources)
        unknown, requested = Counter(self.held.unknown), Counter(self.held.requested)
        unplaced = list(self.held.unplaced)
        touched: dict[str, list[int]] = {}
        for i in gone:
            relief = self.reliefs[i]
            for uuid in relief.devices:
                touched.setdefault(uuid, []).append(i)
            for name, count in relief.unknown.items():
                unknown[name] -= count
            for name, count in relief.requested.items():
                requested[name] -= count
            if relief.unplaced:
                unplaced = [pod for pod in unplaced if pod.uid != self.pods[i].uid]
        devices = dict(self.held.devices)
        devices.update((uuid, self._device_without(uuid, tuple(here))) for uuid, here in touched.items())
        return Holdings(devices=devices, unplaced=unplaced, unknown=unknown, requested=requested)

    def _device_without(self, uuid: str, gone: Gone) -> DeviceHoldings:
        found = self._devices.get((uuid, gone))
        if found is None:
            less = (self.reliefs[i].devices[uuid] for i in gone)
            found = self._devices[uuid, gone] = reduce(_less, less, self.held.devices[uuid])
        return found

    def _reliefs(self) -> list[Relief]:
        if not self._adds_up:
            less = [holdings_of(without(self.info, [pod]), self._resources) for pod in self.pods]
            return [_relief(self.held, held) for held in less]
        unplaced = {pod.uid for pod in self.held.unplaced}
        reliefs = []
        for pod in self.pods:
            info = replace(
                self.info, report=_report_on(pod, self.info.report, pod.uid in unplaced), pods=(pod,)
            )
            reliefs.append(
                _relief(
                    holdings_of(info, self._resources),
                    holdings_of(without(info, [pod]), self._resources),
                )
            )
        return reliefs


def _distinct(pods: Sequence[BoundPod]) -> bool:
    names = {(pod.namespace, pod.name) for pod in pods}
    return len(names) == len({pod.uid for pod in pods}) == len(pods)


def without(info: NodeInfo, gone: Sequence[BoundPod]) -> NodeInfo:
    """The node when these have departed; as it is where there are none."""
    if not gone:
        return info
    uids = {pod.uid for pod in gone}
    return replace(
        info, pods=tuple(replace(pod, departed=True) if pod.uid in uids else pod for pod in info.pods)
    )


def _report_on(pod: BoundPod, report: Report | None, anywhere: bool) -> Report | None:
    """A report of the devices that a pod may be on; ``anywhere`` where nobody has told.

    That other pods count as strangers there does not matter: they do so with the pod as without it.
    """
    if report is None or anywhere:
        return report
    told = {uuid for uuids in pod.devices.values() for uuid in uuids}
    devices = tuple(
        device
        for device in report.devices
        if device.uuid in told or any(map(pod.is_holder, _holders(device)))
    )
    return replace(report, devices=devices)


def _holders(device: Device) -> list[Holder]:
    instances = [instance.holder for instance in device.mig.instances]
    return [*device.holders, *(holder for holder in instances if holder is not None)]


def _relief(before: Holdings, after: Holdings) -> Relief:
    devices = {
        uuid: less
        for uuid, held in before.devices.items()
        if (less := _less(held, after.devices[uuid])) != _NOTHING
    }
    return Relief(
        devices=devices,
        unknown=_more(before.unknown, after.unknown),
        requested=_more(before.requested, after.requested),
        unplaced=len(before.unplaced) > len(after.unplaced),
    )


def _more(before: Counter[str], after: Counter[str]) -> dict[str, int]:
    return {name: count - after[name] for name, count in before.items() if count != after[name]}


def _less(held: DeviceHoldings, less: DeviceHoldings) -> DeviceHoldings:
    return DeviceHoldings(
        units=held.units - less.units,
        instances=held.instances - less.instances,
        requested_mib=held.requested_mib - less.requested_mib,
        foreign_mib=held.foreign_mib - less.foreign_mib,
        departed_mib=held.departed_mib - less.departed_mib,
    )


_NOTHING = DeviceHoldings()
