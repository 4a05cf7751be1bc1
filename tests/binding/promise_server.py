"""The API server of that cluster as binding calls it: versions, preconditions, and late writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler_ext.binding.bind import (
    Call,
    GetPod,
    GetReservation,
    PodNow,
    PodsOn,
    PostBinding,
    PutReservation,
)
from scheduler_ext.binding.outcome import Done, Outcome, Refused
from scheduler_ext.core.cache.intent import Reservation
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire import kube
from scheduler_ext.wire.binding import device_annotations, read_pod
from scheduler_ext.wire.pod.cached_pod import bound_pod, pending_pod
from scheduler_ext.wire.pod.pod_identity import is_finished
from scheduler_ext.wire.reservation import read_reservation, reservation_body
from tests.binding.promise_cluster import Cluster
from tests.kube_objects import Json

NAMES = ResourceNames()


@dataclass
class Server(Cluster):
    """The cluster, with intents by node."""

    reservations: dict[str, Reservation] = field(default_factory=dict)

    def done(self, call: Call) -> Outcome[Any]:
        """The effect of a call, and its answer."""
        match call:
            case GetPod(_, name):
                found = self.pods.get(name)
                return Done(now(found) if found is not None else None)
            case PodsOn(node):
                return Done(tuple(map(holder, self.on(node))))
            case GetReservation(node):
                return Done(self.reservations.get(node))
            case PutReservation(wanted):
                return self._put(wanted)
            case PostBinding():
                return self._bind(call)
        raise AssertionError(call)

    def _put(self, wanted: Reservation) -> Outcome[Reservation]:
        before = self.reservations.get(wanted.node)
        if wanted.resource_version != (before.resource_version if before is not None else None):
            return Refused(404 if before is None else 409, "")
        self.version += 1
        written = reservation_body(replace(wanted, resource_version=str(self.version)))
        after = self.reservations[wanted.node] = read_reservation(json.dumps(written).encode())
        return Done(after)

    def _bind(self, call: PostBinding) -> Outcome[None]:
        pending, node = call.reserved.pending, call.reserved.node
        there = self.pods.get(pending.pod.name)
        if there is None:
            return Refused(404, "")
        metadata = there["metadata"]
        same = (metadata["uid"], metadata["resourceVersion"]) == (pending.pod.uid, pending.resource_version)
        if not same or there["spec"]["nodeName"] or metadata.get("deletionTimestamp"):
            return Refused(409, "")
        told = device_annotations(node, pending.pod.request, call.reserved.devices, NAMES)
        bound = there | {"spec": there["spec"] | {"nodeName": node}}
        self.write(bound | {"metadata": metadata | {"annotations": metadata["annotations"] | told}})
        return Done(None)

    def coming(self, calls: list[Call]) -> Iterator[PostBinding]:
        """The Bindings among the calls that can still succeed."""
        for call in calls:
            if isinstance(call, PostBinding) and isinstance(self._copy()._bind(call), Done):
                yield call

    def _copy(self) -> Server:
        other = copy(self)
        other.pods = dict(self.pods)
        return other


def holder(there: Json) -> BoundPod:
    """A bound pod as the wire decodes it."""
    return bound_pod(_read(there), NAMES)


def now(there: Json) -> PodNow:
    """A pod as GET returns it."""
    read = _read(there)
    node = there["spec"]["nodeName"]
    waits = node is None and not is_finished(read)
    return PodNow(
        there["metadata"]["uid"],
        node,
        bound_pod(read, NAMES) if node else None,
        pending_pod(read, NAMES) if waits else None,
    )


def _read(there: Json) -> kube.Pod:
    return read_pod(json.dumps(there).encode())
