"""Notes on ResourceQuotas that pods to be created exceed. The API server refuses such a pod when it is
created, so no pod that exists waits for a quota."""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from scheduler_ext.core.intree import amount_text
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.wire import kube
from scheduler_ext.wire.pod.pod_identity import is_finished, pod_name
from scheduler_ext.wire.quota import REQUESTS, Quota, charge


def quota_notes(
    wanted: Sequence[tuple[kube.Pod, int]], state: ClusterState, more: Iterable[Quota] = ()
) -> list[str]:
    """A note for each limit that these pods, each in so many copies, exceed, less those that exist. The pods
    of the cluster count where a quota does not say what is used; `more` are quotas beside the cluster's.
    Raises QuantityError naming the resource."""
    quotas = {(quota.namespace, quota.name): quota for quota in (*more, *state.objects.quotas)}
    if not quotas:
        return []
    there = {pod_name(pod) for pod in state.objects.pods}
    there |= {f"{each.pod.namespace}/{each.pod.name}" for each in state.pending}
    new = [(pod, copies) for pod, copies in wanted if pod_name(pod) not in there]
    notes = []
    for quota in quotas.values():
        mine = [(pod, copies) for pod, copies in new if quota.concerns(pod)]
        held = [pod for pod in state.objects.pods if not is_finished(pod) and quota.concerns(pod)]
        for limit, hard in quota.hard.items():
            asked = sum((charge(pod, limit) * copies for pod, copies in mine), Fraction(0))
            counted = quota.used.get(limit)
            used = sum((charge(pod, limit) for pod in held), Fraction(0)) if counted is None else counted
            if asked and used + asked > hard:
                notes.append(_note(quota, limit, used, asked, sum(copies for _, copies in mine)))
    return notes


def _note(quota: Quota, limit: str, used: Fraction, asked: Fraction, count: int) -> str:
    resource = limit.removeprefix(REQUESTS)
    hard = amount_text(resource, quota.hard[limit], math.floor)
    taken, more = (amount_text(resource, amount, math.ceil) for amount in (used, asked))
    asks, excess = ("the pod asks", "it") if count == 1 else (f"the {count:,} pods ask", "those beyond it")
    return (
        f"ResourceQuota {quota.namespace}/{quota.name}: {taken} of {hard} {limit} are used, and {asks} "
        f"{more}: the API server refuses to create {excess}"
    )
