"""An inventory file: GPUNode, Node and Pod objects, from a dump of a cluster or written by hand. YAML
(several documents) or JSON, single objects or Lists. The whole file is read before any of it is used: one
wrong object refuses the file, and the message names it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import msgspec

from scheduler_ext.core.cache.device_index import DeviceIndex, with_claims
from scheduler_ext.core.cache.observed_demand import ObservedDemand
from scheduler_ext.core.dra.published import Claim, DeviceClass, ResourceSlice, TaintRule
from scheduler_ext.core.errors import DocumentError, InventoryError
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.node.node import BoundPod, NodeInfo, PendingPod
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire import gpunode, kube
from scheduler_ext.wire.controllers import CONTROLLED, Controller, add_controller, controlling_owner
from scheduler_ext.wire.decoding import decode_object
from scheduler_ext.wire.documents import json_documents
from scheduler_ext.wire.dra.claim_object import ClaimObject, TemplateObject, read_claim, read_template
from scheduler_ext.wire.dra.class_object import ClassObject, read_class
from scheduler_ext.wire.dra.device_selector import DeviceSelector
from scheduler_ext.wire.dra.resource_api import GROUP, RULE_VERSIONS, VERSIONS
from scheduler_ext.wire.dra.slice_object import SliceObject, read_slice
from scheduler_ext.wire.dra.taint_rule import RuleObject, read_rule
from scheduler_ext.wire.gang_groups import declared_group
from scheduler_ext.wire.gangs import DeclaredGroup, GroupKey
from scheduler_ext.wire.kind_pages import page_about
from scheduler_ext.wire.manifests import Manifest, distinct, refuse_same_pods, template_manifests
from scheduler_ext.wire.node_info import node_info
from scheduler_ext.wire.pod.cached_pod import bound_pod, pending_pod, unreadable_pod
from scheduler_ext.wire.pod.pod_claims import claim_names
from scheduler_ext.wire.pod.pod_identity import is_finished
from scheduler_ext.wire.pod.pod_request import asks_gpu
from scheduler_ext.wire.quota import Quota, QuotaObject, read_quota
from scheduler_ext.wire.report import read_report
from scheduler_ext.wire.selectors import PodDisruptionBudget, budget
from scheduler_ext.wire.workloads import Lookup, UnreadError
from scheduler_ext.wire.yaml_values import FILE, YamlLimits

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of a file by kind and name, decoded; `skipped` counts kinds that are ignored here.
    `budgets` are its PodDisruptionBudgets, which decide about evictions in a simulation, and `controllers`
    the owners of its ReplicaSets and Jobs. `quotas` only concern pods that are to be created."""

    gpu_nodes: dict[str, gpunode.GpuNode] = field(default_factory=dict)
    nodes: dict[str, kube.NodeObject] = field(default_factory=dict)
    pods: list[kube.Pod] = field(default_factory=list)
    budgets: list[Budget] = field(default_factory=list)
    quotas: list[Quota] = field(default_factory=list)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    slices: dict[str, ResourceSlice] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    rules: dict[str, TaintRule] = field(default_factory=dict)
    controllers: dict[Controller, Controller] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)

    def pods_by_node(self) -> dict[str, list[kube.Pod]]:
        """Pods that are on a node and still hold resources there."""
        by_node: dict[str, list[kube.Pod]] = {}
        for pod in self.pods:
            if pod.spec is not None and pod.spec.node_name and not is_finished(pod):
                by_node.setdefault(pod.spec.node_name, []).append(pod)
        return by_node

    def labels(self) -> dict[str, Mapping[str, str]]:
        """The labels of each node; none for one without a Node object."""
        named = (*self.gpu_nodes, *(item.node for item in self.slices.values() if item.node is not None))
        metadata = {name: node.metadata or kube.ObjectMeta() for name, node in self.nodes.items()}
        return {name: {} for name in named} | {
            name: kube.strings(each.labels) for name, each in metadata.items()
        }


# The ends of API groups whose objects are about nodes, queues, metrics and policies, or whose workloads are
# known.
_WITHOUT_PODS: Final = ("k8s.io", "azure.com", "nvidia.com", "coreos.com", "kyverno.io", "gatekeeper.sh")


class _List(kube.KubeStruct):
    items: list[msgspec.Raw] | None = None


class _ConfigMap(kube.KubeStruct):
    data: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class _Object:
    """An undecoded object and its place in the text."""

    where: str
    kind: str
    header: kube.Header
    document: bytes | msgspec.Raw

    @property
    def name(self) -> str:
        """metadata.name. Raises InventoryError if there is none."""
        name = self.header.metadata.name if self.header.metadata else None
        if not name:
            raise InventoryError(f"{self.where}: {self.kind} without metadata.name")
        return name

    @property
    def given_name(self) -> str | None:
        """metadata.name, None without one."""
        return self.header.metadata.name if self.header.metadata else None

    @property
    def namespace(self) -> str | None:
        """metadata.namespace, None without one."""
        return self.header.metadata.namespace if self.header.metadata else None

    @property
    def full_name(self) -> str:
        """The kind, the namespace and the name, for messages."""
        return _named(self.kind, self.header.metadata)

    @property
    def is_claim(self) -> bool:
        """A claim or a template of claims. Raises InventoryError for a version that this release does not
        read."""
        return self.kind in ("ResourceClaim", "ResourceClaimTemplate") and _is_dra(self)

    @property
    def mentions_gpus(self) -> bool:
        """Whether an object of another project has GPUs in it, so that its pods may request some."""
        group = (self.header.api_version or "").rpartition("/")[0]
        known = not group.endswith(_WITHOUT_PODS) and self.page is None
        return "." in group and known and b"gpu" in bytes(self.document)

    @property
    def page(self) -> str | None:
        """The page of the documentation that deals with such an object."""
        data: dict[str, str] = {}
        if self.kind == "ConfigMap":
            with suppress(InventoryError):
                data = decode_object(self.document, _ConfigMap, self.where).data or {}
        return page_about(self.header.api_version or "", self.kind, self.given_name or "", data)

    def read(self, kind: type[T], known: dict[str, T] | None = None) -> T:
        """The object, whose name `known` must not have. Raises InventoryError naming the field."""
        name, named = self.name, _named(self.kind, self.header.metadata)
        if known is not None and name in known:
            raise InventoryError(f"{named} is in the file twice; keep one")
        return decode_object(self.document, kind, named)


def read_objects(text: bytes) -> Objects:
    """The objects of an inventory file's bytes. Raises InventoryError naming the object and the field. A
    cluster without objects is an empty List; a file without even a List is still being written."""
    objects = Objects()
    for each in _each_object(text, FILE, "GPUNode, Node, Pod or a List of them"):
        match each.kind:
            case "Pod":
                objects.pods.append(each.read(kube.Pod))
            case "Node":
                objects.nodes[each.name] = each.read(kube.NodeObject, objects.nodes)
            case "GPUNode":
                if each.header.api_version not in (gpunode.API_VERSION, None):
                    raise InventoryError(
                        f"GPUNode {each.name}: apiVersion {each.header.api_version!r}; this release reads "
                        f"{gpunode.API_VERSION}"
                    )
                objects.gpu_nodes[each.name] = each.read(gpunode.GpuNode, objects.gpu_nodes)
            case "ResourceQuota" if each.header.api_version in ("v1", None):
                objects.quotas.append(_quota_of(each))
            case "PodDisruptionBudget":
                objects.budgets.append(budget(each.read(PodDisruptionBudget)))
            case _ if _is_dra(each):
                _take_dra(objects, each)
            case _:
                objects.skipped[each.kind] = objects.skipped.get(each.kind, 0) + 1
                if each.kind in CONTROLLED:
                    add_controller(objects.controllers, each.kind, each.header.metadata)
    refuse_same_pods(objects.pods)
    return objects


_DRA_KINDS: Final = (
    "DeviceClass",
    "ResourceSlice",
    "DeviceTaintRule",
    "ResourceClaim",
    "ResourceClaimTemplate",
)


def _is_dra(each: _Object) -> bool:
    """An object of resource.k8s.io. Raises InventoryError for one of a version that this release does not
    read: without it, GPUs that claims hold would be free."""
    group, _, version = (each.header.api_version or f"{GROUP}/").partition("/")
    if each.kind not in _DRA_KINDS or group != GROUP:
        return False
    versions = (*RULE_VERSIONS, "v1alpha3") if each.kind == "DeviceTaintRule" else VERSIONS
    if version not in (*versions, ""):
        raise InventoryError(
            f"{each.kind} {each.name}: apiVersion {each.header.api_version!r}; this release reads "
            f"{GROUP}/{', '.join(versions)}: write it with "
            f"`kubectl get {each.kind.lower()}s.{versions[0]}.{GROUP} -A -o yaml`"
        )
    return True


def _take_dra(objects: Objects, each: _Object) -> None:
    match each.kind:
        case "DeviceClass":
            objects.classes[each.name] = read_class(each.read(ClassObject))
        case "ResourceSlice":
            objects.slices[each.name] = read_slice(each.read(SliceObject))
        case "DeviceTaintRule":
            objects.rules[each.name] = read_rule(each.read(RuleObject))
        case _:
            objects.claims.append(_claim_of(each))


def _claim_of(each: _Object) -> Claim:
    """A claim of a file, or the one that a template would make."""
    if each.kind == "ResourceClaimTemplate":
        return read_template(each.read(TemplateObject))
    claim = read_claim(each.read(ClaimObject))
    # Claims written by hand have no uid.
    return claim if claim.uid else replace(claim, uid=claim.key)


def _quota_of(each: _Object) -> Quota:
    try:
        return read_quota(each.read(QuotaObject))
    except QuantityError as error:
        raise InventoryError(f"{_named(each.kind, each.header.metadata)}: {error}") from None


def device_index(
    objects: Objects, resources: ResourceNames, more: Iterable[Claim] = ()
) -> DeviceIndex | None:
    """The devices and claims of a file, and `more` claims; None without any."""
    claims = (*objects.claims, *more)
    if not (objects.classes or objects.slices or claims):
        return None
    index = DeviceIndex(DeviceSelector, resources)
    for rule in objects.rules.values():
        index.update_rule(rule)
    for item in objects.classes.values():
        index.update_class(item)
    for published in objects.slices.values():
        index.update_slice(published)
    for claim in claims:
        index.update_claim(claim)
    index.settle()
    index.count_others(objects.labels())
    return index


def read_pods(text: bytes) -> list[kube.Pod]:
    """The pods of a file, in order, one for each pod template of a workload. Raises InventoryError."""
    return [manifest.pod for manifest in read_manifests(text)]


def read_manifests(text: bytes, limits: YamlLimits = FILE) -> list[Manifest]:
    """The pods of a text and of its pod templates, in order; other objects are skipped, and so are those that
    another object of the text controls or names, because their pods are its pods. Raises InventoryError,
    also if there are none, and for Nodes and GPUNodes, which belong into an inventory."""
    every = list(_each_object(text, limits, "a Pod, a workload such as a Deployment, or a List of them"))
    used: set[int] = set()

    def lookup(kind: str, name: str | None) -> Mapping[str, Any] | None:
        found = [i for i, each in enumerate(every) if each.kind == kind and name in (None, each.given_name)]
        if len(found) != 1:
            return None
        used.update(found)
        return decode_object(every[found[0]].document, dict[str, Any], every[found[0]].where)

    controllers = {(each.kind, each.namespace, each.given_name) for each in every}
    made: dict[int, list[Manifest]] = {}
    unread: dict[int, UnreadError] = {}
    for i, each in enumerate(every):
        if each.kind in ("GPUNode", "Node"):
            raise InventoryError(f"a {each.kind} is no Pod; give a file with a Pod, or a workload's template")
        owner = controlling_owner(each.header.metadata or kube.ObjectMeta())
        owned = owner is not None and (owner.kind, each.namespace, owner.name) in controllers
        if each.kind == "Pod":
            made[i] = [Manifest(each.read(kube.Pod))]
        elif not (owned or each.is_claim):
            try:
                made[i] = _of_templates(each, lookup)
            except UnreadError as error:
                unread[i] = error
    claims = tuple(_claim_of(each) for each in every if each.is_claim)
    manifests = [manifest for i, found in made.items() if i not in used for manifest in found]
    if not manifests:
        raise _no_pods(
            list(unread.values()), [each for i, each in enumerate(every) if i in made or each.is_claim]
        )
    left_out = tuple(str(error) for i, error in unread.items() if i not in used and error.has_pods)
    quotas = tuple(_quota_of(each) for each in every if each.kind == "ResourceQuota")
    groups = dict(_declared_groups(every))
    return [
        replace(manifest.of_group(groups), claims=claims, quotas=quotas, unread=left_out)
        for manifest in distinct(manifests)
    ]


def _declared_groups(every: Iterable[_Object]) -> Iterator[tuple[GroupKey, DeclaredGroup]]:
    """What the PodGroups of a text say; other objects that declare groups make their pods themselves."""
    for each in every:
        if each.kind == "PodGroup":
            document = decode_object(each.document, dict[str, Any], each.where)
            found = declared_group({"kind": each.kind, "apiVersion": each.header.api_version} | document)
            if found is not None:
                yield found


def _of_templates(each: _Object, lookup: Lookup) -> list[Manifest]:
    """The pods of an object that is none itself. Raises InventoryError; UnreadError for one that does not
    say what its pods are, and for one of another project that asks GPUs in a form that is not known."""
    metadata = each.header.metadata or kube.ObjectMeta()
    try:
        found = template_manifests(each.kind, metadata, each.document, each.where, lookup)
    except UnreadError as error:
        raise UnreadError(f"{each.full_name}: {error}", has_pods=error.has_pods) from None
    if not found and each.mentions_gpus:
        raise UnreadError(
            f"{each.full_name} has no pod template with containers: if it makes pods, give these, or the "
            "workload that it makes"
        )
    return found


def _no_pods(unread: Sequence[UnreadError], others: Sequence[_Object]) -> InventoryError:
    if unread:
        return InventoryError(str(unread[0]))
    there = f"; {others[0].full_name} has no pod template with containers" if others else ""
    pages = ((each.kind, each.page) for each in others)
    about = next((f"; see {page} for this {kind}" for kind, page in pages if page is not None), "")
    return InventoryError(
        f"no Pod in it{there}; give a file with a Pod, or a workload such as a Deployment{about}"
    )


def assemble(
    objects: Objects,
    resources: ResourceNames,
    previous: Mapping[str, NodeInfo] | None = None,
    index: DeviceIndex | None = None,
) -> dict[str, NodeInfo]:
    """Every node of the objects, by name: reports, Nodes and pods put together, with the devices in `index`
    (None: those of the objects). `previous` are the nodes of the last good file; the sequences of new reports
    must not fall below theirs. Raises InventoryError (ImpossibleReportError) naming the object and the
    field."""
    reports: dict[str, Report | None] = {}
    for name, gpu_node in objects.gpu_nodes.items():
        last = previous.get(name) if previous else None
        reports[name] = read_report(gpu_node, last.report if last else None)
    pods, nominated = _pods_by_node(objects.pods, resources)
    index = index or device_index(objects, resources)
    published = [item.node for item in objects.slices.values() if item.node is not None]
    infos = {}
    for name in dict.fromkeys((*objects.gpu_nodes, *objects.nodes, *published)):
        try:
            info = node_info(
                name, objects.nodes.get(name), reports.get(name), pods.get(name, ()), resources, index
            )
            infos[name] = replace(info, nominated=tuple(nominated.get(name, ())))
        except QuantityError as error:
            raise InventoryError(f"Node {name}: status: {error}") from None
    return infos


def waiting(
    objects: Objects, resources: ResourceNames, claims: DeviceIndex | None = None
) -> list[PendingPod]:
    """The pods that request GPUs and have no node yet; for an unreadable one, the problem."""
    found = []
    for pod in objects.pods:
        spec = pod.spec or kube.PodSpec()
        if spec.node_name or is_finished(pod) or not (asks_gpu(spec, resources) or spec.resource_claims):
            continue
        try:
            pending = with_claims(pending_pod(pod, resources), claims)
            if pending.pod.request.asks_gpu or pending.invalid is not None:
                found.append(pending)
        except QuantityError as error:
            found.append(unreadable_pod(pod, str(error)))
    return found


def _pods_by_node(
    every: Iterable[kube.Pod], resources: ResourceNames
) -> tuple[dict[str, list[BoundPod]], dict[str, list[BoundPod]]]:
    """The pods on each node, and the pods nominated there, as they will hold resources."""
    pods: dict[str, list[BoundPod]] = {}
    nominated: dict[str, list[BoundPod]] = {}
    for pod in every:
        try:
            if pod.spec is not None and pod.spec.node_name:
                pods.setdefault(pod.spec.node_name, []).append(bound_pod(pod, resources))
            elif pod.status is not None and pod.status.nominated_node_name and not is_finished(pod):
                pending = pending_pod(pod, resources)
                if pending.invalid is None and not pending.pod.terminating:
                    nominated.setdefault(pod.status.nominated_node_name, []).append(pending.pod)
        except QuantityError as error:
            raise InventoryError(f"{_named('Pod', pod.metadata)}: {error}") from None
    return pods, nominated


def workload_of(
    pods: Iterable[kube.Pod], resources: ResourceNames, claims: DeviceIndex | None = None
) -> Workload:
    """The demand of these pods as a live inventory would observe it, in the order of their creation; an
    unreadable pod counts as nothing."""
    arrivals = ObservedDemand()
    arrivals.hold()
    for pod in pods:
        spec = pod.spec or kube.PodSpec()
        by_claim = bool(spec.resource_claims) and claims is not None and not asks_gpu(spec, resources)
        if not (by_claim or asks_gpu(spec, resources)) or (is_finished(pod) and not spec.node_name):
            continue
        with suppress(QuantityError):
            came = bound_pod(pod, resources) if spec.node_name else pending_pod(pod, resources).pod
            asked = came.asked
            if by_claim and claims is not None:
                named = (claims.claim(came.namespace, name) for name in claim_names(pod))
                wanted = claims.demand(each for each in named if each is not None)
                asked = wanted.task_class(came.request, came.cpu_milli) if wanted is not None else None
            if asked is not None:
                arrivals.came(asked, came.created_at)
    arrivals.release()
    return arrivals.workload()


def _each_object(text: bytes, limits: YamlLimits, expected: str) -> Iterator[_Object]:
    """The objects of a text, also those in Lists. Raises InventoryError, also if there is no document."""
    empty = True
    try:
        for where, document in json_documents(text, limits):
            empty = False
            yield from _objects_in(where, document, None, expected)
    except DocumentError as error:
        raise InventoryError(str(error)) from None
    if empty:
        raise InventoryError(f"empty; expected {expected}")


def _objects_in(
    where: str, document: bytes | msgspec.Raw, implied: str | None, expected: str
) -> Iterator[_Object]:
    header = decode_object(document, kube.Header, where)
    kind = header.kind or implied
    if not kind:
        raise InventoryError(f"{where}: no kind; expected {expected}")
    if not kind.endswith("List"):
        yield _Object(where, kind, header, document)
        return
    for i, item in enumerate(decode_object(document, _List, where).items or ()):
        yield from _objects_in(f"{where}.items[{i}]", item, kind.removesuffix("List") or None, expected)


def _named(kind: str, metadata: kube.ObjectMeta | None) -> str:
    name = (metadata.name if metadata else None) or "?"
    return f"{kind} {metadata.namespace}/{name}" if metadata and metadata.namespace else f"{kind} {name}"
