"""Rooms that an operator holds on nodes for a while: for a pod that waits, or for a request that no pod makes
yet. A held room counts like that of a nominated pod."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.request.request import GpuRequest


@dataclass(frozen=True, slots=True)
class HeldRoom:
    """Room on a node until that monotonic time, against pods of this priority and below. Without a `request`
    it is for the waiting pod with this name (namespace/name), and ends when the pod waits no longer.
    `devices` are the GPUs of its shares, by container, while it fits on no others."""

    name: str
    until: float
    priority: int
    request: GpuRequest | None = None
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class HeldRooms:
    """The held rooms of every node."""

    def __init__(self) -> None:
        self._by_node: dict[str, tuple[HeldRoom, ...]] = {}

    def update(self, node: str, rooms: Sequence[HeldRoom]) -> bool:
        """Set the rooms of a node; whether they changed, but for their end."""
        before = self._by_node.get(node, ())
        if rooms:
            self._by_node[node] = tuple(rooms)
        else:
            self._by_node.pop(node, None)
        return [replace(room, until=0.0) for room in before] != [replace(room, until=0.0) for room in rooms]

    def expire(self, node: str, now: float) -> bool:
        """Forget rooms whose time is over; whether there were any."""
        rooms = self._by_node.get(node, ())
        return bool(rooms) and self.update(node, [room for room in rooms if room.until > now])

    def nodes_for(self, pod: BoundPod) -> list[str]:
        """The nodes that hold room for a pod."""
        name = f"{pod.namespace}/{pod.name}"
        return [
            node
            for node, rooms in self._by_node.items()
            if any(room.request is None and room.name == name for room in rooms)
        ]

    def pods(self, node: str, waiting: Callable[[str], BoundPod | None]) -> dict[str, BoundPod]:
        """The pods that room is held for on a node, by uid, as nominated ones; `waiting` finds a pod that
        waits by its name."""
        found = {}
        for i, room in enumerate(self._by_node.get(node, ())):
            if room.request is not None:
                uid = f"held {i} {room.name}"
                made = BoundPod(uid, "", room.name, room.priority, room.request, expected=True)
                found[uid] = replace(made, devices=room.devices)
            elif (pod := waiting(room.name)) is not None:
                found[pod.uid] = replace(pod, priority=room.priority, expected=True, devices=room.devices)
        return found
