"""A cluster with manifests/overlays/shares without its workloads: policies, rights, definitions."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.cluster.api import STRATEGIC, Api, Json, eventually
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.whole import PLAIN_NODES, running_cluster
from tests.e2e.installation import MANIFESTS
from tests.e2e.kustomization import write_kustomization
from tests.kube_objects import SHARE

NAMESPACE = "shares"
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
VOID = {"name": VISIBLE, "value": "void"}
SHARES = MANIFESTS / "components" / "shares"
CDI = MANIFESTS / "components" / "shares-cdi"
NODE = PLAIN_NODES[0]
ASSIGNED = "gpu.scheduler-ext.io/assigned"
DEVICES = "devices.gpu.scheduler-ext.io/"
_RUNNING = ("Deployment", "DaemonSet", "ConfigMap", "PodDisruptionBudget", "NetworkPolicy")


class ShareCluster:
    """The cluster for its administrator, and for the accounts of the extender and its scheduler."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.api = plane.api
        self.extender = plane.api.as_account("gpu-scheduler", "gpu-scheduler-extender")
        self.scheduler = plane.api.as_account("gpu-scheduler", "gpu-scheduler")
        self.pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        self._numbers = itertools.count()

    def pod(
        self,
        *containers: Json,
        init: Sequence[Json] = (),
        annotations: Json | None = None,
        **spec: Any,
    ) -> Json:
        """A pod of these containers, or of one that requests a share; not yet created."""
        return {
            "metadata": {"name": f"pod-{next(self._numbers)}", "annotations": annotations or {}},
            "spec": {
                "containers": list(containers or [share()]),
                "initContainers": list(init),
                "terminationGracePeriodSeconds": 0,
                **spec,
            },
        }

    def create(self, pod: Json) -> Json:
        """The pod as it is stored."""
        self.api.create(self.pods, pod)
        return self.get(pod["metadata"]["name"])

    def get(self, name: str) -> Json:
        """The pod as it is now."""
        return self.api.get(f"{self.pods}/{name}")

    def made(self, *containers: Json, **fields: Any) -> str:
        """The name of a new pod."""
        name: str = self.create(self.pod(*containers, **fields))["metadata"]["name"]
        return name

    def binding(self, name: str, annotations: Json | None = None) -> Json:
        """A Binding of a pod as the extender posts it, with the pod's uid and version as preconditions."""
        meta = self.get(name)["metadata"]
        return {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": meta["uid"],
                "resourceVersion": meta["resourceVersion"],
                "annotations": annotations or {},
            },
            "target": {"kind": "Node", "name": NODE},
        }

    def assigned(self, *containers: Json, **fields: Any) -> str:
        """The name of a new pod that the extender has bound, with one GPU for a container `main`."""
        name = self.made(*containers, **fields)
        annotations = {ASSIGNED: "{}", f"{DEVICES}main": "GPU-1"}
        self.extender.create(f"{self.pods}/{name}/binding", self.binding(name, annotations))
        return name

    def refusal(self, pod: Json) -> str:
        """The API server's objection to a pod; empty if it would accept it. Nothing is written."""
        return self.api.refusal("POST", f"{self.pods}?dryRun=All", pod)

    def await_policies(self) -> None:
        """The API server applies new policies a moment after they were written."""
        wrong = self.pod(annotations={ASSIGNED: "{}"})
        other = self.pod(schedulerName="other")
        eventually(
            lambda: "come with the extender's Binding" in self.refusal(wrong), "assignments are guarded"
        )
        eventually(lambda: "is placed by gpu-scheduler" in self.refusal(other), "share pods are judged")
        eventually(lambda: not self.refusal(self.pod()), "share pods are given what they need")


def container(name: str = "main", limits: Json | None = None, **fields: Any) -> Json:
    """A container that requests no share unless `limits` do."""
    return {"name": name, "image": "train:1", "resources": {"limits": limits or {}}, **fields}


def share(name: str = "main", mib: str = "4096", **fields: Any) -> Json:
    """A container that requests a share."""
    return container(name, {SHARE: mib}, **fields)


def env(name: str, value: str = "all") -> dict[str, Any]:
    """The field of a container that sets one variable."""
    return {"env": [{"name": name, "value": value}]}


@contextlib.contextmanager
def running_share_cluster(directory: Path, *components: Path) -> Iterator[ShareCluster]:
    """A cluster with the base and the component shares among these; stopped at the end."""
    with running_policies(directory, *components) as shares:
        shares.await_policies()
        yield shares


@contextlib.contextmanager
def running_policies(directory: Path, *components: Path) -> Iterator[ShareCluster]:
    """A cluster with the base and these components; stopped at the end."""
    with running_cluster(directory) as cluster:
        plane = cluster.plane
        overlay = write_kustomization(directory / "overlay", components=components)
        rendered = yaml.safe_load_all(plane.kubectl("kustomize", overlay))
        objects = yaml.safe_dump_all([each for each in rendered if each["kind"] not in _RUNNING])
        strict = ("--server-side", "--validate=strict", "--warnings-as-errors")
        plane.kubectl("apply", *strict, "-f", "-", stdin=objects)
        plane.api.create_namespace(NAMESPACE)
        yield ShareCluster(plane)


def debugged(name: str, **fields: Any) -> Json:
    """A patch that adds an ephemeral container; `fields` are further ones of it."""
    return {"spec": {"ephemeralContainers": [{"name": name, "image": "debug:1", **fields}]}}


def debug(api: Api, pod: str, patch: Json) -> Json:
    """Add an ephemeral container as `kubectl debug` does."""
    return api.patch(f"{pod}/ephemeralcontainers", patch, STRATEGIC)


def own(name: str) -> Json:
    """The variable that a container with a share gets."""
    reference = {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{DEVICES}{name}']"}
    return {"name": VISIBLE, "valueFrom": {"fieldRef": reference}}


def variables(pod: Json) -> Json:
    """Every container's environment by its name; None if it has none."""
    kinds = ("initContainers", "containers", "ephemeralContainers")
    return {each["name"]: each.get("env") for kind in kinds for each in pod["spec"].get(kind, ())}
