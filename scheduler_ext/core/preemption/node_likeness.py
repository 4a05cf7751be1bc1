"""Which nodes are alike to a pod that looks for victims, names aside: one answer serves all of them."""

from collections.abc import Callable, Hashable, Mapping, Sequence

from scheduler_ext.core.gpu.gpu import Device, Holder
from scheduler_ext.core.node.node import BoundPod, NodeInfo, version_number
from scheduler_ext.core.request.request import GpuRequest


def likeness(
    info: NodeInfo,
    pods: Sequence[BoundPod],
    counted: Sequence[tuple[int, ...]],
    named: Sequence[str],
    request: GpuRequest,
) -> Hashable | None:
    """The values that distinguish a node; None if comparing them costs more than it saves. `pods` are those
    of the node, the most important first, and stand for each other by their place; `counted` are their
    budgets. Ages matter as an order, and use only to a request for memory."""
    by_uid = {pod.uid: i for i, pod in enumerate(pods)}
    by_name = {(pod.namespace, pod.name): i for i, pod in enumerate(pods)}
    if info.dra is not None or not len(by_uid) == len(by_name) == len(pods):
        return None
    measured = request.shares is not None or request.min_free_mib > 0

    def seen(holder: Holder | None) -> tuple[Hashable, ...]:
        if holder is None:
            return ()
        known = (
            by_uid.get(holder.uid, -1)
            if holder.uid is not None
            else by_name.get((holder.namespace or "", holder.name or ""), -1)
        )
        mib = -1 if holder.memory_mib is None else holder.memory_mib
        return known, holder.container or "", mib if measured else min(mib, 1)

    report = info.report
    looks = {device.uuid: _device(device, seen, measured) for device in info.devices}
    # The order of equal nodes only matters to pods that were already given one of them.
    order = {uuid: i for i, uuid in enumerate(sorted(looks, key=lambda uuid: repr(looks[uuid])))}
    starts = {start: i for i, start in enumerate(dict.fromkeys(pod.started_at for pod in pods))}
    return (
        (
            info.freshness,
            info.changing,
            info.share_node,
            info.estimate,
            info.one_replica,
            _items(info.allocatable),
        ),
        report
        and (
            report.mig_strategy,
            report.sharing_strategy,
            report.replicas,
            report.own_replicas,
            report.cuda_version,
        ),
        tuple(looks[uuid] for uuid in order),
        tuple(
            (*_pod(pod, order), pod.uid in info.assumed, starts[pod.started_at], places)
            for pod, places in zip(pods, counted, strict=True)
        ),
        tuple(by_uid.get(uid, -1) for uid in named),
    )


def _items(amounts: Mapping[str, Hashable] | None) -> Hashable:
    return None if amounts is None else frozenset(amounts.items())


def _device(
    device: Device, seen: Callable[[Holder | None], tuple[Hashable, ...]], measured: bool
) -> tuple[Hashable, ...]:
    memory = device.memory
    return (
        device.vendor,
        device.model.name,
        version_number(device.compute_capability),
        (memory.total_mib, memory.reserved_mib, memory.used_mib, memory.unaccounted_mib, memory.stated)
        if measured
        else memory.total_mib,
        device.healthy,
        device.cordoned,
        device.mig.enabled,
        tuple(
            (each.profile, each.offered, each.size, device.instance_memory_mib(each), seen(each.holder))
            for each in device.mig.instances
        ),
        tuple(seen(holder) for holder in device.holders),
    )


def _pod(pod: BoundPod, order: Mapping[str, int]) -> tuple[Hashable, ...]:
    return (
        pod.priority,
        pod.request,
        pod.request.by_container,
        frozenset(
            (name, tuple(order.get(uuid, -1) for uuid in uuids)) for name, uuids in pod.devices.items()
        ),
        (pod.finished, pod.departed, pod.terminating),
        _items(pod.other_requests),
    )
