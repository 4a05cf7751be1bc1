"""The cluster that a planner tries places on answers as filter and prioritize would after the same
bindings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.cache.kept_places import KeptPlace
from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.filters import reason_text
from scheduler_ext.core.intree import NodeSelectorTerm, PodNeeds, PreferredTerm, Requirement, Taint
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.placed import with_pod
from scheduler_ext.core.preemption.dry_run import without
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.features.gangs.planning.draining import Running
from scheduler_ext.features.gangs.planning.emptied_nodes import EmptiedNodes
from scheduler_ext.features.gangs.planning.planned_cluster import PlannedCluster
from scheduler_ext.features.gangs.planning.waiting_pod import WaitingPod
from tests.core.asked import share, whole
from tests.core.reported import NAMES, SHARE, bound, wants
from tests.examples import examples
from tests.features.gangs.planning.planning_lab import SIZING, PlanningLab, gpus_node, waiting

_requests = st.one_of(st.integers(1, 3).map(whole), st.sampled_from((2_000, 30_000, 70_000)).map(share))
_moves = st.lists(st.tuples(st.sampled_from(("put", "back", "mark")), _requests), max_size=12)
_sizes = st.lists(st.integers(0, 3), min_size=1, max_size=4)


def fitting(infos: Sequence[NodeInfo], request: GpuRequest) -> set[str]:
    """The nodes that filter returns."""
    snapshot = build_snapshot({info.name: SIZING.resolved(info) for info in infos}, 1)
    decision = filter_nodes(request, snapshot, SIZING.policy)
    return {name for name in snapshot.nodes if decision.fits[snapshot.state_at(name)]}


@given(_sizes, _moves, _requests)
def test_the_same_nodes_fit_as_after_bindings(
    sizes: list[int], moves: list[tuple[str, GpuRequest]], last: GpuRequest
) -> None:
    lab = PlanningLab([gpus_node(f"n{i}", size) for i, size in enumerate(sizes)])
    cluster = lab.cluster()
    bindings = dict(lab.infos)
    marks: list[tuple[int, dict[str, NodeInfo]]] = [(0, bindings)]
    for number, (move, request) in enumerate(moves):
        if move == "put":
            ask = waiting(f"p{number}", request, cpu=0)
            place = cluster.best(ask)
            assert (place is None) == (fitting(list(bindings.values()), request) == set())
            if place is not None:
                assert place.node in fitting(list(bindings.values()), request)
                cluster.put(ask, place.node)
                pod = cluster.planned_on(place.node, ask.uid)
                assert pod is not None
                bindings = bindings | {place.node: with_pod(bindings[place.node], pod, NAMES)}
        elif move == "mark":
            marks.append((cluster.mark(), bindings))
        else:
            mark, bindings = marks.pop() if len(marks) > 1 else marks[0]
            cluster.rollback(mark)
    found = {name for name in bindings if cluster.best(waiting("last", last, cpu=0), (name,)) is not None}
    assert found == fitting(list(bindings.values()), last)


_pods_on = st.lists(st.lists(_requests, max_size=3), min_size=1, max_size=3)
_departures = st.lists(
    st.tuples(st.sampled_from(("leave", "come back", "put", "ask one")), st.integers(0, 20), _requests),
    max_size=12,
)


@examples(40, 3000)
@given(_pods_on, _departures, _requests)
def test_the_same_nodes_fit_and_refuse_as_without_the_pods_that_left(
    pods_on: list[list[GpuRequest]], moves: list[tuple[str, int, GpuRequest]], last: GpuRequest
) -> None:
    """However many questions about single nodes came in between."""
    infos = {}
    for i, requests in enumerate(pods_on):
        pods = [waiting(f"r{i}-{j}", request, cpu=0).pod for j, request in enumerate(requests)]
        infos[f"n{i}"] = gpus_node(f"n{i}", 3, *pods)
    cluster = PlanningLab(list(infos.values())).cluster()
    there = [Running(pod, name) for name, info in infos.items() for pod in info.pods]
    gone: list[Running] = []
    for number, (move, which, request) in enumerate(moves):
        ask = waiting(f"p{number}", request, cpu=0)
        name = f"n{which % len(infos)}"
        if move == "leave" and there:
            gone.append(there.pop(which % len(there)))
            cluster.remove(gone[-1])
            infos[gone[-1].node] = without(infos[gone[-1].node], [gone[-1].pod])
        elif move == "come back" and gone:
            back = gone.pop(which % len(gone))
            cluster.bring_back(back)
            there.append(back)
            pods = [back.pod if pod.uid == back.uid else pod for pod in infos[back.node].pods]
            infos[back.node] = replace(infos[back.node], pods=tuple(pods))
        elif move == "put" and cluster.best(ask, (name,)) is not None:
            cluster.put(ask, name)
            planned = cluster.planned_on(name, ask.uid)
            assert planned is not None
            infos[name] = replace(infos[name], planned=(*infos[name].planned, planned))
        else:
            cluster.best(waiting("one", last, cpu=0), (name,))
    asked = waiting("last", last, cpu=0)
    assert {name for name in infos if cluster.best(asked, (name,))} == fitting(list(infos.values()), last)
    snapshot = build_snapshot({name: SIZING.resolved(info) for name, info in infos.items()}, 1)
    verdicts = filter_nodes(last, snapshot, SIZING.policy).verdict[snapshot.state_of[:-1]].tolist()
    assert cluster.refusals(asked) == Counter(reason_text(code, last) for code in verdicts if code)


def test_a_planned_pod_comes_back_on_the_gpu_that_it_had() -> None:
    lab = PlanningLab([gpus_node("a", 2)])
    cluster, ask = lab.cluster(), waiting("p", share(30_000))
    cluster.keep(replace(ask.pod, devices={"c0": ("GPU-a-1",)}), ask.amounts, "a")
    planned = Running(ask.pod, "a", planned=ask)
    cluster.remove(planned)
    assert cluster.planned_on("a", "p") is None
    cluster.bring_back(planned)
    back = cluster.planned_on("a", "p")
    assert back is not None
    assert back.devices == {"c0": ("GPU-a-1",)}
    assert cluster.best(waiting("q", cpu=64)) is None


@given(_sizes, _requests, _requests)
def test_totals_are_those_of_prioritize(sizes: list[int], first: GpuRequest, asked: GpuRequest) -> None:
    """Of a changed node as well, compared as on the snapshot."""
    lab = PlanningLab([gpus_node(f"n{i}", size) for i, size in enumerate(sizes)])
    cluster, snapshot = lab.cluster(), lab.snapshot()
    ask = waiting("asked", asked, cpu=0)
    totals = filter_nodes(ask.request, snapshot, SIZING.policy).totals
    best = cluster.best(ask)
    assert (best.total if best is not None else -np.inf) == totals.max()
    place = cluster.best(waiting("first", first, cpu=0))
    if place is None:
        return
    cluster.put(waiting("first", first, cpu=0), place.node)
    pod = cluster.planned_on(place.node, "first")
    assert pod is not None
    info = replace(lab.infos[place.node], planned=(pod,))
    part = build_snapshot({place.node: SIZING.resolved(info)}, 1, within=snapshot)
    expected = filter_nodes(ask.request, part, SIZING.policy).totals[part.state_at(place.node)]
    there = cluster.best(ask, (place.node,))
    assert (there.total if there is not None else -np.inf) == expected


def where(cluster: PlannedCluster, ask: WaitingPod, among: Sequence[str] | None = None) -> str | None:
    """The node of the best place."""
    place = cluster.best(ask, among)
    return None if place is None else place.node


TAINTED = (Taint("gpu", "", "NoSchedule"),)
ON_B = PodNeeds(None, {"kubernetes.io/hostname": "b"}, None, (), {})
PREFERS_B = PreferredTerm(1, NodeSelectorTerm((Requirement("kubernetes.io/hostname", "In", ("b",)),), ()))


@pytest.mark.parametrize(
    ("ask", "change", "expected"),
    [
        pytest.param(waiting("p"), {}, "a", id="of equal nodes the first name"),
        pytest.param(waiting("p"), {"taints": TAINTED}, "b", id="a taint that the pod does not tolerate"),
        pytest.param(waiting("p", needs=ON_B), {}, "b", id="a selector of nodes"),
        pytest.param(
            waiting("p", needs=replace(ON_B, node_selector={}, preferred_terms=(PREFERS_B,))),
            {},
            "b",
            id="the node that the pod prefers",
        ),
    ],
)
def test_kube_schedulers_own_filters(ask: WaitingPod, change: dict[str, Any], expected: str) -> None:
    lab = PlanningLab([gpus_node("a", 2), gpus_node("b", 2)])
    lab.show("a", **change)
    assert where(lab.cluster(), ask) == expected


def test_the_amounts_of_what_is_planned_count() -> None:
    lab = PlanningLab([gpus_node("a", 8)])
    cluster = lab.cluster()
    cluster.put(waiting("p", cpu=40), "a")
    assert cluster.best(waiting("q", cpu=25)) is None
    assert cluster.best(waiting("q", cpu=24)) is not None
    cluster.take_back(waiting("p", cpu=40), "a")
    assert cluster.best(waiting("q", cpu=25)) is not None


def test_a_node_without_a_node_object_is_unknown_to_kube_scheduler() -> None:
    lab = PlanningLab([gpus_node("a", 2)])
    lab.rooms.remove_node("a")
    ask = waiting("p")
    assert lab.cluster().best(ask) is None
    assert lab.cluster().refusals(ask) == {"node(s) without a Node object": 1}


def test_refusals_are_counted_by_reason() -> None:
    lab = PlanningLab(
        [gpus_node(name, gpus) for name, gpus in (("a", 8), ("b", 8), ("c", 1), ("d", 8), ("e", 8))]
    )
    lab.show("a", unschedulable=True)
    lab.rooms.place("big", "b", {"cpu": 60_000, "pods": 1000})
    lab.rooms.place("all", "e", {"cpu": 60_000, "pods": 110_000})
    lab.infos["d"] = gpus_node("d", 8, bound("r", wants(8, "nvidia.com/gpu")))
    cluster, ask = lab.cluster(), waiting("p", 4, cpu=5)
    assert cluster.refusals(ask) == {
        "node(s) were unschedulable": 1,
        "Insufficient cpu": 1,
        "Too many pods, Insufficient cpu": 1,
        "Insufficient nvidia.com/gpu per device": 2,
    }
    assert cluster.refusals(ask, "ac") == {
        "node(s) were unschedulable": 1,
        "Insufficient nvidia.com/gpu per device": 1,
    }


def test_a_node_that_is_full_by_then_refuses_a_pod_for_its_gpus() -> None:
    cluster, ask = PlanningLab([gpus_node("a", 2), gpus_node("b", 2)]).cluster(), waiting("p", 1)
    assert cluster.refusals(ask) == {}
    cluster.put(waiting("q", 2), "a")
    assert where(cluster, ask) == "b"
    assert cluster.refusals(ask) == {"Insufficient nvidia.com/gpu per device": 1}


def test_pods_that_leave_make_room() -> None:
    runs = bound("r", wants(2, "nvidia.com/gpu"), other_requests={"cpu": Fraction(60)})
    lab = PlanningLab([gpus_node("a", 2, runs)])
    lab.rooms.place(runs.uid, "a", {"cpu": 60_000, "pods": 1000})
    cluster, ask = lab.cluster(), waiting("p", 2, cpu=10)
    mark = cluster.mark()
    assert cluster.best(ask) is None
    cluster.remove(Running(runs, "a"))
    assert cluster.best(ask) is not None
    cluster.rollback(mark)
    assert cluster.best(ask) is None


def test_the_nodes_within_reach_of_many_pods_are_found_once() -> None:
    """Thousands of waiting gangs ask about all nodes in each step."""
    runs = bound("r", wants(2, "nvidia.com/gpu"))
    lab = PlanningLab([gpus_node("full", 2, runs), gpus_node("free", 2), gpus_node("small", 1)])
    cluster, pods = lab.cluster(EmptiedNodes(SIZING)), (waiting("p", 2), waiting("q", 2))
    first, again = (cluster.within_reach(pod) for pod in pods)
    assert first is again
    assert first == {"full", "free"}
    assert cluster.within_reach(waiting("large", 1)) == {"full", "free", "small"}
    first_possible, again_possible = (cluster._in_tree.could_pass(pod) for pod in pods)
    assert first_possible is again_possible


def test_the_nodes_within_reach_follow_nodes_that_change() -> None:
    lab, emptied = PlanningLab([gpus_node("a", 2), gpus_node("b", 2)]), EmptiedNodes(SIZING)
    assert lab.cluster(emptied).within_reach(waiting("p", 2)) == {"a", "b"}
    runs = bound("r", wants(2, "nvidia.com/gpu"))
    for info, expected in (
        (gpus_node("b", 2, runs), {"a", "b"}),
        (gpus_node("b", 1), {"a"}),
        (gpus_node("c", 2), {"a", "c"}),
    ):
        lab.infos[info.name] = info
        lab.show(info.name)
        assert lab.cluster(emptied).within_reach(waiting("p", 2)) == expected


def test_shares_get_the_gpus_that_bind_would_choose() -> None:
    lab = PlanningLab([gpus_node("a", 2, bound("r", wants(60_000, SHARE), devices={"main": ("GPU-a-1",)}))])
    cluster = lab.cluster()
    cluster.put(waiting("p", share(30_000)), "a")
    pod = cluster.planned_on("a", "p")
    assert pod is not None
    assert pod.devices == {"c0": ("GPU-a-0",)}
    assert cluster.planned_on("a", "q") is None


@pytest.mark.parametrize("is_published", [True, False])
def test_a_place_that_is_kept_already_counts_once(is_published: bool) -> None:
    """Also where the snapshot shows another one, or none yet."""
    lab = PlanningLab([gpus_node("a", 1), gpus_node("b", 1)])
    kept = waiting("kept", cpu=40)
    if is_published:
        lab.infos["b"] = replace(lab.infos["b"], planned=(kept.pod,))
    cluster = lab.cluster()
    cluster.hold(KeptPlace(kept.pod, "a", 9.0, written=False), kept.amounts)
    cluster.hold(KeptPlace(waiting("lost").pod, "gone", 9.0, written=False), kept.amounts)
    assert where(cluster, waiting("p")) == "b"
    cluster.take_back(kept, "a")
    assert where(cluster, waiting("p", cpu=64), ("a",)) == "a"


def test_nothing_is_left_of_a_resource_that_only_pods_that_are_gone_asked() -> None:
    lab = PlanningLab([gpus_node("a", 1)])
    needs = PodNeeds(None, {}, None, (), {"rdma/hca": Fraction(1)})
    gone = waiting("p", needs=needs)
    cluster = lab.cluster()
    assert cluster.best(gone) is None
    assert cluster.refusals(gone) == {"Insufficient rdma/hca": 1}
