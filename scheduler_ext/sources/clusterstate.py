"""A cluster at one moment, for commands that answer one question."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from scheduler_ext.core.cache.device_index import DeviceIndex
from scheduler_ext.core.cache.held_rooms import HeldRoom, HeldRooms
from scheduler_ext.core.cycle.placement import Sizing, place_nominated
from scheduler_ext.core.dra.published import Claim
from scheduler_ext.core.errors import InventoryError, UnreadableFileError
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.gpu.readings import NodeReadings
from scheduler_ext.core.node.node import BoundPod, NodeInfo, PendingPod
from scheduler_ext.core.node.nominated import nodes_with_nominated_pods
from scheduler_ext.core.node.pod_facts import FactsOfPods
from scheduler_ext.core.request.pod_kinds import UNKNOWN, Workload
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.wire import kube
from scheduler_ext.wire.files import FileTooLargeError, read_file
from scheduler_ext.wire.held_annotation import WrittenRoom, written_rooms
from scheduler_ext.wire.objects import (
    Objects,
    assemble,
    device_index,
    read_objects,
    waiting,
    workload_of,
)
from scheduler_ext.wire.pod.pod_identity import pod_name, pod_uid
from scheduler_ext.wire.pod_facts import pod_facts
from scheduler_ext.wire.readings import readings_of
from scheduler_ext.wire.times import seconds


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Every node as a decision sees it, and the objects it came from, as far as they are kept. `source`
    names the cluster in messages. By node, `ages_s` are the ages of reports (absent: just received) and
    `problems` the reasons why reports were left out. `workload` is the demand expected from its pods;
    `pending` are the pods that request GPUs and have no node; `claims` are the ResourceClaims; `readings` is
    the activity of the GPUs, and `facts` are those about the pods on nodes. `held` are the pods that a
    defragmentation holds room for, by node."""

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
    held: Mapping[str, Sequence[BoundPod]] = field(default_factory=dict)

    def snapshot(self, sizing: Sizing) -> Snapshot:
        """The nodes and their forecast, for decisions."""
        return self._snapshot_of(self.infos, sizing)

    def snapshot_with_held(self, sizing: Sizing) -> Snapshot:
        """The snapshot, with the pods that room is held for among the nominated ones."""
        return self._snapshot_of(self._with_held(sizing), sizing)

    def snapshot_for(self, uid: str, priority: int, sizing: Sizing) -> Snapshot:
        """The snapshot that a waiting pod of that uid and priority sees in filter: without the rooms that are
        kept for others, by a nomination or by a defragmentation."""
        infos = self._with_held(sizing)
        return self._snapshot_of(infos | nodes_with_nominated_pods(infos.values(), uid, priority), sizing)

    def waiting_uid(self, pod: kube.Pod) -> str:
        """The uid of a pod if it waits here, also of one that is given by its name alone; empty otherwise."""
        uid, name = pod_uid(pod), pod_name(pod)
        for each in (pending.pod for pending in self.pending):
            if each.uid == uid if uid else f"{each.namespace}/{each.name}" == name:
                return each.uid
        return ""

    def _with_held(self, sizing: Sizing) -> dict[str, NodeInfo]:
        infos = dict(self.infos)
        for name, info in infos.items():
            kept = (*info.nominated, *self.held.get(name, ()))
            nominated = {pod.identity: pod for pod in kept}
            if nominated:
                infos[name] = place_nominated(replace(info, nominated=tuple(nominated.values())), sizing)
        return infos

    def _snapshot_of(self, infos: Mapping[str, NodeInfo], sizing: Sizing) -> Snapshot:
        nodes = {name: sizing.resolved(info) for name, info in infos.items()}
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
    pending = waiting(objects, resources, index)
    written = {name: written_rooms(each) for name, each in objects.gpu_nodes.items() if each.status}
    return ClusterState(
        source,
        objects,
        assemble(objects, resources, previous, index),
        workload=workload_of(objects.pods, resources, index),
        pending=pending,
        claims=index,
        readings=readings_of(objects.gpu_nodes),
        facts={pod_uid(pod): pod_facts(pod) for pods in objects.pods_by_node().values() for pod in pods},
        held=held_pods(written, written_at(objects), pending),
    )


def written_at(objects: Objects) -> float:
    """When a file was written, as far as its reports say: the time of the latest; 0 without any."""
    statuses = [node.status for node in objects.gpu_nodes.values() if node.status is not None]
    return max((seconds(status.reported_at) or 0.0 for status in statuses), default=0.0)


def held_pods(
    written: Mapping[str, Sequence[WrittenRoom]], now: float, pending: Iterable[PendingPod]
) -> dict[str, tuple[BoundPod, ...]]:
    """The pods that room is held for by what is written on GPUNodes, by node; `now` is in seconds since
    1970. Room for a pod ends when the pod waits no longer."""
    waits = {f"{each.pod.namespace}/{each.pod.name}": each.pod for each in pending if each.invalid is None}
    rooms, found = HeldRooms(), {}
    for node, here in written.items():
        rooms.update(
            node,
            [
                HeldRoom(room.name, 0.0, room.priority, room.request(), room.by_container)
                for room in here
                if room.until > now
            ],
        )
        if pods := rooms.pods(node, waits.get):
            found[node] = tuple(pods.values())
    return found
