"""A cluster at one moment, for commands that answer one question."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scheduler_ext.core.cache.device_index import DeviceIndex
from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.dra.published import Claim
from scheduler_ext.core.errors import InventoryError, UnreadableFileError
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.gpu.readings import NodeReadings
from scheduler_ext.core.node.node import NodeInfo, PendingPod
from scheduler_ext.core.node.pod_facts import FactsOfPods
from scheduler_ext.core.request.pod_kinds import UNKNOWN, Workload
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.wire.files import FileTooLargeError, read_file
from scheduler_ext.wire.objects import (
    Objects,
    assemble,
    device_index,
    read_objects,
    waiting,
    workload_of,
)
from scheduler_ext.wire.pod import pod_uid
from scheduler_ext.wire.pod_facts import pod_facts
from scheduler_ext.wire.readings import readings_of


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Every node as a decision sees it, and the objects it came from, as far as they are kept. `source`
    names the cluster in messages. By node, `ages_s` are the ages of reports (absent: just received) and
    `problems` the reasons why reports were left out. `workload` is the demand expected from its pods;
    `pending` are the pods that request GPUs and have no node; `claims` are the ResourceClaims; `readings` is
    the activity of the GPUs, and `facts` are those about the pods on nodes."""

    source: str
    objects: Objects
    infos: Mapping[str, NodeInfo]
    ages_s: Mapping[str, float] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    workload: Workload = UNKNOWN
    pending: Sequence[PendingPod] = ()
    claims: DeviceIndex | None = None
    readings: NodeReadings = field(default_factory=dict)
    facts: FactsOfPods = field(default_factory=dict)

    def snapshot(self, sizing: Sizing) -> Snapshot:
        """The nodes and their forecast, for decisions."""
        nodes = {name: sizing.resolved(info) for name, info in self.infos.items()}
        return build_snapshot(nodes, 1, forecast=Forecast(self.workload, ()))


def load_objects(path: Path) -> Objects:
    """The objects of an inventory file. Raises InventoryError naming the file; UnreadableFileError if it
    cannot be read."""
    try:
        return read_objects(read_file(path))
    except OSError as error:
        # A file that is too large stays so until it changes.
        kind = InventoryError if isinstance(error, FileTooLargeError) else UnreadableFileError
        raise kind(f"{path}: {error.strerror or error}") from None
    except InventoryError as error:
        raise type(error)(f"{path}: {error}") from None


def file_state(
    path: Path,
    resources: ResourceNames,
    previous: Mapping[str, NodeInfo] | None = None,
    claims: Iterable[Claim] = (),
) -> ClusterState:
    """The cluster of an inventory file; `previous` as in assemble, `claims` as in state_of. Raises
    InventoryError naming file, object and field."""
    objects = load_objects(path)
    try:
        return state_of(objects, str(path), resources, previous, claims)
    except InventoryError as error:
        raise type(error)(f"{path}: {error}") from None


def state_of(
    objects: Objects,
    source: str,
    resources: ResourceNames,
    previous: Mapping[str, NodeInfo] | None = None,
    claims: Iterable[Claim] = (),
) -> ClusterState:
    """The cluster of an inventory, with more `claims` that pods ask through. Raises InventoryError naming
    object and field; it has to have a node."""
    if not objects.nodes and not objects.gpu_nodes and not objects.slices:
        raise InventoryError(
            "no Node and no GPUNode in it; `kubectl get gpunodes,nodes,pods -A -o yaml` writes an inventory"
        )
    index = device_index(objects, resources, claims)
    return ClusterState(
        source,
        objects,
        assemble(objects, resources, previous, index),
        workload=workload_of(objects.pods, resources, index),
        pending=waiting(objects, resources, index),
        claims=index,
        readings=readings_of(objects.gpu_nodes),
        facts={pod_uid(pod): pod_facts(pod) for pods in objects.pods_by_node().values() for pod in pods},
    )
