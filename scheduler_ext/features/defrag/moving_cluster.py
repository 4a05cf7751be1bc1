"""A dry run on a cluster in which pods move: rooms are held for pods that are to come, and changes are taken
back. A held room counts against every pod but its own, as a nominated pod does in filter."""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from scheduler_ext.core.cycle.placement import place, place_nominated
from scheduler_ext.core.errors import InventoryError
from scheduler_ext.core.intree import NodeFacts, intree_rejection, needs_key
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.node.nominated import with_nominated_pods
from scheduler_ext.core.preemption.dry_run import DryRun, Reliefs
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.whatif.whatif import PodInfo, Resident, WhatIf, name_of
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.pod.cached_pod import bound_pod

# Below every priority: such a pod sees all that is held.
_LOWEST = -(2**31)
# Above every priority, so that no pod ignores what is held.
HELD_PRIORITY = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Before:
    """A node before a change."""

    name: str
    info: NodeInfo
    facts: NodeFacts | None
    residents: dict[str, Resident]
    held: tuple[BoundPod, ...]


class MovingCluster(WhatIf):
    """The state of a cluster. Rooms of pods that wait for victims there are held from the start."""

    def __init__(self, state: ClusterState, config: Configuration) -> None:
        self._held: dict[str, tuple[BoundPod, ...]] = {}
        self._journal: list[_Before] = []
        self._reliefs: dict[str, Reliefs] = {}
        # The first nodes that take a pod, by its request and needs, on one snapshot.
        self._places: tuple[Snapshot | None, dict[Hashable, list[str]]] = None, {}
        super().__init__(state, config)
        for name, info in state.infos.items():
            if info.nominated:
                self._held[name] = info.nominated
                self._replace(self.infos[name])

    def hold_rooms(
        self, rooms: Mapping[str, Sequence[BoundPod]], mine: Collection[str]
    ) -> list[tuple[str, BoundPod]]:
        """Count the rooms that other runs hold, by node, which are all but those for these names; return
        them with their nodes."""
        found = []
        for name in sorted(self.infos.keys() & rooms.keys()):
            others = [pod for pod in rooms[name] if (name_of(pod) if pod.namespace else pod.name) not in mine]
            if others:
                self._held[name] = (*self._held.get(name, ()), *others)
                self._replace(self.infos[name])
                found += [(name, pod) for pod in others]
        return found

    @property
    def held(self) -> Mapping[str, Sequence[BoundPod]]:
        """The pods that a room is held for, by node."""
        return self._held

    def mark(self) -> int:
        """A point in time to which `rollback` returns."""
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Take back all changes since."""
        undone: dict[str, _Before] = {}
        while len(self._journal) > mark:
            before = self._journal.pop()
            undone[before.name] = before
        for name, before in undone.items():
            self.residents[name] = before.residents
            self.in_tree.restore(name, before.facts)
            self.infos[name] = before.info
            self._held[name] = before.held
        self._decide_on({name: self.sizing.resolved(self.seen(name)) for name in undone})

    def devices_without(
        self, name: str, pod_info: PodInfo, leaving: Collection[str]
    ) -> dict[str, tuple[str, ...]]:
        """The GPUs of a pod's shares on a node that these pods have left, by container; none if it does not
        fit then, or has no shares."""
        if pod_info.request.shares is None:
            return {}
        info = self.seen(name, pod_info.uid)
        staying = tuple(pod for pod in info.pods if pod.uid not in leaving)
        found = place(replace(info, pods=staying), pod_info.request, self.sizing)
        return {} if isinstance(found, str) else dict(found.devices)

    def hold(self, name: str, pod_info: PodInfo, devices: Mapping[str, tuple[str, ...]]) -> None:
        """Hold room for a pod on a node; `devices` are those of its shares while it fits on no others.
        Without them, such a node takes no new share of other pods."""
        self._remember(name)
        pod = replace(
            bound_pod(pod_info.pod, self.sizing.resources),
            uid=pod_info.uid,
            request=pod_info.request,
            devices=devices,
            priority=HELD_PRIORITY,
            finished=False,
            terminating=False,
        )
        self._held[name] = (*self._held.get(name, ()), pod)
        self._replace(self.infos[name])

    def release(self, name: str, uid: str) -> None:
        """Hold room for this pod no longer."""
        self._remember(name)
        self._held[name] = tuple(pod for pod in self._held.get(name, ()) if pod.uid != uid)
        self._replace(self.infos[name])

    def denominate(self, uid: str) -> None:
        """Hold no room for this pod on any node: it looks for one."""
        for name in [name for name, held in self._held.items() if any(pod.uid == uid for pod in held)]:
            self.release(name, uid)

    def bind(self, pod_info: PodInfo, name: str) -> list[dict[str, object]]:
        self._remember(name)
        return super().bind(pod_info, name)

    def evict(self, name: str, uids: Sequence[str]) -> list[BoundPod]:
        self._remember(name)
        return super().evict(name, uids)

    def seen(self, name: str, uid: str = "") -> NodeInfo:
        """A node as a pod of this uid sees it: with the rooms that are held for others."""
        info = self.infos[name]
        held = tuple(pod for pod in self._held.get(name, ()) if pod.uid != uid)
        if not held:
            return info
        waiting = replace(info, nominated=held)
        if any(pod.request.shares is not None for pod in held):
            waiting = place_nominated(waiting, self.sizing)
        return with_nominated_pods(waiting, "", _LOWEST)

    def admits(self, pod_info: PodInfo, name: str) -> bool:
        """Whether a node takes a pod for which its room may be held."""
        facts, ours = self.in_tree.facts(name), self.in_tree.ours(pod_info.needs)
        if facts is not None and intree_rejection(pod_info.needs, facts, ignore_resources=ours) is not None:
            return False
        return DryRun(self.seen(name, pod_info.uid), (), pod_info.request, self.sizing).fits(())

    def reliefs(self, name: str, uid: str) -> Reliefs:
        """What departures free on a node, as a pod of this uid sees it; kept until the node changes."""
        info = self.seen(name, uid)
        known = self._reliefs.get(name)
        if known is None or known.info is not info:
            known = self._reliefs[name] = Reliefs(info, self.sizing)
        return known

    def fits_besides(self, pod_info: PodInfo, name: str) -> bool:
        """Whether any node but this one takes a pod."""
        snapshot = self.snapshot
        if self._places[0] is not snapshot:
            self._places = snapshot, {}
        key = pod_info.request, needs_key(pod_info.needs)
        places = self._places[1].get(key)
        if places is None:
            # Of two, one is another node.
            places = self._places[1][key] = list(islice(self._takers(pod_info), 2))
        return any(place != name for place in places)

    def _takers(self, pod_info: PodInfo) -> Iterator[str]:
        fits = self._decide(pod_info.request).fits[self.snapshot.state_of[:-1]]
        names = list(self.infos)
        for i in np.flatnonzero(fits):
            if self.in_tree.refusal(pod_info.needs, names[int(i)]) is None:
                yield names[int(i)]

    def _remember(self, name: str) -> None:
        if name not in self.infos:
            raise InventoryError(f"node {name}: neither reported nor labelled with GPUs")
        here = dict(self.residents.get(name, {}))
        before = _Before(name, self.infos[name], self.in_tree.facts(name), here, self._held.get(name, ()))
        self._journal.append(before)

    def _replace(self, info: NodeInfo) -> None:
        self.infos[info.name] = info
        self._decide_on({info.name: self.sizing.resolved(self.seen(info.name))})
