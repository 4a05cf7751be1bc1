"""A simulated cluster that changes step by step and holds the truth, whatever an extender believes; its API
server has versions, preconditions, and late writes."""

from __future__ import annotations

import json
from collections import Counter
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
from scheduler_ext.core.gpu.gpu import Device, Holder, Memory, Report
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire import kube
from scheduler_ext.wire.binding import device_annotations, read_pod
from scheduler_ext.wire.pod.cached_pod import bound_pod, pending_pod
from scheduler_ext.wire.pod.pod_identity import is_finished
from scheduler_ext.wire.reservation import read_reservation, reservation_body
from tests.core.asked import t4
from tests.core.reported import device, sliced
from tests.held import FINISHED, held
from tests.kube_objects import SHARE, Json, pod

NAMES = ResourceNames()
WHOLE = "nvidia.com/gpu"
HALF = "nvidia.com/mig-3g.40gb"
GPU_MIB = 1000
NODES = {"a": ("a0", "a1"), "b": ("b0",), "w": ("w0", "w1"), "m": ("m0",)}
OFFERS: dict[str, Json] = {"a": {SHARE: 2 * GPU_MIB}, "b": {SHARE: GPU_MIB}, "w": {WHOLE: 2}, "m": {HALF: 2}}
# The devices that a device plugin hands out, with their nodes.
HANDED_OUT = {WHOLE: "w", HALF: "m"}
# The capacity of each GPU for shares, and of each NODE/RESOURCE.
ROOM = {uuid: GPU_MIB for node in "ab" for uuid in NODES[node]} | {f"w/{WHOLE}": 2, f"m/{HALF}": 2}


def asking(limits: Json, *init: Json) -> Json:
    """The containers of a pod with this request, after init containers or sidecars."""
    main = {"name": "main", "resources": {"limits": limits}}
    return {"containers": [main], "initContainers": list(init)}


def before(name: str, limits: Json, **more: Any) -> Json:
    return {"name": name, "resources": {"limits": limits}} | more


ASKS: tuple[Json, ...] = (
    *(asking({SHARE: mib}) for mib in ("300", "500", "600", "1000")),
    asking({SHARE: "300"}, before("load", {SHARE: "600"})),
    asking(
        {SHARE: "300"},
        before("log", {SHARE: "300"}, restartPolicy="Always"),
        before("load", {SHARE: "500"}),
    ),
    asking({WHOLE: "1"}),
    asking({HALF: "1"}),
    asking({HALF: "1"}, before("load", {HALF: "2"})),
)


@dataclass
class Server:
    """Pods by name, the properties of each GPU, and intents by node; binding calls it."""

    pods: dict[str, Json] = field(default_factory=dict)
    gpus: dict[str, Device] = field(default_factory=dict)
    reservations: dict[str, Reservation] = field(default_factory=dict)
    created: int = 0
    version: int = 0

    def __post_init__(self) -> None:
        for uuids in NODES.values():
            for i, uuid in enumerate(uuids):
                self.gpus[uuid] = t4(i, uuid=uuid, memory=Memory(GPU_MIB))
        self.gpus["m0"] = device(0, uuid="m0", mig=sliced(("3g.40gb", 0), ("3g.40gb", 4)))

    def create(self, name: str, asks: Json, priority: int) -> Json:
        """A new pod with an old name."""
        self.created += 1
        made = pod(name, schedulerName="ours", priority=priority, **asks)
        made["metadata"]["uid"] = f"{name}-{self.created}"
        return self.write(made)

    def change(self, name: str, **status: Any) -> Json:
        there = self.pods[name]
        return self.write(there | {"status": there["status"] | status})

    def write(self, changed: Json) -> Json:
        """Set a pod; it gets a version of its own."""
        self.version += 1
        changed["metadata"] = changed["metadata"] | {"resourceVersion": str(self.version)}
        self.pods[changed["metadata"]["name"]] = changed
        return changed

    def on(self, node: str) -> list[Json]:
        """The pods that are bound to a node and have not finished."""
        bound = [there for there in self.pods.values() if there["spec"]["nodeName"] == node]
        return [there for there in bound if there["status"]["phase"] not in FINISHED]

    def used(self) -> Counter[str]:
        """Held amounts by capacity."""
        used: Counter[str] = Counter()
        for there in self.pods.values():
            mine = held(there)
            assert mine is not None, f"truth: {there['metadata']['uid']} has a share on no GPU"
            used.update(mine)
        return used

    def report(self, node: str) -> Report:
        """The view of the node's agent: devices handed out to pods in the order of their uids."""
        takers = [
            Holder(uid=there["metadata"]["uid"])
            for there in sorted(self.on(node), key=lambda there: str(there["metadata"]["uid"]))
            for resource in OFFERS[node].keys() & HANDED_OUT.keys()
            for _ in range((held(there) or {}).get(f"{node}/{resource}", 0))
        ]
        devices = [self.gpus[uuid] for uuid in NODES[node]]
        if node != "m":
            given = [(taker,) for taker in takers] + [()] * len(devices)
            devices = [replace(device, holders=who) for device, who in zip(devices, given, strict=False)]
            return Report(tuple(devices))
        (device,) = devices
        instances = tuple(
            replace(instance, holder=next(iter(takers[i : i + 1]), None))
            for i, instance in enumerate(device.mig.instances)
        )
        return Report((replace(device, mig=replace(device.mig, instances=instances)),), mig_strategy="mixed")

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
