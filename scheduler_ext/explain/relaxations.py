"""Changes of a pod after which it would fit: a wish lowered or dropped, or a smaller amount."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.policy import Policy
from scheduler_ext.core.filters import FILTERS
from scheduler_ext.core.framework.relaxation import Trial
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.wishes import ANNOTATION_PREFIX, WISHES
from scheduler_ext.core.snapshot.snapshot import Snapshot

_NOTHING = GpuRequest()
# Only wishes that some filter reads can refuse a node.
_LOWERED = {wish: lower for each in FILTERS for wish, lower in each.relaxed.items()}
_FIELDS = {wish: field for wish, (field, _) in WISHES.items() if wish in _LOWERED}


@dataclass(frozen=True, slots=True)
class Relaxation:
    """A change of the pod, in words, and the number of nodes on which it would then fit."""

    change: str
    nodes: int


def relaxations(request: GpuRequest, snapshot: Snapshot, policy: Policy, asked: Bools) -> list[Relaxation]:
    """The single changes after which the pod fits on some of the nodes in ``asked``, ``[row]``."""

    def where(changed: GpuRequest) -> Bools:
        decision = filter_nodes(changed, snapshot, policy)
        fit: Bools = decision.fits[snapshot.state_of[:-1]] & asked
        return fit

    trial = Trial(snapshot, where)
    smaller = (
        (change, trial.fits(changed))
        for each in FILTERS
        if each.applies(request)
        for change, changed in each.smaller(request, trial)
    )
    return [
        Relaxation(change, nodes) for change, nodes in (*_wishing_less(request, trial), *smaller) if nodes
    ]


def _wishing_less(request: GpuRequest, trial: Trial) -> Iterator[tuple[str, int]]:
    """Each wish with the mildest value that fits somewhere, and dropped if that gives more nodes."""
    helps = False
    wished = [wish for wish, field in _FIELDS.items() if getattr(request, field) != getattr(_NOTHING, field)]
    for wish in wished:
        key = f"{ANNOTATION_PREFIX}{wish}"
        without = trial.fits(_without(request, wish))
        helps = helps or without > 0
        lower = _LOWERED[wish](request, trial) if without else None
        nodes = 0
        if lower is not None:
            value, changed = lower
            nodes = trial.fits(changed)
            if nodes:
                yield f"with {key}: {value}", nodes
        if without > nodes:
            yield f"without the annotation {key}", without
    if not helps and len(wished) > 1:
        keys = ", ".join(f"{ANNOTATION_PREFIX}{wish}" for wish in wished)
        yield f"without any of the annotations {keys}", trial.fits(_without(request, *wished))


def _without(request: GpuRequest, *wishes: str) -> GpuRequest:
    unset = {_FIELDS[wish]: getattr(_NOTHING, _FIELDS[wish]) for wish in wishes}
    return replace(request, **unset)
