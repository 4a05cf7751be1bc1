"""The ResourceClaims of a cluster, by name and by the node whose devices they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from scheduler_ext.core.dra.published import Claim, DeviceId, PublishedDevice

NodeOf = Callable[[Iterable[DeviceId]], str | None]


class Claims:
    """All claims by their uids. Updates return the names of the nodes whose devices they hold."""

    def __init__(self, node_of: NodeOf) -> None:
        """`node_of` finds the node of devices for allocations that name none."""
        self._node_of = node_of
        self._claims: dict[str, Claim] = {}
        self._by_key: dict[str, str] = {}
        self._on_node: dict[str, dict[str, Claim]] = {}
        self._home_of: dict[str, str] = {}
        # Claims that hold devices of a node that is not known.
        self._homeless: set[str] = set()
        # The claims that hold each device, and the devices of these as they were last published: claims
        # outlive slices.
        self._holders: dict[DeviceId, set[str]] = {}
        self._former: dict[DeviceId, PublishedDevice] = {}

    def update(self, item: Claim) -> set[str]:
        """A claim was created or changed."""
        # A claim that only changed still holds what no slice lists any more.
        held = {each.id for each in item.devices or ()}
        former = {id: device for id, device in self._former.items() if id in held}
        changed = self.remove(item.uid)
        self._former.update(former)
        self._claims[item.uid] = item
        self._by_key[item.key] = item.uid
        for id in held:
            self._holders.setdefault(id, set()).add(item.uid)
        return changed | self._settle(item)

    def remove(self, uid: str) -> set[str]:
        """A claim is gone, or is not known."""
        item = self._claims.pop(uid, None)
        if item is None:
            return set()
        if self._by_key.get(item.key) == uid:
            del self._by_key[item.key]
        for each in item.devices or ():
            holders = self._holders.get(each.id, set())
            holders.discard(uid)
            if not holders:
                self._holders.pop(each.id, None)
                self._former.pop(each.id, None)
        self._homeless.discard(uid)
        node = self._home_of.pop(uid, None)
        if node is None:
            return set()
        del self._on_node[node][uid]
        if not self._on_node[node]:
            del self._on_node[node]
        return {node}

    def published(self) -> set[str]:
        """A slice was published: claims whose node was not known may have one."""
        return {node for uid in tuple(self._homeless) for node in self._settle(self._claims[uid])}

    def unpublished(self, id: DeviceId, device: PublishedDevice) -> None:
        """A slice no longer lists a device: remember it while claims hold it."""
        if id in self._holders:
            self._former[id] = device

    def get(self, uid: str) -> Claim | None:
        return self._claims.get(uid)

    def named(self, namespace: str, name: str) -> Claim | None:
        uid = self._by_key.get(f"{namespace}/{name}")
        return self._claims.get(uid) if uid is not None else None

    def uids(self) -> set[str]:
        return set(self._claims)

    def all(self) -> Iterable[Claim]:
        return self._claims.values()

    def holds(self, id: DeviceId) -> bool:
        """Whether a claim holds a device."""
        return id in self._holders

    def consumed(self, id: DeviceId) -> Counter[str]:
        """What claims hold of each capacity of a device that they share."""
        amounts: Counter[str] = Counter()
        for uid in self._holders.get(id, ()):
            for each in self._claims[uid].devices or ():
                if each.id == id:
                    amounts.update(each.consumed)
        return amounts

    def on_node(self, node: str) -> Iterable[Claim]:
        """The claims that hold devices of a node."""
        return self._on_node.get(node, {}).values()

    def former(self, id: DeviceId) -> PublishedDevice | None:
        """A device that a claim holds and no slice lists, as it was last published."""
        return self._former.get(id)

    def _settle(self, claim: Claim) -> set[str]:
        """Assign a claim to the node whose devices it holds."""
        self._homeless.discard(claim.uid)
        if not claim.devices:
            return set()
        node = claim.node or self._node_of(each.id for each in claim.devices)
        if node is None:
            self._homeless.add(claim.uid)
            return set()
        self._home_of[claim.uid] = node
        self._on_node.setdefault(node, {})[claim.uid] = claim
        return {node}
