"""What nodes hand out at all, held or not: what a pod could ask for instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest

# The model name of an unknown product.
_UNNAMED = "UNKNOWN"


def offers(nodes: Iterable[Node]) -> Counter[str]:
    """The number of nodes that offer each counted GPU resource; memory shares are left out.

    From allocatable and the unhealthy GPUs that the device plugin removed from it, or from all known GPUs if
    there is no Node object.
    """
    offered: Counter[str] = Counter()
    for node in nodes:
        allocatable = node.info.allocatable
        here = {
            unit.resource
            for slot in node.state.slots
            if allocatable is None or not slot.healthy
            for unit in slot.units
        }
        if allocatable is not None:
            here.update(resource for resource, count in allocatable.items() if count > 0)
        offered.update(here)
    return offered


def models_offered(nodes: Iterable[Node], request: GpuRequest) -> list[str]:
    """The models of the GPUs that nodes offer for a request, in order of their names."""
    resources = {ask.resource for ask in request.units}
    found: set[str] = set()
    for node in nodes:
        for slot in node.state.slots:
            found.update(unit.model.name for unit in slot.units if unit.resource in resources)
            if request.shares is not None and slot.share_free_mib >= 0:
                found.add(slot.model.name)
    return sorted(found - {_UNNAMED})
