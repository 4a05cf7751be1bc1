"""One node: the report or estimate of its GPUs, its pods' holdings, and the state that follows. `NodeState`
only has the values that decisions depend on, so that equal nodes are decided once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from scheduler_ext.core.dra.device import NodeDevices
from scheduler_ext.core.dra.published import Claim
from scheduler_ext.core.gpu.gpu import Device, Holder, Report
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX
from scheduler_ext.core.gpu.models import GpuModel
from scheduler_ext.core.gpu.value_table import part_of_gpu, value_of
from scheduler_ext.core.node.estimate import Estimate
from scheduler_ext.core.node.node_labels import AgentLabel, Way
from scheduler_ext.core.request.pod_kinds import TaskClass
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.resource_names import without_shared

# No amount in a state exceeds this, so that every one fits a 32-bit column.
UNLIMITED = 2**30
# The free memory of a unit whose GPU's use is unknown.
UNKNOWN_FREE = -1
# The rank of neighbours if there are none: above that of any priority, which has ten digits at most.
NO_NEIGHBOURS = 11


def eviction_rank(priority: int) -> int:
    """How hard it is to evict a pod, -10 to 10: the number of digits of its priority, because some clusters
    number their priority classes in tens, others in millions."""
    if not priority:
        return 0
    digits = len(str(abs(priority)))
    return digits if priority > 0 else -digits


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod on a node, with any binder; `devices` are the GPU UUIDs known per container. A `finished` pod
    holds nothing, even if an older report still lists it; a `departed` pod left after the report, which
    still counts its use. `terminating` pods hold until they are gone. `other_requests` are of resources
    that are no GPU's. `extended_claim` is the name of the claim through which DRA serves its resources.
    `asked` is the kind of pod at its arrival. An `expected` pod is not there: room is held for it, or for the
    amount that its name describes."""

    uid: str
    namespace: str
    name: str
    priority: int
    request: GpuRequest
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    finished: bool = False
    departed: bool = False
    terminating: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    other_requests: Mapping[str, Fraction] = field(default_factory=dict)
    started_at: float | None = None
    cpu_milli: int = 0
    extended_claim: str | None = None
    expected: bool = False
    created_at: float | None = field(default=None, compare=False)
    asked: TaskClass | None = field(default=None, compare=False)

    @property
    def holds(self) -> bool:
        """False for one that is only remembered for what an older report says of it."""
        return not (self.finished or self.departed)

    @property
    def identity(self) -> str:
        """The uid; the namespace and the name of a pod that was written by hand, which has none."""
        return self.uid or f"{self.namespace}/{self.name}"

    def is_holder(self, holder: Holder) -> bool:
        if holder.uid is not None:
            return holder.uid == self.uid
        return (holder.namespace, holder.name) == (self.namespace, self.name)

    def is_claimant(self, node: NodeInfo) -> bool:
        """Whether it has GPUs of a node by claim."""
        return self.extended_claim is not None or any(
            uid == self.uid for claim in node.claims for uid, _ in claim.pods
        )

    def is_on(self, device: Device) -> bool:
        """Whether the agent saw the pod hold a device or an instance of it."""
        holders = (*device.holders, *(instance.holder for instance in device.mig.instances))
        return any(holder is not None and self.is_holder(holder) for holder in holders)


class PlannedNode(NamedTuple):
    """The node that a planner has nominated a pod to, and the time until which it keeps its place there."""

    node: str
    until: float


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod that is not bound yet: what it asks (`invalid` says why that cannot be read), and who binds it.
    `nominated_node` is where it is to run, for example when others have left; `planned` is what a planner
    wrote about that (in seconds since 1970), also if another component nominated the pod later. `claims` are
    the names of its ResourceClaims; `manifest` is the pod as JSON, redacted; `gated` if it has scheduling
    gates, so that no scheduler tries it yet. `workload` is the kind and the name of the object that made
    it."""

    pod: BoundPod
    resource_version: str
    scheduler_name: str
    nominated_node: str | None = None
    invalid: str | None = None
    claims: tuple[str, ...] = ()
    manifest: bytes = field(default=b"", compare=False, repr=False)
    gated: bool = False
    workload: tuple[str, str] | None = None
    planned: PlannedNode | None = None

    @property
    def is_planned(self) -> bool:
        """Whether its nomination is that of a planner."""
        return self.planned is not None and self.planned.node == self.nominated_node


class Wait(NamedTuple):
    """What a pod waits for beside a node of its own, such as the other pods of its gang, in a sentence
    without a full stop, and the reason for which most nodes refuse it beside them; None: it is not of a kind
    without a place."""

    text: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node from its sources; `allocatable` is None without a Node object. `report` is that of its agent,
    joined with what DRA drivers publish and labels state (cache/node_record.py). `assumed` are the uids of
    pods whose binding is in flight. `nominated` pods will come when others have left, `planned` ones without
    that; both count against some pods only (nominated.py). `cpu_milli` is the allocatable CPU,
    `cpu_elsewhere_milli` the CPU of pods without GPU requests. `value` of one GPU is in the unit of
    core.gpu.value_table, 0 for that of its model. `pool` is the node pool in its labels. `dra` are the
    devices that DRA drivers publish, `claims` those that hold some of them. `by_allocatable`: it has no fresh
    report, and takes whole GPUs and MIG instances by its allocatable, however long. `agent_label` says
    whether its labels bring an agent; None if unknown. `capacity` also counts what the kubelet withholds from
    allocatable, such as sick GPUs. `handed_out_by` is the way of its label, where there are two.
    `one_replica` is what labels state about requests of several replicas of a shared GPU; None if
    nothing. `failed_change` is the label that says that a change of its GPUs failed. `fraction` is n where
    its GPU is 1/n of one, by the cloud or as a vGPU; 0: an unknown fraction. `uncounted` is the part of
    allocatable that looks like GPUs and has no configured name; no decision reads it."""

    name: str
    uid: str | None = None
    report: Report | None = None
    estimate: Estimate | None = None
    freshness: str = "Fresh"
    allocatable: Mapping[str, int] | None = None
    share_node: bool = False
    spot: bool = False
    value: float = 0.0
    changing: bool = False
    pods: tuple[BoundPod, ...] = ()
    assumed: frozenset[str] = frozenset()
    nominated: tuple[BoundPod, ...] = ()
    planned: tuple[BoundPod, ...] = ()
    cpu_milli: int | None = None
    cpu_elsewhere_milli: int = 0
    pool: str = ""
    dra: NodeDevices | None = None
    claims: tuple[Claim, ...] = ()
    by_allocatable: bool = False
    agent_label: AgentLabel | None = None
    capacity: Mapping[str, int] | None = None
    handed_out_by: Way | None = None
    one_replica: bool | None = None
    failed_change: str = ""
    fraction: int = 1
    uncounted: Mapping[str, int] = field(default_factory=dict)

    def gpu_value(self, model: GpuModel, configured: Mapping[str, float]) -> float:
        """The value of one GPU of this model here: the node's own, or `value_of` it; of a fraction of a GPU,
        its part of that, and of one of unknown size all of it."""
        return self.value or value_of(model, configured) * self.gpu_part

    @property
    def gpu_part(self) -> float:
        """What each of its GPUs is of a whole one: less than 1 for a fraction by the cloud of known size."""
        return 1 / max(1, self.fraction)

    @property
    def counted_part(self) -> float:
        """What each GPU that it counts is of a whole one: a fraction by the cloud is a part, and so is a MIG
        instance that labels call a GPU."""
        if self.report is not None or self.estimate is None:
            return self.gpu_part
        return part_of_gpu(self.estimate.model) * self.gpu_part

    @property
    def gpu_count(self) -> float:
        """Its GPUs as whole ones."""
        of_labels = self.estimate.count if self.estimate is not None else 0
        return (len(self.devices) if self.report is not None else of_labels) * self.counted_part

    @property
    def takes_unreported(self) -> bool:
        """Whether it takes pods though its report is overdue."""
        return self.by_allocatable and self.freshness != "Fresh"

    @property
    def is_out(self) -> bool:
        """Whether its GPUs may be gone: nothing has reported on them for long, and nothing else counts."""
        return self.freshness == "Missing" and not self.by_allocatable

    @property
    def devices(self) -> tuple[Device, ...]:
        """The reported GPUs."""
        return self.report.devices if self.report is not None else ()

    def limit(self, resource: str) -> int:
        """What the Node object allows of a resource in all; UNLIMITED without one, and of what DRA serves."""
        if self.allocatable is None or self.by_claim(resource):
            return UNLIMITED
        return self.allocatable.get(resource, 0)

    def by_claim(self, resource: str) -> bool:
        """Whether DRA serves a resource here: its class exists, and no device plugin offers the resource
        (extendeddynamicresources.go of kube-scheduler)."""
        return (
            self.dra is not None
            and resource in self.dra.asks
            and not (self.allocatable or {}).get(resource, 0)
        )


@dataclass(frozen=True, slots=True)
class InstancePlacements:
    """Where the next instance of a profile may come to lie on one GPU: at any of `starts`, as the device
    plugin picks; `held` is the occupancy mask of what pods have of it, in so many `instances`."""

    geometry: Geometry
    held: int
    instances: int
    profile: str
    starts: tuple[int, ...]

    @property
    def order(self) -> tuple[int, int, str, tuple[int, ...]]:
        return self.held, self.instances, self.profile, self.starts


@dataclass(frozen=True, slots=True)
class Unit:
    """The units of one device under one resource name: how many are free, and the size of each (0: unknown),
    of which `free_mib` is free (UNKNOWN_FREE: the driver does not say). `gpu_part`
    is one unit's part of the GPU, 0 to 1. `mig_placements` are those of a free MIG instance, where known.
    `first`: a claim for a part of a GPU gets this one of the node's."""

    resource: str
    free: int
    memory_mib: int
    free_mib: int
    model: GpuModel
    gpu_part: float = 1.0
    mig_placements: InstancePlacements | None = None
    first: bool = False


@dataclass(frozen=True, slots=True)
class Slot:
    """One device in a decision. `share_free_mib` is -1 if no share may go, `idle` its unheld part.
    `claimed_in_parts`: claims ask parts of its memory."""

    model: GpuModel
    healthy: bool
    compute_capability: int
    total_mib: int
    share_total_mib: int
    share_free_mib: int
    idle: float
    units: tuple[Unit, ...] = ()
    claimed_in_parts: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the device plugin may still hand out the GPU, or a replica of it, as a whole one."""
        return any(unit.free and not unit.resource.startswith(MIG_PREFIX) for unit in self.units)


@dataclass(frozen=True, slots=True)
class NodeState:
    """All values of a node that decisions depend on. `limits` per resource: (resource, held on unknown
    devices, allocatable less requests); `beyond` per resource: free units that its allocatable does not cover
    (beyond_allocatable.py). `gpus` is the number of GPUs (an estimate has one slot for all);
    `adrift` the GPUs' worth of holdings on unknown devices; `neighbours` the difficulty of evicting the
    most evictable pod. Free CPU is in coarse steps, so that more nodes are equal. `offers_shares` and
    `offers_whole`: whether it offers shares and whole GPUs at all, held or not. Of resources, DRA serves
    those in `by_claim`, cannot be counted for those in `open`, and those in `twice` could hand out a GPU that
    the device plugin or a claim hands out as well (`shares_twice`: so do memory shares); `in_use` are the
    ways in which pods have GPUs of such a node. `by_allocatable` as of NodeInfo, for a node with GPUs.
    `shared`: time-sliced or shared by MPS, `shared_instances`: so may be MIG instances, `sliced`: MIG
    instances are handed out as whole GPUs, `fraction` as of NodeInfo; `one_replica`: the device plugin gives
    a container one replica of a shared GPU at most."""

    slots: tuple[Slot, ...] = ()
    gpus: int = 0
    adrift: float = 0.0
    limits: tuple[tuple[str, int, int], ...] = ()
    beyond: tuple[tuple[str, int], ...] = ()
    share_limit: int = UNLIMITED
    fresh: bool = True
    estimated: bool = False
    changing: bool = False
    shared: bool = False
    shared_instances: bool = False
    sliced: bool = False
    fraction: int = 1
    one_replica: bool = False
    cuda: int = 0
    spot: bool = False
    value: float = 0.0
    neighbours: int = NO_NEIGHBOURS
    cpu_milli: int = UNLIMITED
    cpu_free_milli: int = UNLIMITED
    offers_shares: bool = True
    offers_whole: bool = True
    by_claim: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()
    shares_twice: bool = False
    in_use: tuple[Way, ...] = ()
    by_allocatable: bool = False

    @property
    def counts_alone(self) -> bool:
        """Whether its whole GPUs are only a number: of an estimated node, or handed out in parts."""
        return self.estimated or self.in_parts

    @property
    def in_parts(self) -> bool:
        """Whether what the device plugin hands out as a whole GPU is a replica or an instance."""
        return any(
            unit.gpu_part < 1
            and not unit.resource.startswith(MIG_PREFIX)
            and unit.resource not in self.by_claim
            for slot in self.slots
            for unit in slot.units
        )

    @property
    def takes_shares(self) -> bool:
        return self.share_limit > 0

    @property
    def takes_whole(self) -> bool:
        return any(limit > 0 and not name.startswith(MIG_PREFIX) for name, _, limit in self.limits)


UNKNOWN_NODE = NodeState(fresh=False)


@dataclass(frozen=True, slots=True)
class Node:
    """A node with its state; `uuids[i]` names the device in slot i (None: estimated)."""

    info: NodeInfo
    state: NodeState
    uuids: tuple[str | None, ...]

    @property
    def gpus(self) -> list[tuple[str | None, Slot]]:
        return list(zip(self.uuids, self.state.slots, strict=True))

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(slot.model.name for slot in self.state.slots))

    @property
    def free_gpus(self) -> int:
        """How many GPUs take something new and have no part that a pod holds, less those held on unknown
        devices. GPUs that may be gone or are being changed are not free, nor are those beyond allocatable,
        except for shares."""
        if self.info.is_out or self.info.changing:
            return 0
        if self.info.report is None:
            return max(0, min(self.state.gpus - ceil(self.state.adrift), self._whole_left()))
        closed = {device.uuid for device in self.info.devices if device.cordoned}
        open_ = [slot for uuid, slot in self.gpus if slot.healthy and uuid not in closed]
        none_left = self._not_offered_at_all(open_)
        free = [
            slot
            for slot in open_
            if slot.idle == 1
            # Of some MIG layouts the device plugin hands out nothing; shares need none.
            and (
                {without_shared(unit.resource) for unit in slot.units} - none_left
                or (self.state.takes_shares and slot.share_free_mib >= 0)
            )
        ]
        left = len(free) - ceil(self.state.adrift)
        if self.info.takes_unreported or not self.state.takes_shares:
            whole = sum(slot.is_whole for slot in free)
            left = min(left, len(free) - whole + self._whole_left())
        return max(0, left)

    def _not_offered_at_all(self, slots: Sequence[Slot]) -> set[str]:
        """The resources of which these slots have no free unit that is offered."""
        free: Counter[str] = Counter()
        for slot in slots if self.state.beyond else ():
            free.update({unit.resource: unit.free for unit in slot.units})
        return {without_shared(name) for name, count in self.state.beyond if count >= free[name]}

    def _whole_left(self) -> int:
        """The whole GPUs that allocatable less the requests leaves, with time slices as parts of them."""
        parts = {unit.resource: unit.gpu_part for slot in self.state.slots for unit in slot.units}
        whole = [
            limit * parts[name] for name, _, limit in self.state.limits if not name.startswith(MIG_PREFIX)
        ]
        return int(sum(whole) + 1e-6)


def version_number(version: tuple[int, ...] | None) -> int:
    """A version as one comparable integer, each part cut at 999; 0 when unknown."""
    major, minor, patch = (min(part, 999) for part in (*(version or ()), 0, 0, 0)[:3])
    return (major * 1000 + minor) * 1000 + patch
