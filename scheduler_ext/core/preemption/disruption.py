"""PodDisruptionBudgets: which of the pods that are to leave violate one, as kube-scheduler counts."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler_ext.core.intree import Requirement
from scheduler_ext.core.node.node import BoundPod

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
# A namespace, and a label of its pods; None for all of them.
_Key = tuple[str, tuple[str, str] | None]


@dataclass(frozen=True, slots=True)
class PodSelector:
    """A label selector: every label and every expression must be met; without any, every pod meets it. A
    malformed expression makes the whole selector one that no pod meets, as kube-scheduler has it."""

    labels: Mapping[str, str]
    expressions: tuple[Requirement, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.labels and not self.expressions

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self.labels.items()) and all(
            expression.operator in _OPERATORS and expression.matches(labels)
            for expression in self.expressions
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget: `allowed` more pods may be disrupted now; no `selector` means no pod.
    `disrupted` are the names of pods whose eviction the API server has granted already."""

    namespace: str
    name: str
    selector: PodSelector | None
    allowed: int
    disrupted: frozenset[str] = frozenset()

    def covers(self, pod: BoundPod) -> bool:
        """Whether it is the pod's budget, as policy/v1 says: an empty selector means all of its namespace."""
        return (
            self.namespace == pod.namespace
            and self.selector is not None
            and self.selector.matches(pod.labels)
        )

    def counts(self, pod: BoundPod) -> bool:
        """Whether kube-scheduler subtracts the pod's departure from `allowed`. It does not if the
        disruption is counted already, nor for a pod without labels or a budget with an empty selector, which
        it takes to match nothing (filterPodsWithPDBViolation)."""
        return (
            bool(pod.labels)
            and self.selector is not None
            and not self.selector.empty
            and pod.name not in self.disrupted
            and self.covers(pod)
        )


class BudgetIndex:
    """Budgets by labels that their pods must have, so that a pod is compared with few of them."""

    def __init__(self, budgets: Sequence[Budget]) -> None:
        self._budgets = budgets
        users = Counter(key for budget in budgets for keys in _keys(budget) for key in keys)
        self._places: dict[_Key, list[int]] = {}
        for i, budget in enumerate(budgets):
            # The labels that the fewest budgets name.
            for key in min(_keys(budget), key=lambda keys: max(map(users.__getitem__, keys))):
                self._places.setdefault(key, []).append(i)

    def covering(self, pod: BoundPod) -> tuple[int, ...]:
        """The indices of a pod's budgets (`Budget.covers`), in their order."""
        keys = [(pod.namespace, None), *((pod.namespace, label) for label in pod.labels.items())]
        found = (i for key in keys for i in self._places.get(key, ()) if self._budgets[i].covers(pod))
        return tuple(sorted(found))


def _keys(budget: Budget) -> Iterator[list[_Key]]:
    """Lists of keys; every pod of the budget has exactly one of each list."""
    yield [(budget.namespace, None)]
    if budget.selector is None:
        return
    for label in budget.selector.labels.items():
        yield [(budget.namespace, label)]
    for each in budget.selector.expressions:
        if each.operator == "In" and each.values:
            yield [(budget.namespace, (each.key, value)) for value in dict.fromkeys(each.values)]


def most_important_first(pods: Iterable[BoundPod], idle: Collection[str] = ()) -> list[BoundPod]:
    """In kube-scheduler's order: by priority, then by start; a pod that has not started comes last. Among
    pods of one priority, those whose uid is in `idle` come after the others."""

    def rank(pod: BoundPod) -> tuple[float, bool, float, str]:
        started = float("inf") if pod.started_at is None else pod.started_at
        return -pod.priority, pod.uid in idle, started, pod.uid

    return sorted(pods, key=rank)


def budgets_of(pods: Sequence[BoundPod], budgets: Sequence[Budget]) -> list[tuple[int, ...]]:
    """For each pod, the indices of the budgets that it would be counted against."""
    by_namespace: dict[str, list[int]] = {}
    for i, budget in enumerate(budgets):
        by_namespace.setdefault(budget.namespace, []).append(i)
    return [tuple(i for i in by_namespace.get(pod.namespace, ()) if budgets[i].counts(pod)) for pod in pods]


def over_budget(counted: Iterable[tuple[int, ...]], allowed: Sequence[int]) -> list[bool]:
    """Which pods, leaving in this order, exceed one of their budgets; `counted` as from budgets_of."""
    left = list(allowed)
    over = []
    for places in counted:
        for i in places:
            left[i] -= 1
        over.append(any(left[i] < 0 for i in places))
    return over
