"""A node with one more pod, as it will be after the pod is bound."""

from dataclasses import replace

from scheduler_ext.core.dra.published import Claim
from scheduler_ext.core.node.claimable import Claimable
from scheduler_ext.core.node.holdings import holdings_of
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames


def with_planned(info: NodeInfo, resources: ResourceNames) -> NodeInfo:
    """The node with its planned pods, as it will be after they are bound; the same object without any."""
    if not info.planned:
        return info
    seen = replace(info, planned=())
    for pod in info.planned:
        seen = with_pod(seen, pod, resources)
    return seen


def with_pod(info: NodeInfo, pod: BoundPod, resources: ResourceNames) -> NodeInfo:
    """The node with a pod. A claim holds the devices that DRA hands out to it, as kube-scheduler would choose
    them; where they are not known, they count without a device."""
    by_claim = [ask for ask in pod.request.units if info.by_claim(ask.resource)]
    if not by_claim:
        return replace(info, pods=(*info.pods, pod))
    # Its name is not known: kube-scheduler gives it one.
    pod = replace(pod, extended_claim="")
    exact = [replace(ask, choice=0) for ask in by_claim if ask.count or ask.every]
    choices = [[replace(ask, count=ask.choice, choice=0)] for ask in by_claim if ask.choice]
    devices = None
    if all(ask.least for ask in by_claim):
        tried = (
            Claimable(info, holdings_of(info, resources)).allocate((*exact, *one)) for one in choices or [[]]
        )
        devices = next(filter(None, tried), None)
    held = replace(info, pods=(*info.pods, pod))
    if devices is None:
        return held
    uid, pods = f"claim of {pod.uid}", ((pod.uid, pod.name),)
    claim = Claim(uid, pod.namespace, uid, devices=devices, pods=pods, node=info.name, extended=True)
    return replace(held, claims=(*info.claims, claim))
