"""The GPU memory that a node of shares advertises, for kube-scheduler, quotas and autoscalers.

kube-scheduler compares a pod's request with this amount less the requests of the node's pods, so it is the
sum of these requests and of the memory that is still available. Use never counts: the extender's filter
decides which GPU has room.
"""

from __future__ import annotations

from scheduler_ext.core.gpu.gpu import Device
from scheduler_ext.core.gpu.room import NOTHING_HELD, Room
from scheduler_ext.core.node.holdings import holdings_of
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames, vendor_of

# The one whose GPUs agents report.
_VENDOR = "nvidia"


def advertised_mib(info: NodeInfo, resources: ResourceNames, headroom_percent: int) -> int | None:
    """The MiB that a node advertises; None when it is none of shares, or has no report to count from. The
    last report counts however old it is: an amount that comes and goes with an agent would have pods
    preempted and nodes added, and nothing new is placed by an old report anyway."""
    if info.report is None or not is_of_shares(info):
        return None
    room = {device.uuid: _room_mib(device, headroom_percent) for device in info.report.devices}
    if any(device.cordoned for device in info.report.devices):
        # A cordoned GPU accepts nothing new, but its pods stay, and kube-scheduler counts their requests.
        # With all its room the node would seem to fit pods that it does not, for example to an autoscaler;
        # with none, the other GPUs would seem full. Therefore it counts with its holdings, which shrink with
        # each pod that leaves.
        held = holdings_of(info, resources)
        for device in info.report.devices:
            if device.cordoned:
                room[device.uuid] = min(room[device.uuid], held.devices[device.uuid].requested_mib)
    return sum(room.values())


def is_of_shares(info: NodeInfo) -> bool:
    """Whether a node's GPUs are handed out as shares: labelled so, and not by a device plugin as well."""
    if info.allocatable is None or not info.share_node:
        return False
    # By the domain: whole GPUs under any name, and MIG instances. A plugin that has gone leaves a 0.
    return not any(vendor_of(name) == _VENDOR and amount > 0 for name, amount in info.allocatable.items())


def _room_mib(device: Device, headroom_percent: int) -> int:
    """What shares can have of a GPU in all. A sick one has nothing, and who is on it had better leave: till
    then their shares count against the sum of the others."""
    if not device.healthy or device.mig.enabled:
        return 0
    return Room.of(device.memory, NOTHING_HELD, headroom_percent).share_total
