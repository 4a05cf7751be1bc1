"""The idle pods of a cluster, for people and programs: since when, and the value that they waste."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from scheduler_ext.core.gpu.readings import NodeReadings, Readings
from scheduler_ext.core.gpu.value_table import DIGITS
from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.node.pod_facts import NO_FACTS, FactsOfPods, PodFacts
from scheduler_ext.explain.explain import API_VERSION
from scheduler_ext.features.idle.idle import NOT_IDLE, HeldPart, Idleness, IdlePod, idleness
from scheduler_ext.sources.source_status import SourceStatus
from scheduler_ext.views.node_value import node_value, pod_values
from scheduler_ext.views.value_account import held_of, new_pods
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.times import time_text


def idle_pod_list(
    nodes: Iterable[Node],
    config: Configuration,
    readings: NodeReadings,
    facts: FactsOfPods,
    now: float,
    namespace: str | None = None,
) -> dict[str, Any]:
    """The IdlePodList of these nodes at a wall time, of one namespace or of all (None): the pod that wastes
    the most value per hour first, and sums by namespace. Values are those of value_account. `idleGpuValue` is
    the value per hour of all GPUs and parts that compute nothing, as `idle` there: ALSO_IDLE."""
    sizing, after_s = config.sizing(), config.idle_after_s()
    items: list[dict[str, Any]] = []
    unknown, idle_gpu_value = 0, 0.0
    for node in nodes:
        info = node.info
        did = readings.get(info.name, ())
        if info.freshness == "Fresh" and any(_has_idle(each, after_s) for each in did):
            new = new_pods(info, facts, now, after_s)
            held = held_of(node_value(node, sizing, config.cost.per_unit), did, after_s, new)
            idle_gpu_value += sum(each.idle for (name, _), each in held.items() if namespace in (None, name))
        found = idleness(info, did, facts, now, after_s, sizing.headroom_percent)
        unknown += sum(namespace in (None, pod.namespace) for pod in found.unknown)
        asked = [each for each in found.pods if namespace in (None, each.pod.namespace)]
        values = pod_values(node, sizing, config.cost.per_unit) if asked else {}
        for each in asked:
            value = values.get(each.pod.uid, 0.0)
            items.append(_item(each, info, facts.get(each.pod.uid, NO_FACTS), value, now))
    items.sort(
        key=lambda item: (-item["valuePerHour"], -item["idleSeconds"], item["namespace"], item["name"])
    )
    return {
        "apiVersion": API_VERSION,
        "kind": "IdlePodList",
        "currency": config.cost.currency,
        "afterSeconds": after_s,
        "unknownPods": unknown,
        "idleGpuValue": round(idle_gpu_value, DIGITS),
        "items": items,
        "namespaces": _by_namespace(items),
    }


def _has_idle(did: Readings, after_s: float) -> bool:
    """Whether the GPU, or a part of it, computed nothing for so long."""
    times = (did.idle_s, *(each.idle_s for each in did.instances), *(each.idle_s for each in did.holders))
    return any(idle_s is not None and idle_s >= after_s for idle_s in times)


def _item(idle: IdlePod, info: NodeInfo, facts: PodFacts, value: float, now: float) -> dict[str, Any]:
    pod = idle.pod
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "node": info.name,
        "owner": facts.owner or None,
        "priority": pod.priority,
        "gpus": round(idle.gpus, DIGITS),
        "devices": [_device(held) for held in idle.parts],
        "idleSeconds": idle.idle_s,
        "since": time_text(now - idle.idle_s),
        "valuePerHour": round(value, DIGITS),
        "wastedValue": round(value * idle.idle_s / 3600, DIGITS),
        "reclaimAt": facts.reclaim_at,
    }


def _device(held: HeldPart) -> dict[str, Any]:
    part = held.part
    return {
        "uuid": part.uuid,
        "index": part.device.index,
        "model": part.device.model.name,
        "profile": part.instance.profile if part.instance is not None else None,
        "gpus": round(part.gpus, DIGITS),
        "idleSeconds": held.idle_s,
    }


def _by_namespace(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The sums, the namespace that wastes the most value per hour first."""
    sums: dict[str, dict[str, Any]] = {}
    for item in items:
        name = item["namespace"]
        found = sums.setdefault(
            name, {"namespace": name, "pods": 0, "gpus": 0.0, "valuePerHour": 0.0, "wastedValue": 0.0}
        )
        found["pods"] += 1
        for key in ("gpus", "valuePerHour", "wastedValue"):
            found[key] = round(found[key] + item[key], DIGITS)
    return sorted(sums.values(), key=lambda each: (-each["valuePerHour"], each["namespace"]))


def idle_times(infos: Iterable[NodeInfo], status: SourceStatus, now: float, after_s: float) -> dict[str, int]:
    """The time without work of each idle pod on these nodes, by its uid."""
    found: dict[str, int] = {}
    for info in infos:
        judged = idleness(info, status.readings.get(info.name, ()), status.facts, now, after_s)
        found.update({idle.pod.uid: idle.idle_s for idle in judged.pods})
    return found


class IdleNodes:
    """The idle pods of every node, computed again where the node, its readings or its pods changed, or a pod
    has run for long enough meanwhile; for one thread at a time."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._known: dict[str, tuple[tuple[object, ...], float, Idleness]] = {}

    def of(
        self, infos: Iterable[NodeInfo], readings: NodeReadings, facts: FactsOfPods, now: float
    ) -> dict[str, Idleness]:
        """By the node's name, of nodes with readings."""
        known = {}
        for info in infos:
            did = readings.get(info.name)
            if did is None or info.report is None:
                continue
            since = tuple(facts.get(pod.uid, NO_FACTS).running_since for pod in info.pods)
            before = self._known.get(info.name)
            key = (info, did, since)
            if before is None or not _same(before[0], key) or now >= before[1]:
                until = min(
                    (at + self._after_s for at in since if at is not None and at + self._after_s > now),
                    default=float("inf"),
                )
                before = key, until, self._judge(info, did, facts, now)
            known[info.name] = before
        self._known = known
        return {name: found for name, (_, _, found) in known.items()}

    def _judge(self, info: NodeInfo, did: Sequence[Readings], facts: FactsOfPods, now: float) -> Idleness:
        known = frozenset(each.uuid for each in did if each.idle_times_s)
        if not any(idle_s >= self._after_s for each in did for idle_s in each.idle_times_s):
            # Of most nodes in use, this is the answer, and takes a tenth of the time.
            return Idleness(known=known) if known else NOT_IDLE
        found = idleness(info, did, facts, now, self._after_s)
        return replace(found, known=found.known | known)


def _same(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    """The node and its readings as objects: to compare them costs more than to judge them."""
    return before[0] is now[0] and before[1] is now[1] and before[2] == now[2]
