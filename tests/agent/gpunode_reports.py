"""Statuses of GPUNodes as agents write them, and with mistakes of the kind that a bug in an agent makes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from scheduler_ext.core.errors import InventoryError
from scheduler_ext.core.gpu.gpu import Device, Holder, Report
from tests.gpu_strategies import reports
from tests.kube_objects import Json, gpu
from tests.wire.reports.gpunode_status import read


def reader_refusal(status: Json) -> str:
    """The reader's objection to a status; empty if it accepts it."""
    try:
        read(status)
    except InventoryError as error:
        return str(error)
    return ""


def profile(name: str = "1g.10gb", size: int = 1, starts: tuple[int, ...] = (0, 1), most: int = 7) -> Json:
    return {"name": name, "size": size, "starts": [*starts], "maxInstances": most}


def with_summary(**fields: Any) -> Json:
    devices = [gpu(0), gpu(1, model="T4", health={"state": "Unhealthy"})]
    devices[0]["memory"] |= {"usedMiB": 40960}
    return {"devices": devices, "summary": summary_of(devices) | fields}


def summary_of(devices: list[Json]) -> Json:
    """The summary that goes with the devices of a report that name their models."""
    total = sum(device["memory"]["totalMiB"] for device in devices)
    used = sum(device["memory"].get("usedMiB", 0) for device in devices)
    models = ", ".join(sorted({device["model"] for device in devices}))
    return {
        "gpus": len(devices),
        "healthy": sum(device.get("health", {}).get("state") != "Unhealthy" for device in devices),
        "memoryUsedPercent": used * 100 // total if total else 0,
    } | ({"model": models} if models else {})


def status_of(report: Report) -> Json:
    """The status that an agent would write for a report."""
    devices = list(map(_device, report.devices))
    return {
        "cudaVersion": ".".join(map(str, report.cuda_version)) if report.cuda_version else None,
        "migStrategy": report.mig_strategy,
        "sharing": {"strategy": report.sharing_strategy, "replicas": report.replicas},
        "summary": summary_of(devices),
        "devices": devices,
    }


def _device(device: Device) -> Json:
    capability = device.compute_capability
    memory = device.memory
    return {
        "uuid": device.uuid,
        "index": device.index,
        "vendor": device.vendor,
        "model": device.model.name,
        "product": device.product,
        "computeCapability": f"{capability[0]}.{capability[1]}" if capability else None,
        "memory": {
            "totalMiB": memory.total_mib,
            "reservedMiB": memory.reserved_mib,
            "usedMiB": memory.used_mib,
            "unaccountedMiB": memory.unaccounted_mib,
        },
        "health": {
            "state": "Healthy" if device.healthy else "Unhealthy",
            "reason": device.health_reason or None,
        },
        "holders": list(map(_holder, device.holders)),
        "mig": _mig(device) if device.mig.enabled else None,
    }


def _mig(device: Device) -> Json:
    geometry = device.mig.geometry
    return {
        "enabled": True,
        "creatable": device.mig.creatable,
        "gridSize": geometry.grid if geometry else None,
        "profiles": [
            {
                "name": profile.name,
                "size": profile.size,
                "starts": list(profile.starts),
                "maxInstances": profile.max_instances,
                "memoryMiB": profile.memory_mib,
            }
            for profile in (geometry.profiles if geometry else ())
        ],
        "instances": [
            {
                "uuid": instance.uuid,
                "profile": instance.profile,
                "start": instance.start,
                "size": instance.size,
                "holder": _holder(instance.holder) if instance.holder else None,
            }
            for instance in device.mig.instances
        ],
    }


def _holder(holder: Holder) -> Json:
    return {
        "uid": holder.uid,
        "namespace": holder.namespace,
        "name": holder.name,
        "container": holder.container,
        "memoryMiB": holder.memory_mib,
    }


def _of_memory(draw: DrawFn, device: Json, status: Json) -> None:
    memory = device["memory"]
    memory["usedMiB"] = memory["totalMiB"] * 101 // 100 - memory["reservedMiB"] + draw(st.integers(-1, 1))


def _of_unaccounted_memory(draw: DrawFn, device: Json, status: Json) -> None:
    device["memory"]["unaccountedMiB"] = device["memory"]["usedMiB"] + draw(st.integers(-1, 1))


def _of_a_holder(draw: DrawFn, device: Json, status: Json) -> None:
    """One that uses about as much as there is."""
    memory_mib = draw(st.sampled_from((None, *(device["memory"]["totalMiB"] + more for more in (-1, 0, 1)))))
    device["holders"] = [*(device["holders"] or ()), {"uid": "u", "memoryMiB": memory_mib}]


def _of_an_instances_holder(draw: DrawFn, device: Json, status: Json) -> None:
    instance = draw(st.sampled_from(device["mig"]["instances"]))
    instance["holder"] = {"uid": "u", "memoryMiB": device["memory"]["totalMiB"] + draw(st.integers(-1, 1))}


def _of_an_instance(draw: DrawFn, device: Json, status: Json) -> None:
    names = ["1g.10gb", "2g.20gb", *(profile["name"] for profile in device["mig"]["profiles"])]
    wrong = draw(st.sampled_from(device["mig"]["instances"]))
    wrong |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "start": st.one_of(st.none(), st.integers(0, 9)),
                "size": st.one_of(st.none(), st.integers(1, 5)),
                "profile": st.sampled_from(names),
            },
        )
    )


def _of_an_instances_uuid(draw: DrawFn, device: Json, status: Json) -> None:
    """That of a GPU, or of any instance of the node."""
    wrong = draw(st.sampled_from(device["mig"]["instances"]))
    others = [instance["uuid"] for each in status["devices"] for instance in _instances(each)]
    wrong["uuid"] = draw(st.sampled_from([*others, *(each["uuid"] for each in status["devices"])]))


def _of_a_profile(draw: DrawFn, device: Json, status: Json) -> None:
    names = [profile["name"] for profile in device["mig"]["profiles"]]
    wrong = draw(st.sampled_from(device["mig"]["profiles"]))
    wrong |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "size": st.integers(0, 9),
                "starts": st.lists(st.integers(0, 9), max_size=9),
                "maxInstances": st.integers(0, 1),
                "name": st.sampled_from([*names, "3c.3g.40gb", "1c.3g.40gb"]),
            },
        )
    )


def _of_the_grid(draw: DrawFn, device: Json, status: Json) -> None:
    device["mig"]["gridSize"] = draw(st.sampled_from((None, 0, 1, 7, 8, 9, 12, 16)))


def _of_the_mode(draw: DrawFn, device: Json, status: Json) -> None:
    device["mig"]["enabled"] = draw(st.sampled_from((None, False)))


def _of_identity(draw: DrawFn, device: Json, status: Json) -> None:
    field = draw(st.sampled_from(("uuid", "index")))
    device[field] = draw(st.sampled_from(status["devices"]))[field]


def _instances(device: Json) -> list[Json]:
    found: list[Json] = (device["mig"] or {}).get("instances") or []
    return found


@st.composite
def statuses(draw: DrawFn) -> Json:
    """One with up to three mistakes."""
    status = status_of(draw(reports()))
    devices = status["devices"]
    for _ in range(draw(st.sampled_from((0, 1, 1, 2, 3))) if devices else 0):
        device = draw(st.sampled_from(devices))
        mistakes = [_of_memory, _of_unaccounted_memory, _of_a_holder, _of_identity]
        if device["mig"]:
            mistakes += [_of_the_grid, _of_the_mode]
        if _instances(device):
            mistakes += [_of_an_instance, _of_an_instance, _of_an_instances_uuid, _of_an_instances_holder]
        if device["mig"] and device["mig"]["profiles"]:
            mistakes.append(_of_a_profile)
        draw(st.sampled_from(mistakes))(draw, device, status)
    return status | {"summary": summary_of(devices)}
