"""What a pod could ask less of, so that it would fit: a wish changed or dropped, or an amount lowered."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.policy import Policy
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import version_number
from scheduler_ext.core.request.request import GpuRequest, ShareAsk
from scheduler_ext.core.request.resource_names import MIG_PREFIX
from scheduler_ext.core.request.wishes import ANNOTATION_PREFIX
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.explain.offers import models_offered, offers
from scheduler_ext.explain.sentences import few

Fits = Callable[[GpuRequest], int]
# A change in words, and the request after it.
Change = tuple[str, GpuRequest]

_NOTHING = GpuRequest()
# A node has 16 GPUs at most, and 16 of seven slices.
_LEAST_TRIED = 128
# Models and profiles that are named where there are many.
_NAMED_MODELS = 8
_NAMED_PROFILES = 3
_PROFILE_GB = re.compile(r"\.(\d+)gb")


@dataclass(frozen=True, slots=True)
class Relaxation:
    """A change of the pod, in words, and on how many nodes it would fit then."""

    change: str
    nodes: int


def relaxations(request: GpuRequest, snapshot: Snapshot, policy: Policy, asked: Bools) -> list[Relaxation]:
    """The single changes after which the pod fits on some of the nodes that are ``asked``, ``[row]``."""

    def where(changed: GpuRequest) -> Bools:
        decision = filter_nodes(changed, snapshot, policy)
        fit: Bools = decision.fits[snapshot.state_of[:-1]] & asked
        return fit

    def fits(changed: GpuRequest) -> int:
        return int(np.count_nonzero(where(changed)))

    found = [
        *_wishing_less(request, snapshot, fits, where),
        *((change, fits(changed)) for change, changed in _fewer(request, fits)),
        *((change, fits(changed)) for change, changed in _other_profiles(request, snapshot, fits)),
        *((change, fits(changed)) for change, changed in _smaller(request, fits)),
    ]
    return [Relaxation(change, nodes) for change, nodes in found if nodes]


def _wishing_less(
    request: GpuRequest, snapshot: Snapshot, fits: Fits, where: Callable[[GpuRequest], Bools]
) -> Iterator[tuple[str, int]]:
    """Each wish with a value that is met somewhere, and dropped where that gives more nodes still."""
    wishes: dict[str, tuple[str, Callable[[], Change | None]]] = {
        "model": ("models", lambda: _other_models(request, snapshot, where)),
        "min-memory": ("min_memory_mib", lambda: _less_memory(request, "min_memory_mib", fits)),
        "min-free-memory": ("min_free_mib", lambda: _less_memory(request, "min_free_mib", fits)),
        "min-compute-capability": (
            "min_compute_capability",
            lambda: _older(request, "min_compute_capability", _capabilities(snapshot), fits),
        ),
        "min-cuda": ("min_cuda", lambda: _older(request, "min_cuda", _cuda_versions(snapshot), fits)),
        "sharing": ("exclusive", lambda: None),
    }
    helps = False
    for wish, (name, lowered) in wishes.items():
        unset = getattr(_NOTHING, name)
        if getattr(request, name) == unset:
            continue
        key = f"{ANNOTATION_PREFIX}{wish}"
        without = fits(replace(request, **{name: unset}))
        helps = helps or without > 0
        lower = lowered() if without else None
        nodes = 0
        if lower is not None:
            value, changed = lower
            nodes = fits(changed)
            if nodes:
                yield f"with {key}: {value}", nodes
        if without > nodes:
            yield f"without the annotation {key}", without
    unset = {name: getattr(_NOTHING, name) for name, _ in wishes.values()}
    wished = [wish for wish, (name, _) in wishes.items() if getattr(request, name) != unset[name]]
    if not helps and len(wished) > 1:
        keys = ", ".join(f"{ANNOTATION_PREFIX}{wish}" for wish in wished)
        yield f"without any of the annotations {keys}", fits(replace(request, **unset))


def _other_models(
    request: GpuRequest, snapshot: Snapshot, where: Callable[[GpuRequest], Bools]
) -> Change | None:
    """The models of the nodes where it would fit if it wished none."""
    rows = where(replace(request, models=()))
    fitting = [node for row, node in zip(_rows(snapshot), snapshot.nodes.values(), strict=True) if rows[row]]
    models = models_offered(fitting, request)[:_NAMED_MODELS]
    if not models:
        return None
    which = ", or one of these," if models[1:] else ""
    said = f"{','.join(models)}{which} instead of {few(request.models)}"
    return said, replace(request, models=tuple(models))


def _rows(snapshot: Snapshot) -> list[int]:
    rows: list[int] = snapshot.rows(list(snapshot.nodes)).tolist()
    return rows


def _less_memory(request: GpuRequest, name: str, fits: Fits) -> Change | None:
    asked_mib: int = getattr(request, name)

    def with_mib(mib: int) -> GpuRequest:
        return replace(request, **{name: mib})  # type: ignore[arg-type]  # an amount in MiB by its name

    most = _largest(1, asked_mib - 1, lambda mib: fits(with_mib(mib)) > 0)
    return (f"{_quantity(most)} instead of {_quantity(asked_mib)}", with_mib(most)) if most else None


def _quantity(mib: int) -> str:
    """As an annotation would say it."""
    return f"{mib // 1024}Gi" if mib % 1024 == 0 else f"{mib}Mi"


def _older(request: GpuRequest, name: str, there: Sequence[int], fits: Fits) -> Change | None:
    """The newest version of those that are there with which it fits."""
    asked: tuple[int, ...] = getattr(request, name)
    for number in there:
        if number >= version_number(asked):
            continue
        version = (number // 1_000_000, number // 1000 % 1000)
        changed = replace(request, **{name: version})  # type: ignore[arg-type]  # a version by its name
        if fits(changed):
            return f'"{_dotted(version)}" instead of "{_dotted(asked)}"', changed
    return None


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


def _cuda_versions(snapshot: Snapshot) -> list[int]:
    """Those there are, the newest first."""
    return sorted({state.cuda for state in snapshot.states if state.cuda}, reverse=True)


def _capabilities(snapshot: Snapshot) -> list[int]:
    """Those there are, the highest first."""
    slots = chain.from_iterable(state.slots for state in snapshot.states)
    return sorted({slot.compute_capability for slot in slots if slot.compute_capability}, reverse=True)


def _fewer(request: GpuRequest, fits: Fits) -> Iterator[Change]:
    """The most units of its only resource that fit anywhere."""
    if len(request.units) != 1 or request.shares is not None:
        return
    (ask,) = request.units

    def with_count(count: int) -> GpuRequest:
        return replace(request, units=(replace(ask, count=count),))

    most = _largest(1, min(ask.count, _LEAST_TRIED) - 1, lambda count: fits(with_count(count)) > 0)
    if most:
        yield f"with {most} {ask.resource} instead of {ask.count:,}", with_count(most)


def _other_profiles(request: GpuRequest, snapshot: Snapshot, fits: Fits) -> Iterator[Change]:
    """Other MIG profiles that fit now, the one nearest in memory first."""
    if len(request.units) != 1 or request.shares is not None or request.units[0].profile is None:
        return
    (ask,) = request.units
    found = []
    for resource in offers(snapshot.nodes.values()):
        if resource.startswith(MIG_PREFIX) and resource != ask.resource:
            profile = resource.removeprefix(MIG_PREFIX)
            changed = replace(request, units=(replace(ask, resource=resource, profile=profile),))
            if fits(changed):
                found.append((abs(_profile_gb(profile) - _profile_gb(ask.profile)), resource, changed))
    for _, resource, changed in sorted(found, key=lambda each: each[:2])[:_NAMED_PROFILES]:
        yield f"with {ask.count} {resource} instead of {ask.resource}", changed


def _profile_gb(profile: str | None) -> int:
    """The memory in a profile's name; 0 where it says none."""
    named = _PROFILE_GB.search(profile or "")
    return int(named[1]) if named is not None else 0


def _smaller(request: GpuRequest, fits: Fits) -> Iterator[Change]:
    """The largest share that fits anywhere; of several shares, the largest that all of them may have."""
    shares = request.shares
    if shares is None or request.units:
        return

    def with_mib(most_mib: int) -> GpuRequest:
        running = tuple((container, min(mib, most_mib)) for container, mib in shares.running)
        init = tuple(replace(each, memory_mib=min(each.memory_mib, most_mib)) for each in shares.init)
        return replace(request, shares=ShareAsk(running, init))

    asked_mib = shares.largest_mib
    most = _largest(1, asked_mib - 1, lambda mib: fits(with_mib(mib)) > 0)
    if most and len(shares.by_container) == 1:
        yield f"with a share of {most:,} MiB instead of {asked_mib:,}", with_mib(most)
    elif most:
        yield f"with no share above {most:,} MiB", with_mib(most)


def _largest(least: int, most: int, holds: Callable[[int], bool]) -> int:
    """The largest number for which this holds, as it does for all below; 0 where there is none."""
    if most < least or not holds(least):
        return 0
    while least < most:
        middle = (least + most + 1) // 2
        if holds(middle):
            least = middle
        else:
            most = middle - 1
    return least
