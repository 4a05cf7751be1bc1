"""Writes nominations, on several connections: each write takes the API server some milliseconds. It is a
server-side apply without force, so that the API server refuses it (409) where kube-scheduler has nominated
the pod itself, to preempt others."""

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import Condition

from scheduler_ext.background import OnDemand
from scheduler_ext.cluster.api_paths import pod_path
from scheduler_ext.cluster.client.transport import APPLY, RefusedError, Transport, is_transient
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.node.node import PlannedNode
from scheduler_ext.features.gangs.live.gang_calls import PodReference
from scheduler_ext.features.gangs.planning.gang_failures import Remembered
from scheduler_ext.features.gangs.planning.outcomes import Outcome
from scheduler_ext.features.gangs.wire.nomination import FIELD_MANAGER, nomination

log = logging.getLogger(__name__)

_CONNECTIONS = 8
_CALL_S = 5.0
# Of the answer only this is wanted: the whole pod takes the longer to write and to read.
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_QUERY = {"fieldManager": FIELD_MANAGER}


@dataclass(frozen=True, slots=True)
class Write:
    """A nomination of a pod, or its withdrawal (`place` None). `notes` are the other annotations of the
    planner that the pod has then, `deadline` is that of its gang, and `remembered` what is known of the
    gang."""

    pod: PodReference
    place: PlannedNode | None
    notes: Mapping[str, str] = field(default_factory=dict)
    deadline: float | None = None
    remembered: Remembered | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A nomination that was not written, and why. A `lasting` failure is one that the next write would meet,
    too. The pod of one that `may_be_bound` needs no nomination then, as the watch will show."""

    uid: str
    place: PlannedNode | None
    outcome: Outcome
    why: str
    lasting: bool
    may_be_bound: bool


class NominationWriter(OnDemand):
    """The latest write of each pod, in their order. Safe to use from several threads."""

    def __init__(self, transport: Transport) -> None:
        super().__init__("nominations", _CONNECTIONS)
        self._transport = transport
        self._waiting: OrderedDict[str, Write] = OrderedDict()
        # The pods that are being written: a second write must not overtake the first.
        self._in_flight: set[str] = set()
        self._has_work = Condition()
        self._failed: list[Failed] = []
        self._problem: str | None = None

    def put(self, writes: Sequence[Write]) -> None:
        """Write these soon."""
        with self._has_work:
            for write in writes:
                self._waiting[write.pod.uid] = write
            self._has_work.notify(len(writes))
        if writes:
            self.need()

    def drop(self, uid: str) -> None:
        """The pod has no place any more, so its nomination is not written."""
        with self._has_work:
            write = self._waiting.get(uid)
            if write is not None and write.place is not None:
                del self._waiting[uid]

    def clear(self) -> None:
        """Write nothing more of what waits."""
        with self._has_work:
            self._waiting.clear()

    def take_failed(self) -> list[Failed]:
        """The writes that failed since the last call."""
        with self._has_work:
            failed, self._failed = self._failed, []
        return failed

    def stop(self, wait_s: float = 0.0) -> None:
        with self._has_work:
            self.stopped.set()
            self._has_work.notify_all()
        super().stop(wait_s)

    def run(self) -> None:
        while not self.stopped.is_set():
            with self._has_work:
                write = self._next()
                if write is None:
                    self._has_work.wait()
                    continue
                self._in_flight.add(write.pod.uid)
            try:
                self._write(write)
            finally:
                with self._has_work:
                    self._in_flight.remove(write.pod.uid)
                    self._has_work.notify()

    def _next(self) -> Write | None:
        """The next write of a pod that is not being written."""
        uid = next((uid for uid in self._waiting if uid not in self._in_flight), None)
        return None if uid is None else self._waiting.pop(uid)

    def _write(self, write: Write) -> None:
        pod = write.pod
        about = write.place, write.notes, write.deadline, write.remembered
        body = nomination(pod.namespace, pod.name, pod.uid, *about)
        path = f"{pod_path(pod.namespace, pod.name)}/status"
        try:
            self._transport.send("PATCH", path, body, APPLY, _QUERY, _CALL_S, _METADATA)
        except ClusterError as error:
            self._note(write, error)
        else:
            self._problem = None

    def _note(self, write: Write, error: ClusterError) -> None:
        status = error.status if isinstance(error, RefusedError) else None
        # With this status the API server refuses nominations of bound pods; policies may use it, too.
        may_be_bound = status == HTTPStatus.UNPROCESSABLE_ENTITY
        outcome = Outcome.FAILED
        if status in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
            outcome = Outcome.CONFLICT
        elif self._problem is None and not may_be_bound:
            log.warning("nominations are not written%s: %s", _hint(error), error)
            self._problem = str(error)
        lasting = outcome is Outcome.CONFLICT or not is_transient(error)
        failed = Failed(write.pod.uid, write.place, outcome, str(error), lasting, may_be_bound)
        with self._has_work:
            self._failed.append(failed)


def _hint(error: ClusterError) -> str:
    if is_transient(error):
        return ", trying again"
    forbidden = isinstance(error, RefusedError) and error.status == HTTPStatus.FORBIDDEN
    return ", apply manifests/base/nominations.yaml or set nominate.enabled: false" if forbidden else ""
