"""The cost of GPUs per hour by model and by namespace."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduler_ext.core.gpu.readings import NodeReadings, Readings
from scheduler_ext.core.gpu.value_table import DIGITS
from scheduler_ext.core.node.pod_facts import FactsOfPods
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.explain.explain import API_VERSION
from scheduler_ext.views.fragmentation import fragmentation_by_node
from scheduler_ext.views.node_usage import PerNode
from scheduler_ext.views.node_value import node_value
from scheduler_ext.views.value_account import (
    ClusterValue,
    GpuKind,
    Held,
    NodeValue,
    ValueAccount,
    all_of,
    cluster_value,
    held_of,
    new_pods,
)
from scheduler_ext.wire.config import Configuration

# What pods hold, and with the rest the whole value, and the GPUs that have it.
_HELD = ("allocated", "idle", "unmeasured")
_ALL = ("gpus", *_HELD, "free", "stranded", "unavailable", "total")


class ClusterValueCache:
    """The ClusterValue of a snapshot; what did not change since the last one is not computed again. For one
    thread at a time."""

    def __init__(self, config: Configuration) -> None:
        sizing, factor = config.sizing(), config.cost.per_unit
        self._idle_after_s = config.idle_after_s()
        self._values = PerNode(lambda node: node_value(node, sizing, factor))
        self._held: dict[str, tuple[NodeValue, Sequence[Readings], frozenset[str], Held]] = {}
        self._last: tuple[Snapshot, NodeReadings, Mapping[str, frozenset[str]], ClusterValue] | None = None

    def of(self, snapshot: Snapshot, readings: NodeReadings, facts: FactsOfPods, now: float) -> ClusterValue:
        """At a wall time: a pod is idle after it has run for as long as its GPUs computed nothing."""
        new = {
            name: new_pods(node.info, facts, now, self._idle_after_s) for name, node in snapshot.nodes.items()
        }
        last = self._last
        if last is None or last[0] is not snapshot or last[1] is not readings or last[2] != new:
            last = self._last = snapshot, readings, new, cluster_value(self._nodes(snapshot, readings, new))
        return last[3]

    def _nodes(
        self, snapshot: Snapshot, readings: NodeReadings, new: Mapping[str, frozenset[str]]
    ) -> Iterator[tuple[NodeValue, Held, float]]:
        lost, known = fragmentation_by_node(snapshot), {}
        for name, value in self._values.of(snapshot).items():
            # What an old report says of idle times is no longer true.
            did = readings.get(name, ()) if snapshot.nodes[name].info.freshness == "Fresh" else ()
            before = self._held.get(name)
            if before is None or before[0] is not value or before[1] is not did or before[2] != new[name]:
                before = value, did, new[name], held_of(value, did, self._idle_after_s, new[name])
            known[name] = before
            unallocated, unusable = lost.get(name, (0.0, 0.0))
            yield value, before[3], unusable / unallocated if unallocated else 0.0
        self._held = known


def cost_report(
    snapshot: Snapshot, readings: NodeReadings, facts: FactsOfPods, config: Configuration, now: float
) -> dict[str, Any]:
    """The Cost of a cluster at a wall time as plain JSON values: value per hour, the most expensive first."""
    found = ClusterValueCache(config).of(snapshot, readings, facts, now)
    namespaces = {name: all_of(kinds.values()) for name, kinds in found.namespaces.items()}
    return {
        "apiVersion": API_VERSION,
        "kind": "Cost",
        "currency": config.cost.currency,
        "perUnit": config.cost.per_unit,
        "idleAfterSeconds": config.idle_after_s(),
        "total": _amounts(found.total, _ALL),
        "models": [{"model": model} | _amounts(account, _ALL) for model, account in _by_model(found.models)],
        "namespaces": [
            {
                "namespace": name,
                **_amounts(namespaces[name], _HELD),
                "models": [
                    {"model": model} | _amounts(account, _HELD)
                    for model, account in _by_model(found.namespaces[name])
                ],
            }
            for name in sorted(namespaces, key=lambda name: (-namespaces[name].allocated, name))
        ],
        "nodesLeftOut": sorted(name for name, node in snapshot.nodes.items() if node.info.is_out),
    }


def _by_model(kinds: Mapping[GpuKind, ValueAccount]) -> list[tuple[str, ValueAccount]]:
    """The products of one model together, the largest value first."""
    models: dict[str, ValueAccount] = {}
    for kind, account in kinds.items():
        models[kind.model] = all_of((models.get(kind.model, ValueAccount()), account))
    return sorted(models.items(), key=lambda each: (-each[1].total, each[0]))


def _amounts(account: ValueAccount, names: tuple[str, ...]) -> dict[str, float]:
    return {name: round(getattr(account, name), DIGITS) for name in names}
