"""When something happened by our monotonic clock, from the times that the API server wrote."""

import math
from dataclasses import replace

from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.cluster.inventory.pod_state import PodState
from scheduler_ext.core.cache.held_rooms import HeldRoom
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.wire import kube
from scheduler_ext.wire.gpunode import GpuNodeMeta
from scheduler_ext.wire.held_annotation import WrittenRoom
from scheduler_ext.wire.planned_annotation import LONGEST_PLAN_S
from scheduler_ext.wire.times import seconds


def received_at(
    metadata: GpuNodeMeta, clock: ServerClock, now: float, otherwise: float | None = None
) -> float:
    """When the API server took the last status, by our monotonic clock: neither the agent's clock nor the
    moment of reading counts. `otherwise` (`now`) where no entry of managedFields has the time."""
    stamps = [seconds(entry.time) for entry in metadata.managed_fields or () if entry.subresource == "status"]
    stamp = max((stamp for stamp in stamps if stamp is not None), default=None)
    if stamp is None:
        return now if otherwise is None else otherwise
    return _as_of(now, clock).monotonic(stamp)


def created_at(node: kube.NodeObject, clock: ServerClock, now: float) -> float:
    """When a Node was created, by our monotonic clock: an extender that starts later gives its agent no more
    time. `now` without that time."""
    created = seconds(node.metadata.creation_timestamp if node.metadata is not None else None)
    return now if created is None else _as_of(now, clock).monotonic(created)


def _as_of(now: float, clock: ServerClock) -> ServerClock:
    """The server's clock as it is now: a stream has its time only once, at its start."""
    return ServerClock(clock.server_time + (now - clock.received_at), now, clock.not_before)


def planned_until(state: PodState, clock: ServerClock | None, now: float) -> float | None:
    """Until when the nomination of a planner keeps a pod's place, by our monotonic clock; None for any other
    pod, and when that time is over."""
    if clock is None or not isinstance(state, PendingPod) or state.planned is None:
        return None
    left_s = min(state.planned.until - _as_of(now, clock).server_time, LONGEST_PLAN_S)
    return now + left_s if left_s > 0 else None


def held_room(written: WrittenRoom, clock: ServerClock, now: float) -> HeldRoom:
    """A held room with its end by our monotonic clock, from the server's."""
    left_s = written.until - _as_of(now, clock).server_time
    return HeldRoom(written.name, now + left_s, written.priority, written.request(), written.by_container)


def report_time(
    report: Report,
    previous: Report | None,
    received: float,
    metadata: GpuNodeMeta,
    clock: ServerClock,
    now: float,
) -> float:
    """`received_at` for a report that may have been `received` before: a label or an annotation that
    changed since does not make it younger, nor does a clock that was set."""
    if previous is None:
        return received_at(metadata, clock, now)
    numbered = report.sequence is not None
    if numbered and (report.boot_id, report.sequence) == (previous.boot_id, previous.sequence):
        return received
    if numbered or report.devices != previous.devices:
        return received_at(metadata, clock, now)
    # Without a number, only a stamp shows that it was written again.
    return received_at(metadata, replace(clock, not_before=-math.inf), now, received)
