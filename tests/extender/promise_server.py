"""A cluster in a hundred lines, one step after the other: what is true, whatever an extender believes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler_ext.core.gpu import Device, Holder, Memory, Report
from scheduler_ext.core.intent import Reservation
from scheduler_ext.core.models import canonical_model
from scheduler_ext.core.resources import ResourceNames
from scheduler_ext.extender.bind import (
    Call,
    GetPod,
    GetReservation,
    PodNow,
    PodsOn,
    PostBinding,
    PutReservation,
)
from scheduler_ext.extender.outcome import Done, Outcome, Refused
from scheduler_ext.wire import kube
from scheduler_ext.wire.binding import device_annotations, read_pod
from scheduler_ext.wire.pod import bound_pod, is_finished, pending_pod
from scheduler_ext.wire.reservation import read_reservation, reservation_body
from tests.kube_objects import SHARE, Json, pod

NAMES = ResourceNames()
WHOLE = "nvidia.com/gpu"
GPU_MIB = 1000
NODES = {"a": ("a0", "a1"), "b": ("b0",), "w": ("w0", "w1")}


@dataclass
class Server:
    """The objects: pods by name, intents by node, and what each GPU is like."""

    pods: dict[str, Json] = field(default_factory=dict)
    reservations: dict[str, Reservation] = field(default_factory=dict)
    gpus: dict[str, Device] = field(default_factory=dict)
    created: int = 0
    version: int = 0

    def __post_init__(self) -> None:
        model = canonical_model("Tesla T4")
        for uuids in NODES.values():
            for i, uuid in enumerate(uuids):
                self.gpus[uuid] = Device(uuid, i, "nvidia", "Tesla T4", model, (7, 5), Memory(GPU_MIB))

    def create(self, name: str, asks: Json, priority: int) -> Json:
        """A pod of this name, another one than before."""
        self.created += 1
        made = pod(name, asks, schedulerName="ours", priority=priority)
        made["metadata"]["uid"] = f"{name}-{self.created}"
        return self._write(made)

    def change(self, name: str, **status: Any) -> Json:
        """Somebody writes the pod's status."""
        there = self.pods[name]
        return self._write(there | {"status": there["status"] | status})

    def _write(self, changed: Json) -> Json:
        self.version += 1
        changed["metadata"] = changed["metadata"] | {"resourceVersion": str(self.version)}
        self.pods[changed["metadata"]["name"]] = changed
        return changed

    def report(self, node: str) -> Report:
        """What the node's agent sees now: pods on whole GPUs in the order of their uids."""
        running = sorted(
            now["metadata"]["uid"] for now in self.pods.values() if holds(now, node) and asks_whole(now)
        )
        holders = dict(zip(NODES[node], running, strict=False)) if node == "w" else {}
        return Report(
            tuple(
                replace(self.gpus[uuid], holders=(Holder(uid=holders[uuid]),) if uuid in holders else ())
                for uuid in NODES[node]
            )
        )

    def done(self, call: Call) -> Outcome[Any]:
        """What a call does, and its answer."""
        match call:
            case GetPod(_, name):
                found = self.pods.get(name)
                return Done(now(found) if found is not None else None)
            case PodsOn(node):
                return Done(tuple(held(there) for there in self.pods.values() if holds(there, node)))
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
        self._write(bound | {"metadata": metadata | {"annotations": metadata["annotations"] | told}})
        return Done(None)

    def coming(self, calls: list[Call]) -> Iterator[PostBinding]:
        """Those Bindings among the calls that can succeed still."""
        for call in calls:
            if isinstance(call, PostBinding) and isinstance(replace_all(self)._bind(call), Done):
                yield call

    def used(self) -> dict[str, int]:
        """MiB that are bound, by GPU; of the node with whole GPUs, how many are."""
        used: dict[str, int] = {}
        for there in self.pods.values():
            for node in NODES:
                if holds(there, node):
                    found = held(there)
                    where = found.devices["main"][0] if found.devices else node
                    asked = found.request.shares.total_mib if found.request.shares else 1
                    used[where] = used.get(where, 0) + asked
        return used


def replace_all(server: Server) -> Server:
    """A copy, to try things on."""
    return Server(dict(server.pods), dict(server.reservations), dict(server.gpus), 0, server.version)


def parsed(there: Json) -> kube.Pod:
    """A pod as the wire reads it."""
    return read_pod(json.dumps(there).encode())


def held(there: Json) -> Any:
    """A bound pod as a holder."""
    return bound_pod(parsed(there), NAMES)


def now(there: Json) -> PodNow:
    """A pod as GET gives it."""
    read = parsed(there)
    node = there["spec"]["nodeName"]
    waits = node is None and not is_finished(read)
    return PodNow(
        there["metadata"]["uid"],
        node,
        bound_pod(read, NAMES) if node else None,
        pending_pod(read, NAMES) if waits else None,
    )


def holds(there: Json, node: str) -> bool:
    """Whether a pod is bound to the node and has not finished."""
    return there["spec"]["nodeName"] == node and not is_finished(parsed(there))


def asks_whole(there: Json) -> bool:
    """Whether a pod asks whole GPUs, not shares."""
    return WHOLE in there["spec"]["containers"][0]["resources"]["limits"]


ASKS: tuple[Json, ...] = (
    {SHARE: "300"},
    {SHARE: "500"},
    {SHARE: "600"},
    {SHARE: "1000"},
    {WHOLE: "1"},
)
