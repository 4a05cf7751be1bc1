"""A simulated cluster that changes step by step and holds the truth, whatever an extender believes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler_ext.core.gpu.gpu import Device, Holder, Memory, Mig, MigInstance, Report
from scheduler_ext.core.gpu.mig_geometry import geometry_for
from scheduler_ext.core.gpu.models import canonical_model
from tests.held import FINISHED, held
from tests.kube_objects import SHARE, Json, pod

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
class Cluster:
    """Pods by name, and the properties of each GPU."""

    pods: dict[str, Json] = field(default_factory=dict)
    gpus: dict[str, Device] = field(default_factory=dict)
    created: int = 0
    version: int = 0

    def __post_init__(self) -> None:
        t4, a100 = canonical_model("Tesla T4"), canonical_model("A100-80GB")
        halves = tuple(MigInstance(f"m0-{start}", "3g.40gb", start, 4) for start in (0, 4))
        for uuids in NODES.values():
            for i, uuid in enumerate(uuids):
                self.gpus[uuid] = Device(uuid, i, "nvidia", "Tesla T4", t4, (7, 5), Memory(GPU_MIB))
        mig = Mig(True, geometry=geometry_for("A100-80GB"), instances=halves)
        self.gpus["m0"] = Device("m0", 0, "nvidia", "A100", a100, (8, 0), Memory(81920), mig=mig)

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
