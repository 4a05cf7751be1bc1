"""The fields of a pod that kube-scheduler's own filters compare, and those that are not modelled."""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from scheduler_ext.core.intree import NodeSelectorTerm, PodNeeds, PreferredTerm, Toleration
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.wire import kube
from scheduler_ext.wire.gangs import gates_in_words
from scheduler_ext.wire.kube import strings
from scheduler_ext.wire.pod.pod_amounts import SHOWN_CHARS, all_containers, pod_amounts
from scheduler_ext.wire.pod.pod_claims import ClaimLookup, claim_names, claim_request, namespace_of
from scheduler_ext.wire.pod.pod_identity import SYSTEM_PRIORITIES
from scheduler_ext.wire.pod.pod_request import resource_names
from scheduler_ext.wire.redacted import holds_volumes
from scheduler_ext.wire.selectors import requirements


def pod_needs(pod: kube.Pod, claims: ClaimLookup | None = None) -> PodNeeds:
    """The fields that kube-scheduler's own filters compare, and the preferred node affinity. Raises
    QuantityError for a quantity that cannot be read or is negative; no cluster admits those."""
    spec = pod.spec or kube.PodSpec()
    requests = pod_amounts(spec)
    for name, amount in requests.items():
        if amount < 0:
            raise QuantityError(f"{name[:SHOWN_CHARS]}: a negative amount; ask 0 or more")
    asked = claim_request(pod, claims)
    hosts = claims.hosts(namespace_of(pod), claim_names(pod), requests) if claims is not None else ()
    by_claim = (*asked.others, *((name, 1) for each in hosts for name in each.resources))
    for name, count in by_claim:
        requests[name] = requests.get(name, 0) + Fraction(count)
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
            PreferredTerm(each.weight or 0, _term(each.preference or kube.NodeSelectorTermObject()))
            for each in affinity.preferred or ()
        ),
        claim_nodes=asked.nodes,
        claim_hosts=hosts,
    )


def _term(term: kube.NodeSelectorTermObject) -> NodeSelectorTerm:
    return NodeSelectorTerm(requirements(term.match_expressions), requirements(term.match_fields))


PREFERENCES = frozenset(
    ("preferred pod affinity", "preferred pod anti-affinity", "topology spread with ScheduleAnyway")
)
"""What `not_modelled` names and a pod may do without."""
OFTEN_MET = frozenset(
    (
        "pod affinity",
        "pod anti-affinity",
        "topology spread constraints",
        "volumes bound to nodes",
        "host ports",
    )
)
"""What `not_modelled` names and many nodes meet, so that it is worth while to try one."""


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
        "host ports": any(p.host_port for c, _ in all_containers(spec) for p in c.ports or ()),
        "priorityClassName (its PriorityClass is not read; priority 0 is assumed)": spec.priority is None
        and spec.priority_class_name not in (None, "", *SYSTEM_PRIORITIES),
        **dict.fromkeys(claim_request(pod, claims).not_modelled, True),
        **dict.fromkeys(_unknown_devices(spec, claims), True),
        "resources and claims for the same devices (each is counted alone)": _asks_both(pod, claims),
        **dict.fromkeys(gates_in_words(pod), True),
    }
    return [name for name, used in uses.items() if used]


def _asks_both(pod: kube.Pod, claims: ClaimLookup | None) -> bool:
    """Whether claims and resources of the pod may get the same devices."""
    names = claim_names(pod)
    if claims is None or not names:
        return False
    hosts = claims.hosts(namespace_of(pod), names, pod_amounts(pod.spec or kube.PodSpec()))
    return any(each.extended for each in hosts)


def _unknown_devices(spec: kube.PodSpec, claims: ClaimLookup | None) -> Iterator[str]:
    """The problems of the DeviceClasses behind the resources that a pod asks."""
    if claims is None:
        return
    for name in resource_names(spec):
        if "/" in name and (problem := claims.problem(name)) is not None:
            yield f"{problem} of the DeviceClass of {name}"
