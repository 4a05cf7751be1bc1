"""Settings of cluster-autoscaler: its flags, the ConfigMap of its expander `priority`, and what nodes of a
group will be, so that a group at zero can grow: tags of an Auto Scaling group, or annotations of Cluster API.
Sources: cluster-autoscaler, FAQ, and the pages of both providers."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

from scheduler_ext.core.node.node_labels import STARTING_TAINT
from scheduler_ext.features.autoscaling.node_groups.node_facts import (
    labels,
    ordered,
    resources,
    starting_taint,
    taint_text,
    taints,
)
from scheduler_ext.features.autoscaling.node_groups.table import API_VERSION, NodeGroup, NodeGroups

_TEMPLATE = "k8s.io/cluster-autoscaler/node-template"
_CAPI = "capacity.cluster-autoscaler.kubernetes.io"
_CAPI_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group"
_KUBELET_LABELS = {
    *(f"kubernetes.io/{name}" for name in ("arch", "hostname", "os")),
    *(f"beta.kubernetes.io/{name}" for name in ("arch", "instance-type", "os")),
    *(f"topology.kubernetes.io/{name}" for name in ("region", "zone")),
    *(f"failure-domain.beta.kubernetes.io/{name}" for name in ("region", "zone")),
}
_FLAGS = ("--expander=priority", f"--startup-taint={STARTING_TAINT}")


def cluster_autoscaler_settings(table: NodeGroups) -> dict[str, Any]:
    """All settings as plain values."""
    first_to_last = ordered(table.groups)
    # The highest number is chosen.
    priorities = "".join(
        f"{10 * (len(first_to_last) - rank)}:\n  - {_pattern(group.name)}\n"
        for rank, group in enumerate(first_to_last)
    )
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterAutoscalerSettings",
        "flags": list(_FLAGS),
        "priorities": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "cluster-autoscaler-priority-expander", "namespace": "kube-system"},
            "data": {"priorities": priorities},
        },
        "groups": [_group(group, table) for group in table.groups],
    }


def cluster_autoscaler_notes(table: NodeGroups) -> list[str]:
    """What one provider cannot state, and labels with which kubelets do not start."""
    notes = [
        f"groups[{i}].mig.profiles: an annotation of Cluster API names one resource, so the group states "
        f"{next(iter(_handed_out(group, table)))} only"
        for i, group in enumerate(table.groups)
        if len(_handed_out(group, table)) > 1
    ]
    for i, group in enumerate(table.groups):
        keys = [each.key for each in group.taints]
        notes += [
            f"groups[{i}].taints: a tag of an Auto Scaling group has one effect of {key}; cluster-autoscaler "
            "knows the last one only"
            for key in dict.fromkeys(keys)
            if keys.count(key) > 1
        ]
        notes += [
            f"groups[{i}].labels: a kubelet with {label} in --node-labels does not start; use another "
            "domain, or label the nodes in another way"
            for label in group.labels
            if _is_reserved(label)
        ]
    return notes


def _is_reserved(label: str) -> bool:
    """Whether a kubelet may not give itself this label (k8s.io/kubelet, pkg/apis/well_known_labels.go)."""
    domain = label.rpartition("/")[0]
    if not re.fullmatch(r"(.+\.)?(kubernetes|k8s)\.io", domain) or label in _KUBELET_LABELS:
        return False
    return not re.fullmatch(r"(.+\.)?(kubelet|node)\.kubernetes\.io", domain)


def cluster_autoscaler_commands(table: NodeGroups) -> Iterator[str]:
    """The same for Auto Scaling groups, as the lines of a shell script."""
    settings = cluster_autoscaler_settings(table)
    yield "# Flags of cluster-autoscaler:"
    yield from (f"#   {flag}" for flag in settings["flags"])
    priorities = settings["priorities"]
    yield "kubectl apply -f - <<'END'"
    yield "apiVersion: v1"
    yield "kind: ConfigMap"
    yield "metadata: {{name: {name}, namespace: {namespace}}}".format(**priorities["metadata"])
    yield "data:"
    yield "  priorities: |"
    yield from (f"    {line}" for line in priorities["data"]["priorities"].splitlines())
    yield "END"
    for group in settings["groups"]:
        yield f"# The kubelets of {group['name']} need:"
        yield f"#   --node-labels={group['kubelet']['nodeLabels']}"
        yield f"#   --register-with-taints={group['kubelet']['registerWithTaints']}"
        sizes = f"--min-size {group['minSize']} --max-size {group['maxSize']}"
        yield f"aws autoscaling update-auto-scaling-group --auto-scaling-group-name {group['name']} {sizes}"
        tags = [
            shlex.quote(
                f"ResourceId={group['name']},ResourceType=auto-scaling-group,PropagateAtLaunch=false,"
                f"Key={key},Value={value}"
            )
            for key, value in group["tags"].items()
        ]
        yield "aws autoscaling create-or-update-tags --tags \\"
        yield from (f"  {tag} \\" for tag in tags[:-1])
        yield f"  {tags[-1]}"


def _handed_out(group: NodeGroup, table: NodeGroups) -> dict[str, int]:
    return {name: amount for name, amount in resources(group, table.headroom_percent).items() if amount}


def _group(group: NodeGroup, table: NodeGroups) -> dict[str, Any]:
    node_labels, stay = labels(group), taints(group)
    if group.capacity_type == "spot":
        node_labels = {"node-lifecycle": "spot"} | node_labels
    label_list = ",".join(f"{key}={value}" for key, value in node_labels.items())
    amounts = resources(group, table.headroom_percent)
    tags = {
        "k8s.io/cluster-autoscaler/enabled": "true",
        **{f"{_TEMPLATE}/label/{key}": value for key, value in node_labels.items()},
        **{f"{_TEMPLATE}/resources/{name}": str(amount) for name, amount in amounts.items()},
        **{f"{_TEMPLATE}/taint/{each['key']}": taint_text(each).partition("=")[2] for each in stay},
    }
    resource, amount = next(iter(_handed_out(group, table).items()))
    annotations = {
        f"{_CAPI_SIZE}-min-size": str(group.min),
        f"{_CAPI_SIZE}-max-size": str(group.max),
        **({f"{_CAPI}/cpu": group.cpu} if group.cpu else {}),
        **({f"{_CAPI}/memory": group.memory} if group.memory else {}),
        f"{_CAPI}/gpu-type": resource,
        f"{_CAPI}/gpu-count": str(amount),
        f"{_CAPI}/labels": label_list,
        **({f"{_CAPI}/taints": ",".join(map(taint_text, stay))} if stay else {}),
    }
    registered = ",".join(map(taint_text, [*stay, starting_taint()]))
    return {
        "name": group.name,
        "minSize": group.min,
        "maxSize": group.max,
        "tags": tags,
        "annotations": annotations,
        "kubelet": {"nodeLabels": label_list, "registerWithTaints": registered},
    }


def _pattern(name: str) -> str:
    """A regular expression for the group's id: an Auto Scaling group, one of an EKS managed node group, or a
    MachineDeployment."""
    uuid = "-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    return f"^(.*/)?(eks-)?{name}({uuid})?$"
