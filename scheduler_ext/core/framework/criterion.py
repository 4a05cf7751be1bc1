"""The interface of filters and of scores, and their input. A filter answers for all node states at once: a
mask over `[state]`. Filters run in order on one `View`; those about single devices narrow the view, so
that the next ones consider the same GPUs. A score answers with one float per state, 0 (worst) to 1 (best)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from scheduler_ext.core.forecast.demand import Demand
from scheduler_ext.core.forecast.forecast import WHOLE
from scheduler_ext.core.framework.allocate import ShareFit
from scheduler_ext.core.framework.refusal import (
    MissKind,
    NearestMiss,
    Reason,
    lacking_part,
    plain_sentence,
    where,
)
from scheduler_ext.core.node.columns import Bools, Floats, Ints, UnitColumns
from scheduler_ext.core.node.lazy import lazy
from scheduler_ext.core.node.node import UNLIMITED, Node, NodeInfo
from scheduler_ext.core.request.request import GpuRequest, UnitRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.value_ranks import ValueRanks

Change = tuple[str, GpuRequest]
"""A change in words, and the request after it."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A cluster on which changed requests are tried; `where` returns the nodes that fit, `[row]`."""

    snapshot: Snapshot
    where: Callable[[GpuRequest], Bools]

    def fits(self, changed: GpuRequest) -> int:
        return int(np.count_nonzero(self.where(changed)))

    def largest(self, most: int, changed: Callable[[int], GpuRequest]) -> int:
        """The largest amount from 1 to `most` that fits, as all below it do; 0 if there is none."""
        if most < 1 or not self.fits(changed(1)):
            return 0
        return bisect_left(range(1, most + 1), True, key=lambda amount: not self.fits(changed(amount)))


Lower = Callable[[GpuRequest, Trial], Change | None]
"""The mildest change of a constraint with which the request fits; None if there is none."""


class GpuProperties(NamedTuple):
    """The GPUs for one part of a request, `[slot, state]`: what a constraint on one device compares."""

    model: Ints
    compute_capability: Ints
    total_mib: Ints
    free_mib: Ints


class View:
    """One request on one snapshot; `eligible` are the GPUs that a share may still use."""

    def __init__(self, request: GpuRequest, snapshot: Snapshot, steps: list[int] | None = None) -> None:
        self.steps = steps
        self.snapshot = snapshot
        # The state of a question about a single state.
        self.only = 0
        self.request = request
        self.units: list[tuple[UnitRequest, UnitColumns]] = [
            (ask, snapshot.units.get(ask.resource) or snapshot.no_units) for ask in request.units
        ]
        devices = snapshot.devices
        # Units on unhealthy GPUs that would be sufficient if healthy, [slot, state], in the order of units.
        self.sick: list[Ints] = [columns.sick for _, columns in self.units]
        if request.shares is not None:
            self.shareable = devices.share_free_mib >= 0
            self.eligible = self.shareable & devices.healthy

    def narrow(self, test: Callable[[GpuProperties], Bools]) -> Bools:
        """States on which a constraint on one device holds; shares keep only the GPUs that meet it. The
        device plugin picks whole GPUs and MIG instances, so there every free one must meet it. If none is
        free, one matching GPU is enough, and a node without such GPUs passes: the count then refuses it."""
        passed = self.everywhere(True)
        devices = self.snapshot.devices
        capability = devices.compute_capability
        for i, (_, columns) in enumerate(self.units):
            met = test(GpuProperties(columns.model, capability, columns.memory_mib, columns.free_mib))
            if columns.any_sick:
                self.sick[i] = self.sick[i] * met
            passed &= (columns.offered & met).any(0) | ~columns.offered_anywhere
            passed &= ~(columns.has_free & ~met).any(0)
        if self.request.shares is not None:
            met = test(GpuProperties(devices.model, capability, devices.total_mib, devices.share_free_mib))
            had_any = self.shareable.any(0)
            self.shareable = self.shareable & met
            self.eligible = self.eligible & met
            passed &= self.shareable.any(0) | ~had_any
        return passed

    def share_room_mib(self, states: slice = slice(None)) -> Ints:
        """Free MiB per GPU for the request's shares, `[slot, state]` of these states; -1 if none may go.
        If the pod also requests whole GPUs of the same node, the plugin may pick any unheld ones for them, so
        the shares can only count on the GPUs that remain if it picks the best."""
        free_mib = self.snapshot.devices.share_free_mib[:, states]
        room = np.where(self.eligible[:, states], free_mib, np.int32(-1))
        for ask, columns in self.units:
            if ask.profile is None:
                whole = np.where(columns.has_free[:, states] & (room >= 0), room, np.int32(-1))
                best = np.argsort(-whole, axis=0, kind="stable")[: ask.count]
                taken = np.zeros(room.shape, np.bool_)
                np.put_along_axis(taken, best, True, axis=0)
                room = np.where(taken & (whole >= 0), np.int32(-1), room)
        return room

    def room_here_mib(self) -> list[int]:
        """The room of `share_room_mib` in the state in question, `[slot]`."""
        room: list[int] = self.share_room_mib(slice(self.only, self.only + 1))[:, 0].tolist()
        return room

    def at(self, state: int) -> View:
        same = copy(self)
        same.only = state
        return same

    def copy(self) -> View:
        same = copy(self)
        same.sick = list(self.sick)
        return same

    def everywhere(self, value: bool) -> Bools:
        return np.full(len(self.snapshot.states), value)


class Filter(ABC):
    """One question that a node answers with yes or no, and the words for a no. `relaxed` lowers the
    annotations that the filter reads, by their names without prefix."""

    name: ClassVar[str]
    reason: ClassVar[Reason]
    kind: ClassVar[MissKind] = MissKind.MISMATCH
    relaxed: ClassVar[Mapping[str, Lower]] = {}

    def applies(self, request: GpuRequest) -> bool:
        """False if every node passes for this request, as without GPUs."""
        return request.asks_gpu

    @abstractmethod
    def passes(self, view: View) -> Bools:
        """The states that pass, `[state]`."""

    def reason_text(self, _request: GpuRequest) -> str:
        """The text of a refusal of this request, the same on every node."""
        return self.reason.text

    @abstractmethod
    def miss(self, view: View, node: Node) -> NearestMiss:
        """The closest value on a node that did not pass; the view is as the earlier filters left it."""

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        """The miss as a sentence that names the node and the numbers."""
        return plain_sentence(where(node, miss.device), self.reason.text, miss)

    def lacks(self, miss: NearestMiss) -> float:
        """The missing part of the needed value, 0 to 1; nodes are compared by it if the kind is graded."""
        return lacking_part(miss.needed, miss.have)

    def for_operators(
        self, _miss: NearestMiss, _node: Node, _request: GpuRequest, _fits: Callable[[NodeInfo], bool]
    ) -> str | None:
        """Advice for those who run the node; None if a change of the pod helps. `_fits` tries the request
        on a changed node."""
        return self.reason.remedy if self.kind is MissKind.PASSING else None

    def smaller(self, _request: GpuRequest, _trial: Trial) -> Iterator[Change]:
        """Smaller amounts of the request that fit on some node."""
        return iter(())


def needed_reach(ask: UnitRequest) -> int:
    """How many devices kube-scheduler has to find before a sick one."""
    return UNLIMITED if ask.every else max(ask.count, 1)


class Score(Protocol):
    """One question whose answer is a value from 0 to 1."""

    name: str

    def applies(self, scoring: Scoring) -> bool:
        """False if every node is equal for this request."""

    def value(self, scoring: Scoring) -> Floats:
        """The value of each state, `[state]`, 0 to 1; meaningless if the request does not fit."""


@dataclass(frozen=True)
class Scoring:
    """The input of scores: the request on a snapshot; `fit` has the places of its shares. `strategy` is
    fragmentation, binpack or spread; `level` is the pod's priority level, 0 to 1; `values` are the
    configured values of models."""

    request: GpuRequest
    snapshot: Snapshot
    units: Sequence[tuple[UnitRequest, UnitColumns]]
    fit: ShareFit | None
    strategy: str
    level: float
    values: Mapping[str, float] = field(default_factory=dict)

    @lazy
    def ranks(self) -> ValueRanks:
        return self.snapshot.value_ranks(self.values)

    @lazy
    def per_share(self) -> list[tuple[Ints, Ints]]:
        """(slot, state) index pairs, one per share: its place; slot 0 if it does not fit."""
        columns = np.arange(len(self.snapshot.states), dtype=np.int32)
        return [(np.maximum(slots, 0), columns) for slots in (self.fit.slots if self.fit else ())]

    @lazy
    def packs(self) -> bool:
        """Whether future demand decides."""
        if self.strategy != "fragmentation":
            return False
        if self.request.asks_gpu:
            return self.fit is not None or any(ask.profile is None for ask, _ in self.units)
        # CPU alone matters to GPUs if the CPU requests of GPU pods are known.
        return self.request.cpu_milli > 0 and self.snapshot.forecast.knows_cpu

    @lazy
    def gpus(self) -> int:
        """The number of GPUs that the request uses, without MIG instances; at least 1."""
        shares = len(self.fit.slots) if self.fit is not None else 0
        return max(1, shares + sum(ask.count for ask, _ in self.units if ask.profile is None))

    @property
    def before(self) -> Demand:
        return self.snapshot.demand

    @lazy
    def takes_parts(self) -> bool:
        """Whether the pod gets a part of a GPU that is known, on some node of the cluster."""
        by_claim = any(self.snapshot.gives_parts(ask.resource) for ask, _ in self.units)
        return self.fit is not None or by_claim

    @lazy
    def claimed_milli(self) -> Ints | None:
        """What claims take of GPUs that are handed out in parts, in thousandths, `[slot, state]`; None if
        they take nothing of these nodes'."""
        parts = [ask.count * columns.first_milli for ask, columns in self.units if columns.any_first]
        claimed: Ints | None = sum(parts[1:], parts[0]) if parts else None
        return claimed

    @lazy
    def after(self) -> Demand:
        taken: Floats | float = 0.0
        for ask, columns in self.units:
            if ask.profile is None:
                each = columns.mean_gpu_part
                if columns.any_first:
                    # Of these, the GPU is known.
                    each = np.where(columns.first.any(0), 0.0, each)
                taken = taken + ask.count * each
        load = self.fit.load_mib if self.fit is not None else None
        return self.snapshot.demand.after(self.request.cpu_milli, taken, load, self.claimed_milli)

    def of_units(self, each: Floats) -> Floats:
        """The sum over the whole GPUs and MIG instances that the pod takes, `[state]`: `each` `[slot, state]`
        is of one GPU, and an instance has its part of it. Where a device plugin picks among several GPUs,
        their mean counts."""
        total = np.zeros(len(self.snapshot.states))
        for ask, columns in self.units:
            total += ask.count * columns.mean_over_next(each * columns.gpu_part)
        return total

    def of_shares(self, each: Floats) -> Floats | float:
        """The sum over the memory shares, `[state]`: each has its part of its GPU, as in `of_units`."""
        if self.fit is None:
            return 0.0
        total: Floats = (each * self.fit.load_mib / self.snapshot.devices.share_size_mib).sum(0)
        return total

    @lazy
    def share_part(self) -> Floats:
        """The GPUs' worth of the shares, `[state]`."""
        if self.fit is None:
            return np.zeros(len(self.snapshot.states))
        size = self.snapshot.devices.share_size_mib
        if len(self.per_share) == 1:
            where = self.per_share[0]
            part: Floats = self.fit.load_mib[where] / size[where]
        else:
            part = (self.fit.load_mib / size).sum(0)
        return part

    @lazy
    def excess_part(self) -> Floats:
        """How much more of a GPU the shares, and parts through claims, are here than on the largest GPUs of
        the cluster, `[state]`. Pods to come do not lose it, because a small GPU never had that room."""
        excess = np.zeros(len(self.snapshot.states))
        if not self.takes_parts:
            return excess
        largest = self.snapshot.cluster.devices.share_size_mib.max(initial=1)
        if self.fit is not None:
            excess += self.share_part - self.fit.load_mib.sum(0) / largest
        for ask, columns in self.units:
            if columns.any_first:
                mib = np.where(columns.first, columns.memory_mib, 0)
                excess += ask.count * (columns.first_milli / WHOLE - mib / largest).sum(0)
        return excess

    @lazy
    def left_of_parts(self) -> Floats:
        """The mean part that is left free of the GPUs that give parts, `[state]`; the request asks some."""
        if self.fit is None:
            if self.claimed_milli is None:
                return np.zeros(len(self.snapshot.states))
            given = self.claimed_milli > 0
            left: Floats = (self.after.residual * given).sum(0) / WHOLE / np.maximum(given.sum(0), 1)
            return left
        devices, load = self.snapshot.devices, self.fit.load_mib
        each = [
            np.maximum(devices.share_free_mib[where] - load[where], 0) / devices.share_size_mib[where]
            for where in self.per_share
        ]
        mean: Floats = sum(each) / len(each)
        return mean

    @lazy
    def idle_after(self) -> Floats:
        """The unheld part of each node's healthy GPUs once the pod is there, `[state]`, 0 to 1."""
        idle = self.snapshot.idle - self.share_part
        for ask, columns in self.units:
            idle = idle - ask.count * columns.mean_gpu_part
        after: Floats = np.clip(idle / np.maximum(self.snapshot.healthy, 1), 0.0, 1.0)
        return after
