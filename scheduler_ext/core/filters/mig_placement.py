"""Are enough MIG instances of the profile free?"""

from __future__ import annotations

from scheduler_ext.core.framework.criterion import NearestMiss, View, shortest_unit
from scheduler_ext.core.framework.reasons import NO_MIG_PLACEMENT
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest


class MigPlacement:
    """Refuses nodes with fewer free instances of a profile than asked, per its allocatable.

    Only instances that exist count: nothing creates one for a pod, so a free placement is not enough.
    """

    name = "mig-placement"
    reason = NO_MIG_PLACEMENT

    def applies(self, request: GpuRequest) -> bool:
        return any(ask.profile is not None for ask in request.units)

    def passes(self, view: View) -> Bools:
        passed = view.everywhere(True)
        for ask, columns in view.units:
            if ask.profile is not None:
                passed &= columns.available >= ask.count
        return passed

    def miss(self, view: View, node: Node) -> NearestMiss:
        ask, have = shortest_unit([ask for ask in view.request.units if ask.profile is not None], node)
        assert ask.profile is not None
        return NearestMiss(self.name, _where_creatable(ask.profile, node), ask.count, have, ask.resource)


def _where_creatable(profile: str, node: Node) -> str | None:
    """A healthy GPU of the node where such an instance could still be created beside those there are."""
    for device in node.info.report.devices if node.info.report else ():
        geometry = device.mig.geometry
        if device.mig.enabled and device.healthy and geometry is not None:
            placed = [(i.profile, i.start) for i in device.mig.instances if i.start is not None]
            if len(placed) < len(device.mig.instances):
                continue
            try:
                if geometry.creatable_starts(placed, profile):
                    return device.uuid
            except ValueError:
                # Its instances are not of its own geometry: then the geometry says nothing about it.
                continue
    return None
