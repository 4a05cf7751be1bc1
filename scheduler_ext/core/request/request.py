"""What a pod asks of GPUs, parsed once into one value that every decision compares against."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX, profile_from_resource
from scheduler_ext.core.gpu.models import GpuModel
from scheduler_ext.core.request.constraints import (
    ANNOTATION_PREFIX,
    MODEL_HINT,
    ConstraintError,
    GpuConstraints,
    parse_constraints,
    part_hint,
    shown,
)
from scheduler_ext.core.request.quantity import MAX_COUNT, QuantityError, as_count, parse_quantity
from scheduler_ext.core.request.resource_names import ResourceNames, vendor_of

# Placing shares costs their number squared; no pod of this size has been seen.
MAX_SHARES = 64


class ContainerRole(Enum):
    """When a container runs: `INIT` before the others, beside earlier sidecars."""

    APP = "app"
    INIT = "init"
    SIDECAR = "sidecar"


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """One container's GPU resources as written: quantity texts by resource name."""

    name: str
    role: ContainerRole
    requests: Mapping[str, str]
    limits: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UnparsedRequest:
    """The parts of a pod that matter here, still unparsed; containers in start order, init first."""

    namespace: str
    name: str
    uid: str
    priority: int
    annotations: Mapping[str, str]
    containers: Sequence[ContainerRequest]
    soft_preferences: bool = False
    cpu_milli: int = 0


# Each container with its positive amounts by resource.
_ContainerAmounts = list[tuple[ContainerRequest, dict[str, int]]]


@dataclass(frozen=True, slots=True)
class UnitRequest:
    """A number of whole GPUs or MIG instances, the peak over the pod's phases. `by_claim`: a ResourceClaim
    asks them, and 0 stands for a number that depends on the node; `every`: all that the node has; `choice`:
    so many, or another of the pod's choices. `in_one` is the most that one container asks; 0 if that is
    `count`."""

    resource: str
    count: int
    profile: str | None = None
    by_claim: bool = False
    every: bool = False
    choice: int = 0
    in_one: int = 0

    @property
    def least(self) -> int:
        """How many a node must have free at least, if this is chosen."""
        return max(self.count + self.choice, int(self.every))


@dataclass(frozen=True, slots=True)
class InitShare:
    """An init container's share; `beside` are the indices of the running shares started before it."""

    container: str
    memory_mib: int
    beside: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShareRequest:
    """Memory shares, each on one GPU of its own choice: `running` ones together, `init` ones before."""

    running: tuple[tuple[str, int], ...]
    init: tuple[InitShare, ...] = ()

    @property
    def by_container(self) -> tuple[tuple[str, int], ...]:
        """Each container's share in MiB, running ones first."""
        return (*self.running, *((share.container, share.memory_mib) for share in self.init))

    @property
    def largest_mib(self) -> int:
        return max([mib for _, mib in self.running] + [share.memory_mib for share in self.init])

    @property
    def at_least(self) -> list[tuple[int, int]]:
        """How many running shares are of each size or larger: (MiB, count), the largest first."""
        sizes = sorted((mib for _, mib in self.running), reverse=True)
        return [(mib, i + 1) for i, mib in enumerate(sizes) if mib and sizes[i + 1 : i + 2] != [mib]]

    @property
    def total_mib(self) -> int:
        """The effective sum as kube-scheduler counts it: the peak over the phases."""
        return max(
            [sum(mib for _, mib in self.running)]
            + [share.memory_mib + sum(self.running[i][1] for i in share.beside) for share in self.init]
        )


# The model that placeholders for an autoscaler ask; no GPU is called so.
PLACEHOLDER_MODEL = "PLACEHOLDER"


@dataclass(frozen=True, slots=True)
class GpuRequest(GpuConstraints):
    """A pod's request, effective and checked; equal requests are equal values, of any pod."""

    units: tuple[UnitRequest, ...] = ()
    shares: ShareRequest | None = None
    priority: int = 0
    soft_preferences: bool = False
    cpu_milli: int = 0
    # Whether kube-scheduler has found devices for the claims on the nodes in question.
    claims_judged: bool = False
    # The requested amounts by container and resource: for assignments and displays, not for decisions.
    by_container: tuple[tuple[str, str, int], ...] = field(default=(), compare=False)

    @property
    def asks_gpu(self) -> bool:
        """False for a pod that asks nothing of a GPU: every node is fine then."""
        return bool(self.units) or self.shares is not None

    @property
    def is_placeholder(self) -> bool:
        """Whether it is that of a placeholder for an autoscaler, which no node takes."""
        return self.models == (PLACEHOLDER_MODEL,)

    @property
    def whole(self) -> tuple[UnitRequest, ...]:
        """The requests of GPUs, without MIG instances and without replicas named as such (`.shared`)."""
        return tuple(
            ask for ask in self.units if ask.profile is None and not ask.resource.endswith(".shared")
        )

    def model_rank(self, model: GpuModel) -> int | None:
        """The rank of the first wanted name that the model meets, exactly or by family; None without one."""
        names = (model.name, model.family)
        return next((rank for rank, name in enumerate(self.models) if name in names), None)


@dataclass(frozen=True, slots=True)
class InvalidRequest:
    """A request that cannot be read, is absurd or contradicts itself; `message` names field and fix."""

    message: str


def parse_request(pod: UnparsedRequest, resources: ResourceNames) -> GpuRequest | InvalidRequest:
    """A pod's request as one value, or an `InvalidRequest`. Amounts are the peak over the pod's phases."""
    try:
        asked = [(container, _amounts(container, resources)) for container in pod.containers]
        request = _request(pod, asked, resources.share, parse_constraints(pod.annotations))
        _refuse_absurdities(request)
    except ConstraintError as error:
        return InvalidRequest(str(error))
    return request


def parse_holding(pod: UnparsedRequest, resources: ResourceNames) -> GpuRequest:
    """The holdings of a pod on a node: its amounts alone, because its constraints no longer matter.
    Unreadable amounts hold nothing: no device plugin offers a resource of that name or amount, and a pod from
    an untrusted user must not keep a whole inventory from being read."""
    asked: _ContainerAmounts = [(container, {}) for container in pod.containers]
    for container, amounts in asked:
        for resource in _names(container):
            with suppress(ConstraintError):
                _profile(resource)
                if amount := _amount(container, resource, resources):
                    amounts[resource] = amount
    return _request(pod, asked, resources.share, {})


def _request(
    pod: UnparsedRequest, asked: _ContainerAmounts, share: str, constraints: Mapping[str, object]
) -> GpuRequest:
    return GpuRequest(
        units=_units(asked, share),
        shares=_shares(asked, share),
        priority=pod.priority,
        soft_preferences=pod.soft_preferences,
        cpu_milli=pod.cpu_milli,
        by_container=tuple((each.name, *amount) for each, amounts in asked for amount in amounts.items()),
        **constraints,  # type: ignore[arg-type]  # keys and types are those of CONSTRAINTS
    )


def _names(container: ContainerRequest) -> dict[str, None]:
    return dict.fromkeys((*container.requests, *container.limits))


def _amounts(container: ContainerRequest, resources: ResourceNames) -> dict[str, int]:
    amounts = {resource: _amount(container, resource, resources) for resource in _names(container)}
    for resource, request in container.requests.items():
        limit = container.limits.get(resource)
        if request != limit and (problem := refused_amounts(resource, request, limit)) is not None:
            raise ConstraintError(f"container {shown(container.name)}: {shown(resource)}: {problem}")
    return {resource: amount for resource, amount in amounts.items() if amount}


def _amount(container: ContainerRequest, resource: str, resources: ResourceNames) -> int:
    """One amount; requests default to limits."""
    request, limit = container.requests.get(resource), container.limits.get(resource)
    try:
        amount, *_ = (as_count(text) for text in (request, limit) if text is not None)
    except QuantityError as error:
        where = f"container {shown(container.name)}: {shown(resource)}"
        hint = _amount_hint(resource, (request, limit), resources)
        raise ConstraintError(f"{where}: {error}{hint}") from None
    return amount


def refused_amounts(resource: str, request: str, limit: str | None) -> str | None:
    """Why the API server refuses a container with these texts in `requests` and `limits`; None if it does
    not. Raises QuantityError."""
    # k8s.io/kubernetes/pkg/apis/core/validation, ValidateResourceRequirements; helper, IsOvercommitAllowed.
    native = "/" not in resource or "kubernetes.io/" in resource
    may_differ = native and not resource.startswith("hugepages-")
    if limit is None:
        if may_differ:
            return None
        return (
            f"resources.requests has {shown(request)} and resources.limits nothing, so the API server "
            f"refuses the pod; write {shown(request)} in resources.limits, too"
        )
    asked, most = parse_quantity(request), parse_quantity(limit)
    if asked == most or (may_differ and asked < most):
        return None
    return (
        f"resources.requests has {shown(request)} and resources.limits {shown(limit)}, so the API server "
        f"refuses the pod; {'lower the first' if may_differ else 'make them equal'}"
    )


def _amount_hint(resource: str, texts: Iterable[str | None], resources: ResourceNames) -> str:
    """What an amount that counts no GPUs was probably meant to say."""
    if resource == resources.share:
        return "; the number counts MiB: 8192 means 8 GiB"
    if resource not in resources.whole:
        return ""
    try:
        for text in texts:
            parse_quantity(text or "0")
    except QuantityError:
        return f"; {MODEL_HINT}"
    return f"; {part_hint(resources.share)}"


def _profile(resource: str) -> str | None:
    if not resource.startswith(MIG_PREFIX):
        return None
    try:
        return profile_from_resource(resource)[0]
    except ValueError as error:
        raise ConstraintError(str(error)) from None


def _units(asked: _ContainerAmounts, share: str) -> tuple[UnitRequest, ...]:
    units = []
    for resource in sorted({name for _, amounts in asked for name in amounts} - {share}):
        profile = _profile(resource)
        peak = sidecars = apps = 0
        for container, amounts in asked:
            amount = amounts.get(resource, 0)
            if container.role is ContainerRole.INIT:
                peak = max(peak, amount + sidecars)
            elif container.role is ContainerRole.SIDECAR:
                sidecars += amount
            else:
                apps += amount
        count = max(peak, apps + sidecars)
        most = max(amounts.get(resource, 0) for _, amounts in asked)
        units.append(UnitRequest(resource, count, profile, in_one=most if most < count else 0))
    return tuple(units)


def _shares(asked: _ContainerAmounts, resource: str) -> ShareRequest | None:
    running: list[tuple[str, int]] = []
    init: list[InitShare] = []
    for container, amounts in asked:
        if mib := amounts.get(resource, 0):
            if container.role is ContainerRole.INIT:
                # Init containers come before app containers, so what runs already are sidecars.
                init.append(InitShare(container.name, mib, tuple(range(len(running)))))
            else:
                running.append((container.name, mib))
    return ShareRequest(tuple(running), tuple(init)) if running or init else None


def _refuse_absurdities(request: GpuRequest) -> None:
    """Refuse amounts that are too much together or contradict each other."""
    for ask in request.units:
        if ask.count > MAX_COUNT:
            where = f"resource {shown(ask.resource)}"
            raise ConstraintError(f"{where}: {ask.count} over all containers is absurd; at most {MAX_COUNT}")
    if request.shares is not None:
        count = len(request.shares.by_container)
        if count > MAX_SHARES:
            raise ConstraintError(f"{count} containers ask a share of GPU memory; at most {MAX_SHARES} may")
    whole = [ask.resource for ask in request.units if ask.profile is None]
    for vendor in {vendor_of(resource) for resource in whole} - {None}:
        names = [resource for resource in whole if vendor_of(resource) == vendor]
        if len(names) > 1:
            raise ConstraintError(
                f"asks {' and '.join(names)}: a node offers its GPUs under one of these names; ask one"
            )
    shared = [ask.resource for ask in request.units if ask.resource.endswith(".shared")]
    if request.sharing == "exclusive" and shared:
        raise ConstraintError(
            f"annotation {ANNOTATION_PREFIX}sharing is exclusive, yet {shared[0]} asks a shared GPU; drop one"
        )
