"""Notes on ResourceQuotas that pods to be created exceed, or the claims that are made for them. The API
server refuses such a pod when it is created, so no pod that exists waits for its own quota; of claims it
refuses these, and the pod waits."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from scheduler_ext.core.cache.device_index import DeviceIndex
from scheduler_ext.core.dra.published import TEMPLATE_PREFIX, Claim
from scheduler_ext.core.intree import amount_text
from scheduler_ext.explain.sentences import listed
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.wire import kube
from scheduler_ext.wire.pod.pod_amounts import pod_amounts
from scheduler_ext.wire.pod.pod_claims import claim_names
from scheduler_ext.wire.pod.pod_identity import is_finished, pod_name
from scheduler_ext.wire.quota import LIMITS, REQUESTS, Quota, charge, claim_charge, unstated

# Of the containers in a note.
_NAMED = 3
# Pods in so many copies.
_Pods = Sequence[tuple[kube.Pod, int]]


def quota_notes(
    wanted: _Pods, state: ClusterState, more: Iterable[Quota] = (), given: Iterable[Claim] = ()
) -> list[str]:
    """A note for each limit that these pods, each in so many copies, or their claims exceed, less those that
    exist, and for each that needs an amount from every container. The pods and claims of the cluster count
    where a quota does not say what is used; `more` are quotas beside the cluster's, and `given` claims that
    are not in the cluster. Raises QuantityError naming the resource."""
    quotas = {(quota.namespace, quota.name): quota for quota in (*more, *state.objects.quotas)}
    if not quotas:
        return []
    waiting = {f"{each.pod.namespace}/{each.pod.name}": each.claims for each in state.pending}
    there = {pod_name(pod) for pod in state.objects.pods} | waiting.keys()
    new = [(pod, copies) for pod, copies in wanted if pod_name(pod) not in there]
    old_claims: list[Claim] = []
    new_claims: list[tuple[Claim, int]] = []
    if (index := state.claims) is not None:
        asking = [*new, *(each for each in wanted if pod_name(each[0]) in waiting)]
        new_claims = [*_named(asking, index, given), *_made(asking, waiting, index, state)]
        to_be_made = {claim.uid for claim, _ in new_claims}
        old_claims = [
            claim
            for claim in index.all_claims()
            if not claim.name.startswith(TEMPLATE_PREFIX) and claim.uid not in to_be_made
        ]
    notes = []
    for quota in quotas.values():
        mine = [(pod, copies) for pod, copies in new if quota.concerns(pod)]
        held = [(pod, 1) for pod in state.objects.pods if not is_finished(pod) and quota.concerns(pod)]
        made = [each for each in new_claims if quota.concerns_claim(each[0])]
        had = [(claim, 1) for claim in old_claims if quota.concerns_claim(claim)]
        for limit, hard in quota.hard.items():
            if silent := sorted({name for pod, _ in mine for name in unstated(pod, limit)}):
                notes.append(_unstated_note(quota, limit, silent))
                continue
            asked, by_claim = _charge(mine, limit), _claim_charge(made, limit, index)
            counted = quota.used.get(limit)
            used = counted if counted is not None else _charge(held, limit) + _claim_charge(had, limit, index)
            count = sum(copies for _, copies in mine)
            if asked and used + asked > hard:
                asks = "the pod asks" if count == 1 else f"the {count:,} pods ask"
                excess = "it" if count == 1 else "those beyond it"
                notes.append(_note(quota, limit, used, asked, asks) + f"refuses to create {excess}")
            elif by_claim and used + asked + by_claim > hard:
                text = _note(quota, limit, used + asked, by_claim, "claims of the pod ask")
                notes.append(f"{text}refuses to create them, and the pod waits")
    return notes


def _charge(pods: Iterable[tuple[kube.Pod, int]], limit: str) -> Fraction:
    return sum((charge(pod, limit) * copies for pod, copies in pods), Fraction(0))


def _claim_charge(claims: Iterable[tuple[Claim, int]], limit: str, index: DeviceIndex | None) -> Fraction:
    if index is None:
        return Fraction(0)
    charges = (claim_charge(claim, limit, index.extended_resource) * copies for claim, copies in claims)
    return Fraction(sum(charges))


def _named(wanted: _Pods, index: DeviceIndex, given: Iterable[Claim]) -> Iterator[tuple[Claim, int]]:
    """The given claims that these pods name and the cluster does not have."""
    names = {f"{_namespace(pod)}/{name}" for pod, _ in wanted for name in claim_names(pod)}
    others = {claim.uid: claim.key for claim in index.all_claims()}
    for claim in given:
        others.pop(claim.uid, None)
        if claim.key in names - {*others.values()} and not claim.name.startswith(TEMPLATE_PREFIX):
            yield claim, 1


def _made(
    wanted: _Pods, waiting: Mapping[str, Sequence[str]], index: DeviceIndex, state: ClusterState
) -> Iterator[tuple[Claim, int]]:
    """The claims that are made for these pods: one for each template, and by kube-scheduler one for extended
    resources that only DRA serves."""
    for pod, copies in wanted:
        namespace = _namespace(pod)
        for name in waiting.get(pod_name(pod), claim_names(pod)):
            if name.startswith(TEMPLATE_PREFIX):
                yield index.claim(namespace, name) or Claim("", namespace, name), copies
        charged: Counter[str] = Counter()
        for name, amount in pod_amounts(pod.spec or kube.PodSpec()).items():
            device_class = index.class_of(name)
            if device_class is None or any(
                (info.allocatable or {}).get(name) for info in state.infos.values()
            ):
                continue
            charged[device_class] += math.ceil(amount)
        if charged:
            yield Claim("", namespace, "", extended=True, charged=tuple(charged.items())), copies


def _namespace(pod: kube.Pod) -> str:
    return pod_name(pod).partition("/")[0]


def _unstated_note(quota: Quota, limit: str, containers: Sequence[str]) -> str:
    who = f"{listed(containers, 'and', _NAMED)} {'states' if len(containers) == 1 else 'state'}"
    return (
        f"ResourceQuota {quota.namespace}/{quota.name} counts {limit}, of which {who} no amount: the API "
        "server refuses to create the pod, unless a LimitRange gives a default"
    )


def _note(quota: Quota, limit: str, used: Fraction, asked: Fraction, asks: str) -> str:
    resource = limit.removeprefix(REQUESTS).removeprefix(LIMITS)
    hard = amount_text(resource, quota.hard[limit], math.floor)
    taken, more = (amount_text(resource, amount, math.ceil) for amount in (used, asked))
    text = f"ResourceQuota {quota.namespace}/{quota.name}: {taken} of {hard} {limit} are used"
    return f"{text}, and {asks} {more}: the API server "
