"""The shared Hypothesis room: random nodes, clusters and requests, as cluster sources could give them.

Sizes come from short lists that meet often, so that requests fit about as often as they do not, and
several nodes are equal. Pods, devices and containers have few names, so that holders find their pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.gpu.mig_profile import profile_from_resource
from scheduler_ext.core.node.node import BoundPod, Node, NodeInfo
from scheduler_ext.core.node.state import resolve
from scheduler_ext.core.request.pod_kinds import UNKNOWN, TaskClass, Workload
from scheduler_ext.core.request.request import GpuRequest, InitShare, ShareRequest, UnitRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot
from tests.gpu_strategies import CONTAINERS, POD_NAMES, estimates, one_in, reports, sizes_mib

RESOURCES = ResourceNames()
MODEL_WISHES = (
    "A100",
    "A100-80GB",
    "A100-40GB",
    "H100-80GB",
    "T4",
    "RTX-PRO-6000",
    "FUTURE-CHIP",
    "A100-80GB-MIG-2G.20GB",
)
MIG_RESOURCES = (
    "nvidia.com/mig-1g.10gb",
    "nvidia.com/mig-2g.20gb",
    "nvidia.com/mig-3g.40gb",
    "nvidia.com/mig-1g.5gb",
    "nvidia.com/mig-1g.24gb",
    "nvidia.com/mig-1g.10gb.shared",
)
# Not sorted, so that neither rows nor names can stand in for each other.
NODE_NAMES = ("m", "c", "x", "a", "t", "k", "z", "b", "p", "f", "s", "d")


@cache
def _up_to(count: int) -> SearchStrategy[list[int]]:
    """The maximum number of sizes."""
    return st.lists(sizes_mib, max_size=count)


@cache
def _starts(running: int) -> SearchStrategy[list[int]]:
    """After how many of the running containers one or two init containers start."""
    return st.lists(st.integers(0, running), min_size=1, max_size=2)


@cache
@st.composite
def share_asks(draw: DrawFn, max_running: int = 3) -> ShareRequest:
    """Shares of up to `max_running` running containers and two init ones, at least one in all."""
    sizes = draw(_up_to(max_running))
    running = tuple((CONTAINERS[i], mib) for i, mib in enumerate(sizes))
    if running and not draw(one_in(3)):
        return ShareRequest(running)
    # An init container starts beside the sidecars before it, which are the first of the running ones.
    started = sorted(draw(_starts(len(running))))
    init = tuple(
        InitShare(f"init-{i}", draw(sizes_mib), tuple(range(sidecars))) for i, sidecars in enumerate(started)
    )
    return ShareRequest(running, init)


_whole = st.sampled_from(("nvidia.com/gpu", "nvidia.com/gpu", "nvidia.com/gpu.shared", "amd.com/gpu"))
_mig = st.sampled_from(MIG_RESOURCES)
_unit_names: SearchStrategy[tuple[str, ...]] = st.one_of(
    st.tuples(_whole), st.tuples(_whole), st.tuples(_mig), st.tuples(_mig, _whole)
)
_unit_counts = st.sampled_from((1, 1, 1, 2, 4))


@cache
@st.composite
def unit_asks(draw: DrawFn, max_count: int = 4) -> tuple[UnitRequest, ...]:
    """One or two counted resources; never two names for one vendor's whole GPUs."""
    names = draw(_unit_names)
    return tuple(
        UnitRequest(
            name,
            min(max_count, draw(_unit_counts)),
            profile_from_resource(name)[0] if "/mig-" in name else None,
        )
        for name in names
    )


_wishes: SearchStrategy[tuple[str, Any]] = st.one_of(
    st.tuples(
        st.just("models"),
        st.lists(st.sampled_from(MODEL_WISHES), min_size=1, max_size=3, unique=True).map(tuple),
    ),
    st.tuples(st.just("min_memory_mib"), st.sampled_from((10_000, 40_000, 80_000))),
    st.tuples(st.just("min_free_mib"), st.sampled_from((1, 9_000, 30_000))),
    st.tuples(st.just("min_compute_capability"), st.sampled_from(((7, 5), (8, 0), (9, 0)))),
    st.tuples(st.just("min_cuda"), st.sampled_from(((12,), (12, 4), (13, 0, 1)))),
    st.tuples(st.just("strategy"), st.sampled_from(("binpack", "spread"))),
    st.tuples(st.just("sharing"), st.sampled_from(("exclusive", "any"))),
    st.tuples(st.just("soft_preferences"), st.just(True)),
)


_some_wishes = st.lists(_wishes, max_size=3)
_kinds = st.sampled_from(("units", "units", "shares", "shares", "both"))
_priorities = st.sampled_from((0, 0, 1, 100, 10**9, -1, -(10**6)))
cpu_asks = st.sampled_from((0, 0, 500, 4_000, 12_000, 64_000))


@cache
@st.composite
def requests(draw: DrawFn) -> GpuRequest:
    """A pod with GPUs in any form of request, with any wishes."""
    kind = draw(_kinds)
    units = draw(unit_asks(max_count=2 if kind == "both" else 4)) if kind != "shares" else ()
    units = tuple(replace(each, in_one=draw(st.sampled_from((0, 0, 1)))) for each in units)
    shares = draw(share_asks()) if kind != "units" else None
    request = GpuRequest(units, shares, priority=draw(_priorities))
    wishes = draw(_some_wishes)
    request = replace(request, cpu_milli=draw(cpu_asks), **dict(wishes))
    shared = any(ask.resource.endswith(".shared") for ask in units)
    return replace(request, sharing=None) if shared else request


# A cluster takes longer to draw than a request: so it gets more than one.
several_requests = st.lists(requests(), min_size=3, max_size=3)


_told_containers = st.lists(st.sampled_from(CONTAINERS[:2]), max_size=2, unique=True)
_bound_priorities = st.sampled_from((0, 0, -5, 7, 100, 2 * 10**9))


@cache
def _told_devices(uuids: tuple[str, ...]) -> SearchStrategy[list[str]]:
    return st.lists(st.sampled_from((*uuids, "GPU-gone")), max_size=2)


@cache
@st.composite
def bound_pods(draw: DrawFn, name: str, uuids: tuple[str, ...]) -> BoundPod:
    """A pod on a node, running or finished, with assigned or unknown devices."""
    units: tuple[UnitRequest, ...] = ()
    shares = None
    if draw(st.booleans()):
        units = draw(unit_asks(max_count=2))
    else:
        shares = draw(share_asks(2))
    told = {container: tuple(draw(_told_devices(uuids))) for container in draw(_told_containers)}
    return BoundPod(
        uid=name,
        namespace="default",
        name=name,
        priority=draw(_bound_priorities),
        request=GpuRequest(units, shares),
        devices=told,
        finished=draw(one_in(4)),
        cpu_milli=draw(cpu_asks),
    )


_sources = st.sampled_from(("report",) * 8 + ("estimate", "estimate", "none"))
_offered = st.sampled_from((16, 16, 4, 1, 0))
_offered_mib = st.sampled_from((2**20, 2**20, 30_000, 0))
_pods_there: SearchStrategy[tuple[str, ...]] = st.sampled_from(
    ((), (), *((name,) for name in POD_NAMES[:2]), POD_NAMES)
)
_freshness = st.sampled_from(("Fresh",) * 14 + ("Stale", "Missing"))
_cpu_milli = st.sampled_from((None, 16_000, 96_000))
_cpu_elsewhere_milli = st.sampled_from((0, 0, 7_500, 96_000))


@cache
@st.composite
def node_infos(draw: DrawFn, name: str = "node") -> NodeInfo:
    """One node: reported, estimated, without GPUs, or unknown; with or without a Node object."""
    source = draw(_sources)
    report = draw(reports()) if source == "report" else None
    uuids = tuple(device.uuid for device in report.devices) if report else ()
    allocatable = None
    if draw(one_in(3)):
        allocatable = {
            resource: draw(_offered)
            for resource in ("nvidia.com/gpu", "nvidia.com/gpu.shared", "amd.com/gpu", *MIG_RESOURCES[:2])
        }
        allocatable[RESOURCES.share] = draw(_offered_mib)
    pods = draw(_pods_there)
    freshness = draw(_freshness)
    is_reported = report is not None and freshness == "Fresh"
    return NodeInfo(
        name=name,
        report=report,
        estimate=draw(estimates()) if source == "estimate" else None,
        freshness=freshness,
        allocatable=allocatable,
        spot=draw(st.booleans()),
        changing=draw(one_in(20)),
        pods=tuple(draw(bound_pods(pod, uuids)) for pod in pods),
        cpu_milli=draw(_cpu_milli),
        cpu_elsewhere_milli=draw(_cpu_elsewhere_milli),
        by_allocatable=source != "none" and not is_reported and draw(st.booleans()),
    )


_profiles = st.sampled_from(sorted({profile_from_resource(name)[0] for name in MIG_RESOURCES}))


_class_gpus = st.sampled_from((0, 0, 1, 2, 4, 8))
_class_shares = st.lists(st.sampled_from((1, 4_000, 16_000, 40_000)), max_size=2)
_class_models = st.sets(st.sampled_from(("A100", "T4", "A100-80GB", "NONE")), max_size=2)
_class_mig = st.dictionaries(_profiles, st.integers(1, 3))


@cache
@st.composite
def task_classes(draw: DrawFn) -> TaskClass:
    """Whole GPUs, shares, MIG instances, or CPU alone, for some models or all."""
    gpus = draw(_class_gpus)
    shares = () if gpus else tuple(draw(_class_shares))
    models = tuple(sorted(draw(_class_models)))
    mig = () if gpus or shares else tuple(sorted(draw(_class_mig).items()))
    return TaskClass(draw(cpu_asks), gpus, shares, mig, models)


_class_counts = st.dictionaries(task_classes(), st.sampled_from((1, 1, 5, 40)), max_size=5)
_unknown = st.sampled_from((0.0, 0.0, 3.0))


@cache
@st.composite
def workloads(draw: DrawFn) -> Workload:
    """Expected requests: none known, or classes of all kinds."""
    return Workload.of(draw(_class_counts), draw(_unknown))


@cache
def _nodes_of_kinds(max_kinds: int) -> SearchStrategy[list[tuple[NodeInfo, int]]]:
    return st.lists(st.tuples(node_infos(), st.sampled_from((1, 1, 3))), min_size=1, max_size=max_kinds)


@cache
@st.composite
def clusters(draw: DrawFn, max_kinds: int = 4) -> tuple[NodeInfo, ...]:
    """One to three nodes each of one to `max_kinds` kinds, in no order of names."""
    kinds = draw(_nodes_of_kinds(max_kinds))
    nodes = [info for info, copies in kinds for _ in range(copies)]
    return tuple(replace(info, name=name) for info, name in zip(nodes, NODE_NAMES, strict=False))


def resolved(infos: Sequence[NodeInfo]) -> dict[str, Node]:
    """Nodes by name with the states that follow."""
    return {info.name: resolve(info, RESOURCES, 10) for info in infos}


def snapshot_of(infos: Sequence[NodeInfo], workload: Workload = UNKNOWN) -> Snapshot:
    """The snapshot of these nodes, where such pods are expected."""
    return build_snapshot(resolved(infos), 1, forecast=Forecast(workload, ()))
