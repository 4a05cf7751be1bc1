"""How the device plugin offers a node's GPUs, read from the node's labels or else from what the kubelet was
offered.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_ext.agent.device_ids import MAX_REPLICAS, sharing_replicas
from scheduler_ext.core.node import node_labels
from scheduler_ext.core.request.resource_names import MIG_PREFIX
from scheduler_ext.wire.gpunode import SharingStatus

_STRATEGY = "nvidia.com/mig.strategy"
_GPU = "nvidia.com/gpu"
Allocatable = Mapping[str, tuple[str, ...]]


def mig_strategy(labels: Mapping[str, str], allocatable: Allocatable | None) -> str | None:
    """none, single or mixed. None where no source says so; then it depends on whether any GPU has MIG on."""
    label = labels.get(_STRATEGY, "").lower()
    if label in ("single", "mixed"):
        return label
    if not allocatable:
        return "none" if label == "none" else None
    if any(resource.startswith(MIG_PREFIX) for resource in allocatable):
        return "mixed"
    whole = [device for name in (_GPU, f"{_GPU}.shared") for device in allocatable.get(name, ())]
    if any(device.startswith("MIG-") for device in whole):
        return "single"
    return "none" if whole else None


def sharing(labels: Mapping[str, str], allocatable: Allocatable | None) -> SharingStatus | None:
    """How many pods may share a GPU, and by which means; None where GPUs are not shared or no source
    says so.
    """
    strategy, replicas = node_labels.sharing(labels)
    offered = sharing_replicas(allocatable) or 1
    if strategy == "none" and offered < 2:
        return None
    # The kubelet knows the number and not the means. Labels without a strategy predate MPS.
    return SharingStatus(
        "mps" if strategy == "mps" else "time-slicing",
        offered if offered > 1 else min(replicas, MAX_REPLICAS),
    )
