"""The value per hour of GPUs: of the parts that pods hold, of the parts that new pods may have, and of the
rest. All parts together have the value of the GPUs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler_ext.core.gpu.readings import Readings
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.node.pod_facts import NO_FACTS, FactsOfPods

ALSO_IDLE = "also those of pods that compute on others, are being deleted or are unknown"
"""What the idle value of GPUs counts beside that of idle pods."""


class GpuKind(NamedTuple):
    """A model: the extender's name for it, and the driver's."""

    model: str
    product: str


class ValueAccount(NamedTuple):
    """Whole GPUs, and values per hour. Pods hold `allocated`; of this, `idle` computed nothing for long, and
    of `unmeasured` that is unknown. New pods may have `free`; no expected pod can use `stranded`, and no pod
    at all can have `unavailable`."""

    gpus: float = 0.0
    allocated: float = 0.0
    idle: float = 0.0
    unmeasured: float = 0.0
    free: float = 0.0
    stranded: float = 0.0
    unavailable: float = 0.0

    @property
    def total(self) -> float:
        return self.allocated + self.free + self.stranded + self.unavailable


_ALLOCATED, _IDLE, _UNMEASURED = map(ValueAccount._fields.index, ("allocated", "idle", "unmeasured"))


def all_of(accounts: Iterable[ValueAccount]) -> ValueAccount:
    """All of these together."""
    return ValueAccount(*map(sum, zip(ValueAccount(), *accounts, strict=True)))


class HeldValue(NamedTuple):
    """A part of a GPU, or of one of its MIG instances, that a pod holds. The uid of the pod may be unknown,
    and so are the UUIDs of GPUs known by labels."""

    namespace: str
    kind: GpuKind
    value: float
    gpu: str | None = None
    instance: str | None = None
    uid: str | None = None


@dataclass(frozen=True, slots=True)
class NodeValue:
    """One node. By kind: its GPUs as whole ones, and the values of what new pods may have of them
    (`unheld`) and of what no pod can have."""

    gpus: Mapping[GpuKind, float] = field(default_factory=dict)
    held: tuple[HeldValue, ...] = ()
    unheld: Mapping[GpuKind, float] = field(default_factory=dict)
    unavailable: Mapping[GpuKind, float] = field(default_factory=dict)


NO_VALUE = NodeValue()


@dataclass(slots=True)
class HeldSum:
    """The value of all that pods hold, of the idle part, and of the part that may be idle or not."""

    allocated: float = 0.0
    idle: float = 0.0
    unmeasured: float = 0.0


Held = Mapping[tuple[str, GpuKind], HeldSum]
"""What pods hold of one node, by namespace and kind."""


def held_of(
    node: NodeValue, readings: Sequence[Readings], idle_after_s: float, new: Collection[str] = ()
) -> Held:
    """What pods hold of a node. Idle is what computed nothing for `idle_after_s` by the readings of its last
    report; give none if that report is not fresh. Nothing of a `new` pod, by its uid, is idle yet."""
    did = {each.uuid: each for each in readings}
    sums: dict[tuple[str, GpuKind], HeldSum] = {}
    for part in node.held:
        here = sums.setdefault((part.namespace, part.kind), HeldSum())
        idle = _is_idle(part, did.get(part.gpu or ""), idle_after_s)
        if idle and part.uid in new:
            idle = False
        here.allocated += part.value
        here.idle += part.value if idle else 0.0
        here.unmeasured += part.value if idle is None else 0.0
    return sums


def new_pods(info: NodeInfo, facts: FactsOfPods, now: float, after_s: float) -> frozenset[str]:
    """The uids of the pods that run for less than `after_s`, or are not known to run."""

    def is_new(pod: BoundPod) -> bool:
        since = facts.get(pod.uid, NO_FACTS).running_since
        return since is None or now - since < after_s

    return frozenset(pod.uid for pod in info.pods if is_new(pod))


@dataclass(frozen=True, slots=True)
class ClusterValue:
    """The accounts of a cluster by kind, and by namespace and kind; those of namespaces have only what pods
    hold."""

    models: Mapping[GpuKind, ValueAccount]
    namespaces: Mapping[str, Mapping[GpuKind, ValueAccount]]

    @property
    def total(self) -> ValueAccount:
        return all_of(self.models.values())


def cluster_value(nodes: Iterable[tuple[NodeValue, Held, float]]) -> ClusterValue:
    """The accounts of all nodes. Each comes with what pods hold of it, and with the part of what is unheld
    that no expected pod can use, 0 to 1."""
    models: dict[GpuKind, list[float]] = {}
    namespaces: dict[str, dict[GpuKind, list[float]]] = {}
    for node, held, stranded in nodes:
        for kind, count in node.gpus.items():
            unheld = node.unheld.get(kind, 0.0)
            rest = ValueAccount(
                gpus=count,
                free=unheld * (1 - stranded),
                stranded=unheld * stranded,
                unavailable=node.unavailable.get(kind, 0.0),
            )
            model = models.setdefault(kind, list(ValueAccount()))
            for i, value in enumerate(rest):
                model[i] += value
        for (namespace, kind), each in held.items():
            for sums in (
                models[kind],
                namespaces.setdefault(namespace, {}).setdefault(kind, list(ValueAccount())),
            ):
                sums[_ALLOCATED] += each.allocated
                sums[_IDLE] += each.idle
                sums[_UNMEASURED] += each.unmeasured
    return ClusterValue(
        {kind: ValueAccount(*sums) for kind, sums in models.items()},
        {
            namespace: {kind: ValueAccount(*sums) for kind, sums in kinds.items()}
            for namespace, kinds in namespaces.items()
        },
    )


def _is_idle(part: HeldValue, did: Readings | None, after_s: float) -> bool | None:
    """By the pod's own processes where the agent sees them; otherwise by all of the instance or the GPU."""
    if did is None:
        return None
    own = [
        each.idle_s
        for each in did.holders
        if each.instance == part.instance and each.holder.uid == part.uid and each.idle_s is not None
    ]
    if own and part.uid is not None:
        return min(own) >= after_s
    if part.instance is not None:
        times = [each.idle_s for each in did.instances if each.uuid == part.instance]
        if times and times[0] is not None:
            return times[0] >= after_s
        # A GPU that computed nothing left every instance idle; of one that computed, which did is unknown.
        return True if did.idle_s is not None and did.idle_s >= after_s else None
    return None if did.idle_s is None else did.idle_s >= after_s
