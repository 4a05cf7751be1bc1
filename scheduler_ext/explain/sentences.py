"""Requests, holdings, and obstacles between a pod and a node, in words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from scheduler_ext.core.filters import BY_NAME
from scheduler_ext.core.framework.refusal import NearestMiss, plain_sentence, where
from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX, profile_from_resource
from scheduler_ext.core.node.holdings import unknown_shares
from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo
from scheduler_ext.core.node.offered_instances import cordon_problem
from scheduler_ext.core.request.constraints import constraints_in_words
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.resource_names import shown_resource

BEING_DELETED = "it is being deleted, so kube-scheduler does not place it"
ENDED = "it has ended, so kube-scheduler does not place it"
_NAMED = 3


def request_in_words(request: GpuRequest) -> str:
    """A pod's GPU request in a few words."""
    parts = [
        (f"{ask.count} × " if ask.count else "")
        + shown_resource(ask.resource)
        + (" by claim" if ask.by_claim else "")
        for ask in request.units
    ]
    if request.shares is not None:
        parts += [f"{mib} MiB of a GPU" for _, mib in request.shares.by_container]
    return ", ".join(parts + constraints_in_words(request))


def unattributed(info: NodeInfo, unknown: Mapping[str, int], share: str) -> list[dict[str, Any]]:
    """The holdings of a node's pods on unknown devices, by resource, each as plain values and a text.
    `unknown` are the units by resource; `share` is the resource of memory shares."""
    found = [
        _counted(resource, count, f"at least {_units(info, resource, count)} held, devices unknown")
        for resource, count in unknown.items()
    ]
    if shares := unknown_shares(info):
        what = f"{len(shares):,} memory share{'s' * (len(shares) > 1)} of {sum(shares):,} MiB"
        found.append(_counted(share, len(shares), f"at least {what} held, GPU unknown: counted on every GPU"))
    return found


def not_offered(info: NodeInfo, beyond: Mapping[str, int]) -> list[dict[str, Any]]:
    """The units of a node by resource that its device plugin does not offer, each as plain values and a
    text."""
    return [_counted(name, count, _not_offered(info, name, count)) for name, count in beyond.items()]


def _not_offered(info: NodeInfo, resource: str, count: int) -> str:
    offered = (info.allocatable or {}).get(resource, 0)
    asks = (ask for pod in info.pods if pod.holds for ask in pod.request.units if ask.resource == resource)
    requested = sum(ask.count for ask in asks)
    if offered > requested and (problem := cordon_problem(info)):
        return f"{_units(info, resource, count)} not given to pods: {problem}"
    text = f"{_units(info, resource, count)} not offered: allocatable has {offered:,} {resource}"
    return f"{text}, of which pods request {requested:,}" if requested else text


def _counted(resource: str, count: int, text: str) -> dict[str, Any]:
    return {"resource": resource, "count": count, "text": text}


def _units(info: NodeInfo, resource: str, count: int) -> str:
    """Units of a resource by what they are on this node."""
    if resource.startswith(MIG_PREFIX):
        return f"{count:,} × {profile_from_resource(resource)[0]}"
    sharing = info.report or info.estimate
    cut = info.report is None or any(device.mig.enabled for device in info.devices)
    what = "GPU"
    if cut and sharing is not None and sharing.mig_strategy == "single":
        what = "MIG instance"
    elif sharing is not None and sharing.sharing_strategy != "none":
        what = "replica"
    return f"{count:,} {what}{'s' * (count > 1)}"


def obstacle(node: Node, reason: str, miss: dict[str, Any] | None) -> str:
    """Why this node refuses, with its numbers: "node-7 GPU 3 is 2,048 MiB short (needs 50,000, has 47,952)".
    `miss` is the nearest miss as plain values, None if a reason has no numbers."""
    if miss is None:
        return f"{node.info.name}: {reason}"
    found = NearestMiss(**miss)
    criterion = BY_NAME.get(found.criterion)
    if criterion is None:
        return plain_sentence(where(node, found.device), reason, found)
    return criterion.sentence(found, node)


def leavers(pods: Sequence[BoundPod], namespace: str | None) -> str:
    """The pods that would have to leave, a few of them by name; pods of other namespaces than `namespace`
    are not named, unless it is None, and those that are alike are counted."""
    alike = Counter((_named(pod, namespace), _about(pod)) for pod in pods).items()
    words = [f"{who or _unnamed(count)}{about}" for (who, about), count in [*alike][:_NAMED]]
    more = sum(count for _, count in [*alike][_NAMED:])
    return listed([*words, *([f"{more} more"] if more else [])], "and")


def listed(names: Sequence[str], conjunction: str, most: int | None = None) -> str:
    """Some names: "a", "a or b", "a, b or c", "a, b or 7 more"."""
    named = list(names[:most])
    if len(names) > len(named):
        named.append(f"{len(names) - len(named)} more")
    return f" {conjunction} ".join(filter(None, (", ".join(named[:-1]), named[-1])))


def nodes_in_words(count: int) -> str:
    """A number of nodes: "1 node", "2,000 nodes"."""
    return "1 node" if count == 1 else f"{count:,} nodes"


def visible(pod: BoundPod, namespace: str | None) -> bool:
    """Whether an explanation of a pod of this namespace may name another; None: it names all."""
    if pod.expected and not pod.namespace:
        # Room for an amount is named after a pod, or after the amount.
        return namespace in (None, pod.name.rpartition("/")[0] or namespace)
    return namespace is None or pod.namespace == namespace


def expected_name(pod: BoundPod) -> str:
    """The pod that room is held for, or the amount in words."""
    name = f"{pod.namespace}/{pod.name}" if pod.namespace else pod.name
    return f"pod {name}" if "/" in name else name


def _named(pod: BoundPod, namespace: str | None) -> str | None:
    if not pod.expected:
        return f"pod {pod.namespace}/{pod.name}" if visible(pod, namespace) else None
    owner = expected_name(pod) if visible(pod, namespace) else "a pod of another namespace"
    return f"the room that a defragmentation holds for {owner}"


def _unnamed(count: int) -> str:
    return "a pod of another namespace" if count == 1 else f"{count} pods of other namespaces"


def _about(pod: BoundPod) -> str:
    return f" (priority {pod.priority}{', being deleted' if pod.terminating else ''})"
