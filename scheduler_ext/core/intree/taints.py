"""Taints and tolerations, as kube-scheduler's NodeUnschedulable and TaintToleration plugins compare them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from scheduler_ext.core.intree.affinity import parse_canonical_int64

# PreferNoSchedule only lowers a node's score.
_SCHEDULING_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class Taint:
    """One taint of a node: what keeps pods away unless they tolerate it."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """One toleration of a pod; empty strings mean what Kubernetes takes a missing field for.
    tolerationSeconds is left out on purpose: it says when a running pod is evicted, never where it may go."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration alone lets a pod onto a node with that taint. An empty effect or key means
        every one, an empty operator Equal. Lt and Gt (TaintTolerationComparisonOperators) compare
        integers."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        if self.operator == "Exists":
            return True
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        ours, theirs = parse_canonical_int64(self.value), parse_canonical_int64(taint.value)
        if ours is None or theirs is None:
            return False
        return (self.operator == "Lt" and theirs < ours) or (self.operator == "Gt" and theirs > ours)


def first_untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that keeps this pod away, or None when every such taint is tolerated."""
    tolerations = tuple(tolerations)
    strict = (taint for taint in taints if taint.effect in _SCHEDULING_EFFECTS)
    return next((taint for taint in strict if not any(each.tolerates(taint) for each in tolerations)), None)
