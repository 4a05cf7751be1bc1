"""The containers of a pod in the order in which kube-scheduler counts them, and the amounts of all resources
that they ask."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import msgspec

from scheduler_ext.core.intree import effective_requests
from scheduler_ext.core.request.constraints import resource_hint
from scheduler_ext.core.request.quantity import QuantityError, parse_quantity
from scheduler_ext.core.request.request import ContainerRole
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire import kube
from scheduler_ext.wire.kube import quantity_text

# The longest legal resource name is shown whole: a domain of 253, a slash, a name of 63 characters.
SHOWN_CHARS = 317

# Larger pods are not remembered: most ask in a few hundred bytes, and a user may create others.
_REMEMBERED_BYTES = 8 * 1024


class HasContainers(Protocol):
    """A PodSpec, or the part of one that has its containers."""

    @property
    def init_containers(self) -> list[kube.Container | None] | None:
        """Those that start first, sidecars among them."""

    @property
    def containers(self) -> list[kube.Container | None] | None:
        """The others."""


def all_containers(spec: HasContainers) -> Iterator[tuple[kube.Container, ContainerRole]]:
    """Init containers first, because they start first; a null entry is an empty container, as in Go."""
    for container in spec.init_containers or ():
        sidecar = container is not None and container.restart_policy == "Always"
        yield container or kube.Container(), ContainerRole.SIDECAR if sidecar else ContainerRole.INIT
    for container in spec.containers or ():
        yield container or kube.Container(), ContainerRole.APP


class _StatedAmounts(msgspec.Struct):
    """What the effective requests of a pod depend on."""

    containers: list[kube.Container | None] | None
    init_containers: list[kube.Container | None] | None
    overhead: kube.Quantities | None
    resources: kube.ResourceRequirements | None


_encoder = msgspec.json.Encoder()
_asking = msgspec.json.Decoder(_StatedAmounts)


def pod_amounts(spec: kube.PodSpec) -> dict[str, Fraction]:
    """The effective requests of a pod for every resource. Raises QuantityError naming the resource."""
    asking = _StatedAmounts(spec.containers, spec.init_containers, spec.overhead, spec.resources)
    key = _encoder.encode(asking)
    return dict(_remembered_amounts(key) if len(key) <= _REMEMBERED_BYTES else _amounts(key))


def _amounts(asking: bytes) -> Mapping[str, Fraction]:
    spec = _asking.decode(asking)
    return _effective(spec, stated_requests, quantities(spec.overhead))


def pod_limits(spec: kube.PodSpec) -> dict[str, Fraction]:
    """The effective limits of a pod for every resource that has some. Raises QuantityError naming the
    resource."""
    overhead, limits = quantities(spec.overhead), _effective(spec, stated_limits, {})
    return {name: amount + overhead.get(name, 0) for name, amount in limits.items()}


def _effective(
    spec: _StatedAmounts | kube.PodSpec,
    stated: Callable[[kube.ResourceRequirements | None], dict[str, Fraction]],
    overhead: Mapping[str, Fraction],
) -> dict[str, Fraction]:
    asked = [(stated(container.resources), role) for container, role in all_containers(spec)]
    return effective_requests(
        [amounts for amounts, role in asked if role is ContainerRole.APP],
        [
            (amounts, role is ContainerRole.SIDECAR)
            for amounts, role in asked
            if role is not ContainerRole.APP
        ],
        overhead,
        pod_level=stated(spec.resources) if spec.resources is not None else None,
    )


# Most pods are equal to others, and to compute with fractions takes long.
_remembered_amounts = lru_cache(maxsize=1024)(_amounts)


def stated_requests(asked: kube.ResourceRequirements | None) -> dict[str, Fraction]:
    """Requests, defaulted from limits as in the API server."""
    return {**quantities(asked.limits), **quantities(asked.requests)} if asked is not None else {}


def stated_limits(asked: kube.ResourceRequirements | None) -> dict[str, Fraction]:
    return quantities(asked.limits) if asked is not None else {}


def quantities(amounts: kube.Quantities | None) -> dict[str, Fraction]:
    """Every quantity of a resource list, read. Raises QuantityError naming the resource."""
    read = {}
    for name, raw in (amounts or {}).items():
        try:
            read[name] = parse_quantity(quantity_text(raw))
        except QuantityError as error:
            hint = resource_hint(name)
            raise QuantityError(f"{name[:SHOWN_CHARS]}: {error}{f'; {hint}' if hint else ''}") from None
    return read


def other_requests(spec: kube.PodSpec, resources: ResourceNames) -> Mapping[str, Fraction]:
    """The pod's other requests on its node. An unreadable amount counts as 0, as with GPUs."""
    try:
        amounts = pod_amounts(spec)
    except QuantityError:
        return {}
    return {name: amount for name, amount in amounts.items() if not resources.is_gpu(name)}
