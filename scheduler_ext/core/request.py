"""What a pod asks of GPUs, parsed once into one value that every decision compares against."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from scheduler_ext.core.mig import profile_from_resource
from scheduler_ext.core.models import GpuModel, normalise_wish
from scheduler_ext.core.quantity import MAX_COUNT, QuantityError, as_count, as_mib, parse_quantity
from scheduler_ext.core.resources import MIG_PREFIX, ResourceNames, vendor_of

ANNOTATION_PREFIX = "gpu.scheduler-ext.io/"
MAX_ANNOTATION_CHARS = 4096
MAX_SHARES = 256


class Role(Enum):
    """When a container runs: ``APP`` and ``SIDECAR`` together, each ``INIT`` before them, alone but for
    the sidecars started earlier."""

    APP = "app"
    INIT = "init"
    SIDECAR = "sidecar"


@dataclass(frozen=True, slots=True)
class ContainerAsk:
    """One container's GPU resources as written: quantity texts by resource name."""

    name: str
    role: Role
    requests: Mapping[str, str]
    limits: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PodAsk:
    """The parts of a pod that matter here, still unparsed; containers in start order, init first."""

    namespace: str
    name: str
    uid: str
    priority: int
    annotations: Mapping[str, str]
    containers: Sequence[ContainerAsk]
    soft_preferences: bool = False


@dataclass(frozen=True, slots=True)
class UnitAsk:
    """A number of whole GPUs or MIG instances, which kube-scheduler counts and the device plugin hands out.

    ``count`` is the effective one (the peak over the pod's phases).
    """

    resource: str
    count: int
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class InitShare:
    """An init container's share; ``beside`` are the indices of the running shares started before it."""

    container: str
    memory_mib: int
    beside: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShareAsk:
    """Memory shares, each on one GPU of its own choice: ``running`` ones together, ``init`` ones before."""

    running: tuple[tuple[str, int], ...]
    init: tuple[InitShare, ...] = ()

    @property
    def largest_mib(self) -> int:
        """The largest single share."""
        return max([mib for _, mib in self.running] + [share.memory_mib for share in self.init])

    @property
    def total_mib(self) -> int:
        """The effective sum as kube-scheduler counts it: the peak over the phases."""
        return max(
            [sum(mib for _, mib in self.running)]
            + [share.memory_mib + sum(self.running[i][1] for i in share.beside) for share in self.init]
        )


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """What a pod asks, effective and checked; equal asks are equal values, whichever pod they come from."""

    units: tuple[UnitAsk, ...] = ()
    shares: ShareAsk | None = None
    models: tuple[str, ...] = ()
    min_memory_mib: int = 0
    min_free_mib: int = 0
    min_compute_capability: tuple[int, int] | None = None
    min_cuda: tuple[int, ...] | None = None
    strategy: str | None = None
    exclusive: bool = False
    priority: int = 0
    soft_preferences: bool = False
    # Which container asks how many of which resource: for showing who gets what, not for deciding.
    by_container: tuple[tuple[str, str, int], ...] = field(default=(), compare=False)

    @property
    def asks_gpu(self) -> bool:
        """False for a pod that asks nothing of a GPU: every node is fine then."""
        return bool(self.units) or self.shares is not None

    def model_rank(self, model: GpuModel) -> int | None:
        """The place of the first wish that the model meets, by exact name or family; None if none does."""
        names = (model.name, model.family)
        return next((rank for rank, wish in enumerate(self.models) if wish in names), None)


@dataclass(frozen=True, slots=True)
class InvalidRequest:
    """A pod whose wish cannot be read, is absurd or contradicts itself; ``message`` names field and fix."""

    message: str


class _WishError(ValueError):
    """Inside this module only: leaves it as an ``InvalidRequest``."""


def parse_request(pod: PodAsk, resources: ResourceNames) -> GpuRequest | InvalidRequest:
    """A pod's wish as one ``GpuRequest``, or why it is none.

    Effective amounts follow Kubernetes: max(sum of app containers and sidecars, max over each init
    container of itself plus the sidecars started before it).
    """
    try:
        amounts = [_amounts(container, resources) for container in pod.containers]
        wishes = _wishes(pod.annotations)
        request = GpuRequest(
            units=_units(pod.containers, amounts, resources),
            shares=_shares(pod.containers, amounts, resources.share),
            priority=pod.priority,
            soft_preferences=pod.soft_preferences,
            by_container=tuple(
                (container.name, resource, count)
                for container, asked in zip(pod.containers, amounts, strict=True)
                for resource, count in asked.items()
            ),
            **wishes,  # type: ignore[arg-type]  # keys and types are those of _WISHES
        )
        _refuse_contradictions(request)
    except _WishError as error:
        return InvalidRequest(str(error))
    return request


def _amounts(container: ContainerAsk, resources: ResourceNames) -> dict[str, int]:
    """The container's positive amounts by resource; requests default to limits, and must equal them."""
    amounts = {}
    for resource in dict.fromkeys((*container.requests, *container.limits)):
        where = f"container {_shown(container.name)}: {_shown(resource)}"
        request, limit = container.requests.get(resource), container.limits.get(resource)
        try:
            amount = as_count(limit if request is None else request)
            if request is not None and limit is not None and parse_quantity(limit) != amount:
                raise _WishError(
                    f"{where}: request {_shown(request)} and limit {_shown(limit)} differ; make them equal"
                )
        except QuantityError as error:
            hint = "; the number counts MiB: 8192 means 8 GiB" if resource == resources.share else ""
            raise _WishError(f"{where}: {error}{hint}") from None
        if amount:
            amounts[resource] = amount
    return amounts


def _units(
    containers: Sequence[ContainerAsk], amounts: Sequence[Mapping[str, int]], resources: ResourceNames
) -> tuple[UnitAsk, ...]:
    units = []
    for resource in sorted({name for asked in amounts for name in asked} - {resources.share}):
        profile = None
        if resource.startswith(MIG_PREFIX):
            try:
                profile, _ = profile_from_resource(resource)
            except ValueError as error:
                raise _WishError(f"resource {_shown(resource)}: {error}") from None
        peak = sidecars = apps = 0
        for container, asked in zip(containers, amounts, strict=True):
            amount = asked.get(resource, 0)
            if container.role is Role.INIT:
                peak = max(peak, amount + sidecars)
            elif container.role is Role.SIDECAR:
                sidecars += amount
            else:
                apps += amount
        count = max(peak, apps + sidecars)
        if count > MAX_COUNT:
            raise _WishError(
                f"resource {_shown(resource)}: {count} over all containers is absurd; at most {MAX_COUNT}"
            )
        units.append(UnitAsk(resource, count, profile))
    return tuple(units)


def _shares(
    containers: Sequence[ContainerAsk], amounts: Sequence[Mapping[str, int]], resource: str
) -> ShareAsk | None:
    running: list[tuple[str, int]] = []
    init: list[InitShare] = []
    for container, asked in zip(containers, amounts, strict=True):
        mib = asked.get(resource, 0)
        if not mib:
            continue
        if container.role is Role.INIT:
            # Init containers come before app containers, so what runs already are sidecars.
            init.append(InitShare(container.name, mib, tuple(range(len(running)))))
        else:
            running.append((container.name, mib))
    if len(running) + len(init) > MAX_SHARES:
        raise _WishError(
            f"{len(running) + len(init)} containers ask a share of {resource}; at most {MAX_SHARES} may"
        )
    return ShareAsk(tuple(running), tuple(init)) if running or init else None


def _refuse_contradictions(request: GpuRequest) -> None:
    whole = [ask.resource for ask in request.units if ask.profile is None]
    for vendor in {vendor_of(resource) for resource in whole} - {None}:
        names = [resource for resource in whole if vendor_of(resource) == vendor]
        if len(names) > 1:
            raise _WishError(
                f"asks {' and '.join(names)}: a node offers its GPUs under one of these names; ask one"
            )
    shared = [ask.resource for ask in request.units if ask.resource.endswith(".shared")]
    if request.exclusive and shared:
        raise _WishError(
            f"annotation {ANNOTATION_PREFIX}sharing is exclusive, yet {shared[0]} asks a shared GPU; drop one"
        )


def _models(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(normalise_wish(part) for part in text.split(",")))


def _version(pattern: str, example: str) -> Callable[[str], tuple[int, ...]]:
    compiled = re.compile(pattern, re.ASCII)

    def parse(text: str) -> tuple[int, ...]:
        if not compiled.fullmatch(text):
            raise ValueError(f"is no version such as {example}")
        return tuple(int(part) for part in text.split("."))

    return parse


def _compute_capability(text: str) -> tuple[int, int]:
    major, *minor = _version(r"\d{1,2}(\.\d{1,2})?", '"8.0"')(text)
    return major, minor[0] if minor else 0


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return parse


def _positive_mib(text: str) -> int:
    mib = as_mib(text)
    if mib == 0:
        raise ValueError("is 0; leave the annotation out to ask nothing")
    return mib


# annotation key -> (field of GpuRequest, parser); a parser raises ValueError with the rest of a sentence.
_WISHES: dict[str, tuple[str, Callable[[str], object]]] = {
    "model": ("models", _models),
    "min-memory": ("min_memory_mib", _positive_mib),
    "min-free-memory": ("min_free_mib", _positive_mib),
    "min-compute-capability": ("min_compute_capability", _compute_capability),
    "min-cuda": ("min_cuda", _version(r"\d{1,3}(\.\d{1,3}){0,2}", '"12.4"')),
    "strategy": ("strategy", _one_of("binpack", "spread")),
    "sharing": ("exclusive", lambda text: _one_of("exclusive", "any")(text) == "exclusive"),
}


def _wishes(annotations: Mapping[str, str]) -> dict[str, object]:
    wishes = {}
    for key, (attribute, parse) in _WISHES.items():
        text = annotations.get(ANNOTATION_PREFIX + key)
        if text is None:
            continue
        where = f"annotation {ANNOTATION_PREFIX}{key}: {_shown(text)}"
        if len(text) > MAX_ANNOTATION_CHARS:
            raise _WishError(f"{where} has {len(text)} characters; at most {MAX_ANNOTATION_CHARS} are read")
        try:
            wishes[attribute] = parse(text.strip())
        except ValueError as error:
            raise _WishError(f"{where} {error}") from None
    return wishes


def unknown_annotations(annotations: Mapping[str, str]) -> list[str]:
    """Keys under our prefix that users do not set or that mean nothing: most likely a typing mistake."""
    known = {ANNOTATION_PREFIX + key for key in (*_WISHES, "assigned")}
    return sorted(key for key in annotations if key.startswith(ANNOTATION_PREFIX) and key not in known)


def priority_level(priority: int, high: int) -> float:
    """A pod's priority on a scale from 0 (lowest) over 0.5 (no priority) to 1 (``high`` and above).

    Logarithmic, because clusters number their classes by tens as well as by millions.
    """
    magnitude = min(1.0, math.log1p(abs(priority)) / math.log1p(high))
    return 0.5 + math.copysign(0.5 * magnitude, priority)


def _shown(text: str) -> str:
    """A foreign text fit for one line of message: quoted, control characters escaped, cut at 80."""
    return repr(text if len(text) <= 80 else text[:77] + "...")
