"""The taints that the devices of a node should have, by its agent and its operators."""

from collections.abc import Iterator

from scheduler_ext.core.dra.device_taints import CORDONED, UNHEALTHY, DeviceTaint
from scheduler_ext.core.node.node import NodeInfo


def wanted_taints(info: NodeInfo) -> Iterator[DeviceTaint]:
    """A taint for each published device on a GPU that the agent reports as sick, or that is cordoned."""
    if info.dra is None:
        return
    gpus = {device.uuid: device for device in info.devices}
    for device in info.dra.devices:
        gpu = gpus.get(device.on)
        if gpu is None:
            continue
        if not gpu.healthy:
            yield DeviceTaint(device.id, UNHEALTHY)
        if gpu.cordoned:
            yield DeviceTaint(device.id, CORDONED)
