"""The Job of a placeholder: one pod that no scheduler places, for a limited time. The Job controller ends it
at its deadline, also where no extender runs any longer."""

import json
from typing import Any, Final

from scheduler_ext.core.request.constraints import ANNOTATION_PREFIX
from scheduler_ext.core.request.request import PLACEHOLDER_MODEL
from scheduler_ext.features.autoscaling.placeholders.needed_nodes import NeededNode, placeholder_affinity

PRIORITY_CLASS: Final = "gpu-placeholder"
LABELS: Final = {"app.kubernetes.io/name": "gpu-scheduler", "app.kubernetes.io/component": "placeholder"}
WAITING_POD: Final = f"{ANNOTATION_PREFIX}waiting-pod"
WAITING_UID: Final = f"{ANNOTATION_PREFIX}waiting-pod-uid"
_MODEL: Final = f"{ANNOTATION_PREFIX}model"
# Never pulled: the pod is never placed.
_IMAGE: Final = "registry.k8s.io/pause:3.10"


def placeholder_job(needed: NeededNode, scheduler_name: str, ttl_s: float) -> dict[str, Any]:
    """The Job, which asks for a whole node of the kind, under the constraints of the first pod."""
    pod = needed.pod.pod
    spec: dict[str, Any] = json.loads(needed.pod.manifest or b"{}").get("spec") or {}
    amounts = {name: str(count) for name, count in needed.amounts.items()}
    requests = {**amounts, "cpu": f"{needed.cpu_milli}m"} if needed.cpu_milli else amounts
    container = {
        "name": "placeholder",
        "image": _IMAGE,
        "resources": {"requests": requests, "limits": amounts},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    template = {
        "metadata": {"labels": dict(LABELS), "annotations": {_MODEL: PLACEHOLDER_MODEL.lower()}},
        "spec": {
            "schedulerName": scheduler_name,
            "priorityClassName": PRIORITY_CLASS,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": spec.get("nodeSelector") or {},
            "tolerations": spec.get("tolerations") or [],
            "affinity": placeholder_affinity(needed, spec),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65535,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": needed.name,
            "labels": dict(LABELS),
            "annotations": {WAITING_POD: f"{pod.namespace}/{pod.name}", WAITING_UID: pod.uid},
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(ttl_s),
            "ttlSecondsAfterFinished": 0,
            "template": template,
        },
    }
