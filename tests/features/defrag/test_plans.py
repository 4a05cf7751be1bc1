"""Plans on small clusters with an obvious answer."""

from __future__ import annotations

import gc
import json
import time
from typing import Any

import pytest

from scheduler_ext.core.node.node import BoundPod, Node
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.features.defrag import movable
from scheduler_ext.features.defrag.movable import Rules
from scheduler_ext.features.defrag.moves import Room
from scheduler_ext.features.defrag.plan import make_plan, waiting_pod
from scheduler_ext.features.defrag.plan_view import plan_json
from scheduler_ext.features.defrag.search import Search
from scheduler_ext.views.node_value import pod_values
from scheduler_ext.whatif import whatif
from scheduler_ext.whatif.whatif import PodInfo
from scheduler_ext.wire import kube
from scheduler_ext.wire.held_annotation import HELD_ANNOTATION
from scheduler_ext.wire.pod.cached_pod import bound_pod
from scheduler_ext.wire.pod.pod_identity import pod_name
from scheduler_ext.wire.times import time_text
from tests.features.defrag.planning import (
    CONFIGURATION,
    MIG_HALF,
    WHOLE,
    mig_node,
    moves,
    planned,
    share_node,
    state,
    whole_node,
    whole_pod,
)
from tests.kube_objects import ANNOTATION, SHARE, Json, budget, owned, owner, pod


def two_half_full_nodes() -> list[Json]:
    pods = [whole_pod("x", "a"), whole_pod("y", "b", priority=5)]
    return [*whole_node("a", 2, "x"), *whole_node("b", 2, "y"), *pods]


def waits(asks: Json, **more: Any) -> Json:
    return pod("w", asks, **more)


def half_of(device: int, name: str, on: str = "s", *, model: str = "", priority: int = 0) -> Json:
    """A pod that may be moved, with half of a GPU; it takes this model only."""
    annotations = {f"devices.{ANNOTATION}main": f"GPU-{on}-{device}"}
    annotations |= {f"{ANNOTATION}model": model} if model else {}
    return owned(pod(name, {SHARE: "40960"}, on=on, annotations=annotations, priority=priority))


def part_of(device: int, name: str, mib: int, *, moves: bool = True, priority: int = 0) -> Json:
    """A pod with a share of a GPU on node s."""
    annotations = {f"devices.{ANNOTATION}main": f"GPU-s-{device}"}
    made = pod(name, {SHARE: str(mib)}, on="s", annotations=annotations, priority=priority)
    return owned(made) if moves else made


def made_room_for() -> list[Json]:
    """The pod x on a has another place only after y has left it."""
    return [
        *whole_node("a", 2, "x"),
        *whole_node("b", 1, "y"),
        *whole_node("c", 1, model="T4"),
        whole_pod("x", "a", annotations={f"{ANNOTATION}model": "A100"}),
        whole_pod("y", "b"),
    ]


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(
            [*two_half_full_nodes(), waits({WHOLE: "2"})],
            [("x", "a", "b")],
            id="of two pods that could move, the less important one does",
        ),
        pytest.param(
            [
                *whole_node("a", 4, "x", "y"),
                *whole_node("b", 4, "z"),
                *whole_node("c", 1),
                *(whole_pod(name, on) for name, on in (("x", "a"), ("y", "a"), ("z", "b"))),
                waits({WHOLE: "4"}),
            ],
            [("z", "b", "c")],
            id="the node from which fewer pods have to move is emptied",
        ),
        pytest.param(
            [*mig_node("a", "x"), *mig_node("b", "y")]
            + [owned(pod(name, {MIG_HALF: "1"}, on=on)) for name, on in (("x", "a"), ("y", "b"))]
            + [waits({MIG_HALF: "2"})],
            [("x", "a", "b")],
            id="MIG instances are freed by moving the pod that holds one",
        ),
        pytest.param(
            [*share_node("s", 2), half_of(0, "x"), half_of(1, "y"), waits({SHARE: "81920"})],
            [("x", "s", "s")],
            id="a share moves to another GPU of its own node",
        ),
        pytest.param(
            [
                *share_node("s", 2),
                *(part_of(i // 2, name, 20_480, priority=i // 2) for i, name in enumerate("xyzv")),
                waits({SHARE: "81920"}),
            ],
            [("x", "s", "s"), ("y", "s", "s")],
            id="all shares of a GPU move to another one of their node",
        ),
        pytest.param(
            [
                *share_node("s", 3),
                *share_node("t", 1, "H100-80GB"),
                half_of(0, "x", model="H100"),
                *(part_of(i, f"stays-{i}", 10_240, moves=False) for i in (1, 2)),
                half_of(0, "y", "t"),
                half_of(0, "z", "t", model="H100"),
                waits({SHARE: "81920"}, annotations={f"{ANNOTATION}model": "A100"}),
            ],
            [("y", "t", "s"), ("x", "s", "t")],
            id="a share first moves to another GPU of the node that is to take the pod",
        ),
        pytest.param(
            [
                *share_node("s", 2),
                *(half_of(i, name, model="A100") for i, name in enumerate(("x", "y"))),
                *(each for on in ("t", "u") for each in share_node(on, 1, "H100-80GB")),
                *(half_of(0, f"on-{on}", on, model="H100", priority=5) for on in ("t", "u")),
                waits({SHARE: "81920"}),
            ],
            [("x", "s", "s")],
            id="rather than a more important one to another node",
        ),
        pytest.param(
            [
                *whole_node("a", 3, "x", "kept"),
                *whole_node("b", 2, "y", model="T4"),
                whole_pod("x", "a", priority=5),
                whole_pod("kept", "a", annotations={f"{ANNOTATION}model": "A100"}),
                whole_pod("y", "b", priority=3),
                waits({WHOLE: "2"}),
            ],
            [("y", "b", "a")],
            id="a still less important one counts only if it has another place",
        ),
    ],
)
def test_the_fewest_moves(objects: list[Json], expected: list[tuple[str, str, str]]) -> None:
    plan = planned(*objects)
    assert plan.complete
    assert moves(plan) == expected


OPTED_OUT = {f"{ANNOTATION}movable": "false"}
NOT_SAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
OF_A_GANG = {f"{ANNOTATION}gang": "train", f"{ANNOTATION}gang-size": "4"}


@pytest.mark.parametrize(
    ("part", "fields", "reason"),
    [
        pytest.param("metadata", {"ownerReferences": []}, "has no controller", id="a bare pod"),
        pytest.param(
            "metadata",
            {"ownerReferences": [owner("DaemonSet")]},
            "belongs to a DaemonSet",
            id="a pod of a DaemonSet",
        ),
        pytest.param("metadata", {"ownerReferences": [owner("Node")]}, "is a static pod", id="a static pod"),
        pytest.param("metadata", {"annotations": OPTED_OUT}, "has the annotation", id="a pod opted out"),
        pytest.param(
            "metadata",
            {"annotations": NOT_SAFE},
            "has the annotation",
            id="a pod that is not safe to evict",
        ),
        pytest.param(
            "metadata",
            {"annotations": OF_A_GANG},
            "belongs to a gang",
            id="a member of a gang, whose others would end with it",
        ),
        pytest.param(
            "metadata",
            {"deletionTimestamp": "2026-11-20T12:00:00Z"},
            "is being deleted",
            id="a pod that is being deleted",
        ),
        pytest.param(
            "spec",
            {"schedulerName": "other"},
            "is placed by the scheduler other",
            id="a pod of another scheduler",
        ),
        pytest.param(
            "spec",
            {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]},
            "uses ResourceClaims",
            id="a pod with claims",
        ),
        pytest.param(
            "status",
            {"startTime": time_text(time.time() - 60)},
            "is younger than 6000 s",
            id="a pod that started a minute ago",
        ),
    ],
)
def test_these_pods_stay(part: str, fields: Json, reason: str) -> None:
    made = whole_pod("x", "a")
    objects = [*whole_node("a", 2, "x"), *whole_node("b", 1), made, waits({WHOLE: "2"})]
    assert planned(*objects, min_age_s=6000.0).complete
    made[part] |= fields
    plan = planned(*objects, min_age_s=6000.0)
    assert not plan.complete
    ((found, count),) = plan.staying.items()
    assert (found.startswith(reason), count) == (True, 1)


@pytest.mark.parametrize(
    ("budgets", "fits"),
    [
        pytest.param([budget("one", 2)], True, id="one that allows both moves"),
        pytest.param([budget("one", 1)], False, id="one that allows one of two moves"),
        pytest.param([budget("one", 2), budget("two", 2)], False, id="two, which forbid evictions"),
    ],
)
def test_budgets_are_kept(budgets: list[Json], fits: bool) -> None:
    nodes = [*whole_node("a", 2, "x", "y"), *whole_node("b", 1), *whole_node("c", 1)]
    pods = [whole_pod("x", "a"), whole_pod("y", "a"), waits({WHOLE: "2"})]
    assert planned(*nodes, *pods, *budgets).complete is fits


@pytest.mark.parametrize(
    ("allowed", "fits"),
    [
        pytest.param(2, True, id="one that allows both moves"),
        pytest.param(1, False, id="one that allows one of two moves"),
    ],
)
def test_a_budget_counts_the_pod_that_makes_room_for_another(allowed: int, fits: bool) -> None:
    objects = [*made_room_for(), waits({WHOLE: "2"}), budget("one", allowed)]
    assert planned(*objects).complete is fits


def test_a_longer_run_on_dearer_gpus_is_moved_last() -> None:
    now = time.time()
    made = [whole_pod("long", "a"), whole_pod("short", "b")]
    for each, hours in zip(made, (20, 2), strict=True):
        each["status"]["startTime"] = time_text(now - 3600 * hours)
    objects = [*whole_node("a", 2, "long"), *whole_node("b", 2, "short"), *made]
    assert moves(planned(*objects, waits({WHOLE: "2"}))) == [("short", "b", "a")]


def test_a_number_of_gpus_is_freed_on_one_node_behind_a_taint() -> None:
    taints = [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]
    tolerations = [{"key": "dedicated", "operator": "Exists"}]
    objects = [*whole_node("a", 2, "x", taints=taints), *whole_node("b", 1)]
    plan = planned(*objects, whole_pod("x", "a", tolerations=tolerations), asks=2)
    assert (plan.complete, moves(plan)) == (True, [("x", "a", "b")])


def test_a_cordoned_node_gives_no_free_gpus() -> None:
    assert not planned(*whole_node("a", 2, unschedulable=True), asks=2).complete


def test_the_nearest_plan_names_the_pod_without_another_place() -> None:
    plan = planned(*whole_node("a", 2, "x"), whole_pod("x", "a"), waits({WHOLE: "2"}))
    (outcome,) = plan.outcomes
    assert outcome.stuck is not None
    assert outcome.stuck.pod is not None
    assert (outcome.stuck.node, outcome.stuck.pod.bound.name) == ("a", "x")
    assert outcome.refusal is not None
    assert outcome.refusal["reason"] == "Insufficient nvidia.com/gpu per device"


def test_equal_pods_without_a_plan_are_looked_into_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []

    def counted(search: Search, pod_info: PodInfo) -> Room | None:
        searched.append(pod_info.uid)
        return find(search, pod_info)

    find = Search.find
    monkeypatch.setattr(Search, "find", counted)
    asking = [pod(f"p{i}", {WHOLE: count}) for i, count in enumerate(("2", "2", "4", "2"))]
    found = state(*whole_node("a", 2, "x"), whole_pod("x", "a"), *asking)
    wanted = [waiting_pod(each, found, CONFIGURATION) for each in found.objects.pods[1:]]
    plan = make_plan(wanted, found, CONFIGURATION, Rules(0.0, time.time()))
    assert [outcome.wanted.name for outcome in plan.outcomes] == [f"default/p{i}" for i in range(4)]
    assert [outcome.stuck is not None for outcome in plan.outcomes] == [True, True, False, True]
    assert searched == ["uid-p0", "uid-p2"]


def test_a_pod_that_would_come_back_leads_to_no_plan() -> None:
    """Room is held for GPUs. kube-scheduler sees the CPU that the pod freed, and no other node takes it."""
    cpu = [*whole_node("a", 4, "x")]
    cpu[1]["status"]["allocatable"]["cpu"] = "10"
    moved = whole_pod("x", "a")
    moved["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "8"
    plan = planned(*cpu, moved, waits({WHOLE: "2", "cpu": "8"}))
    (outcome,) = plan.outcomes
    assert not plan.complete
    assert outcome.stuck is not None
    assert outcome.stuck.pod is None


def test_other_waiting_pods_that_get_in_are_named() -> None:
    objects = [
        *whole_node("h", 4, "x", model="H100-80GB"),
        *whole_node("a", 1),
        whole_pod("x", "h"),
        waits({WHOLE: "4"}, annotations={f"{ANNOTATION}model": "H100"}),
    ]
    assert planned(*objects).also_fit == []
    objects = [*two_half_full_nodes(), pod("v", {WHOLE: "2"})]
    assert planned(*objects, asks=2).also_fit == ["default/v"]


def test_a_pod_fits_in_the_room_that_preemption_made_for_it() -> None:
    waiting = waits({WHOLE: "2"})
    waiting["status"]["nominatedNodeName"] = "a"
    objects = [*whole_node("a", 2), *whole_node("b", 2, "y"), whole_pod("y", "b")]
    plan = planned(*objects, waiting)
    assert [(outcome.node, moves(plan)) for outcome in plan.outcomes] == [("a", [])]
    assert not planned(*objects, waiting, pod("v", {WHOLE: "2"}), asks="default/v").complete


def test_room_is_held_for_the_waiting_pod_and_for_a_pod_that_moves_later() -> None:
    plan = planned(*made_room_for(), waits({WHOLE: "2"}))
    assert moves(plan) == [("y", "b", "c"), ("x", "a", "b")]
    held = [[(hold.node, hold.pod_info.uid) for hold in move.holds] for move in plan.moves]
    assert held == [[("a", "uid-w"), ("b", "uid-x again")], [("a", "uid-w")]]


def test_nodes_that_need_more_moves_are_not_valued(monkeypatch: pytest.MonkeyPatch) -> None:
    valued = []

    def counted(on: Node, *more: Any) -> dict[str, float]:
        valued.append(on.info.name)
        return pod_values(on, *more)

    monkeypatch.setattr(movable, "pod_values", counted)
    full = [*whole_node("b", 2, "y", "z"), whole_pod("y", "b"), whole_pod("z", "b")]
    plan = planned(
        *full, *whole_node("a", 2, "x"), whole_pod("x", "a"), *whole_node("c", 1), waits({WHOLE: "2"})
    )
    assert moves(plan) == [("x", "a", "c")]
    assert valued == ["a"]


def test_the_collector_runs_again_after_a_plan() -> None:
    assert planned(*two_half_full_nodes(), waits({WHOLE: "2"})).complete
    assert gc.isenabled()


def test_pods_of_the_cluster_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    again = []

    def counted(each: kube.Pod, resources: ResourceNames) -> BoundPod:
        again.append(pod_name(each))
        return bound_pod(each, resources)

    found = state(*two_half_full_nodes())
    monkeypatch.setattr(whatif, "bound_pod", counted)
    cluster = whatif.WhatIf(found, CONFIGURATION)
    assert {uid for here in cluster.residents.values() for uid in here} == {"uid-x", "uid-y"}
    assert again == []


@pytest.mark.parametrize(
    ("room", "asks", "fits"),
    [
        pytest.param({"for": "default/other"}, "default/w", False, id="for another pod"),
        pytest.param({"for": "default/w"}, "default/w", True, id="that a former run left for this pod"),
        pytest.param(
            {"for": "2 free GPUs on one node", "units": {WHOLE: 2}}, "default/w", False, id="for GPUs"
        ),
        pytest.param({"for": "2 free GPUs on one node", "units": {WHOLE: 2}}, 2, True, id="for these GPUs"),
        pytest.param({"for": "default/gone"}, "default/w", True, id="for a pod that waits no longer"),
    ],
)
def test_room_that_another_run_holds_is_not_free(room: Json, asks: str | int, fits: bool) -> None:
    report, there = whole_node("a", 2)
    report["status"]["reportedAt"] = time_text(time.time())
    until = time_text(time.time() + 600)
    text = json.dumps([room | {"priority": 10, "until": until}])
    report["metadata"]["annotations"] = {HELD_ANNOTATION: text}
    other = pod("other", {WHOLE: "2"})
    plan = planned(report, there, waits({WHOLE: "2"}), other, asks=asks)
    assert (plan.complete, plan.moves) == (fits, [])
    said = [note for note in plan_json(plan, {}, CONFIGURATION)["notes"] if "holds room on a for" in note]
    assert len(said) == (not fits)
