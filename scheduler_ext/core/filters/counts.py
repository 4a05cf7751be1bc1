"""Are enough whole GPUs free, and enough MIG instances of the profile?"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np

from scheduler_ext.core.framework.criterion import Change, Filter, Trial, View, needed_reach
from scheduler_ext.core.framework.refusal import MissKind, NearestMiss, Reason
from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.node.offered_instances import cordon_problem, layout_problem
from scheduler_ext.core.request.request import GpuRequest, UnitRequest
from scheduler_ext.core.request.resource_names import DEVICE_CLASS_PREFIX, shown_resource, vendor_of

_NAMED = 3
_PROFILE_GB = re.compile(r"\.(\d+)gb")


class _Count(Filter):
    """Refuses nodes with fewer free units than requested, per resource and per its allocatable."""

    kind = MissKind.AMOUNT
    mig: ClassVar[bool]

    def applies(self, request: GpuRequest) -> bool:
        return any((ask.profile is not None) is self.mig for ask in request.units)

    def passes(self, view: View) -> Bools:
        passed = view.everywhere(True)
        choices = []
        for ask, columns in view.units:
            if (ask.profile is not None) is not self.mig:
                continue
            if ask.by_claim and view.request.claims_judged:
                # Of the nodes with room, those where the pod may get a cordoned or sick GPU are left out.
                passed &= (columns.limit >= needed_reach(ask)) | ~columns.by_claim
                continue
            if ask.choice:
                choices.append((columns.available >= ask.least) | columns.open)
            enough = columns.available >= max(ask.count, int(ask.every))
            if ask.every:
                # kube-scheduler gives all devices or none.
                enough &= ~(columns.offered & (columns.free + columns.sick == 0)).any(0)
            passed &= enough | columns.open
        return passed & np.logical_or.reduce(choices) if choices else passed

    def miss(self, view: View, node: Node) -> NearestMiss:
        """The shortage of units; of several requested resources, the one with the largest shortage."""
        have, needed = {}, {}
        for ask in view.request.units:
            if (ask.profile is not None) is self.mig:
                slots = (slot for slot in node.state.slots if slot.healthy)
                units = [unit for slot in slots for unit in slot.units if unit.resource == ask.resource]
                free = sum(unit.free for unit in units)
                needed[ask] = max(ask.least, free + sum(not unit.free for unit in units) if ask.every else 0)
                limits = {name: (unknown, limit) for name, unknown, limit in node.state.limits}
                unknown, limit = limits.get(ask.resource, (0, free))
                have[ask] = max(0, min(free - unknown, limit))
        ask = max(have, key=lambda ask: needed[ask] - have[ask])
        unit = shown_resource(ask.resource)
        return NearestMiss(self.name, _where_creatable(ask.profile, node), needed[ask], have[ask], unit)

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        text = f"{node.info.name} has {miss.have:,} of {miss.needed:,} {miss.unit} free"
        if (problem := layout_problem(node.info)) is not None:
            text = f"{text}; {problem}"
        if (problem := _closed_by_cordon(node, miss.unit)) is not None:
            return f"{text}; {problem}"
        if (withdrawn := not_offered(node, miss.unit)) is not None:
            return f"{text}: {withdrawn}"
        devices = node.info.dra.devices if node.info.dra is not None else ()
        # A taint with the effect None only informs.
        closing = ([taint.key for taint in each.taints if taint.effect != "None"] for each in devices)
        tainted = [keys for keys in closing if keys]
        keys = sorted({key for each in tainted for key in each})
        if not keys:
            return text
        which = "1 device is" if len(tainted) == 1 else f"{len(tainted)} devices are"
        return f"{text}; {which} tainted: {', '.join(keys)}"

    def for_operators(
        self, miss: NearestMiss, node: Node, _request: GpuRequest, _fits: Callable[[NodeInfo], bool]
    ) -> str | None:
        if _closed_by_cordon(node, miss.unit) is not None:
            return (
                f"have an operator repair the cordoned GPUs of {node.info.name} and end their cordon, or take"
                " them from its device plugin: while one is free, the node takes no such pod"
            )
        if layout_problem(node.info) is None:
            return None
        return (
            f"have an operator give {node.info.name} a MIG layout that its device plugin hands out, or turn"
            " its MIG mode off (with the MIG manager: the label nvidia.com/mig.config)"
        )

    def smaller(self, request: GpuRequest, trial: Trial) -> Iterator[Change]:
        """The largest number of units of the only requested resource that fits on some node."""
        if len(request.units) != 1 or request.shares is not None:
            return
        (ask,) = request.units

        def with_count(count: int) -> GpuRequest:
            return replace(request, units=(replace(ask, count=count, in_one=min(ask.in_one, count)),))

        if most := trial.largest(ask.count - 1, with_count):
            yield f"with {most:,} {shown_resource(ask.resource)} instead of {ask.count:,}", with_count(most)


class GpuCount(_Count):
    """Counts healthy, unheld whole GPUs."""

    name = "gpu-count"
    reason = Reason(
        "Insufficient nvidia.com/gpu per device",
        "The node has too few healthy whole GPUs that no pod holds under any of the configured resource"
        " names. In place of nvidia.com/gpu it names the resource, or the DeviceClass, that the pod asks.",
        "Wait for a pod to finish, ask for fewer GPUs, or add nodes.",
    )
    mig = False

    def reason_text(self, request: GpuRequest) -> str:
        """With the pod's own resources in place of NVIDIA's: configured ones, and for claims known classes,
        which an administrator names, so the texts of a cluster are few."""
        asked = dict.fromkeys(_bare_name(ask) for ask in request.units if ask.profile is None)
        return f"Insufficient {' or '.join(asked)} per device"


class MigPlacement(_Count):
    """Counts free instances of a profile. Only existing instances count: none is created for a pod."""

    name = "mig-placement"
    reason = Reason(
        "node(s) had no free MIG placement",
        "The node has too few free MIG instances of the requested profile.",
        "Wait for an instance, ask for a profile the node offers, or change its MIG configuration.",
    )
    mig = True

    def smaller(self, request: GpuRequest, trial: Trial) -> Iterator[Change]:
        """Fewer instances; then other profiles that fit now, the one nearest in memory first."""
        yield from super().smaller(request, trial)
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


def _bare_name(ask: UnitRequest) -> str:
    """The resource that a pod names, or the DeviceClass that its claims name."""
    return ask.resource.removeprefix(DEVICE_CLASS_PREFIX).partition("?")[0] if ask.by_claim else ask.resource


def _where_creatable(profile: str | None, node: Node) -> str | None:
    """A healthy GPU of the node where such an instance could still be created beside the existing ones."""
    for device in node.info.devices:
        geometry = device.mig.geometry
        if profile is not None and device.mig.enabled and device.healthy and geometry is not None:
            placed = [(i.profile, i.start) for i in device.mig.instances if i.start is not None]
            if len(placed) == len(device.mig.instances) and geometry.creatable_starts(placed, profile):
                return device.uuid
    return None


def _profile_gb(profile: str | None) -> int:
    """The memory in a profile's name; 0 if there is none."""
    named = _PROFILE_GB.search(profile or "")
    return int(named[1]) if named is not None else 0


def _closed_by_cordon(node: Node, resource: str) -> str | None:
    """Why a node takes no pod of a resource though some of it is free: a cordoned GPU is free, too."""
    limits = {name: limit for name, _, limit in node.state.limits}
    if limits.get(resource) != 0 or resource in node.state.by_claim:
        return None
    cordoned = {device.uuid for device in node.info.devices if device.cordoned and device.healthy}
    units = (unit for uuid, slot in node.gpus if uuid in cordoned for unit in slot.units)
    is_free = any(unit.free and unit.resource == resource for unit in units)
    return cordon_problem(node.info) if is_free else None


def not_offered(node: Node, resource: str) -> str | None:
    """What a node says of its device plugin, if it has GPUs that it does not offer: none has registered, or
    its GPUs are withdrawn, more than are known to be sick. None for a node that offers its GPUs."""
    if layout_problem(node.info) is not None:
        return None
    info = node.info
    if info.allocatable is None or info.share_node or info.dra is not None:
        return None
    named = info.capacity or {}
    left, had = info.allocatable.get(resource, 0), named.get(resource, 0)
    healthy = [slot.healthy for slot in node.state.slots]
    if not any(healthy):
        return None
    # The device plugin withdraws sick GPUs, too.
    if left < had and (all(healthy) or not left):
        return f"its device plugin offers {left:,} of {had:,} by allocatable and capacity"
    vendors = {slot.model.vendor for slot in node.state.slots}
    if any(named.values()) or vendor_of(resource) not in vendors:
        return None
    said = "by its report" if info.report is not None else "by its labels"
    models = " and ".join(node.models)
    what = f"{node.state.gpus:,} × {models}" if node.state.gpus else models
    if info.uncounted:
        names = " and ".join(info.uncounted)
        return f"it has {what} {said}, and offers {names}, which is not in resources.wholeGpu"
    return f"it has {what} {said}, but none in its allocatable: no device plugin has registered there"


def offers(nodes: Iterable[Node]) -> Counter[str]:
    """The number of nodes that offer each counted GPU resource: from allocatable and the unhealthy GPUs that
    the device plugin removed from it, from the devices of claims, or from all known GPUs if there is no Node
    object."""
    offered: Counter[str] = Counter()
    for node in nodes:
        allocatable, slots = node.info.allocatable, node.state.slots
        here = {
            unit.resource
            for slot in slots
            for unit in slot.units
            if allocatable is None or not slot.healthy or unit.resource in node.state.by_claim
        }
        here.update(resource for resource, count in (allocatable or {}).items() if count > 0)
        offered.update(here)
    return offered
