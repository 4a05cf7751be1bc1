"""The pages of the documentation about objects that are no workloads, which people give to `explain`."""

import re
from typing import Final

_AUTOSCALERS: Final = "docs/features/autoscaling/autoscalers.md"
_GPU_OPERATOR: Final = "docs/tasks/platforms/README.md#the-gpu-operator"
_SHARING: Final = "docs/concepts/README.md#sharing-modes"
# By API group and kind; a group alone stands for all its other kinds.
_PAGES: Final = {
    "/ResourceQuota": "docs/reference/cli.md#explain",
    "/LimitRange": "docs/tasks/shares.md#quotas",
    "autoscaling": "docs/tasks/scale-on-gpu-metrics.md",
    "keda.sh": "docs/tasks/scale-on-gpu-metrics.md",
    "autoscaling.k8s.io": "docs/features/idle/right-sizing.md",
    "policy/PodDisruptionBudget": "docs/features/defrag/defragment.md",
    "monitoring.coreos.com": "docs/tasks/monitoring.md",
    "kueue.x-k8s.io": "docs/tasks/kueue.md",
    "karpenter.sh": _AUTOSCALERS,
    "eks.amazonaws.com": _AUTOSCALERS,
    "cloud.google.com/ComputeClass": _AUTOSCALERS,
    "autoscaling.x-k8s.io": _AUTOSCALERS,
    "autoscaling.openshift.io": _AUTOSCALERS,
    "machine.openshift.io": _AUTOSCALERS,
    "cluster.x-k8s.io": _AUTOSCALERS,
    "cli.scheduler-ext.io/NodeGroups": _AUTOSCALERS,
    "nvidia.com/ClusterPolicy": _GPU_OPERATOR,
    "nvidia.com/NVIDIADriver": _GPU_OPERATOR,
    "resource.k8s.io": "docs/tasks/dra.md",
    "resource.nvidia.com": "docs/tasks/dra.md",
    "scheduling.k8s.io/PodGroup": "docs/features/gangs/gangs.md",
    "scheduling.k8s.io/Workload": "docs/features/gangs/gangs.md",
    "scheduling.x-k8s.io/PodGroup": "docs/features/gangs/gangs.md",
    "scheduling.run.ai": "docs/features/gangs/gangs.md",
    "scheduling.volcano.sh": "docs/features/gangs/gangs.md",
    "gpu.scheduler-ext.io/GPUReservation": "docs/reference/gpureservation.md",
    "config.scheduler-ext.io/ExtenderConfiguration": "docs/reference/configuration.md",
    "kubescheduler.config.k8s.io": "docs/tasks/install.md",
}
# What the ConfigMaps of cluster-autoscaler's expander, NVIDIA's device plugin and its MIG manager contain
# (k8s-device-plugin, api/config/v1; mig-parted, api/spec/v1), as YAML or JSON in a text of `data`.
_CONFIG_MAPS: Final = (
    (re.compile(r"^cluster-autoscaler-priority-expander$"), _AUTOSCALERS),
    (re.compile(r'(^|["{\s])(sharing|timeSlicing|migStrategy|mig-configs)"?\s*:'), _SHARING),
)


def page_about(api_version: str, kind: str, name: str, data: dict[str, str]) -> str | None:
    """The page that deals with an object; None for one that no page deals with."""
    group = api_version.rpartition("/")[0]
    if (group, kind) == ("", "ConfigMap"):
        texts = (name, *data.values())
        return next((page for found, page in _CONFIG_MAPS if any(map(found.search, texts))), None)
    if group.startswith("karpenter."):
        # Each cloud has a group for its classes of nodes.
        group = "karpenter.sh"
    return _PAGES.get(f"{group}/{kind}", _PAGES.get(group))
