"""Writing one node's GPUNode: created as a dependent of its Node, then its status, by server-side apply."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scheduler_ext.agent.changes import Schedule
from scheduler_ext.agent.repairs import REPAIRED_ANNOTATION
from scheduler_ext.cluster.client.retry import Backoff
from scheduler_ext.cluster.client.transport import APPLY, RefusedError, Transport
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.wire.gpunode import (
    GpuNodeStatus,
    WrittenStatus,
    object_body,
    read_annotations,
    read_gpu_node,
    status_body,
)
from scheduler_ext.wire.kube import ObjectMeta, read_node, strings
from scheduler_ext.wire.times import time_text

log = logging.getLogger(__name__)

FIELD_MANAGER = "scheduler-ext-agent"
_GPU_NODES = "/apis/gpu.scheduler-ext.io/v1alpha1/gpunodes"
_OURS = {"fieldManager": FIELD_MANAGER, "force": "true"}
# A few seconds old, from the API server's memory instead of its store, because thousands of agents ask.
_FROM_CACHE = {"resourceVersion": "0"}
# How long a read of the Node stays valid.
_NODE_S = 45.0
_NOT_FOUND, _INVALID = 404, 422


@dataclass(frozen=True, slots=True)
class OwnNode:
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
            try:
                self._read_node()
            except ClusterError as error:
                self._failed(error)
        return self._node

    def begin(self, remember: Callable[[GpuNodeStatus], None]) -> bool:
        """Create or read the GPUNode, and pass on what an earlier agent wrote during this boot; True when
        that is done.
        """
        if self._node is None or self._clock() < self._not_before:
            return False
        try:
            written = self._create(self._node.uid)
        except ClusterError as error:
            self._failed(error)
            return False
        if written is not None:
            remember(written)
        return True

    def offer(self, status: WrittenStatus) -> bool:
        """Write this status if it is due; True if it was written."""
        now = self._clock()
        if now < self._not_before or not self._schedule.due(status, now):
            return False
        try:
            self._write(status)
        except ClusterError as error:
            self._failed(error)
            return False
        self._schedule.written(status, now)
        self._backoff.reset()
        if self._problem is not None:
            log.info("%s: reports are written again", self._name)
            self._problem = None
        return True

    def look(self, remember: Callable[[GpuNodeStatus], None]) -> OwnNode:
        """The Node, after passing on what an earlier agent wrote during this boot; writes nothing. Raises
        ClusterError.
        """
        node = self._read_node()
        try:
            body = self._transport.get(f"{_GPU_NODES}/{self._name}").body
        except RefusedError as error:
            if error.status != _NOT_FOUND:
                raise
        else:
            written = self._of_this_boot(body)
            if written is not None:
                remember(written)
        return node

    def numbered(self, status: WrittenStatus) -> WrittenStatus:
        """The status as it would be written next."""
        return status.but(
            reported_at=time_text(self._wall_clock()), sequence=self._sequence + 1, boot_id=self._boot_id
        )

    def _write(self, status: WrittenStatus) -> None:
        node = self._node or self._read_node()
        if self._created_for != node.uid:
            self._create(node.uid)
        path = f"{_GPU_NODES}/{self._name}/status"
        try:
            reply = self._transport.send(
                "PATCH", path, status_body(self._name, self.numbered(status)), APPLY, _OURS
            )
        except RefusedError as error:
            if error.status == _NOT_FOUND:
                # The GPUNode was deleted, or its Node was deleted and created again.
                self._created_for, self._node = None, None
            if error.status == _INVALID:
                # Another agent of this node may have written a higher number meanwhile: read it.
                self._created_for = None
            raise
        self._sequence += 1
        self.repaired = read_annotations(reply.body).get(REPAIRED_ANNOTATION)

    def _read_node(self) -> OwnNode:
        reply = self._transport.get(f"/api/v1/nodes/{self._name}", _FROM_CACHE)
        metadata = read_node(reply.body).metadata or ObjectMeta()
        self._node = node = OwnNode(metadata.uid or "", strings(metadata.labels))
        self._node_read_at = self._clock()
        if self._created_for not in (None, node.uid):
            log.info("%s: the Node is another one of the same name", self._name)
            self._schedule.forget()
        return node

    def _create(self, uid: str) -> GpuNodeStatus | None:
        """Take over a GPUNode that was read or created; returns its status if it is from this boot."""
        body = object_body(self._name, uid)
        path = f"{_GPU_NODES}/{self._name}"
        written = self._of_this_boot(self._transport.send("PATCH", path, body, APPLY, _OURS).body)
        self._created_for = uid
        return written

    def _of_this_boot(self, body: bytes) -> GpuNodeStatus | None:
        """The status of a GPUNode if it is from this boot."""
        self.repaired = read_annotations(body).get(REPAIRED_ANNOTATION)
        written = read_gpu_node(body).status
        if written is not None and written.boot_id != self._boot_id:
            written = None
        # The last sequence number written during this boot.
        self._sequence = (written.sequence or 0) if written is not None else 0
        return written

    def _failed(self, error: ClusterError) -> None:
        retry_after_s = error.retry_after_s if isinstance(error, RefusedError) else None
        self._not_before = self._clock() + self._backoff.wait_s(retry_after_s)
        if str(error) != self._problem:
            log.warning("%s: report not written, trying again: %s", self._name, error)
            self._problem = str(error)
