"""Paths of the API server that several parts ask."""

from urllib.parse import quote

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
NAMESPACES = "/api/v1/namespaces"
QUOTAS = "/api/v1/resourcequotas"
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
GPU_NODES = "/apis/gpu.scheduler-ext.io/v1alpha1/gpunodes"


def budgets_path(namespace: str) -> str:
    """The PodDisruptionBudgets of a namespace."""
    return f"/apis/policy/v1/namespaces/{quote(namespace, safe='')}/poddisruptionbudgets"


def pod_path(namespace: str, name: str) -> str:
    """A pod."""
    return f"{NAMESPACES}/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
