"""What stands between a pod and a node, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler_ext.core.node.holdings import unknown_shares
from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo

_NAMED = 3
_MODELS = 8


def unattributed(info: NodeInfo, unknown: Mapping[str, int], share: str) -> list[dict[str, Any]]:
    """What a node's pods hold on devices that are not known, by resource, each as plain values and a text.

    ``unknown`` are the units by resource; ``share`` is the resource of memory shares.
    """
    profiles = {ask.resource: ask.profile for pod in info.pods for ask in pod.request.units}
    sharing = info.report or info.estimate
    shared = sharing is not None and sharing.sharing_strategy != "none"
    single = sharing is not None and sharing.mig_strategy == "single"
    found = []
    for resource, count in unknown.items():
        profile = profiles.get(resource)
        if profile is not None:
            what = f"{count:,} × {profile}"
        elif single:
            what = f"{count:,} MIG instance{'s' * (count > 1)}"
        else:
            what = f"{count:,} {'replica' if shared else 'GPU'}{'s' * (count > 1)}"
        text = f"at least {what} held, which is not known"
        found.append({"resource": resource, "count": count, "text": text})
    if shares := unknown_shares(info):
        what = f"{len(shares):,} memory share{'s' * (len(shares) > 1)} of {sum(shares):,} MiB"
        text = f"at least {what} held, on which GPU is not known: counted on every GPU"
        found.append({"resource": share, "count": len(shares), "text": text})
    return found


def obstacle(node: Node, reason: str, miss: dict[str, Any] | None) -> str:
    """Why this node refuses, with its numbers: "node-7 GPU 3 is 2,048 MiB short (needs 50,000, has 47,952)".

    ``miss`` is the nearest miss as plain values, None where a reason has no numbers.
    """
    name = node.info.name
    if miss is None:
        return f"{name}: {reason}"
    needed, have, criterion = miss["needed"], miss["have"], miss["criterion"]
    where = name + device_of(node, miss["device"])
    match criterion:
        case "free-memory" | "total-memory" if isinstance(needed, int) and isinstance(have, int):
            return f"{where} is {needed - have:,} MiB short (needs {needed:,}, has {have:,})"
        case "gpu-count" | "mig-placement":
            return f"{name} has {have:,} of {needed:,} {miss['unit']} free"
        case "model":
            return f"{where} is of model {have or 'unknown'}, not {few(needed.split(','))}"
        case "compute-capability":
            known = f"compute capability {have}" if have is not None else "an unknown compute capability"
            return f"{where} has {known}, needs {needed}"
        case "cuda":
            does = f"supports CUDA {have}" if have is not None else "does not say which CUDA it supports"
            return f"the driver of {name} {does}, needs {needed}"
        case "health":
            return f"{where} is unhealthy{_sickness(node, miss['device'])}"
        case "fresh-inventory":
            return f"{name} has no fresh report of its GPUs ({have})"
        case "sharing":
            return f"{name} has {have} GPUs, needs {needed} ones"
        case "change-in-progress":
            return f"{name} has a GPU change in progress: its MIG layout or its driver"
    told = [f"{word} {value}" for word, value in (("needs", needed), ("has", have)) if value is not None]
    return f"{where}: {reason}" + (f" ({', '.join(told)})" if told else "")


def leavers(pods: Sequence[BoundPod], namespace: str | None) -> str:
    """The pods that would have to leave, at most a few by name; of other namespaces than ``namespace`` no
    name is told, unless it is None."""
    named = [_named(pod, namespace) for pod in pods[:_NAMED]]
    if len(pods) > _NAMED:
        named.append(f"{len(pods) - _NAMED} more")
    return " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))


def few(names: Sequence[str]) -> str:
    """Names separated by commas, the first few where there are many."""
    more = f" and {len(names) - _MODELS:,} more" if len(names) > _MODELS else ""
    return ",".join(names[:_MODELS]) + more


def visible(pod: BoundPod, namespace: str | None) -> bool:
    """Whether an explanation of a pod of this namespace may name another; None: it names all."""
    return namespace is None or pod.namespace == namespace


def _named(pod: BoundPod, namespace: str | None) -> str:
    who = f"pod {pod.namespace}/{pod.name}" if visible(pod, namespace) else "a pod of another namespace"
    leaving = ", being deleted" if pod.terminating else ""
    return f"{who} (priority {pod.priority}{leaving})"


def device_of(node: Node, uuid: str | None) -> str:
    """The GPU as people count them; the UUID stands beside it in the numbers."""
    if uuid is None or node.info.report is None:
        return ""
    index = next((device.index for device in node.info.report.devices if device.uuid == uuid), None)
    return f" GPU {index}" if index is not None else ""


def cure_of(node: Node, uuid: str | None) -> str:
    """What an unhealthy GPU needs, if its agent says it: the end of its reason."""
    devices = node.info.report.devices if node.info.report is not None else ()
    reason = next((device.health_reason for device in devices if device.uuid == uuid), "")
    return reason.partition("; needs ")[2]


def _sickness(node: Node, uuid: str | None) -> str:
    for device in node.info.report.devices if node.info.report is not None else ():
        if device.uuid == uuid:
            why = "an operator cordoned it" if device.cordoned else device.health_reason
            return f" ({why})" if why else ""
    return ""
