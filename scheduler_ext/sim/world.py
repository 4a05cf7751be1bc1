"""The simulated cluster: the free resources of each node, and the changes of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from scheduler_ext.core.errors import OverAllocationError
from scheduler_ext.core.gpu.value_table import value_of
from scheduler_ext.core.node.columns import Bools, Floats, Ints
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind, admits, model_of

Indexes = npt.NDArray[np.intp]
Longs = npt.NDArray[np.int64]
_Number = TypeVar("_Number", np.int32, np.int64, np.bool_)


@dataclass(frozen=True, slots=True)
class TraceNode:
    """A node of a trace: thousandths of a core, MiB of main memory, GPUs of one model. `value` of each in US
    dollars per hour is that of the node's own; 0: of its model. A `spot` node may be taken away."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str
    value: float = 0.0
    spot: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """The constants of a cluster, `[node]` each; `model` indexes `models`. `value` is of one GPU, `stated`
    the one that the node itself has."""

    names: tuple[str, ...]
    models: tuple[str, ...]
    cpu_milli: Longs
    memory_mib: Longs
    gpus: Ints
    model: Ints
    value: Floats
    stated: Floats
    spot: Bools

    @classmethod
    def of(cls, nodes: Sequence[TraceNode], values: Mapping[str, float] | None = None) -> Cluster:
        """The cluster of these nodes, in their order. `values` of models replace those of the table."""
        models = tuple(sorted({node.model for node in nodes}))
        number = {model: index for index, model in enumerate(models)}
        return cls(
            names=tuple(node.name for node in nodes),
            models=models,
            cpu_milli=np.array([node.cpu_milli for node in nodes], np.int64),
            memory_mib=np.array([node.memory_mib for node in nodes], np.int64),
            gpus=np.array([node.gpus for node in nodes], np.int32),
            model=np.array([number[node.model] for node in nodes], np.int32),
            value=np.array(
                [node.value or value_of(model_of(node.model), values or {}) for node in nodes], np.float64
            ),
            stated=np.array([node.value for node in nodes], np.float64),
            spot=np.array([node.spot for node in nodes], np.bool_),
        )

    def __len__(self) -> int:
        return len(self.names)

    @property
    def capacity_milli(self) -> int:
        """Thousandths of a GPU in all."""
        return int(self.gpus.sum()) * GPU_MILLI

    def admits(self, models: Sequence[str]) -> Bools:
        """The nodes with a GPU of one of these models, `[node]`; all nodes for no models."""
        if not models:
            return np.ones(len(self), np.bool_)
        admitted: Bools = np.array([admits(models, model_of(model)) for model in self.models])[self.model]
        return admitted


class World:
    """A cluster with its running pods. `cpu_free` (milli) and `memory_free` (MiB) are `[node]`;
    `room_milli` is `[slot, node]`, 0 for slots without a GPU; `tasks` is `[tag, node]`, the number of
    pods that share a GPU (tag 0) or hold that many whole GPUs."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        depth = int(cluster.gpus.max(initial=1))
        self.cpu_free = cluster.cpu_milli.copy()
        self.memory_free = cluster.memory_mib.copy()
        slots = np.arange(depth, dtype=np.int32)[:, None]
        self.room_milli: Ints = np.where(slots < cluster.gpus, GPU_MILLI, 0).astype(np.int32)
        self.tasks: Ints = np.zeros((depth + 1, len(cluster)), np.int32)
        self.allocated_milli = 0
        # In US dollars per hour, in whole or in part.
        self.allocated_value = 0.0
        # The pods with GPUs of each node, and the number of nodes with GPUs and without such pods.
        self._gpu_pods = np.zeros(len(cluster), np.int64)
        self.whole_nodes = int(np.count_nonzero(cluster.gpus))
        # By model, of the cluster's numbers.
        self.idle_milli: Longs = np.zeros(len(cluster.models), np.int64)
        np.add.at(self.idle_milli, cluster.model, cluster.gpus * GPU_MILLI)
        # The number of changes; a node keeps the number of its last one.
        self.tick = 0
        self._changed_at = np.zeros(len(cluster), np.int64)

    def changed_since(self, tick: int) -> Indexes:
        """The nodes that changed after that tick."""
        return np.flatnonzero(self._changed_at > tick)

    def whole_gpus(self, node: int, count: int) -> tuple[int, ...]:
        """The first `count` free slots of a node."""
        free = np.flatnonzero(self.room_milli[:, node] == GPU_MILLI)[:count]
        return tuple(free.tolist())

    def place(self, kind: PodKind, node: int, slots: tuple[int, ...]) -> None:
        """Put a pod on a node and on these GPUs; raises OverAllocationError if it does not fit."""
        rooms = [int(self.room_milli[slot, node]) for slot in slots]
        if (
            len(set(slots)) != kind.gpus
            or min(rooms, default=GPU_MILLI) < kind.gpu_milli
            or kind.cpu_milli > self.cpu_free[node]
            or kind.memory_mib > self.memory_free[node]
        ):
            raise OverAllocationError(f"{self.cluster.names[node]}: GPUs {slots} have {rooms} for {kind}")
        self._change(kind, node, slots, 1)

    def release(self, kind: PodKind, node: int, slots: tuple[int, ...]) -> None:
        """Remove a pod that was placed like this."""
        self._change(kind, node, slots, -1)

    def _change(self, kind: PodKind, node: int, slots: tuple[int, ...], sign: int) -> None:
        self.cpu_free[node] -= sign * kind.cpu_milli
        self.memory_free[node] -= sign * kind.memory_mib
        for slot in slots:
            self.room_milli[slot, node] -= sign * kind.gpu_milli
        if kind.gpus:
            self.tasks[0 if kind.is_share else kind.gpus, node] += sign
            self.whole_nodes -= int(self._gpu_pods[node] == 0)
            self._gpu_pods[node] += sign
            self.whole_nodes += int(self._gpu_pods[node] == 0)
        self.idle_milli[self.cluster.model[node]] -= sign * kind.demand_milli
        self.allocated_milli += sign * kind.demand_milli
        self.allocated_value += sign * kind.demand_milli / GPU_MILLI * float(self.cluster.value[node])
        self.tick += 1
        self._changed_at[node] = self.tick


class NodesView:
    """Some nodes of a world for a policy; the last axis of every array is the nodes of the view."""

    def __init__(self, world: World, only: Indexes | None = None) -> None:
        """`only` are indexes of nodes, None for all."""
        self.world = world
        self.only = only
        self.cpu_free, self.memory_free = self.part(world.cpu_free), self.part(world.memory_free)
        self.room_milli = self.part(world.room_milli)
        self.gpus, self.model = self.part(world.cluster.gpus), self.part(world.cluster.model)
        self.spot = self.part(world.cluster.spot)

    def part(self, values: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
        """The part of the view's nodes in an array of the world or its cluster."""
        return values if self.only is None else values.take(self.only, axis=-1)

    def __len__(self) -> int:
        return len(self.cpu_free)
