"""Are enough MIG instances of the profile free?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from scheduler_ext.core.framework.criterion import Filter, View, shortest_unit
from scheduler_ext.core.framework.miss import MissKind, NearestMiss, too_few
from scheduler_ext.core.framework.reasons import Reason
from scheduler_ext.core.framework.relaxation import Change, Trial, fewer_units
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.node.offered import offers
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.resource_names import MIG_PREFIX

_NAMED = 3
_PROFILE_GB = re.compile(r"\.(\d+)gb")

NO_MIG_PLACEMENT = Reason(
    "node(s) had no free MIG placement",
    "Too few free MIG instances of the asked profile exist on the node.",
    "Wait for an instance, ask for a profile the node offers, or change its MIG configuration.",
)


class MigPlacement(Filter):
    """Refuses nodes with fewer free instances of a profile than requested, per its allocatable.

    Only existing instances count: they are not created for a pod, so a free placement is not enough.
    """

    name = "mig-placement"
    reason = NO_MIG_PLACEMENT
    kind = MissKind.AMOUNT

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

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        return too_few(node, miss)

    def smaller(self, request: GpuRequest, trial: Trial) -> Iterator[Change]:
        yield from fewer_units(request, trial)
        yield from _other_profiles(request, trial)


def _where_creatable(profile: str, node: Node) -> str | None:
    """A healthy GPU of the node where such an instance could still be created beside the existing ones."""
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


def _other_profiles(request: GpuRequest, trial: Trial) -> Iterator[Change]:
    """Other MIG profiles that fit now, the one nearest in memory first."""
    if len(request.units) != 1 or request.shares is not None or request.units[0].profile is None:
        return
    (ask,) = request.units
    found = []
    for resource in offers(trial.snapshot.nodes.values()):
        if resource.startswith(MIG_PREFIX) and resource != ask.resource:
            profile = resource.removeprefix(MIG_PREFIX)
            changed = replace(request, units=(replace(ask, resource=resource, profile=profile),))
            if trial.fits(changed):
                found.append((abs(_profile_gb(profile) - _profile_gb(ask.profile)), resource, changed))
    for _, resource, changed in sorted(found, key=lambda each: each[:2])[:_NAMED]:
        yield f"with {ask.count} {resource} instead of {ask.resource}", changed


def _profile_gb(profile: str | None) -> int:
    """The memory in a profile's name; 0 if there is none."""
    named = _PROFILE_GB.search(profile or "")
    return int(named[1]) if named is not None else 0
