"""Limits of a GPUNode: the API server refuses a whole report for one value outside the schema."""

import re
from collections.abc import Iterable
from operator import attrgetter

from scheduler_ext.agent.node_reading import DeviceReading, InstanceReading
from scheduler_ext.core.gpu.models import is_display
from scheduler_ext.wire.report import MAX_DEVICES

MAX_MIB = 2**24
MAX_INDEX, MAX_INSTANCES = 1023, 16
_UUID = re.compile(r"(?!MIG-)[A-Za-z0-9][A-Za-z0-9._:/-]{0,95}")
_INSTANCE_UUID = re.compile(r"MIG-[A-Za-z0-9._:/-]{0,92}")
# Names of namespaces and containers, and of nodes and pods.
LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
NODE_NAME = POD_NAME = re.compile(r"[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?")
CUDA_VERSION = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){0,2}")
COMPUTE_CAPABILITY = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}")
PCI_BUS_ID = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")


def fitting(devices: Iterable[DeviceReading]) -> tuple[tuple[DeviceReading, ...], tuple[str, ...]]:
    """The devices that fit into one report, by index, and a message for each of the others. A GPU for
    displays, which the device plugin leaves out, is none."""
    kept: dict[str, DeviceReading] = {}
    left_out = []
    for device in sorted(devices, key=attrgetter("index")):
        if is_display(device.product or ""):
            continue
        taken = [other.index for other in kept.values()]
        if not _UUID.fullmatch(device.uuid):
            problem = f"has no usable UUID: {device.uuid!r}"
        elif device.uuid in kept:
            problem = f"has the UUID of another: {device.uuid}"
        elif device.index in taken or not 0 <= device.index <= MAX_INDEX:
            problem = f"has no index of its own from 0 to {MAX_INDEX}"
        elif len(kept) >= MAX_DEVICES:
            problem = f"is one more than the {MAX_DEVICES} that a report can have"
        else:
            kept[device.uuid] = device
            continue
        left_out.append(f"GPU {device.index} {problem}")
    return tuple(kept.values()), tuple(left_out)


def fitting_instances(instances: Iterable[InstanceReading]) -> list[InstanceReading]:
    """The MIG instances of one device that fit into a report."""
    kept: dict[str, InstanceReading] = {}
    for instance in instances:
        if _INSTANCE_UUID.fullmatch(instance.uuid):
            kept.setdefault(instance.uuid, instance)
    return list(kept.values())[:MAX_INSTANCES]


def bounded(number: int | None, most: int = MAX_MIB) -> int | None:
    """The number, limited to the range from 0 to `most`."""
    return None if number is None else max(0, min(number, most))


def matching(form: re.Pattern[str], text: str | None) -> str | None:
    """The text if it has the form of its field, otherwise None."""
    return text if text is not None and form.fullmatch(text) else None
