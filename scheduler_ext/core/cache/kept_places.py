"""The places that a planner keeps for waiting pods: each until a time, whether the planner is alive or
not."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from scheduler_ext.core.node.node import BoundPod


class KeptPlace(NamedTuple):
    """A pod's place, kept until a monotonic time. `written`: the pod was seen with it in its status."""

    pod: BoundPod
    node: str
    until: float
    written: bool


class KeptPlaces:
    """At most one place for each pod."""

    def __init__(self) -> None:
        self._by_uid: dict[str, KeptPlace] = {}
        self._on: dict[str, dict[str, BoundPod]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._by_uid

    def __iter__(self) -> Iterator[KeptPlace]:
        return iter(self._by_uid.values())

    def of(self, uid: str) -> KeptPlace | None:
        """The place of a pod."""
        return self._by_uid.get(uid)

    def on(self, node: str) -> tuple[BoundPod, ...]:
        """The pods that have a place on a node."""
        here = self._on.get(node)
        return tuple(here[uid] for uid in sorted(here)) if here else ()

    def keep(self, place: KeptPlace) -> list[str]:
        """Keep this place and no other for its pod; returns the nodes that changed. The devices that were
        chosen for a pod are not written on it, so they stay with a place on the same node."""
        uid = place.pod.uid
        before = self._by_uid.get(uid)
        changed = []
        if before is not None and before.node == place.node:
            pod = place.pod if place.pod.devices else replace(place.pod, devices=before.pod.devices)
            place = place._replace(pod=pod, written=place.written or before.written)
        elif before is not None:
            changed += self.drop(uid)
        self._by_uid[uid] = place
        here = self._on.setdefault(place.node, {})
        if here.get(uid) != place.pod:
            here[uid] = place.pod
            changed.append(place.node)
        return changed

    def drop(self, uid: str) -> list[str]:
        """Keep no place for a pod; returns the nodes that changed."""
        place = self._by_uid.pop(uid, None)
        if place is None:
            return []
        here = self._on[place.node]
        del here[uid]
        if not here:
            del self._on[place.node]
        return [place.node]

    def over(self, now: float) -> list[str]:
        """The uids of the pods whose time is over."""
        return [uid for uid, place in self._by_uid.items() if place.until <= now]
