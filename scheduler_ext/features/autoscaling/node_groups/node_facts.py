"""What every node of a group has, before the first one exists: labels, resources, taints; and the order in
which groups are bought."""

from collections.abc import Mapping, Sequence
from typing import Final

from scheduler_ext.core.gpu.mig_profile import resource_from_profile
from scheduler_ext.core.gpu.share_memory import NOTHING_HELD, ShareMemory
from scheduler_ext.core.gpu.value_table import value_of
from scheduler_ext.core.node.node_labels import (
    AGENT_LABEL,
    MODEL_LABEL,
    STARTING_TAINT,
    stated_value,
    value_text,
)
from scheduler_ext.core.request.resource_names import DEFAULT_SHARE
from scheduler_ext.features.autoscaling.node_groups.table import NodeGroup
from scheduler_ext.wire.node_info import SHARE_NODE_LABEL

NVIDIA_GPU: Final = "nvidia.com/gpu"
_WHOLE: Final = {
    "nvidia": NVIDIA_GPU,
    "amd": "amd.com/gpu",
    "intel": "gpu.intel.com/i915",
    "habana": "habana.ai/gaudi",
}


def starting_taint(key: str = STARTING_TAINT) -> dict[str, str]:
    """The taint of a node whose GPUs are not known yet; the extender removes it."""
    return {"key": key, "value": "true", "effect": "NoSchedule"}


def labels(group: NodeGroup) -> dict[str, str]:
    """The labels of a node, the group's own ones last."""
    found = {MODEL_LABEL: group.gpu.name}
    if group.gpu.vendor == "nvidia":
        found[AGENT_LABEL] = "true"
    if group.hand_out == "memory-shares":
        found[SHARE_NODE_LABEL] = "memory"
    return found | group.labels


def taints(group: NodeGroup) -> list[dict[str, str]]:
    """The taints that stay; Karpenter's definition refuses an empty value."""
    return [
        {"key": each.key, **({"value": each.value} if each.value else {}), "effect": each.effect}
        for each in group.taints
    ]


def taint_text(taint: Mapping[str, str]) -> str:
    """A taint as kubelets and clouds read it: KEY=VALUE:EFFECT."""
    return f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"


def resources(group: NodeGroup, headroom_percent: int) -> dict[str, int]:
    """What a node hands out, by the name of the resource. A 0 stands where the cloud would state GPUs that no
    pod can get whole."""
    whole, gpus = _WHOLE[group.gpu.vendor], group.gpus_per_node
    match group.hand_out:
        case "memory-shares":
            mib = ShareMemory.of(group.gpu_memory, NOTHING_HELD, headroom_percent).share_total
            return {whole: 0, DEFAULT_SHARE: gpus * mib}
        case "time-slicing":
            return {whole: gpus * (group.replicas or 1)}
        case "mig" if group.mig is not None and group.mig.strategy == "single":
            return {whole: gpus * sum(group.mig.profiles.values())}
        case "mig" if group.mig is not None:
            instances = {
                resource_from_profile(profile): gpus * count for profile, count in group.mig.profiles.items()
            }
            return {whole: 0} | instances
    return {whole: gpus}


def memory_notes(groups: Sequence[NodeGroup]) -> list[str]:
    """Where the table says more memory than nodes will hand out: a pod that asks the difference would get new
    nodes again and again, and fit on none."""
    return [
        f"groups[{i}].memoryMiB: not given, so shares are parts of {group.gpu_mib} MiB, of which the driver "
        "reserves some; write totalMiB less reservedMiB of such a GPU, from `kubectl get gpunodes -o yaml`"
        for i, group in enumerate(groups)
        if group.hand_out == "memory-shares" and group.memory_mi_b is None
    ]


def ordered(groups: Sequence[NodeGroup]) -> list[NodeGroup]:
    """The groups in the order in which a pod that fits several gets a node: the least valuable GPUs first, of
    equal ones the smallest nodes, of these spot before on-demand. Those that hand out parts of GPUs as GPUs
    come last, because they suit the fewest pods: time slices, MIG instances, and fractions of the cloud."""

    def key(group: NodeGroup) -> tuple[object, ...]:
        return (
            group.hands_out_parts,
            stated_value(value_text(group.labels, {})) or value_of(group.gpu, {}) / group.parts,
            group.gpus_per_node,
            group.capacity_type != "spot",
            group.hand_out,
            group.name,
        )

    return sorted(groups, key=key)
