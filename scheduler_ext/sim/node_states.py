"""The states of simulated nodes, built by the core as for real nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from scheduler_ext.core.gpu.gpu import Device, Memory, Report
from scheduler_ext.core.gpu.room import DeviceHoldings
from scheduler_ext.core.node.columns import Ints
from scheduler_ext.core.node.holdings import Holdings
from scheduler_ext.core.node.node import NodeInfo, NodeState, Slot
from scheduler_ext.core.node.state import coarse_free_milli, resolve_held
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.sim.trace_workload import GPU_MILLI, core_cpu_milli, model_of
from scheduler_ext.sim.world import Cluster

WHOLE_GPU = "nvidia.com/gpu"
_NO_HEADROOM = 0


class State(NamedTuple):
    """The key of a node state: the shape, the room of the GPUs, the fullest first, and the free CPU."""

    shape: int
    room_milli: tuple[int, ...]
    cpu_free_milli: int


class NodeStates:
    """Node states by key. A GPU of a trace is a device of 1,000 MiB that pods request whole or in shares."""

    def __init__(self, cluster: Cluster) -> None:
        self._resources = ResourceNames()
        shapes: dict[tuple[int, int, int], int] = {}
        # The shape of each node: GPUs, model and CPU.
        self.shape_of: Ints = np.array(
            [
                shapes.setdefault((int(gpus), int(model), int(cpu)), len(shapes))
                for gpus, model, cpu in zip(cluster.gpus, cluster.model, cluster.cpu_milli, strict=True)
            ],
            np.int32,
        )
        self._infos = [
            self._info(gpus, cluster.models[model], cpu_milli) for gpus, model, cpu_milli in shapes
        ]
        self._slots: list[dict[tuple[str, Hashable], Slot]] = [{} for _ in shapes]

    def cpu_free_milli(self, node: int, cpu_free: int) -> int:
        """A node's free CPU, in the coarse steps of states."""
        info = self._infos[self.shape_of[node]]
        assert info.cpu_milli is not None
        return coarse_free_milli(info.cpu_milli, info.cpu_milli - cpu_free)

    def of(self, left: State) -> NodeState:
        """The state in the core."""
        shape, room_milli, cpu_free_milli = left
        info = self._infos[shape]
        assert info.report is not None
        held = Holdings()
        for device, room in zip(info.report.devices, room_milli, strict=True):
            # A full GPU takes no pod, whether one pod holds it or several.
            full = room == 0
            held.devices[device.uuid] = DeviceHoldings(
                units=int(full), requested_mib=0 if full else GPU_MILLI - room
            )
        full_ones = room_milli.count(0)
        held.requested = Counter(
            {
                WHOLE_GPU: full_ones,
                self._resources.share: GPU_MILLI * (len(room_milli) - full_ones) - sum(room_milli),
            }
        )
        state = resolve_held(info, held, self._resources, _NO_HEADROOM, self._slots[shape]).state
        return replace(state, cpu_free_milli=cpu_free_milli)

    def _info(self, gpus: int, model: str, cpu_milli: int) -> NodeInfo:
        devices = tuple(
            Device(
                uuid=f"GPU-{index}",
                index=index,
                vendor="nvidia",
                product=model,
                model=model_of(model),
                compute_capability=None,
                memory=Memory(GPU_MILLI),
            )
            for index in range(gpus)
        )
        return NodeInfo(
            model,
            report=Report(devices),
            allocatable={WHOLE_GPU: gpus, self._resources.share: GPU_MILLI * gpus},
            share_node=True,
            cpu_milli=core_cpu_milli(cpu_milli),
        )
