"""Answers preempt: which of kube-scheduler's candidates help, and who is to leave them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from scheduler_ext.core.disruption import Budget
from scheduler_ext.core.errors import RequestError
from scheduler_ext.core.node import NodeInfo
from scheduler_ext.core.placement import Sizing
from scheduler_ext.core.preempt import Preemption, Victims
from scheduler_ext.core.quantity import QuantityError
from scheduler_ext.core.request import GpuRequest, InvalidRequest
from scheduler_ext.core.snapshot import Snapshot
from scheduler_ext.extender.answer import Answer
from scheduler_ext.wire import kube
from scheduler_ext.wire.pod import other_requests, pod_request, pod_uid
from scheduler_ext.wire.preempt import PreemptionArgs, decode_preemption, encode_victims

# kube-scheduler looks at a hundred candidates at most.
_RESCUABLE = 100
# What filter spends on the question whether preemption could help, at most.
_RESCUE_S = 0.25


class Preemptor:
    """Finds victims on the latest snapshot. ``budgets`` are the PodDisruptionBudgets as they are now."""

    def __init__(
        self,
        sizing: Sizing,
        snapshot: Callable[[], Snapshot | None],
        budgets: Callable[[], Sequence[Budget]] = tuple,
    ) -> None:
        self._sizing = sizing
        self._snapshot = snapshot
        self.budgets = budgets

    def preempt(self, body: bytes, deadline: float) -> Answer:
        """The reply to preempt. Past the deadline (monotonic) what was found until then; RequestError 503
        when that is nothing. Raises RequestError (400) naming the field."""
        args = decode_preemption(body)
        snapshot = self._snapshot()
        if snapshot is None:
            raise RequestError(503, "no inventory yet; try again")
        preemption = self._preemption(args.pod)
        chosen: dict[str, Victims] = {}
        if preemption is not None:
            chosen = _choose(preemption, args, snapshot, deadline)
        return Answer(encode_victims(chosen), len(args.proposals), len(chosen))

    def rescuable(self, pod: kube.Pod, names: Sequence[str], snapshot: Snapshot) -> list[str]:
        """Of nodes that filter refuses, those that would take the pod if pods of lower priority left; as many
        as kube-scheduler would look at, and as can be told in a moment."""
        preemption = self._preemption(pod)
        if preemption is None:
            return []
        found: list[str] = []
        end = time.monotonic() + _RESCUE_S
        for name in names:
            node = snapshot.nodes.get(name)
            if node is not None and preemption.rescuable(node.info):
                found.append(name)
            if len(found) == _RESCUABLE or time.monotonic() > end:
                break
        return found

    def _preemption(self, pod: kube.Pod) -> Preemption | None:
        resources = self._sizing.resources
        try:
            request = pod_request(pod, resources)
            others = other_requests(pod.spec or kube.PodSpec(), resources)
        except QuantityError as error:
            raise RequestError(400, f"Pod.spec: {error}") from None
        if isinstance(request, InvalidRequest):
            return None
        assert isinstance(request, GpuRequest)
        return Preemption(
            request,
            pod_uid(pod),
            others,
            self.budgets(),
            self._sizing.policy,
            resources,
            self._sizing.headroom_percent,
        )


def _choose(
    preemption: Preemption, args: PreemptionArgs, snapshot: Snapshot, deadline: float
) -> dict[str, Victims]:
    chosen: dict[str, Victims] = {}
    for name, proposal in args.proposals.items():
        if time.monotonic() > deadline:
            if not chosen:
                raise RequestError(503, "deadline exceeded; the server is overloaded")
            break
        info = _known(name, snapshot)
        victims = preemption.victims(info, proposal.uids, proposal.violations) if info is not None else None
        if victims is not None:
            chosen[name] = victims
    return chosen


def _known(name: str, snapshot: Snapshot) -> NodeInfo | None:
    node = snapshot.nodes.get(name)
    return node.info if node is not None else None
