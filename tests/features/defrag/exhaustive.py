"""The fewest moves by trying all of them, in plain Python: every order, every pod, every other place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tests.features.defrag.small_clusters import SmallCluster, SmallPod, accepts, rooms

Pods = tuple[SmallPod, ...]


def places(cluster: SmallCluster, pods: Pods, asked: SmallPod) -> Iterator[SmallPod]:
    """The pod on each node, and for a share on each GPU, that has room for it."""
    for there in cluster.nodes:
        if accepts(there, asked):
            for device, room in enumerate(rooms(there, pods)):
                if room >= asked.size:
                    yield replace(asked, node=there.name, device=device if there.kind == "share" else -1)


def fewest_moves(cluster: SmallCluster, most: int) -> int | None:
    """The fewest moves after which the waiting pod fits; None if `most` do not suffice. Each pod moves once
    at most, and no group exceeds its budget."""
    allowed = dict(cluster.allowed)
    reached: set[frozenset[tuple[object, ...]]] = set()
    level: list[tuple[Pods, frozenset[str]]] = [(cluster.pods, frozenset())]
    for moves in range(most + 1):
        following = []
        for pods, moved in level:
            if next(places(cluster, pods, cluster.waiting), None) is not None:
                return moves
            for each in pods:
                spent = sum(other.group == each.group for other in pods if other.name in moved)
                if not each.movable or each.name in moved or spent >= allowed.get(each.group, 99):
                    continue
                others = tuple(other for other in pods if other is not each)
                for placed in places(cluster, others, each):
                    after = (*others, placed)
                    key = _key(after, moved | {each.name})
                    if key not in reached:
                        reached.add(key)
                        following.append((after, moved | {each.name}))
        level = following
    return None


def _key(pods: Pods, moved: frozenset[str]) -> frozenset[tuple[object, ...]]:
    """Equal for states that only differ in which of several equal pods, or which of equal GPUs, is meant."""
    devices: dict[tuple[str, int], Counter[tuple[object, ...]]] = {}
    for each in pods:
        value = each.size, each.model, each.group, each.movable, each.name in moved
        devices.setdefault((each.node, each.device), Counter())[value] += 1
    nodes: dict[str, Counter[frozenset[tuple[object, ...]]]] = {}
    for (node, _), values in devices.items():
        nodes.setdefault(node, Counter())[frozenset(values.items())] += 1
    return frozenset((node, frozenset(contents.items())) for node, contents in nodes.items())
