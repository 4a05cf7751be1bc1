"""Preemption in plain Python: try every set of pods, and take the cheapest sufficient one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

from scheduler_ext.core.cycle.cycle import FITS, filter_nodes
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.node.state import resolve
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.table import build_snapshot

NAMES = ResourceNames()
HEADROOM_PERCENT = 10


def start(pod: BoundPod) -> float:
    """A pod that has not started starts now."""
    return float("inf") if pod.started_at is None else pod.started_at


def importance(pod: BoundPod) -> tuple[float, float, str]:
    return (-pod.priority, start(pod), pod.uid)


def violations(pods: Iterable[BoundPod], budgets: Sequence[Budget]) -> int:
    """filterPodsWithPDBViolation of kube-scheduler, line by line."""
    allowed = [budget.allowed for budget in budgets]
    violating = 0
    for pod in sorted(pods, key=importance):
        violated = False
        if pod.labels:
            for i, budget in enumerate(budgets):
                if budget.namespace != pod.namespace or budget.selector is None:
                    continue
                if budget.selector.empty or not budget.selector.matches(pod.labels):
                    continue
                if pod.name in budget.disrupted:
                    continue
                allowed[i] -= 1
                violated |= allowed[i] < 0
        violating += violated
    return violating


def cost(pods: Sequence[BoundPod], budgets: Sequence[Budget]) -> tuple[float, ...]:
    highest = max((pod.priority for pod in pods), default=-(2**31))
    return (
        violations(pods, budgets),
        highest,
        sum(max(0, pod.priority) for pod in pods),
        len(pods),
        sum(pod.priority for pod in pods),
        -min((start(pod) for pod in pods if pod.priority == highest), default=0.0),
    )


@dataclass(frozen=True)
class Question:
    """One node, one preemptor, and kube-scheduler's proposal."""

    info: NodeInfo
    request: GpuRequest
    other_requests: Mapping[str, Fraction]
    budgets: tuple[Budget, ...]
    named: tuple[str, ...] = ()
    uid: str = "preemptor"

    @property
    def seen(self) -> NodeInfo:
        """The node as the preemptor may count on it."""
        waiting = [
            pod
            for pod in self.info.nominated
            if pod.priority >= self.request.priority and pod.uid != self.uid
        ]
        pods = [pod for pod in self.info.pods if pod.uid != self.uid]
        return replace(self.info, pods=(*pods, *waiting), nominated=())

    @property
    def lower(self) -> list[BoundPod]:
        return [
            pod
            for pod in self.seen.pods
            if not pod.finished
            and not pod.departed
            and pod.priority < self.request.priority
            and (pod.uid not in self.info.assumed or self._is_named_once(pod.uid))
        ]

    def _is_named_once(self, uid: str) -> bool:
        return uid in self.named and sum(pod.uid == uid for pod in self.info.pods) == 1

    @property
    def leaving(self) -> list[BoundPod]:
        return [pod for pod in self.lower if pod.terminating]

    @property
    def candidates(self) -> list[BoundPod]:
        return [pod for pod in self.lower if not pod.terminating]

    def fits(self, gone: Iterable[BoundPod]) -> bool:
        """Filter's verdict after these have left."""
        uids = {pod.uid for pod in gone}
        pods = tuple(replace(pod, departed=True) if pod.uid in uids else pod for pod in self.seen.pods)
        node = resolve(replace(self.seen, pods=pods), NAMES, HEADROOM_PERCENT)
        snapshot = build_snapshot({"n": node}, 0)
        return bool(
            filter_nodes(self.request, snapshot, SchedulingPolicy()).verdict[snapshot.state_of[0]] == FITS
        )

    def suffices(self, victims: Sequence[BoundPod], leaving: Sequence[BoundPod] | None = None) -> bool:
        """Whether the pod fits and kube-scheduler's count gets no worse than with its own victims."""
        leaving = self.leaving if leaving is None else leaving
        known = {pod.uid: pod for pod in self.seen.pods}
        named = [known[uid] for uid in self.named if uid in known]
        unknown = sum(uid not in known for uid in self.named)
        gone = [*victims, *leaving, *(pod for pod in named if not pod.holds)]
        for resource, asked in self.other_requests.items():
            needed = min(asked, sum(pod.other_requests.get(resource, Fraction(0)) for pod in named))
            if sum(pod.other_requests.get(resource, Fraction(0)) for pod in gone) < needed:
                return False
        if len(gone) + unknown < min(1, len(self.named)):
            return False
        return self.fits([*victims, *leaving])

    def sufficient(self) -> list[list[BoundPod]]:
        """Every sufficient set."""
        pods = self.candidates
        sets = [list(some) for count in range(len(pods) + 1) for some in combinations(pods, count)]
        return [some for some in sets if self.suffices(some)]
