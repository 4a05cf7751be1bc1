"""An inventory file: GPUNode, Node and Pod objects, as a dump of a cluster or written by hand.

YAML (several documents) or JSON, single objects or Lists. Everything is read before anything is believed:
one wrong object refuses the file, and the message names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec
import yaml

from scheduler_ext.core.disruption import Budget
from scheduler_ext.core.errors import InventoryError
from scheduler_ext.core.gpu import Report
from scheduler_ext.core.node import BoundPod, NodeInfo, PendingPod
from scheduler_ext.core.quantity import QuantityError
from scheduler_ext.core.resources import ResourceNames
from scheduler_ext.wire import gpunode, kube
from scheduler_ext.wire.decoding import explained
from scheduler_ext.wire.disruption import PodDisruptionBudget, budget
from scheduler_ext.wire.node import node_info
from scheduler_ext.wire.pod import asks_gpu, bound_pod, is_finished, pending_pod, pod_name, unreadable_pod
from scheduler_ext.wire.report import read_report

# Far above a dump of any real cluster; aliases in YAML could otherwise unfold without end.
MAX_YAML_VALUES = 50_000_000
# Kubernetes objects stay below 100; unbounded depth would overflow the C stack of the YAML reader.
MAX_YAML_DEPTH = 500
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of a file by kind and name, decoded; ``skipped`` counts kinds that mean nothing here.

    ``budgets`` are its PodDisruptionBudgets: who is evicted in a simulation depends on them.
    """

    gpu_nodes: dict[str, gpunode.GpuNode] = field(default_factory=dict)
    nodes: dict[str, kube.Node] = field(default_factory=dict)
    pods: list[kube.Pod] = field(default_factory=list)
    budgets: list[Budget] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)

    def pods_by_node(self) -> dict[str, list[kube.Pod]]:
        """Pods that are on a node and still hold resources there."""
        by_node: dict[str, list[kube.Pod]] = {}
        for pod in self.pods:
            if pod.spec is not None and pod.spec.node_name and not is_finished(pod):
                by_node.setdefault(pod.spec.node_name, []).append(pod)
        return by_node


class _Header(kube.KubeStruct):
    kind: str | None = None
    api_version: str | None = None
    metadata: kube.ObjectMeta | None = None


class _List(kube.KubeStruct):
    items: list[msgspec.Raw] | None = None


def read_objects(text: bytes) -> Objects:
    """The objects of an inventory file's bytes. Raises InventoryError naming the object and the field.

    A cluster without objects is an empty List; a file without even that is one that is being written.
    """
    return _read(text, "GPUNode, Node, Pod or a List of them")


def _read(text: bytes, expected: str) -> Objects:
    objects = Objects()
    number = 0
    for number, (where, document) in enumerate(_documents(text), 1):  # noqa: B007  # counts on
        _add(objects, where, document, None, expected)
    if not number:
        raise InventoryError(f"empty; expected {expected}")
    _refuse_same_pods(objects.pods)
    return objects


def read_pods(text: bytes) -> list[kube.Pod]:
    """The pods of a file, in order; other kinds are refused. Raises InventoryError."""
    objects = _read(text, "a Pod, or a List of Pods")
    others = [
        *objects.skipped,
        *(["GPUNode"] if objects.gpu_nodes else []),
        *(["Node"] if objects.nodes else []),
        *(["PodDisruptionBudget"] if objects.budgets else []),
    ]
    if others:
        raise InventoryError(
            f"a {others[0]} is no Pod; give a file with Pod objects (a Deployment's pod template is not read)"
        )
    if not objects.pods:
        raise InventoryError("no Pod in it; give a file with one")
    return objects.pods


def in_namespace(pods: list[kube.Pod], namespace: str, *, only: bool) -> list[kube.Pod]:
    """The pods, of which those that name no namespace are put into this one, as kubectl would.

    With ``only``, raises InventoryError for a pod of another.
    """
    placed = []
    for pod in pods:
        metadata = pod.metadata or kube.ObjectMeta()
        named = metadata.namespace or namespace
        if only and named != namespace:
            raise InventoryError(
                f"Pod {pod_name(pod)} is not in namespace {namespace}; give -n {named}, or none"
            )
        placed.append(
            msgspec.structs.replace(pod, metadata=msgspec.structs.replace(metadata, namespace=named))
        )
    _refuse_same_pods(placed)
    return placed


def assemble(
    objects: Objects, resources: ResourceNames, previous: Mapping[str, NodeInfo] | None = None
) -> dict[str, NodeInfo]:
    """Every node of the objects, by name: reports, Nodes and pods put together.

    ``previous`` are the nodes of the last good file, whose sequences the new reports must not go behind.
    Raises InventoryError (ImpossibleReportError) naming the object and the field.
    """
    reports: dict[str, Report | None] = {}
    for name, gpu_node in objects.gpu_nodes.items():
        last = previous.get(name) if previous else None
        reports[name] = read_report(gpu_node, last.report if last else None)
    pods: dict[str, list[BoundPod]] = {}
    nominated: dict[str, list[BoundPod]] = {}
    for pod in objects.pods:
        try:
            if pod.spec is not None and pod.spec.node_name:
                pods.setdefault(pod.spec.node_name, []).append(bound_pod(pod, resources))
            elif (waiting := _nominated(pod, resources)) is not None:
                nominated.setdefault(waiting[0], []).append(waiting[1])
        except QuantityError as error:
            raise InventoryError(f"{_named('Pod', pod.metadata)}: {error}") from None
    infos = {}
    for name in dict.fromkeys((*objects.gpu_nodes, *objects.nodes)):
        try:
            info = node_info(name, objects.nodes.get(name), reports.get(name), pods.get(name, ()), resources)
            infos[name] = replace(info, nominated=tuple(nominated.get(name, ())))
        except QuantityError as error:
            raise InventoryError(f"Node {name}: status: {error}") from None
    return infos


def waiting(objects: Objects, resources: ResourceNames) -> list[PendingPod]:
    """The pods that ask GPUs and have no node yet; of one that cannot be read, why."""
    found = []
    for pod in objects.pods:
        spec = pod.spec or kube.PodSpec()
        if spec.node_name or is_finished(pod) or not asks_gpu(spec, resources):
            continue
        try:
            found.append(pending_pod(pod, resources))
        except QuantityError as error:
            found.append(unreadable_pod(pod, str(error)))
    return found


def _nominated(pod: kube.Pod, resources: ResourceNames) -> tuple[str, BoundPod] | None:
    """The node where a pod's place is kept until others have left, and the pod as it will hold it there."""
    if pod.status is None or not pod.status.nominated_node_name or is_finished(pod):
        return None
    pending = pending_pod(pod, resources)
    if pending.nominated_node is None or pending.invalid is not None or pending.pod.terminating:
        return None
    return pending.nominated_node, pending.pod


def _add(
    objects: Objects, where: str, document: bytes | msgspec.Raw, implied: str | None, expected: str
) -> None:
    header = _decode(document, _Header, where)
    kind = header.kind or implied
    if not kind:
        raise InventoryError(f"{where}: no kind; expected {expected}")
    if kind.endswith("List"):
        for i, item in enumerate(_decode(document, _List, where).items or ()):
            _add(objects, f"{where}.items[{i}]", item, kind.removesuffix("List") or None, expected)
        return
    if kind not in ("GPUNode", "Node", "Pod", "PodDisruptionBudget"):
        objects.skipped[kind] = objects.skipped.get(kind, 0) + 1
        return
    name = header.metadata.name if header.metadata else None
    if not name:
        raise InventoryError(f"{where}: {kind} without metadata.name")
    named = _named(kind, header.metadata)
    if kind == "GPUNode":
        if header.api_version not in (gpunode.API_VERSION, None):
            raise InventoryError(
                f"{named}: apiVersion {header.api_version!r}; this release reads {gpunode.API_VERSION}"
            )
        _once(objects.gpu_nodes, name, named)
        objects.gpu_nodes[name] = _decode(document, gpunode.GpuNode, named)
    elif kind == "Node":
        _once(objects.nodes, name, named)
        objects.nodes[name] = _decode(document, kube.Node, named)
    elif kind == "PodDisruptionBudget":
        objects.budgets.append(budget(_decode(document, PodDisruptionBudget, named)))
    else:
        objects.pods.append(_decode(document, kube.Pod, named))


def _refuse_same_pods(pods: list[kube.Pod]) -> None:
    """A pod that stood in the file twice would hold its GPUs twice."""
    seen = set()
    for name in map(pod_name, pods):
        if name in seen:
            raise InventoryError(f"Pod {name} is in the file twice; keep one")
        seen.add(name)


def _once(known: Mapping[str, object], name: str, named: str) -> None:
    if name in known:
        raise InventoryError(f"{named} is in the file twice; keep one")


def _named(kind: str, metadata: kube.ObjectMeta | None) -> str:
    name = (metadata.name if metadata else None) or "?"
    return f"{kind} {metadata.namespace}/{name}" if metadata and metadata.namespace else f"{kind} {name}"


def _decode(document: bytes | msgspec.Raw, kind: type[_T], where: str) -> _T:
    try:
        return msgspec.json.decode(document, type=kind)
    except msgspec.ValidationError as error:
        raise InventoryError(f"{where}: {explained(error)}") from None


def _documents(text: bytes) -> Iterator[tuple[str, bytes]]:
    if text.lstrip()[:1] == b"{":
        try:
            msgspec.json.decode(text, type=msgspec.Raw)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            # Flow-style YAML also starts with a brace; let the YAML reader say what is wrong.
            pass
        else:
            yield "document 1", text
            return
    try:
        for number, value in enumerate(yaml.load_all(text, Loader=_Loader), 1):
            if value is not None:
                if _has_aliases(text):
                    _refuse_bombs(value)
                yield f"document {number}", msgspec.json.encode(value)
    except yaml.YAMLError as error:
        raise InventoryError(f"neither YAML nor JSON: {_one_line(error)}") from None
    except (UnicodeDecodeError, RecursionError, TypeError, ValueError) as error:
        raise InventoryError(f"neither YAML nor JSON: {error}") from None


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the C one where built
    """Plain values only, not too deep; a timestamp stays the text that it is in JSON."""

    _depth = 0

    # PyYAML calls these two around every node, for path resolvers, which nobody uses here.
    def descend_resolver(self, current_node: object, current_index: object) -> None:
        self._depth += 1
        if self._depth > MAX_YAML_DEPTH:
            raise yaml.YAMLError(f"nested deeper than {MAX_YAML_DEPTH} levels")

    def ascend_resolver(self) -> None:
        self._depth -= 1


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def _has_aliases(text: bytes) -> bool:
    return re.search(rb"(^|[\s\[,:-])\*\w", text) is not None


def _refuse_bombs(value: object) -> None:
    """Count what aliases unfold to without unfolding them."""
    sizes: dict[int, int] = {}

    def size(item: object) -> int:
        if not isinstance(item, dict | list):
            return 1
        if id(item) not in sizes:
            sizes[id(item)] = 0
            parts = item.values() if isinstance(item, dict) else item
            sizes[id(item)] = 1 + sum(map(size, parts))
        return sizes[id(item)]

    if size(value) > MAX_YAML_VALUES:
        raise InventoryError(f"YAML aliases unfold to more than {MAX_YAML_VALUES} values; write them out")


def _one_line(error: yaml.YAMLError) -> str:
    return " ".join(str(error).split())
