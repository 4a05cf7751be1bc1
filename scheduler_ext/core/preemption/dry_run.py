"""A dry run on one node: whether a request fits when some of the node's pods are gone. A node's holdings are
the sum of its pods' holdings, so that any set of pods is a subtraction. The filters give the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.framework.allocate import MAX_SEARCH_STEPS
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.gpu.share_memory import NOTHING_HELD, DeviceHoldings
from scheduler_ext.core.node.holdings import Holdings, holdings_of
from scheduler_ext.core.node.lazy import lazy
from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo, Slot
from scheduler_ext.core.node.state import resolve_held
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.table import build_snapshot

# Pods by their index among those that may leave.
Gone = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Relief:
    """The resources that the departure of one pod frees: by device UUID, and for the node. `departed_mib`
    of a device is below zero: more of the report's use no longer counts."""

    devices: Mapping[str, DeviceHoldings]
    unknown: Mapping[str, int]
    requested: Mapping[str, int]
    unplaced: bool


@dataclass(eq=False)
class Reliefs:
    """What the departure of each pod frees on a node, whatever is to fit there. Computed on demand and kept,
    for all dry runs on the node."""

    info: NodeInfo
    sizing: Sizing
    # A device looks the same whichever other pods have gone: a new set of pods has few new devices.
    slots: dict[tuple[str, Hashable], Slot] = field(default_factory=dict)
    # The node without one pod, by the pod's uid.
    nodes: dict[str, Node] = field(default_factory=dict)
    _known: dict[str, Relief] = field(default_factory=dict)

    @lazy
    def held(self) -> Holdings:
        return self.holdings(self.info)

    @lazy
    def adds_up(self) -> bool:
        """Of two pods with one name, the agent may have seen either, so that parts do not add up."""
        pods = self.info.pods
        names = {(pod.namespace, pod.name) for pod in pods}
        return len(names) == len({pod.uid for pod in pods}) == len(pods)

    def of(self, pod: BoundPod) -> Relief:
        """What the departure of one of the node's pods frees."""
        relief = self._known.get(pod.uid)
        if relief is None:
            relief = self._known[pod.uid] = self._computed(pod)
        return relief

    def dry_run(self, pods: Sequence[BoundPod], request: GpuRequest) -> DryRun:
        """The dry run of a request that is to fit when some of these have left."""
        run = DryRun(self.info, pods, request, self.sizing)
        run.node = self
        return run

    def holdings(self, info: NodeInfo) -> Holdings:
        return holdings_of(info, self.sizing.resources)

    def _computed(self, pod: BoundPod) -> Relief:
        if not self.adds_up:
            return _relief(self.held, self.holdings(without(self.info, [pod])))
        report = _report_on(pod, self.info.report, any(pod.uid == each.uid for each in self.held.unplaced))
        alone = replace(self.info, report=report, pods=(pod,))
        return _relief(self.holdings(alone), self.holdings(without(alone, [pod])))


@dataclass(eq=False)
class DryRun:
    """A node, the pods of it that may leave, and a request that is to fit when some of them have left.
    `steps` bounds the cost of placing shares over all questions (as for ShareFit)."""

    info: NodeInfo
    pods: Sequence[BoundPod]
    request: GpuRequest
    sizing: Sizing
    steps: list[int] = field(default_factory=lambda: [MAX_SEARCH_STEPS])
    _fits: dict[Gone, bool] = field(default_factory=dict)

    @property
    def evaluations(self) -> int:
        return len(self._fits)

    @property
    def held(self) -> Holdings:
        return self.node.held

    @lazy
    def reliefs(self) -> list[Relief]:
        return [self.node.of(pod) for pod in self.pods]

    @lazy
    def node(self) -> Reliefs:
        """What does not depend on the request."""
        return Reliefs(self.info, self.sizing)

    def fits(self, gone: Gone) -> bool:
        return self.first_fit((gone,)) is not None

    def first_fit(self, sets: Sequence[Gone]) -> Gone | None:
        """The first of these sets after which the request fits; all of them are evaluated together."""
        new = [gone for gone in dict.fromkeys(sets) if gone not in self._fits]
        if new:
            snapshot = build_snapshot({str(i): self.node_without(gone) for i, gone in enumerate(new)}, 0)
            fits = filter_nodes(self.request, snapshot, self.sizing.policy, self.steps).fits
            self._fits.update(zip(new, fits[snapshot.state_of[:-1]].tolist(), strict=True))
        return next((gone for gone in sets if self._fits[gone]), None)

    def node_without(self, gone: Gone) -> Node:
        if len(gone) != 1:
            return self._resolved(gone)
        uid = self.pods[gone[0]].uid
        node = self.node.nodes.get(uid)
        if node is None:
            node = self.node.nodes[uid] = self._resolved(gone)
        return node

    def _resolved(self, gone: Gone) -> Node:
        held = self._held_without(gone) if gone else self.held
        sizing = self.sizing
        return resolve_held(self.info, held, sizing.resources, sizing.headroom_percent, self.node.slots)

    def _held_without(self, gone: Gone) -> Holdings:
        if not self.node.adds_up:
            return self.node.holdings(without(self.info, [self.pods[i] for i in gone]))
        unknown, requested = Counter(self.held.unknown), Counter(self.held.requested)
        parts: dict[str, list[DeviceHoldings]] = {}
        for relief in (self.reliefs[i] for i in gone):
            for uuid, part in relief.devices.items():
                parts.setdefault(uuid, []).append(part)
            unknown.subtract(relief.unknown)
            requested.subtract(relief.requested)
        uids = {self.pods[i].uid for i in gone if self.reliefs[i].unplaced}
        less = {uuid: reduce(DeviceHoldings.less, of, self.held.devices[uuid]) for uuid, of in parts.items()}
        # Claims stay: kube-scheduler's dry run takes none from the pods that it removes.
        return replace(
            self.held,
            devices=self.held.devices | less,
            unplaced=[pod for pod in self.held.unplaced if pod.uid not in uids],
            unknown=unknown,
            requested=requested,
        )


def without(info: NodeInfo, gone: Sequence[BoundPod]) -> NodeInfo:
    """The node when these pods have departed; the same object if there are none."""
    if not gone:
        return info
    uids = {pod.uid for pod in gone}
    return replace(
        info, pods=tuple(replace(pod, departed=True) if pod.uid in uids else pod for pod in info.pods)
    )


def _report_on(pod: BoundPod, report: Report | None, anywhere: bool) -> Report | None:
    """A report of the devices that a pod may be on; `anywhere` where its devices are unknown. Other pods
    count as strangers there. This does not matter: they do so with the pod and without it."""
    if report is None or anywhere:
        return report
    told = {uuid for uuids in pod.devices.values() for uuid in uuids}
    devices = [each for each in report.devices if each.uuid in told or pod.is_on(each)]
    return replace(report, devices=tuple(devices))


def _relief(before: Holdings, after: Holdings) -> Relief:
    parts = {uuid: held.less(after.devices[uuid]) for uuid, held in before.devices.items()}
    return Relief(
        devices={uuid: part for uuid, part in parts.items() if part != NOTHING_HELD},
        unknown=_more(before.unknown, after.unknown),
        requested=_more(before.requested, after.requested),
        unplaced=len(before.unplaced) > len(after.unplaced),
    )


def _more(before: Counter[str], after: Counter[str]) -> dict[str, int]:
    return {name: count - after[name] for name, count in before.items() if count != after[name]}
