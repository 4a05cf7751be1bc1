"""The pages of the documentation about objects that are no workloads, which people give to `explain`."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from scheduler_ext.feature import installed

_GPU_OPERATOR: Final = "docs/tasks/platforms/README.md#the-gpu-operator"
_SHARING: Final = "docs/concepts/README.md#sharing-modes"
# By API group and kind; a group alone stands for all its other kinds. Features add theirs, and those about
# ConfigMaps by their names.
_PAGES: Final = {
    "/ResourceQuota": "docs/reference/cli.md#explain",
    "/LimitRange": "docs/tasks/shares.md#quotas",
    "autoscaling": "docs/tasks/scale-on-gpu-metrics.md",
    "keda.sh": "docs/tasks/scale-on-gpu-metrics.md",
    "monitoring.coreos.com": "docs/tasks/monitoring.md",
    "kueue.x-k8s.io": "docs/tasks/kueue.md",
    "nvidia.com/ClusterPolicy": _GPU_OPERATOR,
    "nvidia.com/NVIDIADriver": _GPU_OPERATOR,
    "resource.k8s.io": "docs/tasks/dra.md",
    "resource.nvidia.com": "docs/tasks/dra.md",
    "gpu.scheduler-ext.io/GPUReservation": "docs/reference/gpureservation.md",
    "config.scheduler-ext.io/ExtenderConfiguration": "docs/reference/configuration.md",
    "kubescheduler.config.k8s.io": "docs/tasks/install.md",
}
# What the ConfigMaps of NVIDIA's device plugin and its MIG manager contain (k8s-device-plugin, api/config/v1;
# mig-parted, api/spec/v1), as YAML or JSON in a text of `data`.
_SHARED_GPUS: Final = re.compile(r'(^|["{\s])(sharing|timeSlicing|migStrategy|mig-configs)"?\s*:')


def page_about(api_version: str, kind: str, name: str, data: dict[str, str]) -> str | None:
    """The page that deals with an object; None for one that no page deals with."""
    group = api_version.rpartition("/")[0]
    if (group, kind) == ("", "ConfigMap"):
        if any(map(_SHARED_GPUS.search, data.values())):
            return _SHARING
        kind = f"ConfigMap/{name}"
    if group.startswith("karpenter."):
        # Each cloud has a group for its classes of nodes.
        group = "karpenter.sh"
    pages = _all_pages()
    return pages.get(f"{group}/{kind}", pages.get(group))


@cache
def _all_pages() -> Mapping[str, str]:
    return _PAGES | {key: page for feature in installed() for key, page in feature.pages.items()}
