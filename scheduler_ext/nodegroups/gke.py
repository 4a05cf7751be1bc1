"""Commands for GKE: limits of node auto-provisioning, and a node pool for each group. Sources: GKE's pages
about GPUs, node auto-provisioning, multi-instance and time-sharing GPUs, and gcloud's reference."""

import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from scheduler_ext.core.errors import ConfigError
from scheduler_ext.core.node.node_labels import MANAGED_STARTING_TAINT
from scheduler_ext.nodegroups.node_facts import labels, ordered, starting_taint, taint_text, taints
from scheduler_ext.wire.node_groups import API_VERSION, NodeGroup, NodeGroups

_ACCELERATORS: Final = {
    "T4": "nvidia-tesla-t4",
    "P4": "nvidia-tesla-p4",
    "P100": "nvidia-tesla-p100",
    "V100-16GB": "nvidia-tesla-v100",
    "L4": "nvidia-l4",
    "RTX-PRO-6000": "nvidia-rtx-pro-6000",
    "A100-40GB": "nvidia-tesla-a100",
    "A100-80GB": "nvidia-a100-80gb",
    "H100-80GB": "nvidia-h100-80gb",
    "H200-141GB": "nvidia-h200-141gb",
    "B200-180GB": "nvidia-b200",
    "GB200-186GB": "nvidia-gb200",
}
_NO_PLUGIN: Final = {"gke-no-default-nvidia-gpu-device-plugin": "true"}


def gke_settings(table: NodeGroups) -> dict[str, Any]:
    """The commands, each as its words. Raises ConfigError for a group that GKE cannot have."""
    return {
        "apiVersion": API_VERSION,
        "kind": "GKESettings",
        "commands": [_limits(table), *_pools(table)],
    }


def gke_commands(table: NodeGroups) -> Iterator[str]:
    """The lines of a shell script. Raises ConfigError."""
    for words in gke_settings(table)["commands"]:
        quoted = [shlex.quote(word) for word in words]
        # gcloud, its group of commands, the command, and the name.
        yield " ".join(quoted[:5]) + " \\"
        yield from (f"  {word} \\" for word in quoted[5:-1])
        yield f"  {quoted[-1]}"


def _limits(table: NodeGroups) -> list[str]:
    gpus: Counter[str] = Counter()
    for i, group in enumerate(table.groups):
        gpus[_accelerator(i, group)] += group.max * group.gpus_per_node
    return [
        *("gcloud", "container", "clusters", "update", table.gke.cluster),
        f"--location={table.gke.location}",
        "--enable-autoprovisioning",
        f"--max-cpu={table.gke.max_cpu}",
        f"--max-memory={table.gke.max_memory_gb}",
        *(f"--max-accelerator=type={name},count={count}" for name, count in sorted(gpus.items())),
    ]


def _accelerator(i: int, group: NodeGroup) -> str:
    name = _ACCELERATORS.get(group.gpu.name)
    if name is None:
        raise ConfigError(
            f"groups[{i}].model: GKE has no machines with {group.gpu.name}; it has {', '.join(_ACCELERATORS)}"
        )
    return name


def _pools(table: NodeGroups) -> Iterator[list[str]]:
    numbers = {group.name: i for i, group in enumerate(table.groups)}
    for group in ordered(table.groups):
        yield _pool(numbers[group.name], group, table)


def _pool(i: int, group: NodeGroup, table: NodeGroups) -> list[str]:
    if len(group.instance_types) > 1:
        raise ConfigError(f"groups[{i}].instanceTypes: a node pool of GKE has one machine type; keep one")
    if group.hand_out == "memory-shares" and not group.min:
        raise ConfigError(
            f"groups[{i}].min: GKE's autoscaler cannot know the memory shares of a node that does not exist; "
            "write at least 1"
        )
    node_labels = labels(group) | (_NO_PLUGIN if group.hand_out == "memory-shares" else {})
    stay = [each for each in taints(group) if each["key"] != "nvidia.com/gpu"]
    registered = [*stay, starting_taint(MANAGED_STARTING_TAINT)]
    return [
        *("gcloud", "container", "node-pools", "create", group.name),
        f"--cluster={table.gke.cluster}",
        f"--location={table.gke.location}",
        f"--machine-type={group.instance_types[0]}",
        f"--accelerator={_accelerator_option(i, group)}",
        "--enable-autoscaling",
        f"--total-min-nodes={group.min}",
        f"--total-max-nodes={group.max}",
        f"--num-nodes={group.min}",
        *(["--spot"] if group.capacity_type == "spot" else []),
        "--node-labels=" + ",".join(f"{key}={value}" for key, value in node_labels.items()),
        "--node-taints=" + ",".join(map(taint_text, registered)),
    ]


def _accelerator_option(i: int, group: NodeGroup) -> str:
    parts = [f"type={_accelerator(i, group)}", f"count={group.gpus_per_node}"]
    if group.mig is not None:
        if group.mig.strategy != "single" or len(group.mig.profiles) > 1:
            raise ConfigError(
                f"groups[{i}].mig.strategy: GKE cuts every GPU into one profile and names it nvidia.com/gpu; "
                "write single, with one profile"
            )
        parts.append(f"gpu-partition-size={next(iter(group.mig.profiles))}")
    if group.replicas is not None:
        parts += ["gpu-sharing-strategy=time-sharing", f"max-shared-clients-per-gpu={group.replicas}"]
    return ",".join([*parts, "gpu-driver-version=default"])
