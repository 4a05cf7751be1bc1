"""The event handler of GPUNodes."""

import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.cluster.events.inventory_events import ReportProblems
from scheduler_ext.cluster.inventory.cache_handler import CacheHandler
from scheduler_ext.cluster.inventory.server_times import held_room, report_time
from scheduler_ext.core.errors import ImpossibleReportError
from scheduler_ext.wire.gpunode import GpuNode, GpuNodeMeta
from scheduler_ext.wire.held_annotation import written_rooms
from scheduler_ext.wire.kube import owner_uid
from scheduler_ext.wire.readings import read_readings
from scheduler_ext.wire.report import read_report
from scheduler_ext.wire.watching import Broken

log = logging.getLogger(__name__)


@dataclass(eq=False)
class ReportHandler(CacheHandler[GpuNode]):
    """GPUNodes: the reports of agents, when the API server received them, and the rooms held there."""

    kind = "GPUNode"
    together = 15
    _problems: ReportProblems
    # The uid of the object that holds a node's last good report. An object that was created again while no
    # watch ran numbers its reports from 1.
    _uids: dict[str, str | None] = field(default_factory=dict, init=False)

    def upsert(self, items: Sequence[GpuNode], clock: ServerClock) -> None:
        for node in items:
            self._take(node, clock)
        self._changed()

    def broken(self, item: Broken) -> None:
        self._unlisted.discard(item.name)
        self._refuse(item.name, f"GPUNode {item.name}: {item.problem}; the report is refused")
        self._changed()

    def known(self) -> set[str]:
        with self._locked as cache:
            return cache.reports() | self._problems.nodes()

    def remove(self, keys: Collection[str]) -> None:
        now = time.monotonic()
        for name in keys:
            with self._locked as cache:
                cache.remove_report(name, now)
            self._uids.pop(name, None)
            self._problems.gone(name)
        self._changed()

    def _take(self, node: GpuNode, clock: ServerClock) -> None:
        metadata = node.metadata or GpuNodeMeta()
        name = self.key(node)
        self._unlisted.discard(name)
        with self._locked as cache:
            previous, received = cache.last_report(name)
        if self._uids.get(name, metadata.uid) != metadata.uid:
            previous = None
        try:
            report = read_report(node, previous)
        except ImpossibleReportError as error:
            self._refuse(name, str(error))
            return
        now = time.monotonic()
        if report is None:
            with self._locked as cache:
                cache.remove_report(name, now)
            self._problems.gone(name)
            return
        received = report_time(report, previous, received, metadata, clock, now)
        with self._locked as cache:
            cache.update_report(
                name, report, received, now, owner_uid(metadata.owner_references), read_readings(node)
            )
            cache.update_held(name, [held_room(each, clock, now) for each in written_rooms(node)])
        self._uids[name] = metadata.uid
        self._problems.accepted(name, report.cordoned_strangers)

    def _refuse(self, name: str, problem: str) -> None:
        log.error("%s", problem)
        self._problems.refused(name, problem)
