"""The value of nodes to future demand, before and after a placement. All values are `[state]`, in GPUs, and
count only idle, healthy GPUs without MIG. The model of a node's first GPU decides which pods it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler_ext.core.forecast.forecast import MAX_GPUS, WHOLE, DeviceKind, Forecast
from scheduler_ext.core.node.columns import Bools, DeviceColumns, Floats, Ints, NodeColumns
from scheduler_ext.core.node.lazy import lazy
from scheduler_ext.core.node.node import UNLIMITED

# The GPUs and the CPU of a node are in balance at this part of the mean CPU request per GPU: pods with small
# requests arrive too. docs/concepts/placement.md shows how little the value matters.
BALANCE = 0.6


@dataclass(frozen=True)
class Demand:
    """`residual` (in thousandths) and `rows` (of the forecast) are `[slot, state]`. `loose` are GPUs
    in no slot, parts of shared ones included; negative if a pod holds GPUs that are in the slots. `idle`
    are the GPUs without a holder, `whole` those of them that pods of several GPUs can request: none of
    `shared` nodes, where such pods get slices if they get anything."""

    forecast: Forecast
    devices: DeviceColumns
    rows: Ints
    residual: Ints
    loose: Floats
    idle: Floats
    whole: Floats
    shared: Bools
    cpu_free_milli: Ints

    def after(
        self, cpu_milli: int, taken: Floats | float, load_mib: Ints | None, claimed_milli: Ints | None = None
    ) -> Demand:
        """The demand after a pod with this CPU, `taken` GPUs or parts of them, and of each GPU `load_mib` as
        shares and `claimed_milli` through claims."""
        residual, idle, whole = self.residual, self.idle - taken, self.devices.whole_gpus
        if load_mib is not None:
            devices = self.devices
            room = np.maximum(devices.share_room_mib - load_mib, 0)
            residual = np.where(load_mib > 0, part_milli(room, devices), residual)
            whole = whole - (devices.whole & (load_mib > 0)).sum(0)
        if claimed_milli is not None:
            residual = np.maximum(residual - claimed_milli, 0)
            whole = whole - (self.devices.whole & (claimed_milli > 0)).sum(0)
        if residual is not self.residual:
            idle = idle - (self.residual - residual).sum(0) / WHOLE
        cpu = self.cpu_free_milli
        if cpu_milli:
            cpu = np.where(cpu == UNLIMITED, cpu, np.maximum(cpu - np.int32(cpu_milli), 0))
        return Demand(
            forecast=self.forecast,
            devices=self.devices,
            rows=self.rows,
            residual=residual,
            loose=self.loose - taken,
            idle=np.maximum(idle, 0.0),
            whole=_whole(whole, self.loose - taken, self.shared),
            shared=self.shared,
            cpu_free_milli=cpu,
        )

    @lazy
    def worth(self) -> Floats:
        worth: Floats = self.forecast.values.ravel().take(self.rows * (WHOLE + 1) + self.residual).sum(0)
        return worth + self.loose

    @lazy
    def step(self) -> Ints:
        return self.forecast.steps(self.cpu_free_milli)

    @lazy
    def unusable(self) -> Floats:
        """The expected unusable part of the idle GPUs, over the pods that may arrive."""
        table = self.forecast.unusable
        at = (self.rows * table.shape[1] + self.step) * (WHOLE + 1)
        single: Floats = table.ravel().take(at + self.residual).sum(0)
        loose: Floats = self.loose * table.ravel().take(at[0] + WHOLE)
        return single + loose + self.unusable_by_several

    @lazy
    def unusable_by_several(self) -> Floats:
        """The part that pods of several GPUs cannot use for lack of whole GPUs."""
        return self._unusable_by_several(self.whole)

    @lazy
    def runs(self) -> Floats:
        """The whole GPUs that pods of several GPUs can use."""
        return self._runs(self.whole)

    @lazy
    def broken(self) -> tuple[Floats, Floats]:
        """For pods of several GPUs, one whole GPU less: more unusable GPUs, and fewer usable whole ones."""
        fewer = np.maximum(self.whole - 1, 0.0)
        return self._unusable_by_several(fewer) - self.unusable_by_several, self.runs - self._runs(fewer)

    def _unusable_by_several(self, whole: Floats) -> Floats:
        """All idle GPUs if whole ones are too few, otherwise the rest."""
        table = self.forecast.several.ravel()
        first = (self.rows[0] * self.forecast.several.shape[1] + self.step) * (MAX_GPUS + 1)
        missed = table.take(first + np.minimum(whole, MAX_GPUS).astype(np.int32))
        able = table.take(first)
        unusable: Floats = missed * self.idle + (able - missed) * (self.idle - whole)
        return unusable

    def _runs(self, whole: Floats) -> Floats:
        at = np.minimum(whole, MAX_GPUS).astype(np.int32)
        runs: Floats = self.forecast.runs.ravel().take(self.rows[0] * (MAX_GPUS + 1) + at)
        return runs

    @lazy
    def usable(self) -> Floats:
        """The worth of the residuals with the free CPU. By the cubes, the scarcer one counts nearly alone."""
        needed = BALANCE * 1000 * self.forecast.cores_per_gpu.take(self.rows[0])
        cpu = self.cpu_free_milli / np.maximum(needed, 1e-9)
        both = np.cbrt(self.worth**3 + cpu**3)
        usable: Floats = self.worth * cpu / np.maximum(both, 1e-9)
        known = (self.cpu_free_milli < UNLIMITED) & (needed > 0)
        return np.where(known, usable, self.worth)


def demand(
    forecast: Forecast, kinds: Sequence[DeviceKind], devices: DeviceColumns, node: NodeColumns
) -> Demand:
    """The demand of nodes as they are. Holdings on unknown devices count as whole GPUs."""
    return Demand(
        forecast=forecast,
        devices=devices,
        rows=forecast.rows(kinds)[devices.kind],
        residual=devices.residual,
        loose=node.loose,
        idle=np.maximum(devices.residual.sum(0) / WHOLE + node.loose, 0.0),
        whole=_whole(devices.whole_gpus, node.loose, node.shared),
        shared=node.shared,
        cpu_free_milli=node.cpu_free_milli,
    )


def _whole(in_slots: Ints, loose: Floats, shared: Bools) -> Floats:
    # A part of a GPU does not count. The small number offsets rounding errors of parts.
    return np.where(shared, 0.0, np.floor(np.maximum(in_slots + loose, 0.0) + 1e-6))


def part_milli(room_mib: Ints, devices: DeviceColumns) -> Ints:
    """Room on GPUs in thousandths of the memory for shares, `[slot, state]`, rounded down."""
    # Faster than a division of integers; the small number offsets rounding errors.
    part: Ints = (room_mib * (WHOLE / devices.share_size_mib) + 1e-6).astype(np.int32)
    return part
