"""Commands for GKE: limits of node auto-provisioning, and a node pool for each group. Sources: GKE's pages
about GPUs, node auto-provisioning, multi-instance and time-sharing GPUs, and gcloud's reference."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from scheduler_ext.core.errors import ConfigError
from scheduler_ext.core.node.node_labels import MANAGED_STARTING_TAINT
from scheduler_ext.features.autoscaling.node_groups.node_facts import (
    labels,
    ordered,
    starting_taint,
    taint_text,
    taints,
)
from scheduler_ext.features.autoscaling.node_groups.table import API_VERSION, NodeGroup, NodeGroups

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
    "GB300": "nvidia-gb300",
}
_MEGA: Final = {"nvidia-h100-80gb": ("a3-megagpu-", "nvidia-h100-mega-80gb")}
_MACHINE_TYPE: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")
# Containers that may share a GPU by time.
_MOST_CLIENTS: Final = 48
_NO_PLUGIN: Final = {"gke-no-default-nvidia-gpu-device-plugin": "true"}


def gke_settings(table: NodeGroups) -> dict[str, Any]:
    """The commands, each as its words, and the limits that the first reads from standard input. Raises
    ConfigError for a group that GKE cannot have."""
    return {
        "apiVersion": API_VERSION,
        "kind": "GKESettings",
        "autoprovisioning": {"resourceLimits": _limits(table)},
        "commands": [_autoprovisioning(table), *_pools(table)],
    }


def gke_commands(table: NodeGroups) -> Iterator[str]:
    """The lines of a shell script. Raises ConfigError."""
    settings = gke_settings(table)
    for i, words in enumerate(settings["commands"]):
        quoted = [shlex.quote(word) for word in words]
        # gcloud, its group of commands, the command, and the name.
        yield " ".join(quoted[:5]) + " \\"
        yield from (f"  {word} \\" for word in quoted[5:-1])
        yield f"  {quoted[-1]}" + (" <<'END'" if i == 0 else "")
        if i == 0:
            yield "resourceLimits:"
            for limit in settings["autoprovisioning"]["resourceLimits"]:
                yield f"  - {{{', '.join(f'{key}: {value}' for key, value in limit.items())}}}"
            yield "END"


def gke_notes(table: NodeGroups) -> list[str]:
    """What gcloud would refuse or do otherwise."""
    notes = [
        f"groups[{i}].instanceTypes: {name} is no machine type of Google Cloud"
        for i, group in enumerate(table.groups)
        for name in group.instance_types
        if not _MACHINE_TYPE.fullmatch(name)
    ]
    if not _is_zone(table.gke.location):
        notes += [
            f"groups[{i}].zones: {table.gke.location} is no zone, and a pool starts with the same number of "
            "nodes in each zone of a region; name the zones that have the GPUs"
            for i, group in enumerate(table.groups)
            if not group.zones
        ]
    return notes


def _is_zone(location: str) -> bool:
    return re.fullmatch(r"[a-z]+-[a-z]+[0-9]+-[a-z]", location) is not None


def _autoprovisioning(table: NodeGroups) -> list[str]:
    """A file, because the option --max-accelerator takes one model only."""
    return [
        *("gcloud", "container", "clusters", "update", table.gke.cluster),
        f"--location={table.gke.location}",
        "--enable-autoprovisioning",
        "--autoprovisioning-config-file=-",
    ]


def _limits(table: NodeGroups) -> list[dict[str, Any]]:
    gpus: Counter[str] = Counter()
    for i, group in enumerate(table.groups):
        gpus[_accelerator(i, group)] += group.max * group.gpus_per_node
    most = {"cpu": table.gke.max_cpu, "memory": table.gke.max_memory_gb, **dict(sorted(gpus.items()))}
    return [{"resourceType": name, "minimum": 0, "maximum": count} for name, count in most.items()]


def _accelerator(i: int, group: NodeGroup) -> str:
    name = _ACCELERATORS.get(group.gpu.name)
    if name is None:
        raise ConfigError(
            f"groups[{i}].model: GKE has no machines with {group.gpu.name}; it has {', '.join(_ACCELERATORS)}"
        )
    prefix, mega = _MEGA.get(name, ("", ""))
    return mega if mega and group.instance_types[0].startswith(prefix) else name


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
        *([f"--node-locations={','.join(group.zones)}"] if group.zones else []),
        # In each zone; the autoscaler does the rest.
        f"--num-nodes={-(-group.min // _zones(group, table))}",
        *(["--spot"] if group.capacity_type == "spot" else []),
        "--node-labels=" + ",".join(f"{key}={value}" for key, value in node_labels.items()),
        "--node-taints=" + ",".join(map(taint_text, registered)),
    ]


def _zones(group: NodeGroup, table: NodeGroups) -> int:
    """Regions have three zones, with exceptions."""
    return len(group.zones) or (1 if _is_zone(table.gke.location) else 3)


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
        if group.replicas > _MOST_CLIENTS:
            raise ConfigError(
                f"groups[{i}].replicas: at most {_MOST_CLIENTS} containers share a GPU on GKE; "
                f"write {_MOST_CLIENTS} or less"
            )
        parts += ["gpu-sharing-strategy=time-sharing", f"max-shared-clients-per-gpu={group.replicas}"]
    return ",".join([*parts, "gpu-driver-version=default"])
