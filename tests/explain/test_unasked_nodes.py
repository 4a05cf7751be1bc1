"""Waiting pods, and nodes that kube-scheduler did not ask about: its own filters run first, and one of them
counts GPUs."""

from __future__ import annotations

import pytest

from scheduler_ext.explain.kube_verdicts import NOT_OFFERED
from scheduler_ext.explain.waiting import FITS_NOW, LongWait
from tests.explain.explaining import free_node
from tests.explain.test_replay import running
from tests.explain.test_waiting import board
from tests.extender.preempting import tell
from tests.extender.test_record import ask
from tests.kube_objects import ANNOTATION, Json, gpu, gpu_node, holder, node, pod

WHOLE = "nvidia.com/gpu"
GPUS = "Insufficient nvidia.com/gpu per device"
MODEL = "node(s) didn't match the requested GPU model"
MEMORY = "Insufficient GPU memory on one device"
NOW = 1_800_000_000.0
WANTS = pod("wants", {WHOLE: "1"}, annotations={ANNOTATION + "model": "H100"})
WANTS["metadata"]["creationTimestamp"] = "2027-01-15T07:00:00Z"
T4 = free_node("t4", 4, model="T4", total=16384)


def h100(*held_by: str | None, used_mib: int = 0) -> list[Json]:
    """A node with H100s that are held by these pods or free, and the pods."""
    devices = [
        gpu(i, f"H-{i}", model="H100-80GB", memory={"totalMiB": 81920, "usedMiB": used_mib})
        | ({"holders": [holder(by)]} if by else {})
        for i, by in enumerate(held_by)
    ]
    pods = [pod(by, {WHOLE: "1"}, on="h100") for by in held_by if by]
    return [gpu_node("h100", devices), node("h100", {WHOLE: str(len(devices))}), *pods]


def test_a_pod_that_waits_for_busy_gpus_of_its_model_is_said_to_wait_for_them() -> None:
    there = running(*h100("x", "y"), *T4, WANTS)
    ask(there.extender, WANTS, ["t4"])
    told = there.explainer().of_name("default", "wants")
    assert told["counts"] == {GPUS: 1, MODEL: 1}
    assert told["nearest"]["text"] == (
        "h100 has 0 of 1 nvidia.com/gpu free; would fit if pod default/x (priority 0) left"
    )
    assert told["advice"] == [
        "It fits on h100 as soon as pod default/x (priority 0) ends; with a priority above 0 kube-scheduler "
        "might evict for it",
        "With gpu.scheduler-ext.io/model: T4 instead of H100 it would fit on 1 node now",
    ]
    found = board(there)
    assert found.reasons() == {GPUS: 1}
    assert found.longest(NOW, 1) == [LongWait("default", "wants", GPUS, 3600.0)]


def test_an_answer_is_the_same_whether_kube_scheduler_asked_about_the_busy_node_or_not() -> None:
    there, all_asked = (running(*h100("x", "y"), *T4, WANTS) for _ in range(2))
    ask(there.extender, WANTS, ["t4"])
    ask(all_asked.extender, WANTS, ["t4", "h100"])
    told, other = (each.explainer().of_name("default", "wants") for each in (there, all_asked))
    assert {key: told[key] for key in told if key != "recorded"} == {
        key: other[key] for key in other if key != "recorded"
    }


def test_a_busy_node_that_is_free_by_now_fits_before_kube_scheduler_has_tried_again() -> None:
    there = running(*h100("x", "y"), *T4, WANTS)
    ask(there.extender, WANTS, ["t4"])
    tell(there.extender, *h100("x", None), *T4)
    told = there.explainer().of_name("default", "wants")
    assert (told["fits"], told["best"]) == (True, ["h100"])
    assert board(there).lines()[0]["nearest"] == FITS_NOW


def test_a_node_that_kube_scheduler_refuses_for_another_reason_promises_nothing() -> None:
    there = running(*h100(None), *T4, WANTS)
    ask(there.extender, WANTS, ["t4"])
    told = there.explainer().of_name("default", "wants")
    assert (told["fits"], told["counts"]) == (False, {NOT_OFFERED: 1, MODEL: 1})


@pytest.mark.parametrize("asked", [True, False], ids=["asked", "not asked"])
def test_a_refusal_of_the_extender_is_known_whether_kube_scheduler_asked_or_not(*, asked: bool) -> None:
    wants = pod("wants", {WHOLE: "1"}, annotations={ANNOTATION + "min-free-memory": "78Gi"})
    there = running(*h100(None, used_mib=4096), *T4, wants)
    ask(there.extender, wants, ["t4", "h100"] if asked else ["t4"])
    told = there.explainer().of_name("default", "wants")
    assert (told["nearest"]["node"], told["nearest"]["reason"]) == ("h100", MEMORY)
    lower = "With gpu.scheduler-ext.io/min-free-memory: 76Gi instead of 78Gi it would fit on 1 node now"
    assert (lower in told["advice"]) == asked


def test_the_end_of_a_pod_is_not_said_to_be_enough_where_kube_scheduler_did_not_ask() -> None:
    # The kubelet withdrew nothing: only the report shows that a process outside of pods uses the free GPU.
    wants = pod("wants", {WHOLE: "1"}, annotations={ANNOTATION + "model": "H100"})
    taken = gpu(1, "H-1", model="H100-80GB", holders=[holder("unknown")])
    held = gpu(0, "H-0", model="H100-80GB", holders=[holder("x")])
    there = running(
        *(gpu_node("h100", [held, taken]), node("h100", {WHOLE: "2"}), pod("x", {WHOLE: "1"}, on="h100")),
        *T4,
        wants,
    )
    ask(there.extender, wants, ["t4"])
    told = there.explainer().of_name("default", "wants")
    assert told["nearest"]["reason"] == GPUS
    assert told["advice"][0] == (
        "The GPUs of h100 would do as soon as pod default/x (priority 0) ends, but kube-scheduler did not "
        "ask about it: its own filters refuse it (see the pod's events), or it examines few nodes "
        "(percentageOfNodesToScore)"
    )
