"""The sample cluster with the demo's pods: what kube-scheduler, the kubelets and the agents would write."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import yaml

from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.whatif.whatif import PodInfo, WhatIf, read_pod_info
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.pod.cached_pod import DEVICES_PREFIX
from scheduler_ext.wire.pod.pod_identity import pod_uid
from scheduler_ext.wire.times import micro_time

Json = dict[str, Any]


class DemoInventory(NamedTuple):
    """An inventory in JSON, and how many of the new pods run there or wait."""

    inventory: bytes
    running: int
    waiting: int


def with_pods(
    inventory: bytes, manifests: Sequence[Json], pods: Sequence[kube.Pod], state: ClusterState, now: float
) -> DemoInventory:
    """The inventory, which is YAML documents, with these pods, created at `now` (wall time in seconds). Each
    pod is on the node that the extender prefers when the pods before it are placed, or waits. `pods` are the
    decoded `manifests`."""
    objects: list[Json] = [each for each in yaml.safe_load_all(inventory) if each]
    reports = {each["metadata"]["name"]: each["status"] for each in objects if each["kind"] == "GPUNode"}
    config = Configuration()
    cluster, resources = WhatIf(state, config), config.resource_names()
    running = 0
    for manifest, asking in zip(manifests, pods, strict=True):
        pod: Json = json.loads(json.dumps({"apiVersion": "v1", "kind": "Pod", **manifest}))
        pod["metadata"]["creationTimestamp"] = micro_time(now)
        pod_info = read_pod_info(asking, pod_uid(asking), resources, state.claims)
        # A pod that cannot be read waits, too.
        if isinstance(pod_info, PodInfo) and (node := cluster.best(pod_info)) is not None:
            running += 1
            pod["spec"]["nodeName"] = node
            pod["status"] = {"phase": "Running"}
            annotations = pod["metadata"].setdefault("annotations", {})
            for each in cluster.bind(pod_info, node):
                if each["uuid"] is not None:
                    annotations[DEVICES_PREFIX + each["container"]] = each["uuid"]
                elif node in reports:
                    _hold(reports[node], each["profile"], pod["metadata"])
        objects.append(pod)
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    return DemoInventory(json.dumps(listed).encode(), running, len(pods) - running)


def _hold(status: Json, profile: str | None, metadata: Json) -> None:
    """Give a pod the first free GPU of a node, or MIG instance of a `profile`, as its kubelet would, and
    report the pod as its holder."""
    holder = {key: metadata[key] for key in ("uid", "namespace", "name")}
    for device in status["devices"]:
        mig = device.get("mig", {})
        if profile is None and not mig.get("enabled") and _takes_more(device, status):
            device.setdefault("holders", []).append(holder)
            return
        for instance in mig.get("instances", ()):
            if instance["profile"] == profile and "holder" not in instance:
                instance["holder"] = holder
                return


def _takes_more(device: Json, status: Json) -> bool:
    replicas = status.get("sharing", {}).get("replicas", 1)
    healthy = device.get("health", {}).get("state") != "Unhealthy"
    return healthy and len(device.get("holders", ())) < int(replicas)
