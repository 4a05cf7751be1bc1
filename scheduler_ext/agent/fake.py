"""Readings from a file instead of from GPUs, for demonstrations and for nodes that do not exist."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Event

from scheduler_ext.agent.alive import Pulse
from scheduler_ext.agent.fitting import NODE_NAME
from scheduler_ext.agent.loop import REQUESTS_S
from scheduler_ext.agent.node_status import summary
from scheduler_ext.agent.reporter import Reporter
from scheduler_ext.core.errors import InventoryError
from scheduler_ext.sources.clusterstate import load_objects
from scheduler_ext.wire.gpunode import GpuNode, GpuNodeStatus, WrittenStatus, summarised
from scheduler_ext.wire.report import read_report
from scheduler_ext.wire.times import seconds

log = logging.getLogger(__name__)


class FakeReadings:
    """The GPUNodes of an inventory file, or those with these names; read again when the file changes."""

    def __init__(self, path: Path, names: Sequence[str] = ()) -> None:
        """Raises InventoryError naming the file, also for a name that it does not have."""
        self._path = path
        self._names = names
        self._seen = self._identity()
        self._statuses = self._read()
        for name in names:
            if name not in self._statuses:
                raise InventoryError(f"{path}: no GPUNode {name} in it")

    def statuses(self) -> Mapping[str, WrittenStatus]:
        """The status of each node by name; of the last good file while the present one cannot be read."""
        seen = self._identity()
        if seen != self._seen:
            self._seen = seen
            try:
                self._statuses = self._read()
            except InventoryError as error:
                log.error("the last good content of the file is reported: %s", error)
        return self._statuses

    def _read(self) -> dict[str, WrittenStatus]:
        gpu_nodes = load_objects(self._path).gpu_nodes
        if not gpu_nodes:
            raise InventoryError(f"{self._path}: no GPUNode in it; give a file with one for each node")
        try:
            statuses = {name: _status(name, node) for name, node in gpu_nodes.items()}
        except InventoryError as error:
            raise type(error)(f"{self._path}: {error}") from None
        return {name: statuses[name] for name in self._names or statuses if name in statuses}

    def _identity(self) -> tuple[int, ...] | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return (stat.st_ino, stat.st_size, stat.st_mtime_ns)


def _status(name: str, node: GpuNode) -> WrittenStatus:
    """The status with its summary. Raises InventoryError for content that the extender would refuse."""
    if not NODE_NAME.fullmatch(name):
        raise InventoryError(f"GPUNode {name!r}: metadata.name: is not a valid Node name")
    read_report(node)
    status = node.status or GpuNodeStatus()
    at = status.reported_at
    if at is not None and seconds(at) is None:
        raise InventoryError(
            f"GPUNode {name}: status.reportedAt: {at!r} is no time such as 2026-11-21T07:13:08Z"
        )
    devices = status.devices or []
    return summarised(status.but(devices=devices), summary(devices))


def run_fake(
    readings: FakeReadings,
    reporter_of: Callable[[str], Reporter],
    interval_s: float,
    stopped: Event,
    pulse: Pulse | None = None,
) -> int:
    """Report the nodes of a file until stopped; returns the exit status."""
    pulse = pulse or Pulse()
    reporter = cache(reporter_of)
    while not stopped.is_set():
        for name, status in readings.statuses().items():
            pulse.beat(REQUESTS_S)
            reporter(name).node()
            reporter(name).offer(status)
            if stopped.is_set():
                break
        pulse.beat(interval_s)
        stopped.wait(interval_s)
    return 0
