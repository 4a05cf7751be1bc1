"""A pod of a large cluster, as long as a real one of a Deployment that a kubelet runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.kube_objects import Json

_CREATED = "2026-11-19T09:30:00Z"
_ENV = [
    {
        "name": f"SERVICE_{number:02d}_ENDPOINT",
        "value": f"http://service-{number:02d}.platform.svc:8080/api/v1",
    }
    for number in range(10)
]
_VOLUMES = [
    *(
        {"name": f"config-{number}", "configMap": {"name": f"config-{number}", "defaultMode": 420}}
        for number in range(6)
    ),
    {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
    {
        "name": "kube-api-access-5zq8d",
        "projected": {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ],
        },
    },
]
_MOUNTS = [
    {"name": volume["name"], "mountPath": f"/etc/mounts/{volume['name']}", "readOnly": True}
    for volume in _VOLUMES
]
_TOLERATIONS = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
]
_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def managed(manager: str, operation: str, time: str, fields: Json, version: str = "v1") -> Json:
    """An entry of metadata.managedFields: the manager owns these fields."""
    entry: Json = {"manager": manager, "operation": operation, "apiVersion": version, "time": time}
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": fields_of(fields)}
    return entry | ({"subresource": "status"} if "status" in fields else {})


def fields_of(found: Any) -> Json:
    """The parts of an object, as fieldsV1 names them."""
    if isinstance(found, dict):
        return {f"f:{name}": fields_of(part) for name, part in found.items()}
    fields: Json = {}
    for part in found if isinstance(found, list) else ():
        key = next((key for key in ("uuid", "name", "type") if key in part), None)
        if key is not None:
            fields[f'k:{{"{key}":"{part[key]}"}}'] = {".": {}} | fields_of(part)
    return fields


@dataclass(frozen=True, slots=True)
class LargePod:
    """The identity of a pod; `index` counts all pods of the cluster."""

    index: int
    namespace: str
    name: str

    @property
    def uid(self) -> str:
        return f"{self.index:08x}-0000-4000-8000-{self.index:012x}"

    @property
    def address(self) -> str:
        return f"10.{self.index >> 16 & 255}.{self.index >> 8 & 255}.{self.index & 255}"


def pod(who: LargePod, *, on: str | None, gpu: bool, device: str | None) -> Json:
    """The pod itself, running on a node or pending; `device` is the UUID of the GPU it holds, if any."""
    resources = {"cpu": "4", "memory": "32Gi"} | ({"nvidia.com/gpu": "1"} if gpu else {})
    annotations = {
        "cni.projectcalico.org/podIP": f"{who.address}/32",
        "prometheus.io/scrape": "true",
        "checksum/config": f"{who.index:064x}",
    }
    if device:
        annotations["devices.gpu.scheduler-ext.io/main"] = device
    spec = _spec(resources)
    labels = {"app": who.name.partition("-")[0], "pod-template-hash": "7c9d8b6f5", "team": who.namespace}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": who.name,
            "namespace": who.namespace,
            "uid": who.uid,
            "creationTimestamp": _CREATED,
            "generateName": who.name[:-5],
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [_owner(who)],
            "managedFields": _managed_fields(),
        },
        "spec": {"nodeName": on} | spec if on else spec,
        "status": _status(who, on),
    }


@cache
def _managed_fields() -> list[Json]:
    """The same for all pods."""
    spec = _spec({}) | {"volumes": [{"name": volume["name"]} for volume in _VOLUMES]}
    made = {"metadata": {"labels": dict.fromkeys(("app", "pod-template-hash", "team"))}, "spec": spec}
    status = _status(LargePod(0, "", ""), "node")
    return [
        managed("kube-controller-manager", "Update", _CREATED, made),
        managed("kubelet", "Update", _CREATED, {"status": status}),
    ]


def _owner(who: LargePod) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": who.name[:-6],
        "uid": f"{who.index:08x}-3333-4000-8000-{who.index:012x}",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _spec(resources: Json) -> Json:
    container = {
        "name": "main",
        "image": "registry.example/platform/workload:v3.14.1",
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/local/bin/run"],
        "args": ["--config=/etc/mounts/config-0/config.yaml", "--log-format=json"],
        "env": _ENV,
        "resources": {"limits": resources, "requests": resources},
        "volumeMounts": _MOUNTS,
        "readinessProbe": {
            "httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"},
            "periodSeconds": 10,
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    return {
        "containers": [container],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": _TOLERATIONS,
        "volumes": _VOLUMES,
    }


def _status(who: LargePod, on: str | None) -> Json:
    if on is None:
        told = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "lastTransitionTime": _CREATED,
        }
        return {"phase": "Pending", "qosClass": "Guaranteed", "conditions": [told]}
    running = {
        "name": "main",
        "containerID": f"containerd://{who.index:064x}",
        "image": "registry.example/platform/workload:v3.14.1",
        "imageID": f"registry.example/platform/workload@sha256:{'ab' * 32}",
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "started": True,
        "state": {"running": {"startedAt": _CREATED}},
    }
    return {
        "phase": "Running",
        "qosClass": "Guaranteed",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": _CREATED}
            for kind in _CONDITIONS
        ],
        "containerStatuses": [running],
        "podIP": who.address,
        "startTime": _CREATED,
    }
