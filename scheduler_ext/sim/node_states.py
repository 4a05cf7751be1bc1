"""The states of simulated nodes, built by the core as for real nodes."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from typing import NamedTuple

from scheduler_ext.core.gpu.gpu import Device, Memory, Report
from scheduler_ext.core.gpu.share_memory import DeviceHoldings
from scheduler_ext.core.node.holdings import Holdings
from scheduler_ext.core.node.node import Node, NodeInfo, Slot
from scheduler_ext.core.node.state import coarse_free_milli, resolve_held
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.sim.trace_workload import GPU_MILLI, core_cpu_milli, model_of
from scheduler_ext.sim.world import Cluster

WHOLE_GPU = "nvidia.com/gpu"
_RESOURCES = ResourceNames()
_NO_HEADROOM = 0


class StateKey(NamedTuple):
    """The key of a node state: the shape, the room of the GPUs, the fullest first, and the free CPU."""

    shape: int
    room_milli: tuple[int, ...]
    cpu_free_milli: int


class NodeStates:
    """Node states by key. A GPU of a trace is a device of 1,000 MiB that pods request whole or in shares."""

    def __init__(self, cluster: Cluster) -> None:
        shapes: dict[tuple[int, int, int, float, bool], int] = {}
        columns = cluster.gpus, cluster.model, cluster.cpu_milli, cluster.stated, cluster.spot
        each = zip(*(column.tolist() for column in columns), strict=True)
        # The shape of each node: GPUs, model, CPU, a value of its own, and whether it is a spot node.
        self.shape_of = [shapes.setdefault(shape, len(shapes)) for shape in each]
        self._infos = [
            _info(gpus, cluster.models[model], cpu, value, spot) for gpus, model, cpu, value, spot in shapes
        ]
        self._slots: list[dict[tuple[str, Hashable], Slot]] = [{} for _ in shapes]

    def key(self, node: int, rooms: list[int], cpu_free: int) -> StateKey:
        """The key of a node's state: the free CPU is in the coarse steps of states, the rooms are sorted."""
        cpu_milli = self._infos[self.shape_of[node]].cpu_milli
        assert cpu_milli is not None
        coarse = coarse_free_milli(cpu_milli, cpu_milli - cpu_free)
        return StateKey(self.shape_of[node], tuple(rooms), coarse)

    def of(self, state: StateKey) -> Node:
        """A node in this state, as in the core."""
        info, rooms = self._infos[state.shape], state.room_milli
        assert info.report is not None
        # A full GPU takes no pod, whether one pod holds it or several.
        held = Holdings(
            {
                device.uuid: DeviceHoldings(units=1)
                if room == 0
                else DeviceHoldings(requested_mib=GPU_MILLI - room)
                for device, room in zip(info.report.devices, rooms, strict=True)
            }
        )
        full = rooms.count(0)
        shared_milli = GPU_MILLI * (len(rooms) - full) - sum(rooms)
        held.requested = Counter({WHOLE_GPU: full, _RESOURCES.share: shared_milli})
        node = resolve_held(info, held, _RESOURCES, _NO_HEADROOM, self._slots[state.shape])
        return replace(node, state=replace(node.state, cpu_free_milli=state.cpu_free_milli))


def _info(gpus: int, model: str, cpu_milli: int, value: float, spot: bool) -> NodeInfo:
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
        allocatable={WHOLE_GPU: gpus, _RESOURCES.share: GPU_MILLI * gpus},
        share_node=True,
        cpu_milli=core_cpu_milli(cpu_milli),
        value=value,
        spot=spot,
    )
