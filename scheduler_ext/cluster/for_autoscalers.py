"""What a running extender writes for autoscalers: the end of startup taints, and placeholders."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.events.event_recorder import EventRecorder
from scheduler_ext.cluster.placeholders.placeholder_writer import PlaceholderWriter
from scheduler_ext.cluster.startup_taints import StartupTaints
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.extender.extender import Extender
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.pod import ClaimLookup


class Followed(Protocol):
    """The cluster as a running extender knows it."""

    @property
    def snapshot(self) -> Snapshot | None: ...

    def pending(self) -> Sequence[PendingPod]: ...

    def node_facts(self) -> Mapping[str, NodeFacts]: ...

    def active(self) -> bool: ...

    @property
    def claims(self) -> ClaimLookup | None: ...


class ForAutoscalers(NamedTuple):
    """The parts, each with a thread of its own."""

    startup_taints: StartupTaints
    placeholders: PlaceholderWriter

    @classmethod
    def of(
        cls,
        transport: Transport,
        cluster: Followed,
        extender: Extender,
        recorder: EventRecorder,
        config: Configuration,
    ) -> "ForAutoscalers":
        """The parts for one cluster."""
        return cls(
            StartupTaints(transport, cluster, config.resource_names(), recorder.write, recorder.warn),
            PlaceholderWriter(
                transport, cluster, extender.record, extender.new_nodes, config, recorder.write
            ),
        )
