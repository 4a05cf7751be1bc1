"""One node's GPUNode, created as a dependent of its Node, and its status, written when it is due."""

import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import starmap
from typing import NamedTuple

from scheduler_ext.agent.gpu_health import REPAIRED_ANNOTATION
from scheduler_ext.cluster.api_paths import GPU_NODES
from scheduler_ext.cluster.client.retry import Backoff
from scheduler_ext.cluster.client.transport import APPLY, RefusedError, Transport
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.wire import gpunode
from scheduler_ext.wire.kube import ObjectMeta, read_node, strings
from scheduler_ext.wire.times import time_text

log = logging.getLogger(__name__)

# The same in all releases: a field that an agent no longer applies disappears only if its owner is the same.
FIELD_MANAGER = "scheduler-ext-agent"
_OURS = {"fieldManager": FIELD_MANAGER, "force": "true"}
# A few seconds old, from the API server's memory instead of its store, because thousands of agents ask.
_FROM_CACHE = {"resourceVersion": "0"}
# How long a read of the Node stays valid.
_NODE_S = 45.0
_NOT_FOUND, _INVALID = 404, 422

# Memory that moved by more than the larger of these is worth a report, but not more often than this.
NEWS_MIB, NEWS_PERCENT, NEWS_EVERY_S = 256, 2, 10.0
REFRESH_S, REFRESH_SPREAD = 60.0, 0.2
# Even urgent reports are not written more often.
LEAST_S = 1.0


@dataclass(slots=True)
class Schedule:
    """The last written status, and when the present one is due. Time is an argument, in seconds."""

    chance: Callable[[], float] = random.random
    _written: gpunode.WrittenStatus | None = None
    _written_at: float = 0.0
    _refresh_s: float = REFRESH_S

    def due(self, status: gpunode.WrittenStatus, now: float) -> bool:
        """Whether this status is due now."""
        if self._written is None:
            return True
        age_s = now - self._written_at
        pairs = zip(self._written.devices or (), status.devices or (), strict=False)
        return (
            age_s >= self._refresh_s
            or (age_s >= LEAST_S and _outline(status) != _outline(self._written))
            or (age_s >= NEWS_EVERY_S and any(starmap(_is_news, pairs)))
        )

    def written(self, status: gpunode.WrittenStatus, now: float) -> None:
        """Record that the status was written."""
        self._written, self._written_at = status, now
        self._refresh_s = REFRESH_S * (1 + REFRESH_SPREAD * (2 * self.chance() - 1))

    def forget(self) -> None:
        """Forget the written status, which was lost: the next one is due."""
        self._written = None


class OwnNode(NamedTuple):
    """The Node that a report is about."""

    uid: str
    labels: Mapping[str, str]


class Reporter:
    """Writes one node's reports when they are due, and retries failures with growing delays."""

    # The annotation of the GPUNode at the last write.
    repaired: str | None = None

    def __init__(
        self,
        transport: Transport,
        node: str,
        boot_id: str,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._transport = transport
        self._name = node
        self._boot_id = boot_id
        self._clock = clock
        self._wall_clock = wall_clock
        self._schedule = Schedule()
        self._backoff = Backoff()
        self._not_before = 0.0
        self._node: OwnNode | None = None
        self._node_read_at = 0.0
        # The uid of the Node that the GPUNode was created for.
        self._created_for: str | None = None
        self._sequence = 0
        self._problem: str | None = None

    def node(self) -> OwnNode | None:
        """The Node as last read, at most a short time ago; None while it is unknown."""
        now = self._clock()
        if now >= self._not_before and (self._node is None or now - self._node_read_at >= _NODE_S):
            with self._attempt():
                self._read_node()
        return self._node

    def begin(self, remember: Callable[[gpunode.GpuNodeStatus], None]) -> bool:
        """Create or read the GPUNode, and pass on its status of this boot; True when that is done."""
        if self._node is not None and self._clock() >= self._not_before:
            with self._attempt():
                written = self._create(self._node.uid)
                if written is not None:
                    remember(written)
                return True
        return False

    def offer(self, status: gpunode.WrittenStatus) -> bool:
        """Write this status if it is due; True if it was written."""
        now = self._clock()
        if now >= self._not_before and self._schedule.due(status, now):
            with self._attempt():
                self._write(status)
                self._schedule.written(status, now)
                self._backoff.reset()
                if self._problem is not None:
                    log.info("%s: reports are written again", self._name)
                    self._problem = None
                return True
        return False

    def look(self, remember: Callable[[gpunode.GpuNodeStatus], None]) -> OwnNode:
        """The Node, after passing on the status of this boot; writes nothing. Raises ClusterError."""
        node = self._read_node()
        try:
            written = self._of_this_boot(self._transport.get(f"{GPU_NODES}/{self._name}").body)
        except RefusedError as error:
            if error.status != _NOT_FOUND:
                raise
        else:
            if written is not None:
                remember(written)
        return node

    def numbered(self, status: gpunode.WrittenStatus) -> gpunode.WrittenStatus:
        """The status as it would be written next."""
        return status.but(
            reported_at=time_text(self._wall_clock()), sequence=self._sequence + 1, boot_id=self._boot_id
        )

    def _write(self, status: gpunode.WrittenStatus) -> None:
        node = self._node or self._read_node()
        if self._created_for != node.uid:
            self._create(node.uid)
        body = gpunode.status_body(self._name, self.numbered(status))
        try:
            reply = self._transport.send("PATCH", f"{GPU_NODES}/{self._name}/status", body, APPLY, _OURS)
        except RefusedError as error:
            if error.status == _NOT_FOUND:
                # The GPUNode was deleted, or its Node was deleted and created again.
                self._created_for, self._node = None, None
            if error.status == _INVALID:
                # Another agent of this node may have written a higher number meanwhile: read it.
                self._created_for = None
            raise
        self._sequence += 1
        self.repaired = gpunode.read_annotations(reply.body).get(REPAIRED_ANNOTATION)

    def _read_node(self) -> OwnNode:
        reply = self._transport.get(f"/api/v1/nodes/{self._name}", _FROM_CACHE)
        metadata = read_node(reply.body).metadata or ObjectMeta()
        self._node = node = OwnNode(metadata.uid or "", strings(metadata.labels))
        self._node_read_at = self._clock()
        if self._created_for not in (None, node.uid):
            log.info("%s: the Node is another one of the same name", self._name)
            self._schedule.forget()
        return node

    def _create(self, uid: str) -> gpunode.GpuNodeStatus | None:
        """Take over a GPUNode that was read or created; returns its status if it is from this boot."""
        path, body = f"{GPU_NODES}/{self._name}", gpunode.object_body(self._name, uid)
        written = self._of_this_boot(self._transport.send("PATCH", path, body, APPLY, _OURS).body)
        self._created_for = uid
        return written

    def _of_this_boot(self, body: bytes) -> gpunode.GpuNodeStatus | None:
        self.repaired = gpunode.read_annotations(body).get(REPAIRED_ANNOTATION)
        # An unreadable report must not keep this agent from replacing it.
        written, problem = gpunode.read_last_status(body)
        if problem is not None:
            log.warning("%s: the last report is ignored, with its errors of GPUs: %s", self._name, problem)
        if written is not None and written.boot_id != self._boot_id:
            written = None
        # The last sequence number written during this boot.
        self._sequence = (written.sequence or 0) if written is not None else 0
        return written

    @contextmanager
    def _attempt(self) -> Iterator[None]:
        """After a failure, nothing is requested for a while."""
        try:
            yield
        except ClusterError as error:
            retry_after_s = error.retry_after_s if isinstance(error, RefusedError) else None
            self._not_before = self._clock() + self._backoff.wait_s(retry_after_s)
            if str(error) != self._problem:
                log.warning("%s: report not written, trying again: %s", self._name, error)
                self._problem = str(error)


def _outline(status: gpunode.WrittenStatus) -> gpunode.WrittenStatus:
    """The part that affects decisions, without measurements, holders and texts for people."""
    devices = [_device_outline(device) for device in status.devices or ()]
    return status.but(devices=devices, summary=None, reported_at=None, sequence=None)


def _device_outline(device: gpunode.DeviceStatus) -> gpunode.DeviceStatus:
    mig = device.mig
    if mig is not None and mig.instances:
        mig = mig.but(
            instances=[
                each.but(holder=None, utilization_percent=None, idle_seconds=None) for each in mig.instances
            ]
        )
    memory = gpunode.MemoryStatus(device.memory.total_mib)
    health = device.health.but(last_error_at=None) if device.health is not None else None
    return device.but(memory=memory, health=health, holders=None, mig=mig, **gpunode.NOT_MEASURED)


def _is_news(before: gpunode.DeviceStatus, after: gpunode.DeviceStatus) -> bool:
    """Whether memory of a device moved by much, or a holder came or went."""
    enough_mib = max(NEWS_MIB, after.memory.total_mib * NEWS_PERCENT / 100)
    return _holders(before) != _holders(after) or any(
        (old is None) != (new is None) or abs((old or 0) - (new or 0)) > enough_mib
        for old, new in zip(_amounts(before), _amounts(after), strict=False)
    )


def _holders(device: gpunode.DeviceStatus) -> list[tuple[str, gpunode.HolderStatus]]:
    """All holders and the instance that each is on, without the memory they use."""
    instances = (device.mig.instances if device.mig is not None else None) or []
    held = [("", holder) for holder in device.holders or ()]
    held += [(instance.uuid, instance.holder) for instance in instances if instance.holder is not None]
    return [(where, holder.unmeasured()) for where, holder in held]


def _amounts(device: gpunode.DeviceStatus) -> list[int | None]:
    memory = device.memory
    held = [holder.memory_mib for holder in device.holders or ()]
    return [memory.used_mib, memory.reserved_mib, memory.unaccounted_mib, *held]
