"""The ResourceSlices of a cluster, by pool and by node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from scheduler_ext.core.dra.published import DeviceId, PublishedDevice, ResourceSlice


class PoolId(NamedTuple):
    """The identity of a pool in the cluster."""

    driver: str
    name: str


class Pools:
    """All slices by their names. Updates return the names of the nodes whose devices change."""

    def __init__(self) -> None:
        self._slices: dict[str, ResourceSlice] = {}
        self._of_pool: dict[PoolId, dict[str, ResourceSlice]] = {}
        self._on_node: dict[str, set[PoolId]] = {}
        # The names of slices that several nodes reach.
        self._unplaced: set[str] = set()
        # How many devices all slices list.
        self.devices = 0

    def update(self, item: ResourceSlice) -> set[str]:
        """A slice was published or changed."""
        changed = self.remove(item.name)
        self._slices[item.name] = item
        self.devices += len(item.devices)
        if item.node is None:
            self._unplaced.add(item.name)
        pool = PoolId(item.driver, item.pool)
        self._of_pool.setdefault(pool, {})[item.name] = item
        for node in (nodes := self._nodes_of(pool)):
            self._on_node.setdefault(node, set()).add(pool)
        return changed | nodes

    def remove(self, name: str) -> set[str]:
        """A slice is gone, or is not known."""
        item = self._slices.pop(name, None)
        if item is None:
            return set()
        self.devices -= len(item.devices)
        self._unplaced.discard(name)
        pool = PoolId(item.driver, item.pool)
        changed = self._nodes_of(pool)
        slices = self._of_pool[pool]
        del slices[name]
        if not slices:
            del self._of_pool[pool]
        for node in changed - self._nodes_of(pool):
            self._on_node[node].discard(pool)
            if not self._on_node[node]:
                del self._on_node[node]
        return changed

    def get(self, name: str) -> ResourceSlice | None:
        return self._slices.get(name)

    def names(self) -> set[str]:
        return set(self._slices)

    def nodes(self) -> set[str]:
        """The nodes of all slices."""
        return set(self._on_node)

    def all(self) -> Iterable[ResourceSlice]:
        return self._slices.values()

    def all_pools(self) -> list[PoolId]:
        """All pools, in order."""
        return sorted(self._of_pool)

    def nodes_by_pool(self) -> dict[PoolId, list[str]]:
        """The nodes that have slices of each pool."""
        return {pool: sorted(self._nodes_of(pool)) for pool in sorted(self._of_pool)}

    def unplaced(self) -> Iterable[ResourceSlice]:
        """The slices that several nodes reach."""
        return (self._slices[name] for name in self._unplaced)

    def on_node(self, node: str) -> list[PoolId]:
        """The pools with a slice of a node, in order."""
        return sorted(self._on_node.get(node, ()))

    def complete(self, pool: PoolId) -> list[ResourceSlice]:
        """The slices of the newest generation, if all are there and no two devices have one name
        (pools_stable.go of k8s.io/dynamic-resource-allocation)."""
        return [] if self.problem(pool) is not None else self.newest(pool)

    def problem(self, pool: PoolId) -> str | None:
        """Why the devices of a pool are not counted; None if they are."""
        current = self.newest(pool)
        if current and len(current) != current[0].slices:
            at = f"generation {current[0].generation}"
            return f"pool {pool.name} has {len(current)} of {current[0].slices} ResourceSlices of {at}"
        names = [device.name for item in current for device in item.devices]
        if len(set(names)) == len(names):
            return None
        ((twice, _),) = Counter(names).most_common(1)
        return f"pool {pool.name} has two devices {twice}"

    def newest(self, pool: PoolId) -> list[ResourceSlice]:
        """The slices of the newest generation, by name."""
        slices = self._of_pool.get(pool, {}).values()
        newest = max((item.generation for item in slices), default=0)
        return sorted((item for item in slices if item.generation == newest), key=lambda item: item.name)

    def named(self, id: DeviceId) -> Iterable[PublishedDevice]:
        """The devices of this name, whatever the generation of their slices, and complete or not."""
        slices = self._of_pool.get(PoolId(id.driver, id.pool), {}).values()
        return (device for item in slices for device in item.devices if device.name == id.name)

    def node_of(self, ids: Iterable[DeviceId]) -> str | None:
        """The node that has the pools of these devices; None if that is not known."""
        pools = {PoolId(id.driver, id.pool) for id in ids}
        return next((node for pool in pools for node in self._nodes_of(pool)), None)

    def _nodes_of(self, pool: PoolId) -> set[str]:
        return {item.node for item in self._of_pool.get(pool, {}).values() if item.node is not None}
