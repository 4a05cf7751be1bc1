"""Tables of the value of free GPUs and nodes to future demand, estimated from past pods. Residuals are in
thousandths of a GPU: of the memory for shares on a node that takes shares, otherwise of the whole GPU. The
tables are computed when usual requests or kinds of GPUs change; a decision only looks values up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from scheduler_ext.core.forecast.residual_value import residual_values
from scheduler_ext.core.gpu.models import GpuModel
from scheduler_ext.core.node.columns import Bools, Floats, Ints
from scheduler_ext.core.request.pod_kinds import UNKNOWN, Workload

WHOLE = 1000
# A larger number of whole GPUs on one node counts as this number.
MAX_GPUS = 16
# Requests of unknown pods: parts of a GPU and whole GPUs, equally often where a node takes both.
UNKNOWN_SHARES = (125, 250, 500, 1000)
UNKNOWN_GPUS = (1, 2, 4, 8)
# Rare classes do not count for unusable GPUs, as in the paper.
USUAL_PART = 0.95
# Distinct amounts of CPU in the tables: a request between two counts as the larger.
MAX_CPU_AMOUNTS = 32
# Sizes of shares that fill a residual: those with the largest demand.
MAX_SIZES = 64
# The CPU requested beside all GPUs, as a part of the nodes' CPU: up to the first there is enough, from the
# second on it is short.
_ENOUGH_CPU, _SHORT_OF_CPU = 0.9, 1.1
# Few: the tables of ten kinds of GPUs take some megabytes.
_COVERING = 8
_NEVER = np.int32(WHOLE + 1)


class DeviceKind(NamedTuple):
    """What decides which pods can use a GPU; `share_mib` is the memory for shares (0: no shares)."""

    model: GpuModel
    share_mib: int
    whole: bool


class EmptyNode(NamedTuple):
    """The properties of an empty node that decide which pods fit; CPU in thousandths of a core."""

    kind: DeviceKind
    gpus: int
    cpu_milli: int


class Forecast:
    """Tables for some kinds of GPUs; `row_of` is the row of a kind, and the last row stands for no GPU.
    `values` `[kind, residual]`: the worth of a residual, in GPUs (residual_value.py). `unusable`
    `[kind, step, residual]`: its expected unusable part, in GPUs, over the pods that may arrive.
    `several` `[kind, step, whole GPUs]`: the frequency of pods that only lack whole GPUs on the node.
    Both are after Weng et al., "Beware of Fragmentation" (USENIX ATC'23). `runs` `[kind, whole GPUs]`:
    the whole GPUs that pods of several GPUs can use. `cores_per_gpu` `[kind]`: the requested CPU for each
    GPU, 0 if unknown. A step is the number of the ascending `cpu_milli` that a node has free."""

    def __init__(self, workload: Workload, kinds: Sequence[DeviceKind]) -> None:
        self.workload = workload
        self.row_of = {kind: row for row, kind in enumerate(kinds)}
        self._every = every = _Classes(workload)
        usual = _Classes(workload.top(USUAL_PART))
        self._kept: dict[tuple[float, float], Floats] = {}
        # Kept here, to end with this forecast: a cache of the module would keep those of past forecasts.
        self._covering: dict[tuple[DeviceKind, ...], Forecast] = {}
        self._hosted: tuple[tuple[tuple[EmptyNode, ...], bytes], Floats] = (((), b""), np.zeros(0))
        self.cpu_milli = _cpu_amounts(usual)
        rows, steps = len(kinds) + 1, len(self.cpu_milli) + 1
        self.values: Floats = np.zeros((rows, WHOLE + 1))
        self.unusable: Floats = np.zeros((rows, steps, WHOLE + 1))
        self.several: Floats = np.zeros((rows, steps, MAX_GPUS + 1))
        self.runs: Floats = np.zeros((rows, MAX_GPUS + 1))
        self.cores_per_gpu: Floats = np.zeros(rows)
        for row, kind in enumerate(kinds):
            self.values[row] = _values(every, kind)
            self.unusable[row] = _unusable(usual, kind, self.cpu_milli)
            self.several[row] = _several(usual, kind, self.cpu_milli)
            self.runs[row] = _runs(every, kind)
            self.cores_per_gpu[row] = _cores_per_gpu(every, kind)
        self.knows_cpu = bool(self.cores_per_gpu.any())

    def covering(self, kinds: tuple[DeviceKind, ...]) -> Forecast:
        if all(kind in self.row_of for kind in kinds):
            return self
        every = tuple(dict.fromkeys((*self.row_of, *kinds)))
        covering = self._covering.get(every)
        if covering is None:
            if len(self._covering) == _COVERING:
                # Replaced, not changed: other threads may read it.
                self._covering = {}
            covering = self._covering[every] = Forecast(self.workload, every)
        return covering

    def kept(self, worth: float, unusable: float) -> Floats:
        """The weighted worth of a residual less its unusable part, `[kind, step, residual]`, flat."""
        kept = self._kept.get((worth, unusable))
        if kept is None:
            kept = (worth * self.values[:, None, :] - unusable * self.unusable).ravel()
            self._kept[worth, unusable] = kept
        return kept

    def rows(self, kinds: Sequence[DeviceKind]) -> Ints:
        """The row of each kind, and at the end of no GPU."""
        return np.array([*(self.row_of[kind] for kind in kinds), len(self.row_of)], np.int32)

    def steps(self, cpu_milli: Ints) -> Ints:
        return np.searchsorted(self.cpu_milli, cpu_milli, side="right").astype(np.int32)

    def wanted(self, kinds: Sequence[DeviceKind], gpus: Floats) -> Floats:
        """The demand of pods that do not admit all of these kinds, as a part of all demand, `[kind]`; it
        spreads over the admitted kinds by their `gpus`. Unknown pods admit all."""
        if not kinds:
            return np.zeros(0)
        admits, asked, _ = self._demand(kinds, gpus)
        wanted: Floats = asked[:, ~admits[gpus > 0].all(0)].sum(1)
        return wanted

    def cpu_shortage(self, shapes: tuple[EmptyNode, ...], nodes: Floats) -> float:
        """1 if pods request more CPU than the nodes have until all GPUs are taken, 0 if much less; `nodes`
        `[shape]` of each shape."""
        cpu_milli = sum(count * shape.cpu_milli for shape, count in zip(shapes, nodes, strict=True))
        requested_milli = sum(
            count * shape.gpus * 1000 * self.cores_per_gpu[self.row_of[shape.kind]]
            for shape, count in zip(shapes, nodes, strict=True)
        )
        requested = float(requested_milli / max(cpu_milli, 1.0))
        return min(max((requested - _ENOUGH_CPU) / (_SHORT_OF_CPU - _ENOUGH_CPU), 0.0), 1.0)

    def hosted(self, shapes: tuple[EmptyNode, ...], nodes: Floats) -> Floats:
        """The demand of pods with few large enough nodes, over the GPUs of each shape, `[shape]`, 0 to 1. A
        class counts by the part of its admitted GPUs that is on nodes too small for it."""
        key = shapes, nodes.tobytes()
        # Read once: a decision on another snapshot may replace it.
        known, hosted = self._hosted
        if known != key:
            # The nodes change more rarely than the pods.
            hosted = self._hosts_wanted(shapes, nodes)
            self._hosted = key, hosted
        return hosted

    def _hosts_wanted(self, shapes: tuple[EmptyNode, ...], nodes: Floats) -> Floats:
        every = self._every
        whole = every.gpus > 0
        if not shapes or not whole.any():
            return np.zeros(len(shapes))
        gpus = np.array([shape.gpus for shape in shapes], np.float64)
        cpu_milli = np.array([shape.cpu_milli for shape in shapes], np.float64)
        kinds = [shape.kind for shape in shapes]
        admits, asked, _ = self._demand(kinds, gpus * nodes)
        # Pods of whole GPUs can use any size of GPU that is handed out whole.
        able = (np.array([kind.whole for kind in kinds])[:, None] & admits)[:, whole]
        each, cores = every.gpus[whole], np.maximum(every.cpu_milli[whole], 1)
        pods = np.minimum(gpus[:, None] // each, cpu_milli[:, None] // cores)
        there = able * (gpus * nodes)[:, None]
        room = able * pods * each * nodes[:, None]
        rooms, totals = np.maximum(room.sum(0), 1e-9), np.maximum(there.sum(0), 1e-9)
        too_small = np.maximum(1.0 - rooms / totals, 0.0)
        wanted = room / rooms @ (asked[:, whole].sum(0) * too_small) * (gpus * nodes).sum()
        hosted: Floats = np.minimum(wanted / np.maximum(gpus * nodes, 1e-9), 1.0)
        return hosted

    def _demand(self, kinds: Sequence[DeviceKind], gpus: Floats) -> tuple[Bools, Floats, Floats]:
        """The classes that admit a kind and their demand for it, `[kind, class]`, and the demand of unknown
        pods, `[kind]`; all demand is 1, and spreads over kinds in proportion to their `gpus`."""
        every = self._every
        # Many node shapes share few kinds.
        distinct = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
        of = [distinct[kind] for kind in kinds]
        admits = np.array([every.admits(kind.model) for kind in distinct]).reshape(len(distinct), -1)[of]
        there = admits * gpus[:, None]
        asked = np.array([every.asked(kind) for kind in distinct]).reshape(len(distinct), -1)[of]
        asked = asked * every.weight * there / np.maximum(there.sum(0), 1e-9)
        unknown = np.array([every.unknown * _unknown_mean(kind) for kind in distinct])[of] * gpus
        unknown = unknown / max(float(gpus.sum()), 1e-9)
        total = max(float(asked.sum() + unknown.sum()), 1e-9)
        return admits, asked / total, unknown / total


class _Classes:
    """Classes of pods as arrays `[class]`, and the part of unknown pods."""

    def __init__(self, workload: Workload) -> None:
        tasks = list(workload.parts)
        self.unknown = workload.unknown
        self._models = [frozenset(task.models) for task in tasks]
        self.weight: Floats = np.array(list(workload.parts.values()), np.float64)
        self.cpu_milli: Ints = np.array([task.cpu_milli for task in tasks], np.int32)
        self.gpus: Ints = np.array([task.gpus for task in tasks], np.int32)
        shares = np.array([len(task.shares_mib) for task in tasks], np.int32)
        # The number of GPUs that each class uses.
        self.count: Ints = np.where(self.gpus > 0, self.gpus, shares)
        self.share_mib: Ints = np.array([max(task.shares_mib, default=0) for task in tasks], np.int32)

    def asked(self, kind: DeviceKind) -> Floats:
        """The demand of each class for this kind, in GPUs; 0 if it cannot use the kind."""
        size = self.size(kind)
        asked: Floats = np.where(size <= WHOLE, size * self.count / WHOLE, 0.0)
        return asked

    def size(self, kind: DeviceKind) -> Ints:
        """The part of one GPU of this kind that each class needs, in thousandths; above WHOLE if unable."""
        size = np.full(len(self.gpus), _NEVER, np.int32)
        if kind.share_mib:
            share = -(-self.share_mib.astype(np.int64) * WHOLE // kind.share_mib)
            size = np.where(self.share_mib > 0, np.minimum(share, _NEVER).astype(np.int32), size)
        return np.where(self.gpus > 0, np.int32(WHOLE) if kind.whole else _NEVER, size)

    def admits(self, model: GpuModel) -> Bools:
        names = {model.name, model.family}
        return np.array([not models or bool(models & names) for models in self._models], np.bool_)


def _unknown_asks(kind: DeviceKind) -> list[tuple[int, int]]:
    """The possible requests of unknown pods: (GPUs, thousandths of each)."""
    shares = [(1, size) for size in UNKNOWN_SHARES] if kind.share_mib else []
    return shares + ([(gpus, WHOLE) for gpus in UNKNOWN_GPUS] if kind.whole else [])


def _unknown_mean(kind: DeviceKind) -> float:
    asks = _unknown_asks(kind)
    return sum(gpus * size for gpus, size in asks) / WHOLE / max(len(asks), 1)


def _cores_per_gpu(classes: _Classes, kind: DeviceKind) -> float:
    """As in Forecast; pods that request only CPU count too."""
    asked = classes.asked(kind)
    mine = (asked > 0) | (classes.count == 0)
    cores = float((classes.weight * classes.cpu_milli)[mine].sum()) / 1000
    return cores / max(float(classes.weight @ asked), 1e-9) if asked.any() else 0.0


def _cpu_amounts(classes: _Classes) -> Ints:
    """The CPU amounts of GPU classes; of too many amounts the most frequent ones, and the largest."""
    often: dict[int, float] = {}
    for cpu_milli, asked, weight in zip(classes.cpu_milli, classes.count, classes.weight, strict=True):
        if asked and cpu_milli:
            often[int(cpu_milli)] = often.get(int(cpu_milli), 0.0) + float(weight)
    kept = sorted(often, key=lambda amount: -often[amount])[: MAX_CPU_AMOUNTS - 1]
    return np.array(sorted({*kept, *([max(often)] if often else [])}), np.int32)


def _needed(classes: _Classes, cpu_amounts: Ints) -> Ints:
    """The first step with enough CPU for each class, `[class]`."""
    return (np.searchsorted(cpu_amounts, classes.cpu_milli) + (classes.cpu_milli > 0)).astype(np.int32)


def _values(classes: _Classes, kind: DeviceKind) -> Floats:
    """`[residual]`, from the requests of all pods, since most admit any model."""
    demand: dict[int, float] = {}
    often = (classes.weight * classes.count).tolist()
    for size, weight in zip(classes.size(kind).tolist(), often, strict=True):
        if size <= WHOLE:
            demand[size] = demand.get(size, 0.0) + weight
    asks = _unknown_asks(kind)
    for gpus, size in asks:
        demand[size] = demand.get(size, 0.0) + classes.unknown * gpus / len(asks)
    much = sorted(demand, key=lambda size: -size * demand[size])[:MAX_SIZES]
    return _residual_values(tuple((size, demand[size]) for size in sorted(much)))


@lru_cache(maxsize=256)
def _residual_values(demand: tuple[tuple[int, float], ...]) -> Floats:
    return residual_values(dict(demand), WHOLE)


def _unusable(classes: _Classes, kind: DeviceKind, cpu_amounts: Ints) -> Floats:
    """`[step, residual]`, as in Forecast."""
    usable = np.zeros((len(cpu_amounts) + 1, WHOLE + 1))
    size = classes.size(kind)
    able = (size <= WHOLE) & classes.admits(kind.model)
    # Pods of several GPUs are in `several`.
    least = np.where(classes.gpus > 1, np.int32(0), size)[able]
    # Added at the first sufficient step and residual, then summed over all later ones.
    np.add.at(usable, (_needed(classes, cpu_amounts)[able], least), classes.weight[able])
    asks = _unknown_asks(kind)
    for gpus, each in asks:
        usable[0, 0 if gpus > 1 else each] += classes.unknown / len(asks)
    usable = usable.cumsum(0).cumsum(1)
    unusable: Floats = np.maximum(1.0 - usable, 0.0) * np.arange(WHOLE + 1) / WHOLE
    return unusable


def _several(classes: _Classes, kind: DeviceKind, cpu_amounts: Ints) -> Floats:
    """`[step, whole GPUs]`, as in Forecast."""
    several = np.zeros((len(cpu_amounts) + 1, MAX_GPUS + 1))
    able = (classes.gpus > 1) & (classes.size(kind) <= WHOLE) & classes.admits(kind.model)
    needed = _needed(classes, cpu_amounts)[able]
    for step, gpus, weight in zip(needed, classes.gpus[able], classes.weight[able], strict=True):
        several[step:, : min(gpus, MAX_GPUS + 1)] += weight
    asks = _unknown_asks(kind)
    for gpus, _ in asks:
        if gpus > 1:
            several[:, :gpus] += classes.unknown / len(asks)
    return several


def _runs(classes: _Classes, kind: DeviceKind) -> Floats:
    """`[whole GPUs]`: those that pods of several GPUs can use, weighted by their part of all demand."""
    counts = np.arange(MAX_GPUS + 1)
    able = (classes.gpus > 1) & (classes.size(kind) <= WHOLE) & classes.admits(kind.model)
    asks = _unknown_asks(kind)
    often = [*zip(classes.gpus[able], classes.weight[able], strict=True)]
    often += [(gpus, classes.unknown / len(asks)) for gpus, _ in asks if gpus > 1]
    runs = np.zeros(MAX_GPUS + 1)
    for gpus, weight in often:
        runs += weight * gpus * (counts // gpus * gpus)
    asked = float(classes.weight @ classes.asked(kind)) + classes.unknown * _unknown_mean(kind)
    return runs / max(asked, 1e-9)


NO_FORECAST = Forecast(UNKNOWN, ())
