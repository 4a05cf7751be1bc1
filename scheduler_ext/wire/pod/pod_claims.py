"""The ResourceClaims of a pod, and what it asks through them."""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Protocol

from msgspec import structs

from scheduler_ext.core.dra.known_claims import ClaimRequest
from scheduler_ext.core.dra.published import TEMPLATE_PREFIX
from scheduler_ext.core.intree.verdict import ClaimHosts
from scheduler_ext.wire import kube


class ClaimLookup(Protocol):
    """The claims of a cluster."""

    def claim_request(self, namespace: str, names: Iterable[str]) -> ClaimRequest:
        """The requests of the claims with these names."""

    def problem(self, resource: str) -> str | None:
        """Why devices of a resource are unknown."""

    def hosts(
        self, namespace: str, names: Iterable[str], amounts: Mapping[str, Fraction]
    ) -> tuple[ClaimHosts, ...]:
        """The nodes that lack devices for these claims, and for these amounts of resources beside them."""


def claim_request(pod: kube.Pod, claims: ClaimLookup | None) -> ClaimRequest:
    """The requests of a pod's claims, as far as they are known."""
    names = claim_names(pod)
    if not names:
        return ClaimRequest()
    if claims is None:
        return ClaimRequest(not_modelled=("resource claims (DRA)",))
    return claims.claim_request(namespace_of(pod), names)


def namespace_of(pod: kube.Pod) -> str:
    return (pod.metadata.namespace if pod.metadata else None) or "default"


def named_claims(pod: kube.Pod) -> list[str]:
    """The claims that the pod shares with all pods that name them, too."""
    entries = (pod.spec.resource_claims if pod.spec is not None else None) or ()
    return [each.resource_claim_name for each in entries if each is not None and each.resource_claim_name]


def without_named_claims(pod: kube.Pod) -> kube.Pod:
    """The pod with those claims only that are made for it."""
    spec = pod.spec or kube.PodSpec()
    own = [each for each in spec.resource_claims or () if each is None or not each.resource_claim_name]
    return structs.replace(pod, spec=structs.replace(spec, resource_claims=own))


def with_claims_to_be_made(pod: kube.Pod, keeps: Callable[[str, str], bool]) -> kube.Pod:
    """The pod as another one from the same template; `keeps` says by the names of a template and of the claim
    made from it whether that claim stands for the template."""
    spec, status = pod.spec or kube.PodSpec(), pod.status or kube.PodStatus()
    templates = {
        each.name: each.resource_claim_template_name or ""
        for each in spec.resource_claims or ()
        if each is not None
    }
    made = [
        each
        for each in status.resource_claim_statuses or ()
        if keeps(templates.get(each.name, ""), each.resource_claim_name or "")
    ]
    return structs.replace(pod, status=structs.replace(status, resource_claim_statuses=made))


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
