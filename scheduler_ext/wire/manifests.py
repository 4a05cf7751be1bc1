"""Pods of a text: plain ones, and the pods of workloads' templates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from scheduler_ext.core.errors import InventoryError
from scheduler_ext.wire import kube
from scheduler_ext.wire.pod import pod_name

# A simulation takes some milliseconds for each pod.
_MAX_PODS = 100_000


@dataclass(frozen=True, slots=True)
class Manifest:
    """A pod to ask about: from a text, or from a template of ``workload`` ("Deployment team/web").

    ``copies`` is how many the workload runs; None for one on each node.
    """

    pod: kube.Pod
    workload: str | None = None
    copies: int | None = 1

    @property
    def name(self) -> str:
        """metadata.name, empty if there is none."""
        return (self.pod.metadata.name if self.pod.metadata else None) or ""

    @property
    def namespace(self) -> str | None:
        """metadata.namespace."""
        return self.pod.metadata.namespace if self.pod.metadata else None

    def notes(self) -> list[str]:
        """Notes that a reader of an answer about this pod needs."""
        if self.workload is None:
            return []
        number = "one on each node" if self.copies is None else f"{self.copies} of it"
        return [f"a pod of the template of {self.workload}, which wants {number}"]

    def named(self, name: str | None, namespace: str | None) -> Manifest:
        """The same pod under another name."""
        metadata = self.pod.metadata or kube.ObjectMeta()
        metadata = msgspec.structs.replace(metadata, name=name, namespace=namespace)
        return replace(self, pod=msgspec.structs.replace(self.pod, metadata=metadata))


def distinct(manifests: Iterable[Manifest]) -> list[Manifest]:
    """The manifests with unique pod names; pods of a second workload of one name get a name with their kind.

    Raises InventoryError for a pod that occurs twice, which would hold its GPUs twice.
    """
    taken: set[str] = set()
    named = []
    for manifest in manifests:
        if manifest.workload is not None and pod_name(manifest.pod) in taken:
            kind = manifest.workload.partition(" ")[0].lower()
            manifest = manifest.named(f"{manifest.name}-{kind}", manifest.namespace)
        taken.add(pod_name(manifest.pod))
        named.append(manifest)
    refuse_same_pods(manifest.pod for manifest in named)
    return named


def in_namespace(manifests: Iterable[Manifest], namespace: str, *, only: bool) -> list[Manifest]:
    """The manifests; those without a namespace get this one, as from kubectl.

    With ``only``, raises InventoryError for a pod of another namespace.
    """
    placed = []
    for manifest in manifests:
        named = manifest.namespace or namespace
        if only and named != namespace:
            raise InventoryError(
                f"Pod {pod_name(manifest.pod)} is not in namespace {namespace}; give -n {named}, or none"
            )
        placed.append(manifest.named(manifest.name or None, named))
    return distinct(placed)


def every_pod(manifests: Iterable[Manifest]) -> list[kube.Pod]:
    """Every pod of the manifests, the pods of a template numbered; one for a workload with one on each node.

    Raises InventoryError if there are too many, or none.
    """
    manifests = list(manifests)
    wanted = sum(1 if each.copies is None else each.copies for each in manifests)
    if not 0 < wanted <= _MAX_PODS:
        raise InventoryError(f"{wanted} pods by its replicas; give 1 to {_MAX_PODS}")
    pods = []
    for each in manifests:
        if each.copies in (None, 1):
            pods.append(each.pod)
        else:
            pods += [each.named(f"{each.name}-{i}", each.namespace).pod for i in range(each.copies or 0)]
    refuse_same_pods(pods)
    return pods


def refuse_same_pods(pods: Iterable[kube.Pod]) -> None:
    """Raises InventoryError for a pod that occurs twice, which would hold its GPUs twice."""
    seen = set()
    for name in map(pod_name, pods):
        if name in seen:
            raise InventoryError(f"Pod {name} is in the file twice; keep one")
        seen.add(name)
