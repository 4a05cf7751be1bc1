"""simulate cluster: victims and their preemptors, as kube-scheduler and preempt choose them."""

from __future__ import annotations

from scheduler_ext.wire.config import Configuration, PreemptionSection
from tests.extender.foreseeing import WHOLE, asks
from tests.extender.preempting import leaving, nominated, on_gpu, whole_node
from tests.kube_objects import budget, gpu, gpu_node, holder, node, pod
from tests.sim.cluster.foreseeing import foreseen


def test_the_cheapest_leave_and_are_named() -> None:
    objects = [*whole_node("a", "x"), on_gpu("x", "a", 5), *whole_node("b", "y"), on_gpu("y", "b", 1)]
    (item,) = foreseen([asks("p", {WHOLE: "1"}, priority=10)], *objects)
    assert (item["node"], item["victims"], item["reason"]) == ("b", ["default/y"], None)


def test_an_earlier_pod_may_become_a_victim() -> None:
    pods = [asks("low", {WHOLE: "1"}, priority=1), asks("high", {WHOLE: "1"}, priority=2)]
    items = foreseen(pods, *whole_node("n", None))
    assert [(item["node"], item["victims"]) for item in items] == [("n", []), ("n", ["default/low"])]


def test_for_cpu_pods_leave_that_hold_no_gpu() -> None:
    objects = [node("n", {"cpu": "4"}), pod("x", {"cpu": "3"}, on="n"), pod("y", {"cpu": "1"}, on="n")]
    (item,) = foreseen([asks("p", {"cpu": "3"}, priority=1)], *objects)
    assert (item["node"], item["victims"]) == ("n", ["default/x"])


def test_the_allowed_disruptions_of_a_budget_are_spent() -> None:
    objects = [*whole_node("a", "x1"), on_gpu("x1", "a"), *whole_node("b", "x2"), on_gpu("x2", "b")]
    objects += [*whole_node("c", "y"), on_gpu("y", "c", 5)]
    for each in objects:
        each["metadata"]["labels"] = {"app": each["metadata"]["name"][0]}
    pods = [asks(f"p{i}", {WHOLE: "1"}, priority=10) for i in range(2)]
    items = foreseen(pods, *objects, budget("x", 1, app="x"))
    assert [item["victims"] for item in items] == [["default/x1"], ["default/y"]]


def test_a_budget_spares_pods_without_gpus_too() -> None:
    objects = [node("n", {"cpu": "4"}), pod("x", {"cpu": "2"}, on="n", priority=1)]
    objects.append(pod("y", {"cpu": "2"}, on="n", priority=3))
    for each in objects:
        each["metadata"]["labels"] = {"app": each["metadata"]["name"]}
    (item,) = foreseen([asks("p", {"cpu": "2"}, priority=9)], *objects, budget("x", 0, app="x"))
    assert item["victims"] == ["default/y"]


def test_pods_that_wait_for_others_to_leave_keep_no_place() -> None:
    objects = [*whole_node("n", "x"), on_gpu("x", "n"), nominated(asks("w", {WHOLE: "1"}, priority=99), "n")]
    (item,) = foreseen([asks("p", {WHOLE: "1"}, priority=9)], *objects)
    assert item["victims"] == ["default/x"]


def test_where_kube_scheduler_finds_room_it_evicts_no_pod() -> None:
    # By kube-scheduler's count the second GPU is free; only the extender knows that it is sick.
    objects = [
        gpu_node("n", [gpu(0, holders=[holder("x")]), gpu(1, health={"state": "Unhealthy"})]),
        node("n", {WHOLE: "2"}),
        on_gpu("x", "n"),
    ]
    asking = [asks("p", {WHOLE: "1"}, priority=1)]
    assert foreseen(asking, *objects)[0]["victims"] == []
    config = Configuration(preemption=PreemptionSection(empty_victims=True))
    assert foreseen(asking, *objects, config=config)[0]["victims"] == ["default/x"]


def test_a_pod_waits_for_pods_that_leave_anyway() -> None:
    objects = [*whole_node("n", "x", "y"), leaving(on_gpu("x", "n", 3)), on_gpu("y", "n", 1)]
    (item,) = foreseen([asks("p", {WHOLE: "1"}, priority=10)], *objects)
    assert (item["node"], item["victims"]) == ("n", ["default/x"])
