"""The present status of this node, from NVML, the kubelet and /proc."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from scheduler_ext.agent.activity import Activity
from scheduler_ext.agent.device_plugin import mig_strategy, sharing
from scheduler_ext.agent.gpu_health import GpuHealth, repairs
from scheduler_ext.agent.holders import find_holders
from scheduler_ext.agent.node_reading import DeviceReading, InstanceReading, NodeReading, ProfileReading
from scheduler_ext.agent.node_status import node_status
from scheduler_ext.agent.pod_resources import PodResources
from scheduler_ext.agent.processes import Processes, sees_host_processes
from scheduler_ext.wire.gpunode import DeviceStatus, GpuNodeStatus, MigStatus, WrittenStatus
from scheduler_ext.wire.times import seconds

if TYPE_CHECKING:
    from scheduler_ext.agent.dcgm import DcgmExporter


class GpuSource(Protocol):
    """A source of readings, as NvmlSource."""

    @property
    def must_restart(self) -> bool: ...
    def remember(self, devices: Iterable[DeviceReading]) -> None: ...
    def read(self) -> NodeReading: ...
    def close(self) -> None: ...


class Observer:
    """Combines the readings. `pod_resources` is the kubelet's socket, which need not exist; samples of `dcgm`
    take the place of NVML's."""

    def __init__(
        self,
        source: GpuSource,
        pod_resources: Path,
        health: GpuHealth,
        clock: Callable[[], float] = time.monotonic,
        proc: Path = Path("/proc"),
        wall_clock: Callable[[], float] = time.time,
        dcgm: DcgmExporter | None = None,
    ) -> None:
        self._dcgm = dcgm
        self.source = source
        self._kubelet = PodResources(pod_resources)
        self._pod_of = Processes(proc).pod_of if sees_host_processes(proc) else None
        self._health = health
        self._activity = Activity()
        self._clock = clock
        self._wall_clock = wall_clock
        # The reason why no GPU can be used now.
        self.problem: str | None = None

    def remember(self, written: GpuNodeStatus) -> None:
        """Take over the GPUs that an earlier agent knew, their health and their activity."""
        self.source.remember(map(last_reading, written.devices or ()))
        reported_at = seconds(written.reported_at) or 0.0
        for device in written.devices or ():
            self._activity.remember(device, self._clock(), self._wall_clock() - reported_at)
            if device.health is not None:
                self._health.remember(device.uuid, device.health, self._clock(), reported_at)

    def observe(self, labels: Mapping[str, str], repaired: str | None = None) -> WrittenStatus:
        """The present status; `labels` are the Node's, `repaired` is the GPUNode's annotation."""
        reading = self.source.read()
        if self._dcgm is not None:
            reading = self._dcgm.applied(reading)
        allocatable = self._kubelet.allocatable()
        wall, now = self._wall_clock(), self._clock()
        holdings = find_holders(reading, self._kubelet.read(), self._pod_of)
        shared = sharing(labels, allocatable)
        # Under MPS, the process that computes may be the server's, for any client.
        worker_of = None if shared is not None and shared.strategy == "mps" else self._pod_of
        status = node_status(
            reading,
            {
                device.uuid: self._activity.observe(device, holdings[device.uuid], worker_of, now)
                for device in reading.devices
            },
            self._health,
            now,
            mig_strategy(labels, allocatable),
            shared,
            wall,
            repairs(repaired, wall),
        )
        self.problem = reading.problem
        if reading.devices and not status.devices:
            self.problem = self.problem or "no GPU has what a report needs"
        return status


def last_reading(device: DeviceStatus) -> DeviceReading:
    """The reading behind a reported device that no longer answers, without health and momentary values."""
    mig = device.mig or MigStatus()
    major, _, minor = (device.compute_capability or "").partition(".")
    return DeviceReading(
        uuid=device.uuid,
        index=device.index,
        total_mib=device.memory.total_mib,
        vendor=device.vendor or "nvidia",
        product=device.product or device.model,
        architecture=device.architecture,
        compute_capability=(int(major), int(minor)) if minor else None,
        numa_node=device.numa_node,
        pci_bus_id=device.pci_bus_id,
        mig_enabled=mig.enabled,
        grid_size=mig.grid_size,
        profiles=tuple(
            ProfileReading(p.name, p.size or None, tuple(p.starts) or None, p.max_instances, p.memory_mib)
            for p in mig.profiles or ()
        ),
        instances=tuple(InstanceReading(i.uuid, i.profile, i.start, i.size) for i in mig.instances or ()),
    )
