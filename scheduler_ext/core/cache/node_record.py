"""The GPU facts of a Node object, and the node as its record, report and pods describe it together."""

from dataclasses import dataclass, field

from scheduler_ext.core.cache.ledger import NO_PODS, NodePods
from scheduler_ext.core.dra.device import NodeDevices
from scheduler_ext.core.dra.published import Claim
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.gpu.models import vgpu_fraction
from scheduler_ext.core.node.dra_join import joined
from scheduler_ext.core.node.estimate import NO_CAPS, Caps, Estimate, capped
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.node_labels import AgentLabel, Way
from scheduler_ext.core.node.offered_instances import as_offered, as_shared


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """The amounts that a Node hands out, and the facts that its labels state. `advertised` is the MiB of
    shares in capacity and in allocatable, `pool` the node pool, "" if unknown. `has_nvidia`: NVIDIA's device
    plugin hands out GPUs or MIG instances. `uncounted` as in NodeInfo."""

    uid: str | None = None
    allocatable: dict[str, int] = field(default_factory=dict)
    estimate: Estimate | None = None
    caps: Caps = NO_CAPS
    share_node: bool = False
    spot: bool = False
    value: float = 0.0
    changing: bool = False
    advertised: tuple[int | None, int | None] = (None, None)
    cpu_milli: int | None = None
    pool: str = ""
    agent_label: AgentLabel = "lacks"
    has_nvidia: bool = False
    capacity: dict[str, int] = field(default_factory=dict)
    handed_out_by: Way | None = None
    one_replica: bool | None = None
    failed_change: str = ""
    fraction: int = 1
    uncounted: dict[str, int] = field(default_factory=dict)

    def info(
        self,
        name: str,
        report: Report | None,
        pods: NodePods = NO_PODS,
        freshness: str = "Fresh",
        cpu_elsewhere_milli: int = 0,
        devices: NodeDevices | None = None,
        claims: tuple[Claim, ...] = (),
        *,
        allow_unreported: bool = False,
    ) -> NodeInfo:
        """The node as its sources describe it together. The CPU of a node without GPUs is left out.
        `allow_unreported`: without a fresh report it takes pods by its allocatable."""
        if devices is not None:
            report, devices = joined(report, devices)
        has_gpus = report is not None or self.estimate is not None
        return NodeInfo(
            name,
            uid=self.uid,
            report=self._as_offered(report) if report is not None else None,
            estimate=self.estimate if report is None else None,
            freshness=freshness,
            allocatable=self.allocatable,
            share_node=self.share_node,
            spot=self.spot,
            value=self.value,
            changing=self.changing,
            pods=pods.counted_once(),
            assumed=pods.assumed,
            nominated=pods.nominated,
            planned=pods.planned,
            cpu_milli=self.cpu_milli if has_gpus else None,
            cpu_elsewhere_milli=cpu_elsewhere_milli if has_gpus else 0,
            pool=self.pool,
            dra=devices,
            claims=claims,
            by_allocatable=allow_unreported and has_gpus and (report is None or freshness != "Fresh"),
            agent_label=self.agent_label,
            capacity=self.capacity,
            handed_out_by=self.handed_out_by,
            one_replica=self.one_replica,
            failed_change=self.failed_change,
            fraction=_fraction(report) if self.fraction == 1 and report is not None else self.fraction,
            uncounted=self.uncounted,
        )

    def _as_offered(self, report: Report) -> Report:
        """A report as the Node's labels and allocatable show it."""
        return as_shared(as_offered(capped(report, self.caps), self.allocatable), self.allocatable)


def _fraction(report: Report) -> int:
    """As NodeInfo's, by the names of reported vGPUs."""
    fractions = {vgpu_fraction(device.product) for device in report.devices if device.vendor == "nvidia"}
    return 0 if 0 in fractions else max(fractions, default=1)
