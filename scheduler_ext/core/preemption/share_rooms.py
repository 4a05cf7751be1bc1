"""Shares on one node when pods have gone, told by the room on each GPU.

A decision says the same, at ten times the cost for a single node. Here only what changes when pods go is
looked at, so this serves where that is nothing but room for shares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from scheduler_ext.core.framework.allocate import placeable
from scheduler_ext.core.gpu.gpu import Device
from scheduler_ext.core.node.holdings import DeviceHoldings
from scheduler_ext.core.request.request import ShareAsk

# What is held on a GPU when these pods, by their place, have gone.
Left = Callable[[str, tuple[int, ...]], DeviceHoldings]


class ShareRooms:
    """The GPUs of a node that a request's shares may go to, and what its pods would free there.

    ``freeing`` are, pod by pod, the GPUs on which it frees something.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        freeing: Sequence[Sequence[str]],
        left: Left,
        headroom_percent: int,
        min_free_mib: int,
    ) -> None:
        self._devices = {device.uuid: device for device in devices}
        self._freeing = [[uuid for uuid in uuids if uuid in self._devices] for uuids in freeing]
        self._left = left
        self._headroom_percent = headroom_percent
        self._min_free_mib = min_free_mib
        self._rooms: dict[tuple[str, tuple[int, ...]], int] = {}

    def fit(self, shares: ShareAsk, gone: Sequence[int], steps: list[int]) -> bool:
        """Whether each share finds a GPU when these have gone; ``steps`` as for ShareFit."""
        here: Mapping[str, list[int]] = {uuid: [] for uuid in self._devices}
        for i in gone:
            for uuid in self._freeing[i]:
                here[uuid].append(i)
        return placeable([self._room(uuid, tuple(pods)) for uuid, pods in here.items()], shares, steps)

    def _room(self, uuid: str, gone: tuple[int, ...]) -> int:
        room = self._rooms.get((uuid, gone))
        if room is None:
            memory = self._devices[uuid].memory
            free = self._left(uuid, gone).free_mib(memory, memory.headroom_mib(self._headroom_percent))
            room = self._rooms[uuid, gone] = free if free >= self._min_free_mib else -1
        return room
