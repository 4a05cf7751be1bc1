"""A live cluster read once, into the state that a running extender would have by now."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from urllib.parse import quote

from scheduler_ext.cluster.api_paths import BUDGETS, GPU_NODES, NODES, PODS, QUOTAS
from scheduler_ext.cluster.client.transport import RefusedError, ServerClock, Transport
from scheduler_ext.cluster.dra.device_handlers import KINDS
from scheduler_ext.cluster.dra.discovery import discovered, other_versions
from scheduler_ext.cluster.inventory.cache_handler import scheduler_cache
from scheduler_ext.cluster.inventory.pod_state import PodState, holds_gpus, pod_state, update_pod
from scheduler_ext.cluster.inventory.server_times import created_at, planned_until, received_at
from scheduler_ext.cluster.reflector import PAGE
from scheduler_ext.core.cache.cache import Cache
from scheduler_ext.core.cache.device_index import DeviceIndex
from scheduler_ext.core.dra.published import Claim
from scheduler_ext.core.errors import ClusterError, ImpossibleReportError, InventoryError
from scheduler_ext.core.node.pod_facts import PodFacts
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.sources.clusterstate import ClusterState, held_pods
from scheduler_ext.wire import kube, selectors
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.controllers import CONTROLLED, add_controller, controller_of
from scheduler_ext.wire.dra.resource_api import GROUP
from scheduler_ext.wire.gpunode import GpuNode, GpuNodeMeta
from scheduler_ext.wire.held_annotation import WrittenRoom, written_rooms
from scheduler_ext.wire.kube import owner_uid
from scheduler_ext.wire.node_info import node_record
from scheduler_ext.wire.objects import Objects
from scheduler_ext.wire.pod.pod_identity import is_finished, pod_name, pod_uid
from scheduler_ext.wire.pod.pod_request import asks_gpu
from scheduler_ext.wire.pod_facts import pod_facts
from scheduler_ext.wire.quota import QuotaObject, read_quota
from scheduler_ext.wire.readings import read_readings
from scheduler_ext.wire.report import read_report
from scheduler_ext.wire.watching import Decoder

T = TypeVar("T")


def cluster_state(
    transport: Transport,
    source: str,
    config: Configuration,
    *,
    with_objects: bool = False,
    with_waiting: bool = False,
    with_controllers: bool = False,
    with_quotas: bool = False,
    claims: Iterable[Claim] = (),
) -> ClusterState:
    """Every node of a cluster as of now; `with_objects` adds the Nodes and the pods that hold resources,
    which take most of the memory, `with_waiting` also the pods that wait and the PodDisruptionBudgets,
    `with_controllers` the pods with GPUs, finished ones too, and the owners of their ReplicaSets and Jobs,
    `with_quotas` the ResourceQuotas, and `claims` more claims that pods ask through. Raises ClusterError;
    InventoryError naming an object and its field."""
    resources = config.resource_names()
    cache = scheduler_cache(config)
    objects = Objects()
    now = time.monotonic()
    _read_nodes(transport, source, cache, resources, now, objects.nodes if with_objects else None)
    facts: dict[str, PodFacts] = {}
    cache.demand.hold()
    for pod, state, clock in _pods(transport, source, resources):
        update_pod(cache, pod_uid(pod), state, now, planned_until(state, clock, now))
        if holds_gpus(state):
            facts[pod_uid(pod)] = pod_facts(pod)
        spec = pod.spec or kube.PodSpec()
        shown = with_objects and (spec.node_name or with_waiting) and not is_finished(pod)
        if shown or (with_controllers and asks_gpu(spec, resources)):
            objects.pods.append(pod)
    cache.demand.release()
    if with_waiting:
        budgets = _list(transport, BUDGETS, Decoder(selectors.PodDisruptionBudget))
        objects.budgets.extend(selectors.budget(budget) for budget, _ in budgets)
    problems: dict[str, str] = {}
    if with_controllers:
        _read_controllers(transport, objects, problems)
    if with_quotas:
        with _allowed("resourcequotas", problems), _named(source):
            for item, _ in _list(transport, QUOTAS, Decoder(QuotaObject), problems):
                objects.quotas.append(read_quota(item))
    rooms, said = _read_reports(transport, cache, now, problems)
    _read_devices(transport, cache.devices, problems)
    for claim in claims:
        cache.devices.update_claim(claim)
    cache.devices.settle()
    if problems.keys().isdisjoint(KINDS):
        cache.devices.count_others(objects.labels())
    cache.touch_devices(cache.nodes(), now)
    cache.tick(now)
    infos = {info.name: info for info in cache.infos()}
    ages, workload = cache.ages(now), cache.demand.workload()
    pending = cache.all_pending()
    return ClusterState(
        source,
        objects,
        infos,
        ages,
        problems,
        workload,
        pending,
        cache.devices,
        cache.readings(),
        facts,
        held_pods(rooms, said, pending),
    )


def _read_nodes(
    transport: Transport,
    source: str,
    cache: Cache,
    resources: ResourceNames,
    now: float,
    nodes: dict[str, kube.NodeObject] | None,
) -> None:
    """Put all Nodes into the cache, and into `nodes` by name."""
    for node, clock in _list(transport, NODES, Decoder(kube.NodeObject)):
        metadata = node.metadata or kube.ObjectMeta()
        name = metadata.name or ""
        if nodes is not None:
            nodes[name] = node
        with _named(f"{source}: Node {name}: status"):
            cache.update_node(name, node_record(node, resources), now, created_at(node, clock, now))


def _pods(
    transport: Transport, source: str, resources: ResourceNames
) -> Iterator[tuple[kube.Pod, PodState, ServerClock]]:
    for pod, clock in _list(transport, PODS, Decoder(kube.Pod)):
        with _named(f"{source}: Pod {pod_name(pod)}: spec"):
            state = pod_state(pod, resources)
        yield pod, state, clock


def _read_reports(
    transport: Transport, cache: Cache, now: float, problems: dict[str, str]
) -> tuple[dict[str, list[WrittenRoom]], float]:
    """Read the reports; the rooms that are held, by node, and the server's time."""
    rooms: dict[str, list[WrittenRoom]] = {}
    said = 0.0
    for gpu_node, clock in _reports(transport, problems):
        metadata = gpu_node.metadata or GpuNodeMeta()
        name = metadata.name or ""
        said = clock.server_time
        try:
            report = read_report(gpu_node)
        except ImpossibleReportError as error:
            # A bad report must not hide the other nodes; a running extender keeps the last good one.
            problems[name] = str(error)
            continue
        if report is not None:
            rooms[name] = written_rooms(gpu_node)
            cache.update_report(
                name,
                report,
                received_at(metadata, clock, now),
                now,
                owner_uid(metadata.owner_references),
                read_readings(gpu_node),
            )
    return rooms, said


def _read_controllers(transport: Transport, objects: Objects, problems: dict[str, str]) -> None:
    """The owners of the ReplicaSets and Jobs of the pods. What may not be read is named."""
    above = {controller_of(pod.metadata) for pod in objects.pods if pod.metadata is not None}
    lists = {(each.kind, each.namespace) for each in above if each is not None and each.kind in CONTROLLED}
    for kind, namespace in sorted(lists):
        path = CONTROLLED[kind].format(quote(namespace, safe=""))
        with _allowed(f"{kind}s of {namespace}", problems):
            for item, _ in _list(transport, path, Decoder(kube.Header), problems, metadata_only=True):
                add_controller(objects.controllers, kind, item.metadata)


def _read_devices(transport: Transport, devices: DeviceIndex, problems: dict[str, str]) -> None:
    """The devices of Dynamic Resource Allocation. What may not be read is named and counts as nothing."""
    with _allowed(GROUP, problems):
        paths = discovered(transport)
        if not paths and (others := other_versions(transport)) is not None:
            problems[GROUP] = others
        for resource, path in paths.items():
            kind = KINDS[resource]
            with _allowed(resource, problems):
                for item, _ in _list(transport, path, Decoder(kind.object), problems):
                    kind.update(devices, kind.read(item))


@contextmanager
def _allowed(what: str, problems: dict[str, str]) -> Iterator[None]:
    """Name what the user may not read, and go on."""
    try:
        yield
    except RefusedError as error:
        if error.status != 403:
            raise
        problems[what] = f"{what}: not counted: {error}"


@contextmanager
def _named(what: str) -> Iterator[None]:
    try:
        yield
    except QuantityError as error:
        raise InventoryError(f"{what}: {error}") from None


def _reports(transport: Transport, problems: dict[str, str]) -> Iterator[tuple[GpuNode, ServerClock]]:
    try:
        yield from _list(transport, GPU_NODES, Decoder(GpuNode), problems)
    except RefusedError as error:
        # A cluster without our CRD has no agents: only labels describe its GPUs.
        if error.status != 404:
            raise


def _list(
    transport: Transport,
    path: str,
    decoder: Decoder[T],
    problems: dict[str, str] | None = None,
    *,
    metadata_only: bool = False,
) -> Iterator[tuple[T, ServerClock]]:
    """All objects of a list, page by page, with the server's clock as of their page. An object that cannot be
    read is added to `problems` by name; where that is None it raises ClusterError."""
    query = {"limit": str(PAGE)}
    while True:
        reply = transport.get_metadata(path, query) if metadata_only else transport.get(path, query)
        page = decoder.page(reply.body)
        for item in page.broken:
            problem = f"{path}: {item.name}: {item.problem}"
            if problems is None:
                raise ClusterError(problem)
            problems[item.name] = problem
        yield from ((item, reply.clock) for item in page.items)
        if not page.next:
            return
        query["continue"] = page.next
