"""What an active extender writes to the cluster beside bindings: Events, nudges, and labels of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler_ext.cluster.agent_labels import AgentLabels
from scheduler_ext.cluster.events.inventory_events import InventoryEvents, ReportProblems, Warn
from scheduler_ext.cluster.events.placement_events import PlacementEvents
from scheduler_ext.cluster.events.queueing_hints import QueueingHints
from scheduler_ext.cluster.following import Live
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.wire.config import Configuration


@dataclass(frozen=True, eq=False)
class Writers:
    """The parts, which write only while this extender is active; `warn` writes an Event about a node."""

    report_problems: ReportProblems
    placements: PlacementEvents
    agent_labels: AgentLabels
    inventory_events: InventoryEvents
    queueing_hints: QueueingHints
    warn: Warn

    @classmethod
    def of(cls, live: Live, config: Configuration) -> Writers:
        """The parts for one cluster."""
        say, warn = live.recorder.write, live.recorder.warn
        labels = AgentLabels(
            live.transport, live.active, config.inventory.label_nodes, live.latest_facts, say
        )
        return cls(
            ReportProblems(),
            PlacementEvents(live.extender.record, say),
            labels,
            InventoryEvents(warn, config.resource_names(), labels.why_not),
            QueueingHints(live.extender.refusals, live.active, live.recorder.nudge),
            warn,
        )

    def follow(
        self,
        before: Snapshot | None,
        infos: Mapping[str, NodeInfo | None],
        records: Mapping[str, NodeRecord | None],
    ) -> None:
        """Look at nodes that changed since this snapshot."""
        self.inventory_events.follow(infos, self.agent_labels.follow(infos, records))
        if before is not None:
            self.placements.follow(before, infos)

    def write_report_problems(self, snapshot: Snapshot) -> None:
        """Write Events on problems of reports, also of those found while another extender was active."""
        for node, reason, note, about in self.report_problems.take_unwritten():
            known = snapshot.nodes.get(node)
            self.warn(node, known.info.uid if known else None, reason, note, about)
