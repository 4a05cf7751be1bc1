"""The requests of a cluster's claims at one moment."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

from scheduler_ext.core.dra.published import claim_title
from scheduler_ext.core.intree.verdict import ClaimHosts
from scheduler_ext.core.request.pod_kinds import TaskClass, task_class
from scheduler_ext.core.request.request import GpuRequest, ShareRequest, UnitRequest


class ClaimRequest(NamedTuple):
    """The GPUs that a pod asks through claims, what of these claims is not modelled, and the nodes of the
    devices that some of them hold already: the pod can only run there. `others` are (name, number) of devices
    that are no GPUs, `held` the claims that hold devices, for people; `admin` is the number of requests with
    admin access."""

    units: tuple[UnitRequest, ...] = ()
    not_modelled: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    others: tuple[tuple[str, int], ...] = ()
    held: tuple[str, ...] = ()
    admin: int = 0


class ClaimDemand(NamedTuple):
    """The GPUs that claims ask: whole ones, and the MiB of parts."""

    gpus: int
    parts_mib: tuple[int, ...]

    def task_class(self, request: GpuRequest, cpu_milli: int) -> TaskClass | None:
        """The kind of a pod with these claims and this request beside them."""
        units = (UnitRequest("", self.gpus, by_claim=True),) if self.gpus else ()
        shares = ShareRequest(tuple(("", mib) for mib in self.parts_mib)) if self.parts_mib else None
        return task_class(replace(request, units=units, shares=shares), cpu_milli, request.models)


def together(parts: Iterable[ClaimRequest]) -> ClaimRequest:
    """The requests of several claims as one; each resource once, by name."""
    asks: dict[str, UnitRequest] = {}
    features: dict[str, None] = {}
    there: dict[str, None] = {}
    others: Counter[str] = Counter()
    held: dict[str, None] = {}
    admin = 0
    for units, not_modelled, nodes, more, claims, accesses in parts:
        admin += accesses
        held |= dict.fromkeys(claims)
        for name, count in more:
            others[name] += count
        for unit in units:
            one = asks.get(unit.resource, UnitRequest(unit.resource, 0, by_claim=True))
            asks[unit.resource] = replace(
                one,
                count=one.count + unit.count,
                every=one.every or unit.every,
                choice=min(filter(None, (one.choice, unit.choice)), default=0),
            )
        features |= dict.fromkeys(not_modelled)
        there |= dict.fromkeys(nodes)
    asked = tuple(asks[name] for name in sorted(asks))
    if len(others) > 1:
        features["several requests for devices that are no GPUs (each is counted alone)"] = None
    if admin and admin + len(asked) + len(others) > 1:
        # kube-scheduler gives a pod no device twice (allocatingDevices in allocator_stable.go).
        features["adminAccess beside other requests (each is counted alone)"] = None
    return ClaimRequest(
        asked,
        tuple(features),
        tuple(there),
        tuple(sorted(others.items())),
        tuple(held),
        admin,
    )


def unknown_claim(any_gpu: tuple[UnitRequest, ...], namespace: str, name: str) -> ClaimRequest:
    """What a claim asks of which nothing is known (yet): it may be any GPU."""
    return ClaimRequest(any_gpu, (f"{claim_title(namespace, name)}, which is not known here",))


@dataclass(frozen=True, slots=True)
class KnownClaims:
    """The requests of each claim, by NAMESPACE/NAME; a claim that is not among them may ask `any_gpu`.
    `problems` are those of resources."""

    by_key: Mapping[str, ClaimRequest] = field(default_factory=dict)
    any_gpu: tuple[UnitRequest, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)

    def claim_request(self, namespace: str, names: Iterable[str]) -> ClaimRequest:
        """As DeviceIndex.claim_request."""
        found = ((name, self.by_key.get(f"{namespace}/{name}")) for name in names)
        return together(each or unknown_claim(self.any_gpu, namespace, name) for name, each in found)

    def problem(self, resource: str) -> str | None:
        """As DeviceIndex.problem."""
        return self.problems.get(resource)

    def hosts(
        self, _namespace: str, _names: Iterable[str], _amounts: Mapping[str, Fraction]
    ) -> tuple[ClaimHosts, ...]:
        """As DeviceIndex.hosts, of a running cluster."""
        return ()
