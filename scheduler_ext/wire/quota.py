"""ResourceQuotas, and what a pod or a ResourceClaim counts for in one. Source: k8s.io/kubernetes,
pkg/quota/v1/evaluator/core, pods.go and resource_claims.go."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from scheduler_ext.core.dra.published import Claim
from scheduler_ext.core.request.resource_names import DEVICE_CLASS_PREFIX
from scheduler_ext.wire import kube
from scheduler_ext.wire.pod.pod_amounts import (
    all_containers,
    pod_amounts,
    pod_limits,
    quantities,
    stated_limits,
    stated_requests,
)

REQUESTS = "requests."
LIMITS = "limits."
_PODS = ("pods", "count/pods")
_CLAIMS = "count/resourceclaims.resource.k8s.io"
_DEVICES = ".deviceclass.resource.k8s.io/devices"
# Those that a quota may name without a prefix.
_BARE = ("cpu", "memory", "ephemeral-storage")
# Those of which a quota makes every container state an amount.
_REQUIRED = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
# Quality of service depends on these alone.
_OF_QUALITY = ("cpu", "memory")


class _Scope(kube.KubeStruct):
    scope_name: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class _ScopeSelector(kube.KubeStruct):
    match_expressions: list[_Scope] | None = None


class _QuotaSpec(kube.KubeStruct):
    hard: kube.Quantities | None = None
    scopes: list[str] | None = None
    scope_selector: _ScopeSelector | None = None


class _QuotaStatus(kube.KubeStruct):
    hard: kube.Quantities | None = None
    used: kube.Quantities | None = None


class QuotaObject(kube.KubeStruct):
    """A ResourceQuota as the API server writes it."""

    metadata: kube.ObjectMeta | None = None
    spec: _QuotaSpec | None = None
    status: _QuotaStatus | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of a namespace, for the pods that all `scopes` match; `used` is empty where no controller
    has counted."""

    namespace: str
    name: str
    hard: Mapping[str, Fraction]
    used: Mapping[str, Fraction]
    scopes: tuple[_Scope, ...] = ()

    def concerns(self, pod: kube.Pod) -> bool:
        """Whether a pod counts in it."""
        namespace = (pod.metadata.namespace if pod.metadata is not None else None) or "default"
        return namespace == self.namespace and all(_matches(scope, pod) for scope in self.scopes)

    def concerns_claim(self, claim: Claim) -> bool:
        """Whether a claim counts in it: scopes are about pods."""
        return claim.namespace == self.namespace and not self.scopes


def charge(pod: kube.Pod, limit: str) -> Fraction:
    """What a pod counts for in a limit of this name; 0 in one that is not about its amounts. Raises
    QuantityError naming the resource."""
    if limit in _PODS:
        return Fraction(1)
    if limit.startswith(LIMITS):
        return pod_limits(pod.spec or kube.PodSpec()).get(limit.removeprefix(LIMITS), Fraction(0))
    if not limit.startswith(REQUESTS) and limit not in _BARE:
        return Fraction(0)
    return pod_amounts(pod.spec or kube.PodSpec()).get(limit.removeprefix(REQUESTS), Fraction(0))


def unstated(pod: kube.Pod, limit: str) -> list[str]:
    """The containers of a pod that state no amount for a limit that makes each of them do so (enforcement by
    the pod evaluator, `must specify`). Raises QuantityError naming the resource."""
    if limit not in _REQUIRED:
        return []
    spec = pod.spec or kube.PodSpec()
    stated = stated_limits if limit.startswith(LIMITS) else stated_requests
    name = limit.rpartition(".")[2]
    if name in stated(spec.resources):
        return []
    return [each.name or "" for each, _ in all_containers(spec) if name not in stated(each.resources)]


def claim_charge(claim: Claim, limit: str, extended_resource: Callable[[str], str | None]) -> int:
    """What a claim counts for in a limit of this name. Devices of a class that serves an extended resource
    count as this resource too, from Kubernetes 1.36 on, except those that a pod is charged for already."""
    if limit == _CLAIMS:
        return 1
    return sum(
        count for name, count in claim.charged if limit in _limits(name, claim, extended_resource(name))
    )


def _limits(device_class: str, claim: Claim, extended: str | None) -> set[str]:
    named = {device_class + _DEVICES}
    if extended is None or claim.extended:
        return named
    return named | {REQUESTS + extended, REQUESTS + DEVICE_CLASS_PREFIX + device_class}


def read_quota(item: QuotaObject) -> Quota:
    """The quota of an object. Raises QuantityError naming the resource."""
    metadata, spec = item.metadata or kube.ObjectMeta(), item.spec or _QuotaSpec()
    status = item.status or _QuotaStatus()
    selector = spec.scope_selector or _ScopeSelector()
    scopes = (_Scope(name, "Exists") for name in spec.scopes or ())
    return Quota(
        metadata.namespace or "default",
        metadata.name or "",
        quantities(spec.hard or status.hard),
        quantities(status.used),
        (*scopes, *(selector.match_expressions or ())),
    )


def _matches(scope: _Scope, pod: kube.Pod) -> bool:
    spec = pod.spec or kube.PodSpec()
    match scope.scope_name:
        case "PriorityClass":
            name, values = spec.priority_class_name or "", scope.values or ()
            return {
                "In": name in values,
                "NotIn": name not in values,
                "Exists": bool(name),
                "DoesNotExist": not name,
            }.get(scope.operator or "Exists", False)
        case "Terminating":
            return spec.active_deadline_seconds is not None
        case "NotTerminating":
            return spec.active_deadline_seconds is None
        case "BestEffort":
            return _is_best_effort(spec)
        case "NotBestEffort":
            return not _is_best_effort(spec)
    # Another scope, such as that of affinity across namespaces, is about few pods.
    return False


def _is_best_effort(spec: kube.PodSpec) -> bool:
    asked = [container.resources for container, _ in all_containers(spec)] + [spec.resources]
    amounts = [part for each in asked if each is not None for part in (each.requests, each.limits)]
    return not any(name in (part or ()) for part in amounts for name in _OF_QUALITY)
