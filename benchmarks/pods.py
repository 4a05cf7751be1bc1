"""Pods as kube-scheduler sends them: a training job's pod of about 8 KB, byte for byte as Go encodes it.

Keys stand in the order of Kubernetes' Go structs, maps are sorted, there is no white space and no apiVersion
or kind; managedFields are absent because kube-scheduler's informers drop them. Compared with bodies captured
from kube-scheduler 1.36.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Mapping
from typing import Any

from benchmarks.shapes import PodShape

_ENVIRONMENT_VARIABLES = 28
_PRIORITIES = (0, 0, 0, 1_000, 100_000)


def pod_json(shape: PodShape, rng: random.Random) -> bytes:
    """One pod of `shape` with its own uid, name, labels and priority."""
    identity = f"{rng.getrandbits(40):010x}"
    job = f"{rng.choice(('train', 'finetune', 'serve', 'eval'))}-{identity}"
    pod = {
        "metadata": _metadata(shape, rng, job),
        "spec": _spec(shape, rng, job),
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
    return json.dumps(pod, separators=(",", ":")).encode("ascii")


def _metadata(shape: PodShape, rng: random.Random, job: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": f"{job}-worker-{rng.randrange(64)}",
        "generateName": f"{job}-worker-",
        "namespace": f"team-{rng.randrange(40):02d}",
        "uid": _uuid(rng),
        "resourceVersion": str(rng.randrange(1_000_000, 99_000_000)),
        "generation": 1,
        "creationTimestamp": "2026-11-20T13:10:59Z",
        "labels": {
            "app.kubernetes.io/component": "worker",
            "app.kubernetes.io/name": job,
            "batch.kubernetes.io/job-completion-index": str(rng.randrange(64)),
            "batch.kubernetes.io/job-name": f"{job}-worker",
            "controller-uid": _uuid(rng),
        },
        "annotations": _sorted(
            {
                "batch.kubernetes.io/job-completion-index": str(rng.randrange(64)),
                "prometheus.io/path": "/metrics",
                "prometheus.io/port": "9400",
                "prometheus.io/scrape": "true",
                **shape.annotations,
            }
        ),
    }
    metadata["ownerReferences"] = [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": f"{job}-worker",
            "uid": _uuid(rng),
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    return metadata


def _spec(shape: PodShape, rng: random.Random, job: str) -> dict[str, Any]:
    return {
        "volumes": [
            {"name": "dataset", "persistentVolumeClaim": {"claimName": f"{job}-dataset"}},
            {"name": "checkpoints", "persistentVolumeClaim": {"claimName": f"{job}-checkpoints"}},
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
            {"name": "settings", "configMap": {"name": f"{job}-settings", "defaultMode": 420}},
            _token_volume(),
        ],
        "initContainers": [_container("fetch-weights", {}, job, rng)],
        "containers": [_container(f"main-{i}", asks, job, rng) for i, asks in enumerate(shape.containers)]
        + [_container("log-shipper", {}, job, rng)],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "trainer",
        "serviceAccount": "trainer",
        "securityContext": {"runAsUser": 1000, "runAsNonRoot": True, "fsGroup": 1000},
        "schedulerName": "gpu-scheduler",
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            *(
                {
                    "key": f"node.kubernetes.io/{condition}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for condition in ("not-ready", "unreachable")
            ),
        ],
        "priority": rng.choice(_PRIORITIES),
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _container(name: str, asks: Mapping[str, str], job: str, rng: random.Random) -> dict[str, Any]:
    """One container; extended resources stand in limits and, as the API server defaults them, in requests."""
    variables = _ENVIRONMENT_VARIABLES if asks else 6
    return {
        "name": name,
        "image": f"registry.example.com/ml/{name}@sha256:{rng.getrandbits(256):064x}",
        "command": ["/usr/bin/python3", "-m", "trainer.launch", f"--job={job}"],
        "env": [
            {"name": f"TRAINER_SETTING_{number:02d}", "value": f"{rng.getrandbits(96):024x}"}
            for number in range(variables)
        ],
        "resources": {
            "limits": _sorted({"cpu": "8", "memory": "64Gi", **asks}),
            "requests": _sorted({"cpu": "4", "memory": "32Gi", **asks}),
        },
        "volumeMounts": [
            {"name": "dataset", "readOnly": True, "mountPath": "/var/lib/dataset"},
            {"name": "checkpoints", "mountPath": "/var/lib/checkpoints"},
            {"name": "shared-memory", "mountPath": "/dev/shm"},
            {"name": "settings", "readOnly": True, "mountPath": "/etc/trainer"},
            {
                "name": "kube-api-access",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            },
        ],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False},
    }


def _token_volume() -> dict[str, Any]:
    """The service account token volume that the API server adds to every pod."""
    return {
        "name": "kube-api-access",
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ],
            "defaultMode": 420,
        },
    }


def _sorted(mapping: Mapping[str, str]) -> dict[str, str]:
    """Go's encoder writes maps in key order."""
    return dict(sorted(mapping.items()))


def _uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))
