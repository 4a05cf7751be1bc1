"""What nodes hold for the pods to come: before a placement, and after it.

All of it is ``[state]``, in GPUs; what is idle of GPUs without MIG, of healthy ones alone. A node's own model
decides who may come; where it has several, that of its first GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler_ext.core.forecast.forecast import MAX_GPUS, WHOLE, DeviceKind, Forecast
from scheduler_ext.core.node.columns import DeviceColumns, Floats, Ints, NodeColumns
from scheduler_ext.core.node.lazy import lazy
from scheduler_ext.core.node.node import UNLIMITED

# A node's GPUs and its CPU are in balance where it has this part of what pods ask of CPU beside them: pods
# that ask little come as well. How little it matters is in docs/concepts/placement.md.
BALANCE = 0.6


@dataclass(frozen=True)
class Demand:
    """``residual`` is ``[slot, state]``, in thousandths, as is ``rows``, the rows of the forecast; ``loose``
    are whole GPUs in no slot, less than none where a pod has some of those in the slots.

    ``idle`` is what nobody holds, ``whole`` how many GPUs of that can be asked as whole ones.
    """

    forecast: Forecast
    devices: DeviceColumns
    rows: Ints
    residual: Ints
    loose: Floats
    idle: Floats
    whole: Floats
    cpu_free_milli: Ints

    def after(self, cpu_milli: int, taken: int, load_mib: Ints | None) -> Demand:
        """The same with a pod that has so much CPU, ``taken`` whole GPUs, and ``load_mib`` of each GPU as
        shares, ``[slot, state]``."""
        residual, idle, whole = self.residual, self.idle - taken, self.whole - taken
        if load_mib is not None:
            devices = self.devices
            room = np.maximum(devices.share_room_mib - load_mib, 0)
            residual = np.where(load_mib > 0, part_milli(room, devices), residual)
            idle = idle - (self.residual - residual).sum(0) / WHOLE
            whole = whole - (devices.whole & (load_mib > 0)).sum(0)
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
            whole=np.maximum(whole, 0.0),
            cpu_free_milli=cpu,
        )

    @lazy
    def worth(self) -> Floats:
        """What the residuals are worth."""
        worth: Floats = self.forecast.values.ravel().take(self.rows * (WHOLE + 1) + self.residual).sum(0)
        return worth + self.loose

    @lazy
    def step(self) -> Ints:
        """The step of CPU."""
        return self.forecast.steps(self.cpu_free_milli)

    @lazy
    def unusable(self) -> Floats:
        """What of the idle GPUs cannot be used, by how often those come who cannot."""
        table = self.forecast.unusable
        at = (self.rows * table.shape[1] + self.step) * (WHOLE + 1)
        single: Floats = table.ravel().take(at + self.residual).sum(0)
        loose: Floats = self.loose * table.ravel().take(at[0] + WHOLE)
        return single + loose + self.unusable_by_several

    @lazy
    def unusable_by_several(self) -> Floats:
        """What of them pods of several whole GPUs cannot use that could come otherwise."""
        return self._unusable_by_several(self.whole)

    @lazy
    def runs(self) -> Floats:
        """How many of the whole GPUs pods of several can use."""
        return self._runs(self.whole)

    @lazy
    def broken(self) -> tuple[Floats, Floats]:
        """How much more pods of several cannot use once one whole GPU is none, and how many fewer of the
        whole ones they can."""
        fewer = np.maximum(self.whole - 1, 0.0)
        return self._unusable_by_several(fewer) - self.unusable_by_several, self.runs - self._runs(fewer)

    def _unusable_by_several(self, whole: Floats) -> Floats:
        """All that is idle where there are too few whole ones, else the rest."""
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
        """What the residuals are worth with the CPU beside them: about the less of the two.

        The cubes make it so: what is short counts nearly alone, what is plentiful hardly.
        """
        needed = BALANCE * 1000 * self.forecast.cores_per_gpu.take(self.rows[0])
        cpu = self.cpu_free_milli / np.maximum(needed, 1e-9)
        both = np.cbrt(self.worth**3 + cpu**3)
        usable: Floats = self.worth * cpu / np.maximum(both, 1e-9)
        known = (self.cpu_free_milli < UNLIMITED) & (needed > 0)
        return np.where(known, usable, self.worth)


def demand(
    forecast: Forecast, kinds: Sequence[DeviceKind], devices: DeviceColumns, node: NodeColumns
) -> Demand:
    """What nodes hold as they are. What is held on devices nobody told is whole GPUs of any."""
    loose = node.loose.astype(np.float64)
    return Demand(
        forecast=forecast,
        devices=devices,
        rows=forecast.rows(kinds)[devices.kind],
        residual=devices.residual,
        loose=loose,
        idle=np.maximum(devices.residual.sum(0) / WHOLE + loose, 0.0),
        whole=np.maximum(devices.whole.sum(0) + loose, 0.0),
        cpu_free_milli=node.cpu_free_milli,
    )


def part_milli(room_mib: Ints, devices: DeviceColumns) -> Ints:
    """Room on GPUs as thousandths of what shares may have of each, ``[slot, state]``, rounded down."""
    # Faster than dividing integers; the small number makes up for what rounding loses.
    part: Ints = (room_mib * (WHOLE / devices.share_size_mib) + 1e-6).astype(np.int32)
    return part
