"""What an active extender writes to the cluster, beside bindings: Events, nudges, labels and taints of nodes,
DeviceTaintRules, placeholders, and evictions of idle pods."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from scheduler_ext.background import Background
from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.cluster.agent_labels import AgentLabels
from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.events.cures import Cures
from scheduler_ext.cluster.events.event_recorder import EventRecorder
from scheduler_ext.cluster.events.inventory_events import InventoryEvents, ReportProblems
from scheduler_ext.cluster.events.placement_events import PlacementEvents
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.extender import Extender
from scheduler_ext.features.autoscaling.placeholders import placeholder_writer
from scheduler_ext.features.autoscaling.placeholders.placeholder_writer import PlaceholderWriter
from scheduler_ext.features.autoscaling.startup_taints import StartupTaints
from scheduler_ext.features.claims.taint_writer import TaintWriter
from scheduler_ext.features.idle.reclaim.reclaimer import Reclaimer
from scheduler_ext.sources.source_status import Watched
from scheduler_ext.wire.config import Configuration


class Cluster(placeholder_writer.Cluster, Watched, Protocol):
    """The cluster as a running extender knows it. `latest_facts` follows the Nodes."""

    locked: LockedCache

    @property
    def latest_facts(self) -> Mapping[str, NodeFacts]: ...


@dataclass(frozen=True, eq=False)
class Writers:
    """The parts; those without a switch always work, and write only while this extender is active."""

    report_problems: ReportProblems
    recorder: EventRecorder
    placements: PlacementEvents
    agent_labels: AgentLabels
    inventory_events: InventoryEvents
    cures: Cures
    startup_taints: StartupTaints
    placeholders: PlaceholderWriter
    taint_writer: TaintWriter | None
    reclaimer: Reclaimer | None

    @classmethod
    def of(
        cls,
        transport: Transport,
        cluster: Cluster,
        extender: Extender,
        config: Configuration,
        rules_path: Callable[[], str | None],
        namespace: str,
    ) -> "Writers":
        """The parts for one cluster. `rules_path` returns the path of DeviceTaintRules once they are listed;
        `namespace` is that of the record of evictions."""
        recorder = EventRecorder(transport, cluster.active)
        say, warn, active = recorder.write, recorder.warn, cluster.active
        resources = config.resource_names()
        labels = AgentLabels(transport, active, config.inventory.label_nodes, cluster.latest_facts, say)
        taint_writer = reclaimer = None
        if config.dra.device_taints:
            taint_writer = TaintWriter(
                transport, cluster.locked, active, rules_path, lambda: cluster.snapshot
            )
        if config.idle.reclaim.mode != "off":
            reclaimer = Reclaimer(transport, active, config, namespace, cluster, say)
        return cls(
            ReportProblems(),
            recorder,
            PlacementEvents(extender.record, say),
            labels,
            InventoryEvents(warn, resources, labels.why_not),
            Cures(extender.refusals, active, recorder.nudge),
            StartupTaints(transport, cluster, resources, say, warn),
            PlaceholderWriter(transport, cluster, extender.record, extender.new_nodes, config, say),
            taint_writer,
            reclaimer,
        )

    @property
    def workers(self) -> list[Background]:
        """The parts with threads of their own."""
        switched = (self.taint_writer, self.reclaimer)
        always = (self.agent_labels, self.startup_taints, self.placeholders, self.recorder)
        return [*always, *(part for part in switched if part is not None)]

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
            self.recorder.warn(node, known.info.uid if known else None, reason, note, about)
