"""The sets of movable pods whose departure makes room for a pod on one node, the cheapest first, by the
search of preemption. Fewer pods are cheaper; then the lowest priorities, then the least value at risk."""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from heapq import merge

from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.preemption.disruption import Budget, over_budget
from scheduler_ext.core.preemption.dry_run import Gone
from scheduler_ext.core.preemption.victim_search import Need, cheapest_first, focuses, gpu_needs, other_needs
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.features.defrag.movable import MovablePod
from scheduler_ext.features.defrag.moving_cluster import MovingCluster
from scheduler_ext.whatif.whatif import PodInfo

# (disruption budgets that are exceeded, moves, highest priority, value at risk).
Price = tuple[float, ...]
# Sets that are begun on one node.
_STEPS = 2000


class MovePrices:
    """What moving sets of these pods costs; a set that exceeds a budget costs more than any other."""

    def __init__(self, pods: Sequence[MovablePod], budgets: Sequence[Budget]) -> None:
        self._pods = pods
        self._allowed = [budget.allowed for budget in budgets]

    def cost(self, gone: Gone, /) -> Price:
        """The price of a set."""
        pods = [self._pods[i] for i in gone]
        over = sum(over_budget((pod.budgets for pod in pods), self._allowed))
        return (
            over,
            len(pods),
            max((pod.bound.priority for pod in pods), default=-(2**31)),
            sum(pod.value_at_risk for pod in pods),
        )

    def kind(self, i: int, /) -> Hashable:
        """Pods of one kind find a new place in the same way."""
        pod = self._pods[i]
        return pod.budgets, pod.again.request, frozenset(pod.again.needs.requests.items()), _constraints(pod)


def _constraints(pod: MovablePod) -> Hashable:
    needs = pod.again.needs
    return frozenset(needs.node_selector.items()), needs.required_terms, needs.tolerations


def in_order(pods: Sequence[MovablePod]) -> list[MovablePod]:
    """The pod that leaves last comes first."""
    return sorted(pods, key=lambda pod: (-pod.bound.priority, -pod.value_at_risk, pod.uid))


class LeavingSets:
    """One node that is to take a pod. `pods` may leave it."""

    def __init__(
        self,
        cluster: MovingCluster,
        pod_info: PodInfo,
        node: str,
        pods: Sequence[MovablePod],
        budgets: Sequence[Budget],
    ) -> None:
        self._pods = in_order(pods)
        self._prices = MovePrices(self._pods, budgets)
        residents = cluster.residents[node]
        self._amounts = [residents[pod.uid].amounts for pod in self._pods]
        # As the cluster knows it now, with what is held for other pods.
        bound = [residents[pod.uid].pod for pod in self._pods]
        self._dry_run = cluster.reliefs(node, pod_info.uid).dry_run(bound, pod_info.request)
        self._facts, self._pod_info = cluster.in_tree.facts(node), pod_info
        self._ours = cluster.in_tree.ours(pod_info.needs)

    def sets(self, least: Collection[str] | None = None) -> Iterator[tuple[Price, Gone]]:
        """The sets that may suffice, in the order of their price; with `least`, only those that have a pod
        with one of these uids."""
        needs = [*gpu_needs(self._dry_run), *self._other_needs()]
        steps = [_STEPS]
        found = merge(
            *(
                cheapest_first(kinds, [*more, *needs], self._prices, (1.0,), steps)
                for kinds, more in focuses(self._dry_run, self._prices, needs)
            )
        )
        for price, gone in found:
            if gone and (least is None or any(self._pods[i].uid in least for i in gone)):
                yield price, gone

    def suffices(self, gone: Gone) -> bool:
        """Whether the pod fits without these, by the filters."""
        return self._dry_run.fits(gone)

    def pods(self, gone: Gone) -> tuple[MovablePod, ...]:
        """The pods of a set."""
        return tuple(self._pods[i] for i in gone)

    def _other_needs(self) -> Iterator[Need]:
        if self._facts is None:
            return
        asked = {name: each for name, each in self._pod_info.needs.requests.items() if name not in self._ours}
        asked["pods"] = Fraction(1)
        pods: list[Mapping[str, Fraction]] = [{**each, "pods": Fraction(1)} for each in self._amounts]
        yield from other_needs(asked, free_amounts(self._facts), pods)


def free_amounts(facts: NodeFacts) -> dict[str, Fraction]:
    """What a node has left of each resource, as kube-scheduler counts."""
    free = {
        name: Fraction(amount) - facts.requested.get(name, Fraction(0))
        for name, amount in facts.allocatable.items()
    }
    free["pods"] = Fraction(facts.allocatable.get("pods", 0)) - facts.pod_count
    return free


def least_moves(
    cluster: MovingCluster, pod_info: PodInfo, node: str, pods: Sequence[MovablePod]
) -> tuple[int, int] | None:
    """A lower bound of (moves, highest priority) on a node, by sums alone; None if the pod does not fit
    without all of them either."""
    bounds = [_most_gain(much, gains) for much, gains in _sums(cluster, pod_info.request, node, pods)]
    facts = cluster.in_tree.facts(node)
    if facts is not None:
        free, ours = free_amounts(facts), cluster.in_tree.ours(pod_info.needs)
        residents = cluster.residents[node]
        for name, amount in pod_info.needs.requests.items():
            if name not in ours and amount > free.get(name, Fraction(0)):
                gains = [float(residents[pod.uid].amounts.get(name, 0)) for pod in pods]
                bounds.append(_most_gain(float(amount - free.get(name, Fraction(0))), gains))
    if None in bounds:
        return None
    least = max(1, *(bound or 0 for bound in bounds), 1)
    return least, min(pod.bound.priority for pod in pods)


def _most_gain(much: float, gains: Sequence[float]) -> int | None:
    """The fewest of these that sum to so much."""
    if much <= 0:
        return 0
    for count, gain in enumerate(sorted(gains, reverse=True), start=1):
        much -= gain
        if gain <= 0:
            return None
        if much <= 0:
            return count
    return None


def _sums(
    cluster: MovingCluster, request: GpuRequest, node: str, pods: Sequence[MovablePod]
) -> Iterator[tuple[float, list[float]]]:
    """For each kind of GPU amount: what is missing on the node at least, and at most freed by each pod."""
    resolved = cluster.snapshot.nodes[node]
    state = resolved.state
    limits = {name: limit for name, _, limit in state.limits}
    for ask in request.units:
        on_devices = sum(
            unit.free
            for slot in state.slots
            if slot.healthy
            for unit in slot.units
            if unit.resource == ask.resource
        )
        free = min(on_devices, limits.get(ask.resource, on_devices))
        yield ask.count - free, [_units_freed(pod, ask.resource) for pod in pods]
    if request.shares is not None and state.slots:
        best: tuple[float, list[float]] | None = None
        for uuid, slot in resolved.gpus:
            gains = [_share_freed(pod, uuid) for pod in pods]
            missing = request.shares.largest_mib - max(0, slot.share_free_mib)
            count = _most_gain(missing, gains)
            if count is not None and (best is None or count < (_most_gain(*best) or 0)):
                best = missing, gains
        # No GPU: an amount that nothing frees.
        yield best if best is not None else (1.0, [])


def _units_freed(pod: MovablePod, resource: str) -> float:
    held = sum(ask.count for ask in pod.bound.request.units if ask.resource == resource)
    # A share keeps a whole GPU from others, each of its containers another one.
    shares = pod.bound.request.shares
    return held + (len(shares.by_container) if shares is not None else 0)


def _share_freed(pod: MovablePod, uuid: str | None) -> float:
    devices = {each for uuids in pod.bound.devices.values() for each in uuids}
    if pod.bound.request.units or not devices:
        # It may hold this GPU as a whole.
        return float(2**31)
    shares = pod.bound.request.shares
    return float(shares.total_mib) if shares is not None and uuid in devices else 0.0
