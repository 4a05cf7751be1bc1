"""Random nodes full of pods, for preemption: small numbers that often match, so that sets nearly suffice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from scheduler_ext.core.gpu.gpu import Device, Holder, Memory
from scheduler_ext.core.gpu.mig_profile import profile_from_resource
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.intree import Requirement
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.preemption.disruption import Budget, PodSelector
from scheduler_ext.core.request.request import GpuRequest, InitShare, ShareRequest, UnitRequest
from tests.core.preemption.preempt_oracle import Question
from tests.core.reported import ONE_G, PROFILE_SIZES, SHARE, WHOLE, device, node, sliced
from tests.gpu_strategies import one_in

TWO_G = "nvidia.com/mig-2g.20gb"
PRIORITIES = (0, 0, 5, 10, -7)
SHARES_MIB = (10_000, 20_000, 30_000, 40_000, 70_000)
MAX_PODS = 8


_priorities = st.sampled_from((*PRIORITIES, 50))
_labels = st.sampled_from(({}, {"app": "a"}, {"app": "b"}, {"app": "a", "tier": "x"}))
_half_cpus = st.sampled_from((1, 1, 2, 5))
_started_at = st.sampled_from((None, 1.0, 2.0, 3.0))


@st.composite
def pods(
    draw: DrawFn, name: str, request: GpuRequest, devices: Mapping[str, tuple[str, ...]] | None = None
) -> BoundPod:
    """A pod of any priority, age and labels with this request."""
    priority = draw(_priorities)
    return BoundPod(
        uid=f"uid-{name}",
        namespace="ns",
        name=name,
        priority=priority,
        request=replace(request, priority=priority),
        terminating=draw(one_in(6)),
        finished=draw(one_in(12)),
        labels=draw(_labels),
        other_requests={"cpu": Fraction(draw(_half_cpus), 2)},
        started_at=draw(_started_at),
        devices=devices or {},
    )


def unit(resource: str, count: int, container: str = "main") -> GpuRequest:
    profile = profile_from_resource(resource)[0] if "/mig-" in resource else None
    return GpuRequest((UnitRequest(resource, count, profile),), by_container=((container, resource, count),))


@cache
def _up_to(count: int) -> st.SearchStrategy[int]:
    """One or more, at most so many."""
    return st.integers(1, count)


_few = st.sampled_from((1, 1, 1, 2))
_used_mib = st.sampled_from((None, 500, 70_000))
_models: st.SearchStrategy[tuple[str, ...]] = st.sampled_from(((),) * 6 + (("A100",), ("T4",)))
_min_free_mib = st.sampled_from((0,) * 7 + (20_000,))


@st.composite
def whole_nodes(draw: DrawFn) -> tuple[NodeInfo, GpuRequest]:
    """Whole GPUs, sometimes of two models, some held by pods with unreported devices."""
    count = draw(_up_to(6))
    devices = [device(i) for i in range(count)]
    for i in range(count):
        if draw(one_in(5)):
            model = canonical_model("Tesla T4")
            devices[i] = device(i, product="Tesla T4", model=model, memory=Memory(15360))
        if draw(one_in(10)):
            devices[i] = replace(devices[i], healthy=False)
        if draw(one_in(25)):
            devices[i] = replace(devices[i], cordoned=True)
    bound: list[BoundPod] = []
    free = list(range(count))
    while free and len(bound) < MAX_PODS and not draw(one_in(6)):
        size = min(draw(_few), len(free))
        mine, free = free[:size], free[size:]
        pod = draw(pods(f"p{len(bound)}", unit(WHOLE, size)))
        bound.append(pod)
        if not draw(one_in(4)):
            used = draw(_used_mib)
            for i in mine:
                mine_alone = Holder(uid=pod.uid) if draw(st.booleans()) else Holder(None, "ns", pod.name)
                seen = [mine_alone] + ([Holder(uid=pod.uid, memory_mib=used)] if used else [])
                memory = replace(devices[i].memory, used_mib=min(used or 0, devices[i].memory.total_mib))
                devices[i] = replace(devices[i], holders=tuple(seen), memory=memory)
    request = GpuRequest(
        (UnitRequest(WHOLE, draw(_up_to(count))),),
        models=draw(_models),
        min_free_mib=draw(_min_free_mib),
    )
    allocatable = draw(st.sampled_from((None, {WHOLE: count}, {WHOLE: count}, {WHOLE: count - 1})))
    return node(*devices, pods=tuple(bound), allocatable=allocatable), request


_layouts: st.SearchStrategy[tuple[tuple[str, int], ...]] = st.sampled_from(
    (
        (("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 2)),
        (("1g.10gb", 0), ("2g.20gb", 2), ("2g.20gb", 4)),
        (("3g.40gb", 0), ("1g.10gb", 4)),
    )
)
_held_mib = st.sampled_from((None, 800))
_profiles = st.sampled_from((ONE_G, ONE_G, TWO_G))
_instances = st.sampled_from((1, 2, 2, 3))


@st.composite
def mig_nodes(draw: DrawFn) -> tuple[NodeInfo, GpuRequest]:
    """Instances of two profiles, held by pods with or without an observation of the agent."""
    devices: list[Device] = []
    bound: list[BoundPod] = []
    for i in range(draw(_up_to(3))):
        layout = draw(_layouts)
        holders = {}
        for profile, at in layout:
            if len(bound) < MAX_PODS and not draw(one_in(8)):
                pod = draw(pods(f"p{len(bound)}", unit(f"nvidia.com/mig-{profile}", 1)))
                bound.append(pod)
                if not draw(one_in(5)):
                    holders[at] = Holder(uid=pod.uid, memory_mib=draw(_held_mib))
        mig = sliced(*layout, holders=holders)
        mig = replace(mig, instances=tuple(replace(one, uuid=f"{one.uuid}-{i}") for one in mig.instances))
        devices.append(device(i, mig=mig, healthy=not draw(one_in(8))))
    have = {
        f"nvidia.com/mig-{profile}": sum(
            one.profile == profile for each in devices for one in each.mig.instances
        )
        for profile in PROFILE_SIZES
    }
    resource = draw(_profiles)
    request = unit(resource, draw(_instances))
    allocatable = draw(st.sampled_from((None, have, have)))
    fields = {"mig_strategy": "mixed"}
    return node(*devices, pods=tuple(bound), allocatable=allocatable, report=fields), request


_shares_mib = st.sampled_from(SHARES_MIB)
_sizes = st.sampled_from([st.lists(_shares_mib, min_size=1, max_size=most) for most in (1, 3)])
_share_min_free_mib = st.sampled_from((0, 0, 0, 50_000))


@st.composite
def share_nodes(draw: DrawFn) -> tuple[NodeInfo, GpuRequest]:
    """Shares on one to three GPUs, of pods with one or two shares; some use more or less than they
    requested.
    """
    count = draw(_up_to(3))
    room = [73_728] * count
    use = [0] * count
    seen: list[list[Holder]] = [[] for _ in range(count)]
    bound: list[BoundPod] = []
    while len(bound) < MAX_PODS and not draw(one_in(9)):
        name = f"p{len(bound)}"
        told = {}
        running = []
        for k in range(draw(_few)):
            at, mib = draw(_up_to(count)) - 1, draw(_shares_mib)
            if room[at] < mib:
                continue
            room[at] -= mib
            running.append((f"c{k}", mib))
            told[f"c{k}"] = (f"GPU-{at}",)
            used = draw(st.sampled_from((0, 0, mib // 2, mib + 3000)))
            if used:
                use[at] += used
                if draw(st.booleans()):
                    seen[at].append(Holder(uid=f"uid-{name}", container=f"c{k}", memory_mib=used))
        if running:
            by_container = tuple((container, SHARE, mib) for container, mib in running)
            request = GpuRequest(shares=ShareRequest(tuple(running)), by_container=by_container)
            bound.append(draw(pods(name, request, devices={} if draw(one_in(15)) else told)))
        else:
            break
    devices = [
        device(i, memory=Memory(81_920, used_mib=min(use[i], 81_920)), holders=tuple(seen[i]))
        for i in range(count)
    ]
    sizes = draw(draw(_sizes))
    running = [(f"c{i}", mib) for i, mib in enumerate(sizes)]
    init = (InitShare("init", 40_000, ()),) if draw(one_in(6)) else ()
    request = GpuRequest(shares=ShareRequest(tuple(running), init), min_free_mib=draw(_share_min_free_mib))
    full = {SHARE: 73_728 * count}
    allocatable = draw(st.sampled_from((None, full, full, {SHARE: 60_000 * count})))
    return node(*devices, pods=tuple(bound), allocatable=allocatable, share_node=True), request


@st.composite
def mixed_nodes(draw: DrawFn) -> tuple[NodeInfo, GpuRequest]:
    """Shares beside whole GPUs, which are forbidden but possible."""
    shared, ask = draw(share_nodes())
    assert shared.report is not None
    wanted = draw(st.sampled_from((ask, unit(WHOLE, 1), replace(ask, units=(UnitRequest(WHOLE, 1),)))))
    room = MAX_PODS - len(shared.pods)
    more = [draw(pods(f"w{i}", unit(WHOLE, 1))) for i in range(draw(st.integers(0, min(2, room))))]
    # GPUs without shares, which share pods may get or not.
    spare = [device(len(shared.report.devices) + i) for i in range(draw(st.integers(0, 2)))]
    report = replace(shared.report, devices=(*shared.report.devices, *spare))
    return replace(shared, report=report, pods=(*shared.pods, *more), allocatable=None), wanted


def budgets() -> st.SearchStrategy[tuple[Budget, ...]]:
    """No budget to two; their selectors match some of the pods, all, or none."""
    selectors = st.sampled_from(
        (
            PodSelector({"app": "a"}),
            PodSelector({"app": "b"}),
            PodSelector({"tier": "x"}),
            PodSelector({}, (Requirement("app", "In", ("a", "b")),)),
            PodSelector({}),
            None,
        )
    )
    one = st.builds(
        Budget,
        namespace=st.sampled_from(("ns", "ns", "ns", "other")),
        name=st.just("pdb"),
        selector=selectors,
        allowed=st.sampled_from((0, 0, 1, 2)),
        disrupted=st.sampled_from((frozenset(), frozenset(), frozenset({"p0"}))),
    )
    return st.one_of(st.just(()), st.tuples(one), st.tuples(one, one))


_budgets = budgets()
_asking = st.sampled_from((10, 100, 100, 100))
_waiting = st.sampled_from((5, 100, 200))
_other_requests = st.sampled_from(({}, {"cpu": Fraction(1)}, {"cpu": Fraction(3)}))


@st.composite
def questions(draw: DrawFn, nodes: st.SearchStrategy[tuple[NodeInfo, GpuRequest]]) -> Question:
    """A pod of priority 10 or 100 for such a node."""
    info, request = draw(nodes)
    priority = draw(_asking)
    request = replace(request, priority=priority)
    if bool(info.pods) and draw(one_in(8)):
        info = replace(info, assumed=frozenset({info.pods[0].uid}))
    if bool(info.pods) and draw(one_in(8)):
        waiting = replace(
            info.pods[-1],
            uid="uid-w",
            name="w",
            terminating=False,
            finished=False,
            priority=draw(_waiting),
        )
        info = replace(info, nominated=(waiting,))
    if bool(info.pods) and draw(one_in(10)):
        # A departed pod of the same name that a report may still contain.
        info = replace(info, pods=(*info.pods, replace(info.pods[0], uid="uid-former", departed=True)))
    named: tuple[str, ...] = ()
    if draw(st.booleans()):
        lower = [pod for pod in info.pods if pod.priority < priority]
        many = draw(st.booleans())
        chosen = [pod.uid for pod in lower if draw(one_in(3)) or many]
        named = (*chosen, *(["uid-cpu-only"] if draw(one_in(6)) else []))
    other = draw(_other_requests)
    return Question(info, request, other, draw(_budgets), named)
