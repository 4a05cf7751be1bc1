"""What each container with GPUs was seen to use, of a cluster at one moment. A peak is that of a pod on one
GPU: the agent adds up the processes of a pod, and does not say which container they are of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from scheduler_ext.core.gpu.gpu import Device, Holder
from scheduler_ext.core.gpu.readings import Readings
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.request import InvalidRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.features.idle.recommend.gpu_memory_failures import gpu_memory_failures
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.wire import kube
from scheduler_ext.wire.controllers import Controller, top_controller
from scheduler_ext.wire.pod.cached_pod import bound_pod
from scheduler_ext.wire.pod.pod_request import pod_request
from scheduler_ext.wire.times import seconds

UNSEEN = "no agent has seen how much memory it uses"
SEVERAL_ASKS = "it asks several kinds of GPU resources"
TOGETHER = "containers of the pod may use one GPU, and a peak is that of the whole pod"


@dataclass(frozen=True, slots=True)
class ObservedContainer:
    """One container of one pod on a node. `peak_mib` is the most that it used on one GPU or MIG instance;
    None for the reason in `problem`. `age_s` is the time since the pod started, `busy_percent` how much its
    GPUs computed in about the last minute; None if unknown. A finished pod only has its `failures`:
    terminations for lack of GPU memory. `min_compute_capability` is the pod's own constraint."""

    workload: Controller
    container: str
    asks: tuple[tuple[str, int], ...]
    info: NodeInfo
    device: Device | None
    age_s: float | None
    failures: int
    finished: bool
    peak_mib: int | None = None
    problem: str | None = UNSEEN
    busy_percent: float | None = None
    min_compute_capability: tuple[int, int] = (0, 0)


def observed(state: ClusterState, resources: ResourceNames, now: float) -> Iterator[ObservedContainer]:
    """Every container with GPUs of pods on nodes; `now` is the moment of the state, seconds of wall time.
    Pods with amounts that cannot be read are left out."""
    for pod in state.objects.pods:
        info = state.infos.get((pod.spec.node_name if pod.spec is not None else None) or "")
        if info is None:
            continue
        try:
            bound, request = bound_pod(pod, resources), pod_request(pod, resources)
        except QuantityError:
            continue
        metadata = pod.metadata or kube.ObjectMeta()
        itself = Controller(metadata.namespace or "default", "Pod", metadata.name or "")
        workload = top_controller(metadata, state.objects.controllers) or itself
        readings = state.readings.get(info.name, ())
        lowest = None if isinstance(request, InvalidRequest) else request.min_compute_capability
        yield from _of_pod(pod, bound, info, readings, workload, now, lowest or (0, 0))


def _of_pod(
    pod: kube.Pod,
    bound: BoundPod,
    info: NodeInfo,
    readings: Sequence[Readings],
    workload: Controller,
    now: float,
    lowest: tuple[int, int],
) -> Iterator[ObservedContainer]:
    asks: dict[str, list[tuple[str, int]]] = {}
    for name, resource, amount in bound.request.by_container:
        asks.setdefault(name, []).append((resource, amount))
    devices = {name: _devices(bound, name, info) for name in asks}
    peaks = _peaks(bound, readings)
    failed = [name for name, _ in gpu_memory_failures(pod)]
    started = bound.started_at or seconds(pod.metadata.creation_timestamp if pod.metadata else None)
    for name in asks:
        own, problem = _own(name, devices, peaks)
        places = own or devices[name]
        yield ObservedContainer(
            workload=workload,
            container=name,
            asks=tuple(asks[name]),
            info=info,
            device=_device(places, info),
            age_s=max(0.0, now - started) if started is not None else None,
            failures=failed.count(name),
            finished=bound.finished,
            peak_mib=max(own.values()) if own and problem is None else None,
            problem=problem if own or problem else UNSEEN,
            busy_percent=_busy_percent(places, readings),
            min_compute_capability=lowest,
        )


def _devices(pod: BoundPod, container: str, info: NodeInfo) -> set[str]:
    """The GPUs and MIG instances that a container was given, or was seen on."""

    def is_its(holder: Holder | None) -> bool:
        return holder is not None and holder.container == container and pod.is_holder(holder)

    found = set(pod.devices.get(container, ()))
    for device in info.devices:
        if any(map(is_its, device.holders)):
            found.add(device.uuid)
        found.update(each.uuid for each in device.mig.instances if is_its(each.holder))
    return found


def _peaks(pod: BoundPod, readings: Sequence[Readings]) -> dict[str, int]:
    """The peak of the pod's processes on each GPU and MIG instance."""
    peaks: dict[str, int] = {}
    for did in readings:
        for each in did.holders:
            if each.peak_mib is not None and pod.is_holder(each.holder):
                where = each.instance or did.uuid
                peaks[where] = max(peaks.get(where, 0), each.peak_mib)
    return peaks


def _own(
    container: str, devices: Mapping[str, set[str]], peaks: Mapping[str, int]
) -> tuple[dict[str, int], str | None]:
    """The peaks that are the container's alone, or why they cannot be told apart."""
    if len(devices) == 1:
        return dict(peaks), None
    mine = devices[container]
    others = [places for name, places in devices.items() if name != container]
    if not mine or not all(others) or any(mine & places for places in others):
        return {}, TOGETHER
    return {where: peak for where, peak in peaks.items() if where in mine}, None


def _device(places: Mapping[str, int] | set[str], info: NodeInfo) -> Device | None:
    """The GPU of the first place; one of the node's where no place is known."""
    for device in info.devices:
        if device.uuid in places or any(each.uuid in places for each in device.mig.instances):
            return device
    return next(iter(info.devices), None)


def _busy_percent(places: Mapping[str, int] | set[str], readings: Sequence[Readings]) -> float | None:
    values = []
    for did in readings:
        if did.uuid in places:
            values.append(did.utilization_percent)
        values += [each.utilization_percent for each in did.instances if each.uuid in places]
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
