"""How a device plugin hands out the GPUs of a node: sharing, and the profiles of MIG instances."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from scheduler_ext.core.gpu.gpu import Device, Report
from scheduler_ext.core.gpu.mig_profile import (
    MIG_PREFIX,
    profile_from_resource,
    resource_from_profile,
    without_suffix,
)
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.resource_names import vendor_of, without_shared

_WHOLE = "nvidia.com/gpu"


def as_offered(report: Report, allocatable: Mapping[str, int] | None) -> Report:
    """The report with the profiles by which NVIDIA's device plugin hands out instances. Before v0.20 it
    ignores media extensions: an instance of 1g.10gb+me is one of nvidia.com/mig-1g.10gb (k8s-device-plugin,
    issue 1462 and pull request 1807). What the node offers shows which plugin it has."""
    if allocatable is None or report.mig_strategy == "none":
        return report
    if report.mig_strategy == "single":
        known = {each.profile for device in report.devices for each in device.mig.instances}
        alike = len({without_suffix(profile) for profile in known}) == 1
        merged = known if alike and _offers_whole(allocatable) else set()
    else:
        merged = {*_merged(report, allocatable)}
    if not merged:
        return report
    return replace(report, devices=tuple(_offered(device, merged) for device in report.devices))


def as_shared(report: Report, allocatable: Mapping[str, int] | None) -> Report:
    """The report as of shared GPUs and instances, if only the names of resources say so: an agent that sees
    neither labels nor the kubelet's devices cannot. `report` is one of `as_offered`."""
    if allocatable is None or report.sharing_strategy != "none":
        return report
    units: Counter[str] = Counter()
    for device in report.devices:
        if device.healthy and device.vendor == "nvidia":
            units.update(_resources(report, device))
    replicas: dict[str, int] = {}
    for name, count in allocatable.items():
        plain = without_shared(name)
        if count > 0 and units[plain]:
            profile = profile_from_resource(plain)[0] if plain.startswith(MIG_PREFIX) else ""
            replicas[profile] = 1 if plain == name else -(-count // units[plain])
    if all(count == 1 for count in replicas.values()):
        return report
    most = max(replicas.values())
    others = tuple(sorted((profile, count) for profile, count in replicas.items() if count != most))
    return replace(report, sharing_strategy="time-slicing", replicas=most, own_replicas=others)


def _resources(report: Report, device: Device) -> Iterator[str]:
    """What a GPU is handed out as where GPUs are not shared: each of its units."""
    if not report.hands_out_instances(device):
        yield _WHOLE
    elif report.mig_strategy == "single":
        yield from (_WHOLE for _ in device.mig.instances)
    else:
        yield from (resource_from_profile(each.offered_as) for each in device.mig.instances)


def cordon_problem(info: NodeInfo) -> str | None:
    """The cordoned GPUs that the kubelet might hand out, if pods got others of the node; None without any."""
    cordoned = [str(each.index) for each in info.devices if each.cordoned and each.healthy]
    if not cordoned:
        return None
    if len(cordoned) == 1:
        return f"GPU {cordoned[0]} is cordoned, and the kubelet might hand it out"
    return f"GPUs {', '.join(cordoned)} are cordoned, and the kubelet might hand them out"


def withheld_by_layout(info: NodeInfo) -> frozenset[str]:
    """The GPUs, by UUID, that the device plugin does not hand out for their MIG layout: `layout_problem`.
    Memory shares need no device plugin."""
    report = info.report
    if report is None or report.mig_strategy == "none":
        return frozenset()
    cut = [each for each in report.devices if each.mig.enabled]
    if report.mig_strategy == "single" and cut and not info.share_node:
        alike = {each.offered_as for device in cut for each in device.mig.instances}
        if len(alike) > 1 or len(cut) < len(report.devices):
            return frozenset(device.uuid for device in report.devices)
    return frozenset(device.uuid for device in cut if not device.mig.instances)


def layout_problem(info: NodeInfo) -> str | None:
    """What is wrong with the MIG layout of a node, so that its device plugin hands out nothing of some GPUs,
    or of all; None if nothing is known to be. Source: k8s-device-plugin, NewDeviceMap. GPU Feature Discovery
    calls such a node MIG-INVALID under strategy single."""
    report = info.report
    if report is None:
        invalid = info.estimate is not None and info.estimate.mig_invalid
        return "its labels call its MIG layout invalid: no instances, or unlike ones" if invalid else None
    if report.mig_strategy == "none" or not any(device.mig.enabled for device in report.devices):
        return None
    empty = [str(each.index) for each in report.devices if each.mig.enabled and not each.mig.instances]
    if empty:
        which = f"GPUs {', '.join(empty)} are" if len(empty) > 1 else f"GPU {empty[0]} is"
        return f"{which} in MIG mode without instances"
    alike = {each.offered_as for device in report.devices for each in device.mig.instances}
    if report.mig_strategy == "single" and not all(device.mig.enabled for device in report.devices):
        return "only some of its GPUs are in MIG mode, which strategy single does not hand out"
    if report.mig_strategy == "single" and len(alike) > 1:
        unlike = ", ".join(sorted(alike))
        return f"its MIG instances are unlike ({unlike}), which strategy single does not hand out"
    return None


def _merged(report: Report, allocatable: Mapping[str, int]) -> Iterator[str]:
    """The profiles with an extension that the node offers without it, under strategy mixed."""
    every = {each.profile for device in report.devices for each in device.mig.instances}
    healthy = Counter(
        each.profile for device in report.devices if device.healthy for each in device.mig.instances
    )
    extended: dict[str, list[str]] = {}
    for profile in sorted(every):
        if (plain := without_suffix(profile)) != profile:
            extended.setdefault(plain, []).append(profile)
    for plain, profiles in extended.items():
        here = [name for each in profiles for name in _names(each) if name in allocatable]
        offered = max(allocatable.get(name, 0) for name in _names(plain))
        offered //= report.replicas_of(plain)
        if any(allocatable[name] for name in here):
            continue
        # A plugin that knows the names has them in allocatable, with 0 if all these instances are sick; after
        # a change to an older one, such a 0 stays.
        if offered > (healthy[plain] if here else 0):
            yield from profiles


def _offers_whole(allocatable: Mapping[str, int]) -> bool:
    return any(
        count > 0 and vendor_of(name) == "nvidia" and not name.startswith(MIG_PREFIX)
        for name, count in allocatable.items()
    )


def _names(profile: str) -> tuple[str, str]:
    resource = resource_from_profile(profile)
    return resource, f"{resource}.shared"


def _offered(device: Device, merged: set[str]) -> Device:
    if not any(each.profile in merged for each in device.mig.instances):
        return device
    instances = tuple(
        replace(each, offered=without_suffix(each.profile)) if each.profile in merged else each
        for each in device.mig.instances
    )
    return replace(device, mig=replace(device.mig, instances=instances))
