"""What the pods to come can do with what is left of a GPU or a node, looked up in tables.

Residuals are in thousandths of a GPU: of the memory that shares may have where a node takes shares, else of
the GPU. The tables follow from what pods usually ask and from the kinds of GPUs there are, not from what is
held: they are made when one of these changes, and a decision only looks up.
"""

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
# More whole GPUs of one node than these are taken for these.
MAX_GPUS = 16
# What pods ask of which nothing is known: parts of a GPU and whole GPUs, equally often where both may come.
UNKNOWN_SHARES = (125, 250, 500, 1000)
UNKNOWN_GPUS = (1, 2, 4, 8)
# One in so many of them wants a certain model, whichever.
UNKNOWN_PICKY = 0.1
# Rare classes are left out of what is unusable, as in the paper.
USUAL_PART = 0.95
# Amounts of CPU that are told apart: pods that ask one between two need the next.
MAX_CPU_AMOUNTS = 32
# Sizes of shares among which a residual is filled: those that ask most.
MAX_SIZES = 64
# Few: the tables of ten kinds of GPUs have some megabytes.
_COVERING = 8
_NEVER = np.int32(WHOLE + 1)


class DeviceKind(NamedTuple):
    """What of a GPU decides who can use it: ``share_mib`` is what shares may have of it (0: none may
    come), ``whole`` whether it can be asked as a whole one."""

    model: GpuModel
    share_mib: int
    whole: bool


class NodeShape(NamedTuple):
    """What of a node decides which pods it could hold if it were empty: GPUs of ``kind``, and CPU in
    thousandths of a core."""

    kind: DeviceKind
    gpus: int
    cpu_milli: int


class Forecast:
    """Tables for some kinds of GPUs; ``row_of`` says where a kind is, the last row is of no GPU.

    ``values`` ``[kind, residual]``: what a residual is worth, in GPUs (``core.residual_value``).
    ``unusable`` ``[kind, step, residual]``: how much of it is idle for nothing, in GPUs, by how often those
    come who cannot use it; ``several`` ``[kind, step, whole GPUs]``: how often those come who could use the
    node but for the number of its whole GPUs; both after Weng et al., "Beware of Fragmentation" (USENIX
    ATC'23). ``runs`` ``[kind, whole GPUs]``: how many of so many whole GPUs pods of several can use.

    ``cores_per_gpu`` ``[kind]``: what pods ask of CPU for each GPU, 0 where nothing is known of it, and
    ``knows_cpu`` whether it is known for any. A step is one of CPU: how many of ``cpu_milli``, which rise, a
    node has free. ``mig_tables`` say what MIG instances cost, as far as they were tuned.
    """

    def __init__(self, workload: Workload, kinds: Sequence[DeviceKind]) -> None:
        self.workload = workload
        self.row_of = {kind: row for row, kind in enumerate(kinds)}
        self._every = every = _Classes(workload)
        usual = _Classes(workload.top(USUAL_PART))
        self._kept: dict[tuple[float, float], Floats] = {}
        # Kept here so that they end with this one: a module's cache would keep those of past forecasts.
        self._covering: dict[tuple[DeviceKind, ...], Forecast] = {}
        self._looked_up: tuple[Sequence[DeviceKind], Ints] = ((), np.zeros(1, np.int32))
        self._hosted: tuple[tuple[tuple[NodeShape, ...], bytes], Floats] = (((), b""), np.zeros(0))
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
        """The same for at least these kinds."""
        if kinds is self._looked_up[0] or all(kind in self.row_of for kind in kinds):
            return self
        every = tuple(dict.fromkeys((*self.row_of, *kinds)))
        covering = self._covering.get(every)
        if covering is None:
            if len(self._covering) == _COVERING:
                # Not changed but replaced: other readers may be in it.
                self._covering = {}
            covering = self._covering[every] = Forecast(self.workload, every)
        return covering

    def kept(self, worth: float, unusable: float) -> Floats:
        """What is kept with a residual, ``[kind, step, residual]`` in one row: its worth less what of it is
        unusable, by these weights."""
        kept = self._kept.get((worth, unusable))
        if kept is None:
            kept = (worth * self.values[:, None, :] - unusable * self.unusable).ravel()
            self._kept[worth, unusable] = kept
        return kept

    def rows(self, kinds: Sequence[DeviceKind]) -> Ints:
        """The row of each kind, and of no GPU at the end."""
        known, rows = self._looked_up
        if known is not kinds:
            rows = np.array([*(self.row_of[kind] for kind in kinds), len(self.row_of)], np.int32)
            # One snapshot after the other has the same kinds.
            self._looked_up = kinds, rows
        return rows

    def steps(self, cpu_milli: Ints) -> Ints:
        """The step of each amount of CPU."""
        return np.searchsorted(self.cpu_milli, cpu_milli, side="right").astype(np.int32)

    def wanted(self, kinds: Sequence[DeviceKind], gpus: Floats) -> Floats:
        """What pods that do not take all of these ask of each, as a part of all that is asked, ``[kind]``.

        Of several that they take they ask in proportion to how many ``gpus`` there are of each. Some of the
        unknown ones want one model, whichever.
        """
        if not kinds:
            return np.zeros(0)
        admits, asked, unknown = self._demand(kinds, gpus)
        of_model: dict[GpuModel, float] = {}
        for kind, count in zip(kinds, gpus.tolist(), strict=True):
            of_model[kind.model] = of_model.get(kind.model, 0.0) + count
        models = max(sum(count > 0 for count in of_model.values()), 1)
        each = gpus / [max(of_model[kind.model], 1e-9) for kind in kinds] / models
        picky = ~admits[gpus > 0].all(0)
        wanted: Floats = asked[:, picky].sum(1) + UNKNOWN_PICKY * unknown.sum() * each
        return wanted

    def hosted(self, shapes: tuple[NodeShape, ...], nodes: Floats) -> Floats:
        """What pods ask of the GPUs of each shape that find few nodes large enough for them, by how much
        there is of it, ``[shape]``, 0 to 1; ``nodes`` are how many there are of each.

        A class counts by the part of the GPUs it admits that is on nodes too small for it.
        """
        key = shapes, nodes.tobytes()
        # Read once, as a decision on another snapshot may put its own in its place.
        known, hosted = self._hosted
        if known != key:
            hosted = self._hosts_wanted(shapes, nodes)
            # Pods come and go, and the nodes stay.
            self._hosted = key, hosted
        return hosted

    def _hosts_wanted(self, shapes: tuple[NodeShape, ...], nodes: Floats) -> Floats:
        every = self._every
        whole = every.gpus > 0
        if not shapes or not whole.any():
            return np.zeros(len(shapes))
        gpus = np.array([shape.gpus for shape in shapes], np.float64)
        cpu_milli = np.array([shape.cpu_milli for shape in shapes], np.float64)
        kinds = [shape.kind for shape in shapes]
        admits, asked, _ = self._demand(kinds, gpus * nodes)
        # Who asks whole GPUs can use those that are handed out so, whatever their size.
        able = (np.array([kind.whole for kind in kinds])[:, None] & admits)[:, whole]
        each, cores = every.gpus[whole], np.maximum(every.cpu_milli[whole], 1)
        pods = np.minimum(gpus[:, None] // each, cpu_milli[:, None] // cores)
        there = able * (gpus * nodes)[:, None]
        room = able * pods * each * nodes[:, None]
        rooms, theres = np.maximum(room.sum(0), 1e-9), np.maximum(there.sum(0), 1e-9)
        too_small = np.maximum(1.0 - rooms / theres, 0.0)
        wanted = room / rooms @ (asked[:, whole].sum(0) * too_small) * (gpus * nodes).sum()
        hosted: Floats = np.minimum(wanted / np.maximum(gpus * nodes, 1e-9), 1.0)
        return hosted

    def _demand(self, kinds: Sequence[DeviceKind], gpus: Floats) -> tuple[Bools, Floats, Floats]:
        """Which classes admit a kind and what they ask of it, ``[kind, class]``, and what the unknown pods
        ask of it, ``[kind]``; all that is asked is 1, of several kinds each by how many ``gpus`` it has."""
        every = self._every
        # Many shapes of nodes have few kinds.
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
    """Classes of pods as arrays ``[class]``, and the part of pods of which nothing is known."""

    def __init__(self, workload: Workload) -> None:
        tasks = list(workload.parts)
        self.unknown = workload.unknown
        self._models = [frozenset(task.models) for task in tasks]
        self.weight: Floats = np.array(list(workload.parts.values()), np.float64)
        self.cpu_milli: Ints = np.array([task.cpu_milli for task in tasks], np.int32)
        self.gpus: Ints = np.array([task.gpus for task in tasks], np.int32)
        self.shares: Ints = np.array([len(task.shares_mib) for task in tasks], np.int32)
        self.share_mib: Ints = np.array([max(task.shares_mib, default=0) for task in tasks], np.int32)

    @property
    def count(self) -> Ints:
        """Of how many GPUs each asks something."""
        return np.where(self.gpus > 0, self.gpus, self.shares)

    def asked(self, kind: DeviceKind) -> Floats:
        """What each asks of GPUs of such a size, in GPUs; 0 where it cannot use them, or asks none."""
        size = self.size(kind)
        asked: Floats = np.where(size <= WHOLE, size * self.count / WHOLE, 0.0)
        return asked

    def size(self, kind: DeviceKind) -> Ints:
        """What each needs of one GPU of such a size, in thousandths, ``[class]``; more than WHOLE where it
        cannot use it, or asks none."""
        size = np.full(len(self.gpus), _NEVER, np.int32)
        if kind.share_mib:
            share = -(-self.share_mib.astype(np.int64) * WHOLE // kind.share_mib)
            size = np.where(self.share_mib > 0, np.minimum(share, _NEVER).astype(np.int32), size)
        return np.where(self.gpus > 0, np.int32(WHOLE) if kind.whole else _NEVER, size)

    def admits(self, model: GpuModel) -> Bools:
        """Which may go to GPUs of a model, ``[class]``."""
        names = {model.name, model.family}
        return np.array([not models or bool(models & names) for models in self._models], np.bool_)


def _unknown_asks(kind: DeviceKind) -> list[tuple[int, int]]:
    """What pods may ask of which nothing is known: (so many GPUs, so much of each)."""
    shares = [(1, size) for size in UNKNOWN_SHARES] if kind.share_mib else []
    return shares + ([(gpus, WHOLE) for gpus in UNKNOWN_GPUS] if kind.whole else [])


def _unknown_mean(kind: DeviceKind) -> float:
    """What one of these asks in the mean, in GPUs."""
    asks = _unknown_asks(kind)
    return sum(gpus * size for gpus, size in asks) / WHOLE / max(len(asks), 1)


def _cores_per_gpu(classes: _Classes, kind: DeviceKind) -> float:
    """As in Forecast: of pods that ask CPU alone, too."""
    asked = classes.asked(kind)
    mine = (asked > 0) | (classes.count == 0)
    cores = float((classes.weight * classes.cpu_milli)[mine].sum()) / 1000
    return cores / max(float(classes.weight @ asked), 1e-9) if asked.any() else 0.0


def _cpu_amounts(classes: _Classes) -> Ints:
    """What classes that ask GPUs ask of CPU; of too many amounts those most often asked, and the largest."""
    often: dict[int, float] = {}
    for cpu_milli, asked, weight in zip(classes.cpu_milli, classes.count, classes.weight, strict=True):
        if asked and cpu_milli:
            often[int(cpu_milli)] = often.get(int(cpu_milli), 0.0) + float(weight)
    kept = sorted(often, key=lambda amount: -often[amount])[: MAX_CPU_AMOUNTS - 1]
    return np.array(sorted({*kept, *([max(often)] if often else [])}), np.int32)


def _needed(classes: _Classes, cpu_amounts: Ints) -> Ints:
    """The first step at which each class has its CPU, ``[class]``."""
    return (np.searchsorted(cpu_amounts, classes.cpu_milli) + (classes.cpu_milli > 0)).astype(np.int32)


def _values(classes: _Classes, kind: DeviceKind) -> Floats:
    """``[residual]``: by what all pods ask, since most take any model."""
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
    """``[step, residual]``, as in Forecast."""
    usable = np.zeros((len(cpu_amounts) + 1, WHOLE + 1))
    size = classes.size(kind)
    able = (size <= WHOLE) & classes.admits(kind.model)
    # Those who ask several GPUs are looked at by their number.
    least = np.where(classes.gpus > 1, np.int32(0), size)[able]
    # At the first step and the first residual that will do, then summed over all later ones.
    np.add.at(usable, (_needed(classes, cpu_amounts)[able], least), classes.weight[able])
    asks = _unknown_asks(kind)
    for gpus, each in asks:
        usable[0, 0 if gpus > 1 else each] += classes.unknown / len(asks)
    usable = usable.cumsum(0).cumsum(1)
    unusable: Floats = np.maximum(1.0 - usable, 0.0) * np.arange(WHOLE + 1) / WHOLE
    return unusable


def _several(classes: _Classes, kind: DeviceKind, cpu_amounts: Ints) -> Floats:
    """``[step, whole GPUs]``, as in Forecast."""
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
    """``[whole GPUs]``: those that pods of several can use, by what they ask of all GPUs."""
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
