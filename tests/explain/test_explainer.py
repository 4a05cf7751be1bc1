"""Which pod a name means, when an earlier pod had the same name."""

from __future__ import annotations

import pytest

from scheduler_ext.explain.in_words import why_in_words
from scheduler_ext.explain.sentences import BEING_DELETED
from tests.explain.explaining import free_node
from tests.explain.test_replay import running
from tests.extender.preempting import whole_node
from tests.extender.test_record import ask
from tests.kube_objects import ANNOTATION, SHARE, Json, pod

WHOLE = "nvidia.com/gpu"


def named(uid: str, limits: Json, on: str | None = None) -> Json:
    asking = pod("p", limits, on=on)
    asking["metadata"]["uid"] = uid
    return asking


def test_a_waiting_pod_does_not_get_the_decision_of_a_former_one() -> None:
    there = running(*whole_node("n", None), named("new", {WHOLE: "9"}))
    ask(there.extender, named("old", {WHOLE: "1"}), ["n"])
    assert there.explainer().of_name("default", "p")["recorded"] is None
    ask(there.extender, named("new", {WHOLE: "9"}), ["n"])
    assert there.explainer().of_name("default", "p")["recorded"]["nodesOut"] == 0


def test_an_old_decision_is_not_shown_for_a_new_pod_with_a_node() -> None:
    there = running(*whole_node("n", None), named("new", {WHOLE: "1"}, on="n"))
    ask(there.extender, named("old", {WHOLE: "9"}), ["n"])
    told = there.explainer().of_name("default", "p")
    assert (told["boundTo"], told["recorded"]) == ("n", None)


def test_a_deleted_one_is_explained_by_its_record_after_the_note_that_it_is_gone() -> None:
    there = running(*whole_node("n", None))
    odd = named("old", {WHOLE: "9"})
    odd["metadata"]["annotations"] = {ANNOTATION + "modle": "x"}
    ask(there.extender, odd, ["n"])
    there.gone = {"old"}
    told = there.explainer().of_name("default", "p")
    assert (told["gone"], told["boundTo"], told["recorded"]["filters"]) == (True, None, 1)
    assert told["warnings"][0] == (
        "no pod default/p waits for GPUs or holds any now; the last decision about a pod of that name: "
        f"uid old, at {told['recorded']['at'][:19]}Z"
    )
    assert len(told["warnings"]) == 2


def test_one_that_may_be_there_unknown_is_not_said_to_be_gone() -> None:
    there = running(*whole_node("n", None))
    ask(there.extender, named("old", {WHOLE: "9"}), ["n"])
    told = there.explainer().of_name("default", "p")
    assert (told["gone"], told["warnings"], told["recorded"]["filters"]) == (False, [], 1)


@pytest.mark.parametrize("on", [None, "n"], ids=["waits", "has its node"])
def test_a_recreated_pod_is_not_reported_as_gone(on: str | None) -> None:
    there = running(*whole_node("n", None), named("new", {WHOLE: "1"}, on=on))
    ask(there.extender, named("old", {WHOLE: "1"}), ["n"])
    there.gone = {"old"}
    told = there.explainer().of_name("default", "p")
    assert (told["gone"], told["warnings"]) == (False, [])


def test_a_pod_that_is_being_deleted_is_explained_as_if_it_were_created_again() -> None:
    leaving = named("new", {WHOLE: "1"})
    leaving["metadata"]["deletionTimestamp"] = "2026-11-01T11:00:00Z"
    told = running(*whole_node("n", None), leaving).explainer().of_name("default", "p")
    words = why_in_words(told)
    assert (told["terminating"], words.notes) == (True, [BEING_DELETED])
    assert words.verdict == ["If the pod were created again now:", "Fits; best: n."]


def test_a_pod_of_a_file_without_a_uid_is_known_by_its_name() -> None:
    there = running(*whole_node("n", None), named("", {WHOLE: "9"}))
    ask(there.extender, named("", {WHOLE: "9"}), ["n"])
    assert there.explainer().of_name("default", "p")["recorded"]["filters"] == 1


def test_some_of_the_nodes_are_the_best_and_then_the_nearest() -> None:
    there = running(
        *(each for name, gpus in zip("abcd", (1, 3, 8, 2), strict=True) for each in free_node(name, gpus)),
        pod("asks", {WHOLE: "4"}),
    )
    told = there.explainer().of_name("default", "asks", 3)
    assert [each["node"] for each in told["nodes"]] == ["c", "b", "d"]
    assert told["nodesLeftOut"] == 1
    assert there.explainer().of_name("default", "asks", 1)["nodesLeftOut"] == 3
    all_of_them = there.explainer().of_name("default", "asks")
    assert [each["node"] for each in all_of_them["nodes"]] == ["c", "a", "b", "d"]
    assert "nodesLeftOut" not in all_of_them


def test_of_an_unreadable_pod_the_nodes_come_by_name() -> None:
    there = running(*whole_node("n", None), *whole_node("m", None), pod("asks", {SHARE: "8Gi"}))
    told = there.explainer().of_name("default", "asks", 1)
    assert ([each["node"] for each in told["nodes"]], told["asks"]) == (["m"], None)


def test_without_dry_runs_nothing_is_said_about_evictions_and_the_rest_is_equal() -> None:
    wants = pod("wants", {WHOLE: "1"}, priority=9)
    there = running(*whole_node("n", "holds"), pod("holds", {WHOLE: "1"}, on="n"), wants)
    told = there.explainer().of_name("default", "wants")
    (node,) = told["nodes"]
    assert node["resolvable"] is True
    assert there.explainer().of_name("default", "wants", dry_runs=False) == told | {
        "nodes": [node | {"resolvable": None}]
    }
