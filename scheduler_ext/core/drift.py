"""How far what agents see differs from what is promised: use that no promise explains."""

from __future__ import annotations

from scheduler_ext.core.holdings import holdings_of
from scheduler_ext.core.node import NodeInfo
from scheduler_ext.core.resources import ResourceNames


def drift_mib(info: NodeInfo, resources: ResourceNames) -> int:
    """MiB that pods use of a node's GPUs beyond what they hold there, over all GPUs; memory is accounted, not
    fenced. Whole GPUs and instances are held with all they have."""
    if info.report is None:
        return 0
    held = holdings_of(info, resources)
    drift = 0
    for device in info.report.devices:
        here = held.devices[device.uuid]
        if not here.units and not device.mig.enabled:
            explained = (device.memory.unaccounted_mib or 0) + here.departed_mib + here.requested_mib
            drift += max(0, device.memory.used_mib - explained)
    return drift
