"""The verdicts of kube-scheduler's own filters on every Node, while pods are added and removed, and its score
of preferred node affinity."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from scheduler_ext.core.cache.device_index import DeviceIndex
from scheduler_ext.core.dra.hosts import DeviceCount, Supply
from scheduler_ext.core.errors import InventoryError
from scheduler_ext.core.intree import (
    InTreeRejection,
    NodeFacts,
    PodNeeds,
    PreferredTerm,
    intree_rejection,
    name_rejection,
    needs_key,
    preference_of,
)
from scheduler_ext.core.node.node import UNLIMITED, NodeInfo
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.node_info import node_facts
from scheduler_ext.wire.objects import Objects

# The number of different needs that are remembered; pods with equal needs are judged once.
_REMEMBERED = 64
CPU = "cpu"

_Key = tuple[Hashable, ...]


@dataclass(slots=True)
class _RefusingNodes:
    """The nodes that refuse some needs, after that many changes."""

    refused: dict[str, InTreeRejection] = field(default_factory=dict)
    changes: int = 0


class InTreeNodes:
    """The nodes of a cluster. For nodes without a Node object only the name is compared. Raises
    InventoryError for a Node, or a pod on it, with an unreadable amount."""

    def __init__(
        self,
        objects: Objects,
        resources: ResourceNames,
        names: Iterable[str],
        claims: DeviceIndex | None = None,
    ) -> None:
        """`claims` know the devices that are no GPUs."""
        self._resources = resources
        self._bare = [name for name in names if name not in objects.nodes]
        self._facts: dict[str, NodeFacts] = {}
        self._changes: list[str] = []
        self._judged: OrderedDict[_Key, _RefusingNodes] = OrderedDict()
        self._preferences: dict[tuple[PreferredTerm, ...], Mapping[str, int]] = {}
        pods, others = objects.pods_by_node(), claims.others if claims is not None else {}
        self._supplies: Mapping[str, Supply] = claims.supplies if claims is not None else {}
        # Those of the needs that were judged; devices that several nodes reach are gone on all of them.
        self._known: set[str] = set()
        self._in_all: set[str] = set()
        for name, node in objects.nodes.items():
            try:
                facts = node_facts(node, pods.get(name, ()))
            except QuantityError as error:
                raise InventoryError(f"Node {name} or a pod on it: {error}") from None
            here = {device: by_node.get(name, DeviceCount(0, 0)) for device, by_node in others.items()}
            self._facts[name] = _with_devices(facts, here)

    def _count(self, needs: PodNeeds) -> None:
        """Count the devices that stand for what some pod asks, from now on."""
        names = {name for each in needs.claim_hosts for name in each.resources} - self._known
        self._known |= names
        self._in_all |= {name for name in names if self._supplies[name].in_all}
        for node, facts in self._facts.items() if names else ():
            found = ((name, self._supplies[name].on(node)) for name in names)
            here = {name: count for name, count in found if count is not None}
            self._facts[node] = _with_devices(facts, here)

    def facts(self, name: str) -> NodeFacts | None:
        """The node as those filters see it now; None without a Node object."""
        return self._facts.get(name)

    @property
    def all_facts(self) -> Mapping[str, NodeFacts]:
        """Every node that has a Node object, as those filters see it now."""
        return self._facts

    def ours(self, needs: PodNeeds) -> frozenset[str]:
        """The resources of a pod that the extender judges itself, with better numbers."""
        return frozenset(name for name in needs.requests if self._resources.is_gpu(name))

    def refused(self, needs: PodNeeds, *, with_gpus: bool = False) -> Mapping[str, InTreeRejection]:
        """Every node that refuses a pod, and why; `with_gpus` counts GPUs as kube-scheduler does."""
        self._count(needs)
        ignored = frozenset[str]() if with_gpus else self.ours(needs)
        key = (*needs_key(needs), with_gpus)
        judged = self._judged.get(key)
        if judged is None:
            names = list(self._facts)
            misnamed = ((name, name_rejection(needs, name)) for name in self._bare)
            judged = self._judged[key] = _RefusingNodes(
                {name: each for name, each in misnamed if each is not None}
            )
            if len(self._judged) > _REMEMBERED:
                self._judged.popitem(last=False)
        else:
            names = self._changes[judged.changes :]
            self._judged.move_to_end(key)
        for name in dict.fromkeys(names):
            judged.refused.pop(name, None)
            rejection = intree_rejection(needs, self._facts[name], ignore_resources=ignored)
            if rejection is not None:
                judged.refused[name] = rejection
        judged.changes = len(self._changes)
        return judged.refused

    def refusal(self, needs: PodNeeds, name: str) -> InTreeRejection | None:
        """The refusal of one node, as of `refused`; None if it takes the pod."""
        self._count(needs)
        facts = self._facts.get(name)
        if facts is None:
            return name_rejection(needs, name)
        return intree_rejection(needs, facts, ignore_resources=self.ours(needs))

    def preferences(self, needs: PodNeeds) -> Mapping[str, int]:
        """The preference of a pod for each node that has a Node object (`preferences_of`)."""
        terms = needs.preferred_terms
        if terms not in self._preferences:
            if len(self._preferences) >= _REMEMBERED:
                self._preferences.clear()
            # No pod changes the labels of a node.
            self._preferences[terms] = preferences_of(needs, self._facts)
        return self._preferences[terms]

    def most_in_all(self, needs: PodNeeds) -> int | None:
        """How many such pods all nodes together take at most, by devices that several nodes reach."""
        facts = next(iter(self._facts.values()), None)
        if facts is None:
            return None
        free = {what: facts.allocatable[what] - facts.requested[what] for what in self._in_all}
        wanted = {what: amount for what, amount in needs.requests.items() if what in free}
        return min((int(free[what] // amount) for what, amount in wanted.items()), default=None)

    def change(self, name: str, amounts: Mapping[str, Fraction], pods: int) -> None:
        """This many pods with these requests are on a node (below zero: have left it)."""
        if name in self._facts:
            self._facts[name] = with_pods(self._facts[name], amounts, pods)
            self._changes.append(name)
        taken = {what: amount * pods for what, amount in amounts.items() if what in self._in_all}
        for other in self._facts.keys() - {name} if taken else ():
            facts = self._facts[other]
            requested = {what: facts.requested.get(what, 0) + amount for what, amount in taken.items()}
            self._facts[other] = replace(facts, requested={**facts.requested, **requested})
            self._changes.append(other)

    def restore(self, name: str, facts: NodeFacts | None) -> None:
        """The node is again as `facts` returned it before."""
        if facts is not None:
            self._facts[name] = facts
            self._changes.append(name)


def _with_devices(facts: NodeFacts, devices: Mapping[str, DeviceCount]) -> NodeFacts:
    """A node with these devices of claims."""
    there = {name: Fraction(each.all) for name, each in devices.items()}
    taken = {
        name: facts.requested.get(name, Fraction(0)) + each.all - each.free for name, each in devices.items()
    }
    return replace(facts, allocatable={**facts.allocatable, **there}, requested={**facts.requested, **taken})


def preferences_of(needs: PodNeeds, facts: Mapping[str, NodeFacts]) -> Mapping[str, int]:
    """kube-scheduler's score of a pod's preferred node affinity for each node, before it is normalized; empty
    for a pod without one."""
    terms = needs.preferred_terms
    return {name: preference_of(terms, name, each.labels) for name, each in facts.items()} if terms else {}


def with_pods(facts: NodeFacts, amounts: Mapping[str, Fraction], pods: int) -> NodeFacts:
    """A node with this many pods more (or fewer, below zero), each with these requests."""
    requested = dict(facts.requested)
    for name, amount in amounts.items():
        requested[name] = requested.get(name, Fraction(0)) + amount * pods
    return replace(facts, requested=requested, pod_count=facts.pod_count + pods)


def with_cpu(facts: NodeFacts, info: NodeInfo) -> NodeFacts:
    """With the node's known CPU; unlimited if unknown."""
    if info.cpu_milli is None:
        return replace(facts, allocatable={CPU: Fraction(UNLIMITED)})
    asked = info.cpu_elsewhere_milli + sum(pod.cpu_milli for pod in info.pods if pod.holds)
    return replace(
        facts, allocatable={CPU: Fraction(info.cpu_milli, 1000)}, requested={CPU: Fraction(asked, 1000)}
    )
