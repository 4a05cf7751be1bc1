"""The inventory as a list for people and programs: every GPU with its used, requested and free memory."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from scheduler_ext.core.gpu.gpu import Device, MigInstance
from scheduler_ext.core.gpu.readings import NO_READINGS, NodeReadings, Readings
from scheduler_ext.core.gpu.value_table import DIGITS
from scheduler_ext.core.node.attribution import Attribution, attribute
from scheduler_ext.core.node.holdings import Holdings, holdings_of, unknown_gpus
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.offered_instances import layout_problem
from scheduler_ext.core.node.unreported import effect
from scheduler_ext.explain.explain import API_VERSION
from scheduler_ext.explain.sentences import not_offered, unattributed
from scheduler_ext.views.node_usage import device_usage, instances_of, promises_memory
from scheduler_ext.wire.config import Configuration

_MEMORY = (
    *("totalMiB", "reservedMiB", "usedMiB", "unaccountedMiB"),
    *("requestedMiB", "freeMiB", "requestedAtLeastMiB", "freeAtMostMiB"),
)


def inventory_list(
    infos: Iterable[NodeInfo],
    config: Configuration,
    ages_s: Mapping[str, float] = MappingProxyType({}),
    problems: Mapping[str, str] = MappingProxyType({}),
    readings: NodeReadings = NO_READINGS,
) -> dict[str, Any]:
    """The InventoryList of these nodes, by name, without nodes that have no GPU. By node, `ages_s` are the
    ages of reports, 0 if absent, and `problems` why they are refused, and
    `readings` the activity of their GPUs."""
    items = [
        _item(
            info,
            config,
            round(ages_s.get(info.name, 0.0), 1),
            problems.get(info.name),
            readings.get(info.name, ()),
        )
        for info in sorted(infos, key=lambda info: info.name)
        if info.report is not None
        or info.estimate is not None
        or info.freshness != "Fresh"
        or info.name in problems
    ]
    return {"apiVersion": API_VERSION, "kind": "InventoryList", "items": items}


def _item(
    info: NodeInfo, config: Configuration, age_s: float, problem: str | None, readings: Sequence[Readings]
) -> dict[str, Any]:
    resources, report = config.resource_names(), info.report
    did = {each.uuid: each for each in readings}
    held = holdings_of(info, resources)
    attribution = attribute(info, held, resources)
    # The instances that a pod may still have, by profile.
    mig_free: Counter[str] = Counter()
    for (_, profile), instances in sorted(instances_of(info, attribution.taken.held).items()):
        mig_free[profile] += instances.free
    return {
        "node": info.name,
        "source": "labels" if report is None else "slices" if report.from_slices else "report",
        "state": info.freshness,
        "ageSeconds": age_s,
        "problem": problem,
        "byAllocatable": info.takes_unreported,
        "withoutReport": effect(info),
        "unknownDeviceGpus": unknown_gpus(info, held),
        "unattributed": unattributed(info, attribution.unknown, resources.share),
        "change": _change(info),
        "layoutProblem": layout_problem(info),
        "notOffered": not_offered(info, attribution.beyond),
        "cordonsUnknown": [] if report is None else list(report.cordoned_strangers),
        "migFree": dict(mig_free),
        "gpus": round(info.gpu_count, DIGITS),
        "devices": _estimated(info, attribution.beyond)
        if report is None
        else [
            _with_readings(
                _device(info, device, held, attribution, config.memory.headroom_percent), did.get(device.uuid)
            )
            for device in sorted(report.devices, key=lambda device: device.index)
        ],
    }


def _change(info: NodeInfo) -> str | None:
    """What is known of a change of the node's GPUs, and its effect; None without one."""
    if not info.changing:
        return None
    if info.failed_change:
        return f"a change of its GPUs failed ({info.failed_change}): it takes no pod with GPUs"
    return "its MIG layout or its driver is being changed: it takes no pod with GPUs meanwhile"


def _device(
    info: NodeInfo, device: Device, known: Holdings, attribution: Attribution, headroom_percent: int
) -> dict[str, Any]:
    memory = device.memory
    uuid = device.uuid
    held, taken = attribution.held.devices[uuid], attribution.taken.held.devices[uuid]
    usage = device_usage(info, device, held, taken, headroom_percent)
    may_be_held = uuid in attribution.devices
    certain = usage
    if may_be_held or uuid in attribution.taken.devices:
        least = known.devices[uuid]
        surely = attribution.least_taken(uuid, least)
        certain = device_usage(info, device, least if may_be_held else held, surely, headroom_percent)
    measured = (memory.reserved_mib, memory.used_mib, usage.unaccounted_mib)
    promised = (usage.requested_mib, usage.free_mib, certain.requested_mib, certain.free_mib)
    amounts = (
        memory.total_mib or None,
        *(measured if memory.measured else (None,) * len(measured)),
        *(promised if promises_memory(info, device) else (None,) * len(promised)),
    )
    return {
        "uuid": device.uuid,
        "index": device.index,
        "model": device.model.name,
        "family": device.model.family,
        "healthy": device.healthy,
        "healthReason": device.health_reason or None,
        "cordoned": device.cordoned,
        "mayBeHeld": may_be_held,
        "offered": attribution.offers(uuid),
        "memory": dict(zip(_MEMORY, amounts, strict=True)),
        "mig": {
            "enabled": device.mig.enabled,
            "instances": [
                {
                    "uuid": instance.uuid,
                    "profile": instance.profile,
                    "start": instance.start,
                    "size": instance.size,
                    "free": instance.uuid not in held.instances or instance.uuid in attribution.instances,
                    "mayBeHeld": instance.uuid in attribution.instances,
                    "offered": attribution.offers(instance.uuid),
                }
                for instance in sorted(device.mig.instances, key=mig_place)
            ],
        },
    }


def _with_readings(device: dict[str, Any], did: Readings | None) -> dict[str, Any]:
    """A device with its readings, those of its instances, and those of its holders."""
    did = did or Readings("")
    instances = {each.uuid: each for each in did.instances}
    for instance in device["mig"]["instances"]:
        known = instances.get(instance["uuid"])
        instance["utilizationPercent"] = known.utilization_percent if known is not None else None
        instance["idleSeconds"] = known.idle_s if known is not None else None
    holders = [
        {
            "uid": each.holder.uid,
            "namespace": each.holder.namespace,
            "name": each.holder.name,
            "instance": each.instance,
            "idleSeconds": each.idle_s,
            "peakMiB": each.peak_mib,
        }
        for each in did.holders
    ]
    return device | _readings(did) | {"holders": holders}


def _readings(did: Readings) -> dict[str, Any]:
    """The activity of a GPU; null if unknown."""
    return {
        "utilizationPercent": did.utilization_percent,
        "memoryUtilizationPercent": did.memory_utilization_percent,
        "powerWatts": did.power_watts,
        "temperatureCelsius": did.temperature_celsius,
        "smClockMHz": did.sm_clock_mhz,
        "throttleReasons": list(did.throttle_reasons),
        "idleSeconds": did.idle_s,
    }


def mig_place(instance: MigInstance) -> tuple[bool, int, str]:
    """By start; instances whose start is unknown come last."""
    return instance.start is None, instance.start or 0, instance.uuid


def _estimated(info: NodeInfo, beyond: Mapping[str, int]) -> list[dict[str, Any]]:
    """The number of GPUs of each model, by labels; their use, and so their free memory, is unknown, and which
    ones are `beyond` allocatable."""
    estimate = info.estimate
    if estimate is None:
        return []
    all_of_them = sum(beyond.values()) >= estimate.count * estimate.replicas
    return [
        {
            "uuid": None,
            "index": index,
            "model": estimate.model.name,
            "family": estimate.model.family,
            "healthy": True,
            "healthReason": None,
            "cordoned": False,
            "mayBeHeld": False,
            "offered": True if not beyond else False if all_of_them else None,
            **_readings(Readings("")),
            "holders": [],
            "memory": dict.fromkeys(_MEMORY) | {"totalMiB": estimate.memory_mib},
            "mig": {"enabled": estimate.mig_strategy != "none", "instances": []},
        }
        for index in range(estimate.count)
    ]
