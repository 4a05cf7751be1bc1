"""The activity of a node's GPUs over time: means, idle times, peaks and errors, as a GPUNode has them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from scheduler_ext.agent.fitting import bounded
from scheduler_ext.agent.holders import DeviceHolders, PodOf
from scheduler_ext.agent.node_reading import DeviceReading, Samples
from scheduler_ext.wire import gpunode
from scheduler_ext.wire.gpunode import DeviceStatus, HolderStatus, XidCount

# The weight of a sample falls to 1/e in this time: a report has about the last minute.
_MEAN_S = 60.0
# After a longer pause, an agent does not know the activity in between: idle times begin at 0.
_KNOWN_S = 150.0
# Longer than kubelet's longest pause between two runs of a container, and the start of a large one.
_BETWEEN_RUNS_S = 3600.0
_WHOLE = ""
_MEANS = ("utilization_percent", "memory_utilization_percent", "power_watts")


class ObservedGpu(NamedTuple):
    """A GPU's holders with their idle times and peaks, and fields of its status and, by UUID, of its
    instances'."""

    held: DeviceHolders = DeviceHolders()
    fields: Mapping[str, Any] = MappingProxyType({})
    instances: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


UNOBSERVED = ObservedGpu()


@dataclass(slots=True)
class _GpuActivity:
    """`busy_at` and `pods_busy_at` are when the whole GPU, its instances by UUID, and its pods by UID last
    computed, by the clock, as far as known. `peaks_mib` are by instance and pod, `held_at` is when each of
    these pods was last seen there."""

    sampled_at: float = -math.inf
    means: dict[str, float] = field(default_factory=dict)
    busy_at: dict[str, float] = field(default_factory=dict)
    pods_busy_at: dict[str, float] = field(default_factory=dict)
    peaks_mib: dict[tuple[str, str], int] = field(default_factory=dict)
    held_at: dict[tuple[str, str], float] = field(default_factory=dict)
    xids: dict[int, int] = field(default_factory=dict)


class Activity:
    """For one thread. Times are in seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._gpus: dict[str, _GpuActivity] = {}

    def remember(self, device: DeviceStatus, now: float, age_s: float) -> None:
        """Go on from a device of this boot's last report, which is `age_s` old. What was seen before the API
        server returned the report stays."""
        gpu = self._gpus.setdefault(device.uuid, _GpuActivity())
        for each in device.xids or ():
            gpu.xids[each.xid] = gpu.xids.get(each.xid, 0) + each.count
        instances = (device.mig.instances if device.mig is not None else None) or ()
        held = [(_WHOLE, holder) for holder in device.holders or ()]
        held += [(each.uuid, each.holder) for each in instances if each.holder is not None]
        for where, holder in held:
            if holder.peak_mib is not None:
                key = where, _pod(holder)
                gpu.peaks_mib[key] = max(holder.peak_mib, gpu.peaks_mib.get(key, 0))
                gpu.held_at[key] = now
        if 0 <= age_s <= _KNOWN_S and gpu.sampled_at == -math.inf:
            idle_s = {_WHOLE: device.idle_seconds, **{each.uuid: each.idle_seconds for each in instances}}
            pods_idle_s = {each.uid: each.idle_seconds for each in device.holders or ()}
            reported_at = now - age_s
            gpu.busy_at = {key: reported_at - idle for key, idle in idle_s.items() if idle is not None}
            gpu.pods_busy_at = {
                uid: reported_at - idle
                for uid, idle in pods_idle_s.items()
                if uid is not None and idle is not None
            }

    def observe(
        self, device: DeviceReading, held: DeviceHolders, pod_of: PodOf | None, now: float
    ) -> ObservedGpu:
        """The next reading of a GPU, with its holders."""
        gpu = self._gpus.setdefault(device.uuid, _GpuActivity())
        for xid in device.xids:
            gpu.xids[xid] = gpu.xids.get(xid, 0) + 1
        _follow_means(gpu, device.samples, now)
        computing = {_WHOLE: device.samples.computing}
        computing |= {each.uuid: each.samples.computing for each in device.instances}
        gpu.busy_at = _followed(gpu.busy_at, computing, now)
        uids = {holder.uid for holder in held.holders if holder.uid is not None}
        # The work of an MPS server may be that of any client.
        worker_of = None if any(each.mps for each in device.processes or ()) else pod_of
        gpu.pods_busy_at = _followed(gpu.pods_busy_at, _computing(uids, device.samples, worker_of), now)
        peaks = _follow_peaks(gpu, held, now)

        def idle_s(busy_at: Mapping[str, float], key: str | None) -> int | None:
            at = busy_at.get(key) if key is not None else None
            return None if at is None else bounded(int(now - at), gpunode.MAX_IDLE_S)

        def with_past(where: str, holder: HolderStatus) -> HolderStatus:
            idle = idle_s(gpu.pods_busy_at, holder.uid) if where == _WHOLE else None
            return holder.but(idle_seconds=idle, peak_mib=peaks.get((where, _pod(holder))))

        instances = {where: with_past(where, holder) for where, holder in held.instances.items()}
        return ObservedGpu(
            replace(
                held, holders=tuple(with_past(_WHOLE, each) for each in held.holders), instances=instances
            ),
            {
                **_measured(device.samples, gpu.means),
                "idle_seconds": idle_s(gpu.busy_at, _WHOLE),
                "xids": _counts(gpu.xids),
            },
            {
                each.uuid: {
                    "utilization_percent": each.samples.utilization_percent,
                    "idle_seconds": idle_s(gpu.busy_at, each.uuid),
                }
                for each in device.instances
            },
        )


def _follow_means(gpu: _GpuActivity, samples: Samples, now: float) -> None:
    """Exponential means, by the time between samples; a value that was not read is forgotten."""
    weight = -math.expm1(-max(0.0, now - gpu.sampled_at) / _MEAN_S)
    gpu.sampled_at = now
    sampled = {name: getattr(samples, name) for name in _MEANS}
    gpu.means = {
        name: (before := gpu.means.get(name, value)) + weight * (value - before)
        for name, value in sampled.items()
        if value is not None
    }


def _followed(
    busy_at: Mapping[str, float], computing: Mapping[str, bool | None], now: float
) -> dict[str, float]:
    """When each of these last computed: now for the first time that it is known."""
    return {
        key: now if computes else busy_at.get(key, now)
        for key, computes in computing.items()
        if computes is not None
    }


def _computing(uids: Iterable[str], samples: Samples, pod_of: PodOf | None) -> dict[str, bool | None]:
    """Whether each pod's processes computed. A busy process of an unknown pod may be any pod's, and so may
    work of no known process, which only the utilisation of the GPU shows."""
    if samples.busy_pids is None or samples.computing is None or pod_of is None:
        return dict.fromkeys(uids)
    pods = {pod_of(pid) for pid in samples.busy_pids}
    any_pods = None in pods or (bool(samples.computing) and not pods)
    return {uid: any_pods or uid in pods for uid in uids}


def _pod(holder: HolderStatus) -> str:
    """The pod of a holder: by its UID, or by its name, which no UID contains."""
    return holder.uid or f"{holder.namespace}/{holder.name}"


def _follow_peaks(gpu: _GpuActivity, held: DeviceHolders, now: float) -> Mapping[tuple[str, str], int]:
    """The peaks of all pods that hold something, or did a while ago: between two runs of a container, no
    process shows its pod. A name is forgotten at once, because the next pod may have it."""
    holders = [*((_WHOLE, each) for each in held.holders), *held.instances.items()]
    here = {(where, _pod(holder)): holder.memory_mib for where, holder in holders}
    for key, mib in here.items():
        if mib is not None:
            gpu.peaks_mib[key] = max(gpu.peaks_mib.get(key, 0), mib)
        gpu.held_at[key] = now
    gpu.held_at = {
        key: at
        for key, at in gpu.held_at.items()
        if key in here or ("/" not in key[1] and now - at < _BETWEEN_RUNS_S)
    }
    gpu.peaks_mib = {key: mib for key, mib in gpu.peaks_mib.items() if key in gpu.held_at}
    return gpu.peaks_mib


def _measured(samples: Samples, means: Mapping[str, float]) -> dict[str, Any]:
    """Fields of a DeviceStatus, within the limits of their schema."""
    celsius, reasons = samples.temperature_celsius, samples.throttle_reasons
    rounded = {name: round(value) for name, value in means.items()}
    return {
        "utilization_percent": bounded(rounded.get("utilization_percent"), 100),
        "memory_utilization_percent": bounded(rounded.get("memory_utilization_percent"), 100),
        "power_watts": bounded(rounded.get("power_watts"), gpunode.MAX_WATTS),
        "temperature_celsius": None if celsius is None else max(-50, min(celsius, 250)),
        "sm_clock_mhz": bounded(samples.sm_clock_mhz, gpunode.MAX_MHZ),
        "throttle_reasons": list(reasons) if reasons else None,
    }


def _counts(xids: Mapping[int, int]) -> list[XidCount] | None:
    """The most frequent errors, by number."""
    fitting = [(xid, count) for xid, count in xids.items() if 1 <= xid <= gpunode.MAX_XID]
    kept = sorted(fitting, key=lambda each: -each[1])[: gpunode.MAX_XIDS]
    return [XidCount(xid, min(count, gpunode.MAX_COUNT)) for xid, count in sorted(kept)] or None
