"""The GPUs of a node that ResourceClaims hold, and the pods of these claims."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from scheduler_ext.core.dra.device import DraDevice
from scheduler_ext.core.dra.published import Claim, ClaimedDevice
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.request.request import GpuRequest, UnitRequest
from scheduler_ext.core.request.resource_names import DEVICE_CLASS_PREFIX


class ClaimedGpu(NamedTuple):
    """A GPU, or a part of one, that a claim holds."""

    claim: Claim
    held: ClaimedDevice
    device: DraDevice

    @property
    def resource(self) -> str:
        """The implicit name of a class that the claim asks, if possible one that admits the device."""
        requests = (each for each in self.claim.requests if not each.admin)
        asked = {DEVICE_CLASS_PREFIX + each.ask.device_class for each in requests}
        return min(asked & self.device.resources or asked or {DEVICE_CLASS_PREFIX})


def claimed_gpus(info: NodeInfo) -> Iterator[ClaimedGpu]:
    """What claims hold of the GPUs of a node, by the names of the claims."""
    if not info.claims or info.dra is None:
        return
    devices = {device.id: device for device in info.dra.devices}
    for claim in info.claims:
        for held in claim.devices or ():
            if (device := devices.get(held.id)) is not None:
                yield ClaimedGpu(claim, held, device)


def gpu_pods(info: NodeInfo) -> list[BoundPod]:
    """The pods that hold GPUs of a node: by their resources, then by claim only."""
    return [*(pod for pod in info.pods if pod.holds and pod.request.asks_gpu), *claim_only_pods(info)]


def claim_only_pods(info: NodeInfo) -> list[BoundPod]:
    """The pods that have GPUs of a node by claim only, with a request of these GPUs. Of a pod that is not in
    the inventory, only the name is known."""
    known = {pod.uid: pod for pod in info.pods}
    found: dict[str, BoundPod] = {}
    units: dict[str, Counter[str]] = {}
    for each in claimed_gpus(info):
        for uid, name in each.claim.pods:
            pod = known.get(uid) or BoundPod(uid, each.claim.namespace, name, 0, GpuRequest())
            if pod.holds and not pod.request.asks_gpu:
                found[uid] = pod
                units.setdefault(uid, Counter())[each.resource] += 1
    return [
        replace(pod, request=replace(pod.request, units=_by_claim(units[uid]))) for uid, pod in found.items()
    ]


def _by_claim(units: Counter[str]) -> tuple[UnitRequest, ...]:
    return tuple(UnitRequest(name, count, by_claim=True) for name, count in sorted(units.items()))
