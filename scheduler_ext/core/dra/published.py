"""The content of `resource.k8s.io/v1`: what drivers publish, what classes and claims ask and hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler_ext.core.dra.consumable import RequestPolicy
from scheduler_ext.core.dra.semantic_version import SemanticVersion
from scheduler_ext.core.intree.affinity import NodeSelectorTerm, Taint, Toleration

# A claim that is still to be made has the name of its template after this; no claim's name has a colon.
TEMPLATE_PREFIX = "template:"
Attribute = bool | int | str | SemanticVersion


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """One device of a ResourceSlice, as selectors see it. Names of attributes and capacities are DOMAIN/NAME;
    a name without a domain belongs to the driver's. A capacity is the text of a quantity, such as "80Gi"."""

    driver: str
    attributes: Mapping[str, Attribute]
    capacity: Mapping[str, str]
    allow_multiple_allocations: bool = False


class DeviceId(NamedTuple):
    """The identity of a device in the cluster, by which claims name it."""

    driver: str
    pool: str
    name: str

    def __str__(self) -> str:
        return "/".join(self)


class Consumption(NamedTuple):
    """The amount of one counter that a device takes from a counter set of its pool."""

    counter_set: str
    counter: str
    amount: int


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """One device of a slice; `consumes` are the counters that it shares with other devices of its pool,
    `policies` those of its capacities, by the part of their names after the domain. `lists` are its
    attributes of several values, which selectors do not see here. `reach` are the terms of the nodes that
    reach it; None for all, or for that of its slice."""

    name: str
    facts: DeviceFacts
    consumes: tuple[Consumption, ...] = ()
    taints: tuple[Taint, ...] = ()
    policies: Mapping[str, RequestPolicy] = field(default_factory=dict)
    lists: Mapping[str, tuple[Attribute, ...]] = field(default_factory=dict)
    reach: tuple[NodeSelectorTerm, ...] | None = None

    def values_of(self, attribute: str) -> tuple[Attribute, ...]:
        """The values of an attribute DOMAIN/NAME; a name without a domain belongs to the driver's."""
        domain, _, name = attribute.rpartition("/")
        for key in (attribute, name) if domain == self.facts.driver else (attribute,):
            if (value := self.facts.attributes.get(key)) is not None:
                return (value,)
            if key in self.lists:
                return self.lists[key]
        return ()


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """A part of a pool. `slices` is the number of slices in the pool's generation. `node` is None for a slice
    whose devices several nodes can reach; those are not counted. `counters` are the pool's shared amounts by
    counter set and counter."""

    name: str
    driver: str
    pool: str
    generation: int
    slices: int
    node: str | None
    devices: tuple[PublishedDevice, ...] = ()
    counters: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass: the expressions that its devices satisfy, and the extended resource that it serves. Of
    several classes with one name of a resource, Kubernetes takes the newest, then the first by name."""

    name: str
    expressions: tuple[str, ...] = ()
    extended_resource: str | None = None
    created_at: float = 0.0


@dataclass(frozen=True, slots=True)
class TaintRule:
    """A DeviceTaintRule: the taint of all devices of these names; None stands for any. `is_empty`: it names
    no devices, not even all. `ours`: an extender of this product wrote it."""

    name: str
    taint: Taint
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    is_empty: bool = False
    uid: str = ""
    ours: bool = False

    def may_be_about(self, item: ResourceSlice) -> bool:
        """Whether a device of a slice may have the taint."""
        return self.driver in (None, item.driver) and self.pool in (None, item.pool)

    def is_about(self, id: DeviceId) -> bool:
        """Whether a device has the taint."""
        wanted = (self.driver, self.pool, self.device)
        return not self.is_empty and all(
            each is None or each == own for each, own in zip(wanted, id, strict=True)
        )


@dataclass(frozen=True, slots=True)
class DeviceRequirements:
    """The requirements of a request on each of its devices: those of the class, and its own. `capacity` is
    what the device must have left where it may be allocated several times."""

    device_class: str
    expressions: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[str, str], ...] = ()


class RequestedDevices(NamedTuple):
    """A number of devices that a claim asks; 0 if their number depends on the node. `every`: all of them;
    `choice`: so many, or another of the claim's choices; `admin`: with admin access, which takes them from
    no pod. Constraints refer to the `name`, of a choice REQUEST/NAME."""

    ask: DeviceRequirements
    devices: int
    every: bool = False
    choice: int = 0
    admin: bool = False
    name: str = ""


class Constraint(NamedTuple):
    """The devices of these requests, or of all, have one value of an attribute DOMAIN/NAME (matchAttribute),
    or different ones (distinctAttribute)."""

    attribute: str
    requests: tuple[str, ...] = ()
    distinct: bool = False

    def is_about(self, request: str) -> bool:
        """Whether it holds for the devices of a request, or of a choice."""
        return not self.requests or request in self.requests or request.partition("/")[0] in self.requests


@dataclass(frozen=True, slots=True)
class ClaimedDevice:
    """A device that a claim holds; `consumed` are thousandths of its capacities where claims share it, by
    the part of their names after the domain."""

    id: DeviceId
    consumed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim: what it asks, and the devices that it holds (None before the allocation). Devices with
    admin access are left out, because they stay free. `pods` are (uid, name) of the pods that it is reserved
    for. `node` is the only node of the allocation, if it names one. `extended`: kube-scheduler made it for
    extended resources. `not_modelled` names features of it that this product does not follow. `charged` are
    the devices of each class that a ResourceQuota counts for it: the most that it may get."""

    uid: str
    namespace: str
    name: str
    requests: tuple[RequestedDevices, ...] = ()
    devices: tuple[ClaimedDevice, ...] | None = None
    pods: tuple[tuple[str, str], ...] = ()
    node: str | None = None
    extended: bool = False
    not_modelled: tuple[str, ...] = ()
    charged: tuple[tuple[str, int], ...] = ()
    constraints: tuple[Constraint, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def title(self) -> str:
        """The object that it stands for, for people."""
        return claim_title(self.namespace, self.name)


def claim_title(namespace: str, name: str) -> str:
    """A claim, or the template of one that is still to be made, for people."""
    template = name.removeprefix(TEMPLATE_PREFIX)
    kind = "ResourceClaim" if template == name else "ResourceClaimTemplate"
    return f"{kind} {namespace}/{template}"
