"""Pods: their GPU requests, the GPUs they hold, and the fields that kube-scheduler's own filters compare."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import msgspec

from scheduler_ext.core.dra.known_claims import Asked
from scheduler_ext.core.dra.published import TEMPLATE_PREFIX
from scheduler_ext.core.intree import (
    NodeSelectorTerm,
    PodNeeds,
    PreferredTerm,
    Toleration,
    effective_requests,
)
from scheduler_ext.core.node.node import BoundPod, PendingPod
from scheduler_ext.core.request.pod_kinds import task_class
from scheduler_ext.core.request.quantity import QuantityError, parse_quantity
from scheduler_ext.core.request.request import (
    ContainerAsk,
    GpuRequest,
    InvalidRequest,
    PodAsk,
    Role,
    parse_holding,
    parse_request,
)
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.request.wishes import resource_hint, wished_models
from scheduler_ext.wire import kube
from scheduler_ext.wire.controllers import top_controller
from scheduler_ext.wire.cpu import pod_cpu_milli
from scheduler_ext.wire.kube import listed, quantity_text, requirements, strings
from scheduler_ext.wire.planned_annotation import read_planned
from scheduler_ext.wire.redacted import holds_volumes, redacted_pod
from scheduler_ext.wire.times import seconds

# Written by the extender into the Binding, one per container: comma-separated UUIDs.
DEVICES_PREFIX = "devices.gpu.scheduler-ext.io/"
_FINISHED = ("Succeeded", "Failed")
# The longest legal resource name is shown whole: a domain of 253, a slash, a name of 63 characters.
_SHOWN_CHARS = 317
# The two classes that every cluster has (k8s.io/kubernetes/pkg/apis/scheduling).
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_NOTHING = kube.ResourceRequirements()


class ClaimLookup(Protocol):
    """The claims of a cluster."""

    def asked(self, namespace: str, names: Iterable[str]) -> Asked:
        """The requests of the claims with these names."""

    def problem(self, resource: str) -> str | None:
        """Why devices of a resource are unknown."""


def pod_ask(pod: kube.Pod, resources: ResourceNames) -> PodAsk:
    """The parts of a pod that request GPUs. Raises QuantityError for an amount of the wrong JSON type."""
    metadata, spec = pod.metadata or kube.ObjectMeta(), pod.spec or kube.PodSpec()
    return PodAsk(
        namespace=metadata.namespace or "default",
        name=metadata.name or "",
        uid=metadata.uid or "",
        priority=pod_priority(pod),
        annotations=strings(metadata.annotations),
        containers=[_container_ask(container, role, resources) for container, role in _containers(spec)],
        soft_preferences=has_soft_preferences(spec),
        cpu_milli=pod_cpu_milli(spec),
    )


def pod_request(
    pod: kube.Pod, resources: ResourceNames, claims: ClaimLookup | None = None
) -> GpuRequest | InvalidRequest:
    """A pod's GPU request, as one value, with what it asks through `claims` where these are known. Raises
    QuantityError for an amount of the wrong JSON type."""
    request = parse_request(pod_ask(pod, resources), resources)
    asked = asked_through(pod, claims)
    if not asked.units or isinstance(request, InvalidRequest):
        return request
    return replace(request, units=(*request.units, *asked.units))


def asked_through(pod: kube.Pod, claims: ClaimLookup | None) -> Asked:
    """The requests of a pod's claims, as far as they are known."""
    names = claim_names(pod)
    if not names:
        return Asked()
    if claims is None:
        return Asked(not_modelled=("resource claims (DRA)",))
    namespace = (pod.metadata.namespace if pod.metadata else None) or "default"
    return claims.asked(namespace, names)


def claim_names(pod: kube.Pod) -> list[str]:
    """The names of the pod's claims; for one that is still to be made, that of its template. A template
    that made none is left out."""
    made = {
        each.name: each.resource_claim_name
        for each in (pod.status.resource_claim_statuses if pod.status is not None else None) or ()
    }
    names: list[str] = []
    for entry in (pod.spec.resource_claims if pod.spec is not None else None) or ():
        claim = entry or kube.PodResourceClaim()
        if claim.resource_claim_name:
            names.append(claim.resource_claim_name)
        elif claim.name not in made:
            names.append(TEMPLATE_PREFIX + (claim.resource_claim_template_name or ""))
        elif name := made[claim.name]:
            names.append(name)
    return names


def _containers(spec: "kube.PodSpec | _Asking") -> Iterator[tuple[kube.Container, Role]]:
    """Init containers first, because they start first; a null entry is an empty container, as in Go."""
    for container in spec.init_containers or ():
        sidecar = container is not None and container.restart_policy == "Always"
        yield container or kube.Container(), Role.SIDECAR if sidecar else Role.INIT
    for container in spec.containers or ():
        yield container or kube.Container(), Role.APP


def _container_ask(container: kube.Container, role: Role, resources: ResourceNames) -> ContainerAsk:
    asked = container.resources or _NOTHING
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for amounts, read in ((asked.requests, requests), (asked.limits, limits)):
        for name, raw in (amounts or {}).items():
            # Kubernetes' own resources have no domain; most are of this kind, so they are checked first.
            if "/" in name and resources.is_gpu(name):
                try:
                    read[name] = quantity_text(raw)
                except QuantityError as error:
                    where = f"container {(container.name or '')[:80]!r}: {name[:_SHOWN_CHARS]}"
                    raise QuantityError(f"{where}: {error}") from None
    return ContainerAsk(container.name or "", role, requests, limits)


def is_finished(pod: kube.Pod) -> bool:
    """Whether a pod still exists but no longer holds anything."""
    return pod.status is not None and pod.status.phase in _FINISHED


def is_terminating(pod: kube.Pod) -> bool:
    """Whether a pod was deleted; it holds everything until it is gone."""
    return pod.metadata is not None and pod.metadata.deletion_timestamp is not None


def asks_gpu(spec: kube.PodSpec, resources: ResourceNames) -> bool:
    """Whether any container names a configured resource: a quick test for the many pods that do not."""
    return any(
        "/" in name and resources.is_gpu(name)
        for container, _ in _containers(spec)
        if container.resources is not None
        for amounts in (container.resources.limits, container.resources.requests)
        for name in amounts or ()
    )


def has_soft_preferences(spec: kube.PodSpec) -> bool:
    """True if the pod has soft in-tree preferences: preferred affinities, ScheduleAnyway spread."""
    affinity = spec.affinity or kube.Affinity()
    kinds = (affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity)
    return any(kind is not None and kind.preferred for kind in kinds) or any(
        c.when_unsatisfiable == "ScheduleAnyway" for c in spec.topology_spread_constraints or ()
    )


def pod_name(pod: kube.Pod) -> str:
    """namespace/name, for people."""
    metadata = pod.metadata or kube.ObjectMeta()
    return f"{metadata.namespace or 'default'}/{metadata.name or '?'}"


def pod_uid(pod: kube.Pod) -> str:
    """The pod's uid; empty for a pod that was never created."""
    return (pod.metadata.uid if pod.metadata else None) or ""


def pod_priority(pod: kube.Pod) -> int:
    """The pod's priority; admission fills it in, and a hand-written pod may have only a class name."""
    spec = pod.spec or kube.PodSpec()
    if spec.priority is not None:
        return spec.priority
    return _SYSTEM_PRIORITIES.get(spec.priority_class_name or "", 0)


def may_preempt(pod: kube.Pod) -> bool:
    """Whether other pods may be evicted for the pod (its preemptionPolicy)."""
    return pod.spec is None or pod.spec.preemption_policy != "Never"


def bound_pod(pod: kube.Pod, resources: ResourceNames) -> BoundPod:
    """A pod on a node as a holder: its amounts and devices; its wishes only matter for `asked`. Raises
    QuantityError for an amount of the wrong JSON type."""
    ask = pod_ask(pod, resources)
    metadata, spec = pod.metadata or kube.ObjectMeta(), pod.spec or kube.PodSpec()
    request = parse_holding(ask, resources)
    return BoundPod(
        uid=ask.uid,
        namespace=ask.namespace,
        name=ask.name,
        priority=ask.priority,
        request=request,
        devices={
            key.removeprefix(DEVICES_PREFIX): listed(value)
            for key, value in ask.annotations.items()
            if key.startswith(DEVICES_PREFIX)
        },
        finished=is_finished(pod),
        terminating=is_terminating(pod),
        labels=_shared(tuple(strings(metadata.labels).items())),
        other_requests=other_requests(spec, resources),
        started_at=seconds(pod.status.start_time) if pod.status else None,
        cpu_milli=ask.cpu_milli,
        extended_claim=_extended_claim(pod),
        created_at=seconds(metadata.creation_timestamp) if request.asks_gpu else None,
        asked=task_class(request, ask.cpu_milli, wished_models(ask.annotations)),
    )


def _extended_claim(pod: kube.Pod) -> str | None:
    """The claim that kube-scheduler wrote before it bound the pod, if DRA serves its resources."""
    found = pod.status.extended_resource_claim_status if pod.status is not None else None
    return found.resource_claim_name if found is not None else None


def pending_pod(pod: kube.Pod, resources: ResourceNames) -> PendingPod:
    """A pod that waits for a node. Raises QuantityError for an amount of the wrong JSON type."""
    metadata, spec = pod.metadata or kube.ObjectMeta(), pod.spec or kube.PodSpec()
    wish = pod_request(pod, resources)
    workload = top_controller(metadata, {})
    holding = bound_pod(pod, resources)
    if isinstance(wish, GpuRequest):
        holding = replace(holding, request=wish)
    else:
        # An unreadable request is refused, and does not count as demand.
        holding = replace(holding, asked=None, created_at=seconds(metadata.creation_timestamp))
    return PendingPod(
        pod=holding,
        resource_version=metadata.resource_version or "",
        scheduler_name=spec.scheduler_name or "",
        nominated_node=(pod.status.nominated_node_name if pod.status else None) or None,
        claims=tuple(claim_names(pod)),
        invalid=wish.message if isinstance(wish, InvalidRequest) else None,
        manifest=redacted_pod(pod),
        gated=bool(spec.scheduling_gates),
        workload=(workload.kind, workload.name) if workload is not None else None,
        planned=read_planned(strings(metadata.annotations)),
    )


def unreadable_pod(pod: kube.Pod, problem: str) -> PendingPod:
    """A waiting pod with an amount that is not a quantity: its request is unknown."""
    metadata = pod.metadata or kube.ObjectMeta()
    nothing = BoundPod(
        uid=metadata.uid or "",
        namespace=metadata.namespace or "default",
        name=metadata.name or "",
        priority=pod_priority(pod),
        request=GpuRequest(),
        created_at=seconds(metadata.creation_timestamp),
    )
    return PendingPod(
        nothing, metadata.resource_version or "", "", invalid=problem, manifest=redacted_pod(pod)
    )


@lru_cache(maxsize=4096)
def _shared(labels: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Thousands of pods carry the same labels and share one mapping."""
    return dict(labels)


def other_requests(spec: kube.PodSpec, resources: ResourceNames) -> Mapping[str, Fraction]:
    """The pod's other requests on its node. An unreadable amount counts as 0, as with GPUs."""
    try:
        amounts = pod_amounts(spec)
    except QuantityError:
        return {}
    return {name: amount for name, amount in amounts.items() if not resources.is_gpu(name)}


def pod_needs(pod: kube.Pod, claims: ClaimLookup | None = None) -> PodNeeds:
    """The fields that kube-scheduler's own filters compare, and the preferred node affinity. Raises
    QuantityError for a quantity that cannot be read or is negative; no cluster admits those."""
    spec = pod.spec or kube.PodSpec()
    requests = pod_amounts(spec)
    for name, amount in requests.items():
        if amount < 0:
            raise QuantityError(f"{name[:_SHOWN_CHARS]}: a negative amount; ask 0 or more")
    affinity = (spec.affinity.node_affinity if spec.affinity else None) or kube.NodeAffinity()
    required = None
    if affinity.required:
        required = tuple(_term(term) for term in affinity.required.node_selector_terms or ())
    return PodNeeds(
        node_name=spec.node_name or None,
        node_selector=strings(spec.node_selector),
        required_terms=required,
        tolerations=tuple(
            Toleration(t.key or "", t.operator or "", t.value or "", t.effect or "")
            for t in spec.tolerations or ()
        ),
        requests=requests,
        preferred_terms=tuple(
            PreferredTerm(each.weight or 0, _term(each.preference or kube.NodeSelectorTerm()))
            for each in affinity.preferred or ()
        ),
        claim_nodes=asked_through(pod, claims).nodes,
    )


def _term(term: kube.NodeSelectorTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(requirements(term.match_expressions), requirements(term.match_fields))


class _Asking(msgspec.Struct):
    """What the effective requests of a pod depend on."""

    containers: list[kube.Container | None] | None
    init_containers: list[kube.Container | None] | None
    overhead: kube.Quantities | None
    resources: kube.ResourceRequirements | None


# Larger pods are not remembered: most ask in a few hundred bytes, and a user may create others.
_REMEMBERED_BYTES = 8 * 1024
_encoder = msgspec.json.Encoder()
_asking = msgspec.json.Decoder(_Asking)


def pod_amounts(spec: kube.PodSpec) -> dict[str, Fraction]:
    """The effective requests of a pod for every resource. Raises QuantityError naming the resource."""
    asking = _Asking(spec.containers, spec.init_containers, spec.overhead, spec.resources)
    key = _encoder.encode(asking)
    return dict(_remembered_amounts(key) if len(key) <= _REMEMBERED_BYTES else _amounts(key))


def _amounts(asking: bytes) -> Mapping[str, Fraction]:
    spec = _asking.decode(asking)
    asked = [(_all_amounts(container.resources), role) for container, role in _containers(spec)]
    return effective_requests(
        [amounts for amounts, role in asked if role is Role.APP],
        [(amounts, role is Role.SIDECAR) for amounts, role in asked if role is not Role.APP],
        quantities(spec.overhead),
        pod_level=_all_amounts(spec.resources) if spec.resources is not None else None,
    )


# Most pods are equal to others, and to compute with fractions takes long.
_remembered_amounts = lru_cache(maxsize=1024)(_amounts)


def _all_amounts(asked: kube.ResourceRequirements | None) -> dict[str, Fraction]:
    """Requests, defaulted from limits as in the API server."""
    return {**quantities(asked.limits), **quantities(asked.requests)} if asked is not None else {}


def quantities(amounts: kube.Quantities | None) -> dict[str, Fraction]:
    """Every quantity of a resource list, read. Raises QuantityError naming the resource."""
    read = {}
    for name, raw in (amounts or {}).items():
        try:
            read[name] = parse_quantity(quantity_text(raw))
        except QuantityError as error:
            hint = resource_hint(name)
            raise QuantityError(f"{name[:_SHOWN_CHARS]}: {error}{f'; {hint}' if hint else ''}") from None
    return read


def resource_names(spec: kube.PodSpec) -> list[str]:
    """Every resource that a container requests, each once, by name."""
    asked = [container.resources for container, _ in _containers(spec) if container.resources is not None]
    return sorted({name for each in asked for name in (*(each.requests or ()), *(each.limits or ()))})


def _unknown_devices(spec: kube.PodSpec, claims: ClaimLookup | None) -> Iterator[str]:
    """The problems of the DeviceClasses behind the resources that a pod asks."""
    if claims is None:
        return
    for container, _ in _containers(spec):
        asked = container.resources or _NOTHING
        for name in {**(asked.requests or {}), **(asked.limits or {})}:
            if "/" in name and (problem := claims.problem(name)) is not None:
                yield f"a selector ({problem}) of the DeviceClass of {name}"


PREFERENCES = frozenset(
    ("preferred pod affinity", "preferred pod anti-affinity", "topology spread with ScheduleAnyway")
)
"""What `not_modelled` names and a pod may do without."""


def not_modelled(pod: kube.Pod, claims: ClaimLookup | None = None) -> list[str]:
    """Features of the pod, and of its claims, that kube-scheduler checks and this package does not."""
    spec = pod.spec or kube.PodSpec()
    affinity = spec.affinity or kube.Affinity()
    uses: Mapping[str, object] = {
        "pod affinity": affinity.pod_affinity and affinity.pod_affinity.required,
        "pod anti-affinity": affinity.pod_anti_affinity and affinity.pod_anti_affinity.required,
        "topology spread constraints": any(
            c.when_unsatisfiable != "ScheduleAnyway" for c in spec.topology_spread_constraints or ()
        ),
        "preferred pod affinity": affinity.pod_affinity and affinity.pod_affinity.preferred,
        "preferred pod anti-affinity": affinity.pod_anti_affinity and affinity.pod_anti_affinity.preferred,
        "topology spread with ScheduleAnyway": any(
            c.when_unsatisfiable == "ScheduleAnyway" for c in spec.topology_spread_constraints or ()
        ),
        "volumes bound to nodes": holds_volumes(spec),
        "host ports": any(p.host_port for c, _ in _containers(spec) for p in c.ports or ()),
        "priorityClassName (its PriorityClass is not read; priority 0 is assumed)": spec.priority is None
        and spec.priority_class_name not in (None, "", *_SYSTEM_PRIORITIES),
        **dict.fromkeys(asked_through(pod, claims).not_modelled, True),
        **dict.fromkeys(_unknown_devices(spec, claims), True),
        "scheduling gates": spec.scheduling_gates,
    }
    return [name for name, used in uses.items() if used]
