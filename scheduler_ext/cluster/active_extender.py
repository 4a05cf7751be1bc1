"""The active extender, found from outside the cluster and queried through a port-forward."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from scheduler_ext.cluster.client.port_forward import ANSWER_S, get_from_pod
from scheduler_ext.cluster.client.transport import NOTHING, RefusedError, Transport
from scheduler_ext.core.errors import ClusterError

INSPECTION_PORT = 8890
# The names in the manifests: of pods with a kube-scheduler beside the extender, and of pods without.
_LABELS = "app.kubernetes.io/name=gpu-scheduler"
_LEASES = ("gpu-scheduler-extender", "gpu-scheduler")


class ActiveExtender:
    """Made by `find`. Raises ClusterError where it cannot be queried."""

    def __init__(self, transport: Transport, namespace: str, pod: str) -> None:
        self._transport = transport
        self.namespace = namespace
        self.pod = pod

    @classmethod
    def find(cls, transport: Transport, namespace: str, timeout_s: float) -> ActiveExtender:
        """The pod in a namespace that holds the Lease; where none is held, any that runs an extender.

        The API server has ``timeout_s`` for each answer. Raises ClusterError with the reason where there is
        none; UnreachableError where the API server does not answer.
        """
        path = f"/api/v1/namespaces/{quote(namespace)}/pods"
        found = transport.json(path, {"labelSelector": _LABELS}, timeout_s)
        names = [pod["metadata"]["name"] for pod in found.get("items") or () if _runs_an_extender(pod)]
        if not names:
            raise ClusterError(f"no extender runs in namespace {namespace}")
        holder = _holder(transport, namespace, timeout_s)
        # Both kube-scheduler's identity and ours are the host name, "_" and a random id.
        active = [name for name in names if holder is not None and holder.startswith(f"{name}_")]
        return cls(transport, namespace, (active or sorted(names))[0])

    def get(self, path: str, timeout_s: float = ANSWER_S) -> dict[str, Any] | None:
        """The JSON answer to a GET, never silent for longer than ``timeout_s``; None for 404."""
        status, body = get_from_pod(
            self._transport, self.namespace, self.pod, INSPECTION_PORT, path, timeout_s
        )
        try:
            answer: dict[str, Any] = json.loads(body)
        except ValueError:
            raise ClusterError(f"extender {self.pod} answered {status}, and no JSON") from None
        if status == 404:
            return None
        if status != 200:
            raise ClusterError(f"extender {self.pod} answered {status}: {answer.get('error', '')}")
        return answer


def _runs_an_extender(pod: dict[str, Any]) -> bool:
    containers = [container["name"] for container in pod["spec"]["containers"]]
    running = pod.get("status", {}).get("phase") == "Running"
    return running and "extender" in containers and "deletionTimestamp" not in pod["metadata"]


def _holder(transport: Transport, namespace: str, timeout_s: float) -> str | None:
    for name in _LEASES:
        try:
            path = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace)}/leases/{name}"
            lease = transport.json(path, NOTHING, timeout_s)
        except RefusedError:
            continue
        holder: str | None = (lease.get("spec") or {}).get("holderIdentity")
        if holder:
            return holder
    return None
